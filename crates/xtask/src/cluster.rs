//! `cargo xtask cluster …`

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use napwake_dev::cluster::{
    self, Audit, Cluster, ClusterName, DEFAULT_NAME, Dns, NodeCount, Policies, ProxyMode, Slices,
    Wish,
};
use napwake_dev::progress::Progress;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Bring a cluster up, or make a running one what the flags say
    Up(Up),
    /// Take a cluster away, with everything that belongs to it
    Down(Which),
    /// Show a cluster's parts and nodes; exits with 1 unless all of it is up
    Status(Which),
    /// Run a command in the cluster's network, with its kubectl and kubeconfig
    Exec(Exec),
    /// Put the image of an OCI archive into every node
    LoadImage(LoadImage),
}

#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The cluster's name; several can be up at once
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAME)]
    name: ClusterName,
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    #[command(flatten)]
    which: Which,
    /// How many nodes: 1 or 3, or 0 for an API server alone [default: 1]
    #[arg(long, value_name = "NUMBER")]
    nodes: Option<NodeCount>,
    /// How kube-proxy works: nftables or iptables [default: nftables]
    #[arg(long, value_name = "MODE")]
    proxy: Option<ProxyMode>,
    /// Name resolution for pods made from now on, and for `exec`: on or off
    /// [default: off]
    #[arg(long, value_name = "SWITCH", num_args = 0..=1, default_missing_value = "on")]
    dns: Option<Dns>,
    /// Who enforces network policies: none, kube-router (refuses, IPv4 only) or
    /// kube-network-policies (drops) [default: none]
    #[arg(long, value_name = "ENGINE")]
    policies: Option<Policies>,
    /// A log of all writes, in the cluster's folder: on or off [default: off]
    #[arg(long, value_name = "SWITCH", num_args = 0..=1, default_missing_value = "on")]
    audit: Option<Audit>,
    /// How soon EndpointSlices follow the pods: prompt or late (up to 1.5 s)
    /// [default: prompt]
    #[arg(long, value_name = "PACE")]
    slices: Option<Slices>,
}

#[derive(Debug, Args)]
pub(crate) struct Exec {
    #[command(flatten)]
    which: Which,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct LoadImage {
    #[command(flatten)]
    which: Which,
    /// The archive, such as `cargo xtask image` makes
    file: PathBuf,
}

pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Up(up) => {
            let Up {
                which,
                nodes,
                proxy,
                dns,
                policies,
                audit,
                slices,
            } = up;
            let wish = Wish {
                nodes,
                proxy,
                dns,
                policies,
                audit,
                slices,
            };
            cluster::up(&which.name, wish, &Progress::new())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Down(which) => {
            cluster::down(&which.name, &Progress::new())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Status(which) => {
            let status = cluster::status(&which.name)?;
            std::io::stdout().write_all(status.to_string().as_bytes())?;
            Ok(if status.is_up() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            })
        }
        // Returns only if the command could not be started.
        Command::Exec(exec) => Err(Cluster::open(&exec.which.name)?.exec(&exec.command).into()),
        Command::LoadImage(load) => {
            Cluster::open(&load.which.name)?.load_image(&load.file)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
