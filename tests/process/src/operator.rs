//! A real `napwake operator` process, whose cluster is its test's namespace.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    process::ExitStatus,
};

use napwake_testkit::{Context, Result};

use crate::{
    SOON,
    api_way::{ApiWay, Request},
    daemon::Daemon,
    hosts::{Family, Host},
    world::{API_PORT, World},
};

/// Where health is served.
const HEALTH: u16 = 8081;

/// Where metrics are served.
const METRICS: u16 = 8443;

/// By how much the ports of a second operator differ.
const BESIDE: u16 = 1_000;

/// An operator and its way to the API server. Dropping it kills the process.
#[derive(Debug)]
pub struct Operator {
    process: Option<Daemon>,
    /// What it's called, before its number.
    name: &'static str,
    /// How many have been started here.
    number: u32,
    address: IpAddr,
    /// What is added to its ports.
    shift: u16,
    namespace: String,
    logs: PathBuf,
    /// Its own, apart from the doormen's.
    way: ApiWay,
}

impl Operator {
    /// Starts one with these flags and waits until it has seen all there is. It
    /// finds the doorman's Service and its own Lease in the world's namespace.
    pub async fn start(world: &World, args: &[&str]) -> Result<Self> {
        let mut operator = Self::prepare(world, "operator", 0).await?;
        operator.begin(args).await?;
        Ok(operator)
    }

    /// The same, with no more rights than this user's.
    pub async fn start_as(world: &World, user: &str, args: &[&str]) -> Result<Self> {
        let mut operator = Self::prepare(world, "operator", 0).await?;
        operator.way.speak_for(user);
        operator.begin(args).await?;
        Ok(operator)
    }

    /// The same beside another one: they take turns.
    pub async fn start_second(world: &World, args: &[&str]) -> Result<Self> {
        let mut operator = Self::prepare(world, "second", BESIDE).await?;
        operator.begin(args).await?;
        Ok(operator)
    }

    async fn prepare(world: &World, name: &'static str, shift: u16) -> Result<Self> {
        let address = Host::Operator.at(world.block, Family::V4);
        let way = ApiWay::open(SocketAddr::new(address, API_PORT + shift)).await?;
        way.narrow(&world.place.namespace);
        Ok(Self {
            process: None,
            name,
            number: 0,
            address,
            shift,
            namespace: world.place.namespace.clone(),
            logs: world.api.folder().to_owned(),
            way,
        })
    }

    /// Kills it, as when its node fails, and starts another with these flags.
    pub async fn replace(&mut self, args: &[&str]) -> Result<()> {
        self.kill().await?;
        self.begin(args).await
    }

    /// Kills it, as when its node fails.
    pub async fn kill(&mut self) -> Result<()> {
        let mut process = self.process.take().context("no operator runs")?;
        process.kill().await
    }

    /// Tells it to stop, as a kubelet does, and waits for its end.
    pub async fn stop(&mut self) -> Result<ExitStatus> {
        let mut process = self.process.take().context("no operator runs")?;
        process.stop()?;
        process.ended(SOON).await
    }

    async fn begin(&mut self, args: &[&str]) -> Result<()> {
        self.number += 1;
        let name = format!("{}-{}", self.name, self.number);
        let metrics = METRICS + self.shift;
        let mut all = vec![
            "operator".to_owned(),
            format!("--namespace={}", self.namespace),
            format!("--pod-name={name}"),
            format!("--metrics-bind-address={}:{metrics}", self.address),
            "--metrics-insecure".to_owned(),
            // Its client's own lines would be most of them.
            "--log-level=info,napwake_operator=debug".to_owned(),
        ];
        all.extend(args.iter().map(|arg| (*arg).to_owned()));
        let health = SocketAddr::new(self.address, HEALTH + self.shift);
        let log = self.logs.join(format!("{name}.log"));
        let process = Daemon::start(&all, self.way.kubeconfig(), health, log).await?;
        self.process = Some(process);
        Ok(())
    }

    /// Its way to the API server.
    pub fn way(&self) -> &ApiWay {
        &self.way
    }

    /// What it wrote so far, in that order.
    pub fn writes(&self) -> Vec<Request> {
        let mut asked = self.way.asked();
        asked.retain(|request| request.method != "GET");
        asked
    }
}
