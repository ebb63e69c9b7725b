//! A real `napwake doorman` process with addresses of its own.

use std::{
    net::{IpAddr, SocketAddr},
    process::ExitStatus,
    time::Duration,
};

use napwake_api::agreed::ROUTE_DRAIN;
use napwake_testkit::{Result, wait};

use crate::{
    SOON,
    daemon::{self, Daemon},
    hosts::{self, Family, Host},
    world::World,
};

/// Where health is served.
const HEALTH: u16 = 8081;

/// Where metrics are served (OBS-22).
pub const METRICS: u16 = 8443;

/// A running doorman. Dropping it kills the process.
#[derive(Debug)]
pub struct Doorman {
    process: Daemon,
    /// Its addresses, IPv4 first.
    addresses: [IpAddr; 2],
}

/// How metrics are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsOver {
    /// Plain HTTP, to anyone.
    Http,
    /// HTTPS, to those who may.
    Https,
}

impl Doorman {
    /// Starts one in `world` and waits until it is Ready: it then knows
    /// everything there is at the API server, and listens.
    pub async fn start(
        world: &World,
        host: Host,
        args: &[&str],
        metrics: MetricsOver,
    ) -> Result<Self> {
        let addresses = [Family::V4, Family::V6].map(|family| host.at(world.block, family));
        let [v4, v6] = addresses;
        let name = format!("doorman-{v4}").replace('.', "-");
        let log = world.api.folder().join(format!("{name}.log"));
        let mut all = vec![
            "doorman".to_owned(),
            format!("--namespace={}", world.place.namespace),
            format!("--pod-name={name}"),
            format!("--pod-ips={v4},{v6}"),
            format!("--metrics-bind-address={v4}:{METRICS}"),
        ];
        all.extend(args.iter().map(|arg| (*arg).to_owned()));
        if !args.iter().any(|arg| arg.starts_with("--log-level")) {
            all.push("--log-level=debug".to_owned());
        }
        if metrics == MetricsOver::Http {
            all.push("--metrics-insecure".to_owned());
        }
        let health = SocketAddr::new(v4, HEALTH);
        let process = Daemon::start(&all, world.api.kubeconfig(), health, log).await?;
        Ok(Self { process, addresses })
    }

    /// Whether it says that it's Ready.
    pub async fn readiness(&self) -> Result<bool> {
        self.process.readiness().await
    }

    /// Its process.
    pub fn pid(&self) -> Result<u32> {
        self.process.pid()
    }

    /// Where it listens for a route.
    pub fn at(&self, family: Family, port: u16) -> SocketAddr {
        let [v4, v6] = self.addresses;
        SocketAddr::new(if family == Family::V4 { v4 } else { v6 }, port)
    }

    /// Waits until it listens on a port, in both families.
    pub async fn listens(&self, port: u16) -> Result<()> {
        self.until_listens(port, true, SOON).await
    }

    /// Waits until it no longer does, over a drain if need be.
    pub async fn closes(&self, port: u16) -> Result<()> {
        self.until_listens(port, false, ROUTE_DRAIN.get() + SOON)
            .await
    }

    async fn until_listens(&self, port: u16, wanted: bool, within: Duration) -> Result<()> {
        for address in self.addresses.map(|address| SocketAddr::new(address, port)) {
            let what = format!("a listener on {address}: {wanted}");
            let probe = || hosts::is_listened_on(address);
            wait::until(&what, within, probe, |is| *is == wanted).await?;
        }
        Ok(())
    }

    /// The metrics, as Prometheus reads them.
    pub async fn metrics(&self) -> Result<String> {
        daemon::get(SocketAddr::new(self.addresses[0], METRICS), "/metrics").await
    }

    /// The sum of a metric's series that have all these labels; 0 without one.
    pub async fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Result<f64> {
        let text = self.metrics().await?;
        Ok(sum(&text, name, labels))
    }

    /// Waits until a metric has a value.
    pub async fn until_metric(
        &self,
        name: &str,
        labels: &[(&str, &str)],
        value: f64,
    ) -> Result<()> {
        let what = format!("{name}{labels:?} to be {value}");
        let same = |found: &f64| (found - value).abs() < 0.5;
        let probe = || self.metric(name, labels);
        wait::until(&what, SOON, probe, same).await?;
        Ok(())
    }

    /// Waits until so many connections are held.
    pub async fn holds(&self, count: u32) -> Result<()> {
        self.until_metric("napwake_doorman_held_connections", &[], count.into())
            .await
    }

    /// Waits until so many connections pass.
    pub async fn passes(&self, count: u32) -> Result<()> {
        self.until_metric("napwake_doorman_passed_connections", &[], count.into())
            .await
    }

    /// Tells it to stop, as a kubelet does.
    pub fn stop(&self) -> Result<()> {
        self.process.stop()
    }

    /// Waits for its end.
    pub async fn ended(&mut self, bound: Duration) -> Result<ExitStatus> {
        self.process.ended(bound).await
    }

    /// What it logged.
    pub fn log(&self) -> String {
        self.process.log()
    }
}

/// Adds up the series of `name` that have these labels, in Prometheus's text.
pub fn sum(text: &str, name: &str, labels: &[(&str, &str)]) -> f64 {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let (own, value) = rest.rsplit_once(' ')?;
        let is_it = own.is_empty() || own.starts_with('{');
        let has = |(label, value): &(&str, &str)| own.contains(&format!("{label}=\"{value}\""));
        (is_it && labels.iter().all(has)).then(|| value.parse::<f64>().ok())?
    };
    text.lines().filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_up_the_series_that_have_the_labels() {
        let text = "a_total{x=\"1\",y=\"2\"} 3\na_total{x=\"1\",y=\"3\"} 4\na_total_b 5\na 1.5\n";
        assert!((sum(text, "a_total", &[("x", "1")]) - 7.0).abs() < 1e-9);
        assert!((sum(text, "a_total", &[("y", "3")]) - 4.0).abs() < 1e-9);
        assert!((sum(text, "a", &[]) - 1.5).abs() < 1e-9);
    }
}
