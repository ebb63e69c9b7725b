//! `cargo xtask codegen`, `image`, `install` and `uninstall`.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use napwake_dev::cluster::{Cluster, ClusterName, DEFAULT_NAME};
use napwake_dev::codegen::{self, Codegen};
use napwake_dev::image::product;
use napwake_dev::install;
use napwake_dev::progress::Progress;
use napwake_dev::target::Target;
use napwake_dev::workspace;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write the files that come from the code, such as the API's definition
    Codegen(CodegenArgs),
    /// Build the image: target/image/napwake.tar, an OCI archive
    Image,
    /// Build the image, load it, and install or upgrade the chart with Helm
    Install(Install),
    /// Wake every paused workload, and take Napwake away
    Uninstall(Where),
}

#[derive(Debug, Args)]
pub(crate) struct CodegenArgs {
    /// Change nothing, and fail if a file differs
    #[arg(long)]
    check: bool,
}

/// The cluster that a command works on.
#[derive(Debug, Args)]
pub(crate) struct Where {
    /// The development cluster's name
    #[arg(long, value_name = "CLUSTER", default_value = DEFAULT_NAME)]
    name: ClusterName,
    /// A context of your kubeconfig instead: kind's, k3d's, minikube's, or that of a
    /// k3s on this machine
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    context: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Install {
    #[command(flatten)]
    to: Where,
    /// Values of the chart
    #[arg(long, value_name = "FILE")]
    values: Option<PathBuf>,
}

impl Where {
    fn target(self) -> anyhow::Result<Target> {
        Ok(match self.context {
            Some(context) => Target::Context(context),
            None => Target::Dev(Cluster::open(&self.name)?),
        })
    }
}

pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    let progress = Progress::new();
    match command {
        Command::Codegen(arguments) => codegen(&arguments, &progress)?,
        Command::Image => {
            let image = product::image(&progress)?;
            let line = format!(
                "{} {} bytes {}\n",
                image.archive.display(),
                image.size,
                image.name()
            );
            std::io::stdout().write_all(line.as_bytes())?;
        }
        Command::Install(Install { to, values }) => {
            install::install(&to.target()?, values.as_deref(), &progress)?;
        }
        Command::Uninstall(from) => install::uninstall(&from.target()?, &progress)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn codegen(arguments: &CodegenArgs, progress: &Progress) -> anyhow::Result<()> {
    let mode = if arguments.check {
        Codegen::Check
    } else {
        Codegen::Write
    };
    for path in codegen::run(&workspace::root(), mode)? {
        progress.line(format_args!("wrote {}", path.display()));
    }
    Ok(())
}
