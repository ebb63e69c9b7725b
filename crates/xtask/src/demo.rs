//! The `demo` command.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use napwake_dev::cluster::{ClusterName, DEFAULT_NAME};
use napwake_dev::demo;
use napwake_dev::progress::Progress;

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// The cluster's name
    #[arg(long, default_value = DEFAULT_NAME)]
    name: ClusterName,
    /// Refused: what the demo pauses are this machine's nginx and PostgreSQL, run
    /// out of the development cluster's nodes. See `cargo xtask install --context`
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    context: Option<String>,
    /// Take the cluster away, with everything in it
    #[arg(long)]
    down: bool,
}

pub(crate) fn run(demo: &Demo) -> anyhow::Result<ExitCode> {
    if let Some(context) = &demo.context {
        bail!(
            "the demo needs the development cluster: it pauses this machine's own nginx and \
             PostgreSQL, which the nodes of other clusters don't have; for a cluster of your own, \
             `cargo xtask install --context {context}`, then label a workload of yours"
        );
    }
    let progress = Progress::new();
    if demo.down {
        demo::down(&demo.name, &progress)?;
    } else {
        demo::up(&demo.name, &progress)?;
    }
    Ok(ExitCode::SUCCESS)
}
