//! The flags of `napwake doorman`.
//!
//! Owns what can be set and how it is checked: a flag that can't be read ends
//! the process before any port is bound.

use std::net::IpAddr;

use clap::Args;
use napwake_gate::caller::{Agents, EmptyPrefix};
use napwake_kit::args::{AdminArgs, LogArgs};

/// What the doorman is told at its start.
#[derive(Args, Clone, Debug)]
pub struct DoormanArgs {
    /// The namespace this pod runs in
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE")]
    pub namespace: String,

    /// This pod's name, which its events carry
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub pod_name: String,

    /// This pod's addresses, separated by commas; they are never dialed
    #[arg(
        long,
        value_name = "ADDRESS",
        env = "POD_IPS",
        value_delimiter = ',',
        alias = "pod-ip"
    )]
    pub pod_ips: Vec<IpAddr>,

    /// A User-Agent prefix of your own health checks, which wake nothing; may be
    /// given more than once
    #[arg(
        long = "health-check-user-agent",
        value_name = "PREFIX",
        value_parser = agent_prefix
    )]
    pub health_check_user_agents: Vec<String>,

    /// Name of the Secret, in this namespace, that the key of the Wake it button
    /// is kept in
    #[arg(long, value_name = "NAME", default_value = "napwake-doorman-wake-key")]
    pub wake_key_secret: String,

    #[command(flatten)]
    pub admin: AdminArgs,

    #[command(flatten)]
    pub log: LogArgs,
}

impl DoormanArgs {
    /// The checkers that are known: the built-in ones and the added ones.
    pub fn agents(&self) -> Result<Agents, EmptyPrefix> {
        Agents::with_added(self.health_check_user_agents.iter().map(String::as_str))
    }
}

/// Refuses a prefix that would match every caller (T-38).
fn agent_prefix(text: &str) -> Result<String, EmptyPrefix> {
    Agents::with_added([text]).map(|_| text.to_owned())
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
