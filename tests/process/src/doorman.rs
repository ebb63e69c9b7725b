//! A real `napwake doorman` process with addresses of its own.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use napwake_testkit::{Context, Result, bail, ensure, wait};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::{Child, Command},
    time::{Instant, timeout},
};

use crate::{
    SOON,
    hosts::{self, Family, Host},
    world::World,
};

/// Where health is served.
const HEALTH: u16 = 8081;

/// Where metrics are served (OBS-22).
pub const METRICS: u16 = 8443;

/// Lines of its log that are shown when a test fails.
const SHOWN: usize = 200;

/// A running doorman. Dropping it kills the process.
#[derive(Debug)]
pub struct Doorman {
    child: Child,
    /// Its addresses, IPv4 first.
    addresses: [IpAddr; 2],
    log: PathBuf,
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
        let program = std::env::var_os("NAPWAKE_PROGRAM").context("NAPWAKE_PROGRAM must be set")?;
        let addresses = [Family::V4, Family::V6].map(|family| host.at(world.block, family));
        let [v4, v6] = addresses;
        let name = format!("doorman-{v4}").replace('.', "-");
        let log = world.api.folder().join(format!("{name}.log"));
        let mut command = Command::new(program);
        command
            .arg("doorman")
            .args(["--namespace", &world.place.namespace, "--pod-name", &name])
            .args(["--pod-ips", &format!("{v4},{v6}"), "--log-level", "debug"])
            .args(["--log-format", "text"])
            .args(["--health-bind-address", &format!("{v4}:{HEALTH}")])
            .args(["--metrics-bind-address", &format!("{v4}:{METRICS}")])
            .args(args);
        if metrics == MetricsOver::Http {
            command.arg("--metrics-insecure");
        }
        let child = command
            .env("KUBECONFIG", world.api.kubeconfig())
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(&log)?)
            .stderr(std::fs::OpenOptions::new().append(true).open(&log)?)
            .kill_on_drop(true)
            .spawn()
            .context("start the doorman")?;
        let mut doorman = Self {
            child,
            addresses,
            log,
        };
        doorman.until_ready().await?;
        Ok(doorman)
    }

    async fn until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + 3 * SOON;
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("the doorman ended: {status}\n{}", self.log());
            }
            match self.readiness().await {
                Ok(true) => return Ok(()),
                last => ensure!(
                    Instant::now() < deadline,
                    "not Ready: {last:?}\n{}",
                    self.log()
                ),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Whether it says that it's Ready.
    pub async fn readiness(&self) -> Result<bool> {
        let answer = get(SocketAddr::new(self.addresses[0], HEALTH), "/readyz").await?;
        Ok(answer.starts_with("HTTP/1.1 200 "))
    }

    /// Its process.
    pub fn pid(&self) -> Result<u32> {
        self.child.id().context("the doorman has ended")
    }

    /// Where it listens for a route.
    pub fn at(&self, family: Family, port: u16) -> SocketAddr {
        let [v4, v6] = self.addresses;
        SocketAddr::new(if family == Family::V4 { v4 } else { v6 }, port)
    }

    /// Waits until it listens on a port, in both families.
    pub async fn listens(&self, port: u16) -> Result<()> {
        self.until_listens(port, true).await
    }

    /// Waits until it no longer does.
    pub async fn closes(&self, port: u16) -> Result<()> {
        self.until_listens(port, false).await
    }

    async fn until_listens(&self, port: u16, wanted: bool) -> Result<()> {
        for address in self.addresses.map(|address| SocketAddr::new(address, port)) {
            let what = format!("a listener on {address}: {wanted}");
            let probe = || hosts::is_listened_on(address);
            wait::until(&what, SOON, probe, |is| *is == wanted).await?;
        }
        Ok(())
    }

    /// The metrics, as Prometheus reads them.
    pub async fn metrics(&self) -> Result<String> {
        get(SocketAddr::new(self.addresses[0], METRICS), "/metrics").await
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
        let id = i32::try_from(self.pid()?)?;
        let pid = Pid::from_raw(id).context("a process id")?;
        Ok(kill_process(pid, Signal::TERM)?)
    }

    /// Waits for its end.
    pub async fn ended(&mut self, bound: Duration) -> Result<ExitStatus> {
        let ended = timeout(bound, self.child.wait()).await;
        Ok(ended.with_context(|| format!("still running after {bound:?}"))??)
    }

    /// What it logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// The last lines of every doorman's log in a folder.
pub(crate) fn logs(folder: &std::path::Path) -> String {
    let mut shown = String::new();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.extension().is_some_and(|extension| extension == "log") {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            let last = &lines[lines.len().saturating_sub(SHOWN)..];
            let last = last.join("\n");
            shown.extend(["--- ", &path.to_string_lossy(), " ---\n", &last, "\n"]);
        }
    }
    shown
}

/// One HTTP answer, head and body.
async fn get(address: SocketAddr, path: &str) -> Result<String> {
    let asking = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: doorman\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let answer = timeout(SOON, asking).await;
    Ok(answer.with_context(|| format!("no answer from {address}"))??)
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
