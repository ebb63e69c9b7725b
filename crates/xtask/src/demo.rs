//! The `demo` command.

use std::process::ExitCode;

use clap::Args;
use napwake_dev::cluster::{ClusterName, DEFAULT_NAME};
use napwake_dev::demo;
use napwake_dev::progress::Progress;

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// The cluster's name
    #[arg(long, default_value = DEFAULT_NAME)]
    name: ClusterName,
    /// Take the cluster with everything in it away
    #[arg(long)]
    down: bool,
}

pub(crate) fn run(demo: &Demo) -> anyhow::Result<ExitCode> {
    let progress = Progress::new();
    if demo.down {
        demo::down(&demo.name, &progress)?;
    } else {
        demo::up(&demo.name, &progress)?;
    }
    Ok(ExitCode::SUCCESS)
}
