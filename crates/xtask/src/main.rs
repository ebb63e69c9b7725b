//! `cargo xtask`: parses the command line and calls `napwake-dev`, which does
//! the work. Nothing is decided here.

mod bench;
mod cluster;
mod demo;
mod package;
mod quality;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Everything a developer of Napwake runs.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure cold starts and memory on a real Kubernetes (about 15 minutes)
    Bench(bench::Bench),
    /// Make, use and take away a real Kubernetes on this machine
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Watch two paused workloads wake, on a real Kubernetes
    Demo(demo::Demo),
    #[command(flatten)]
    Package(package::Command),
    #[command(flatten)]
    Quality(quality::Command),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.command {
        Command::Bench(bench) => bench::run(bench),
        Command::Cluster(command) => cluster::run(command),
        Command::Demo(demo) => demo::run(&demo),
        Command::Package(command) => package::run(command),
        Command::Quality(command) => quality::run(command),
    };
    done.unwrap_or_else(|error| fail(&error))
}

/// Says what went wrong, with its causes, one a line.
fn fail(error: &anyhow::Error) -> ExitCode {
    let causes = error
        .chain()
        .skip(1)
        .map(|cause| format!("  because: {cause}\n"));
    let text = format!("error: {error}\n{}", causes.collect::<String>());
    // With nobody reading standard error the exit code still tells.
    let _written = std::io::stderr().write_all(text.as_bytes());
    ExitCode::FAILURE
}
