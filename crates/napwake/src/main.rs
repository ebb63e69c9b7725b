//! The napwake binary: operator and doorman.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use napwake_doorman::DoormanArgs;
use napwake_kit::run::{Program, run};
use napwake_operator::OperatorArgs;

/// Pauses workloads that nobody uses, and wakes them when somebody does
#[derive(Parser)]
#[command(name = "napwake", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Hold callers of paused workloads, wake them, and pass the callers on
    Doorman(DoormanArgs),
    /// Pause workloads that nobody uses, wake them, and move their routes
    Operator(OperatorArgs),
}

fn main() -> ExitCode {
    let version = env!("CARGO_PKG_VERSION");
    match Cli::parse().command {
        Command::Doorman(args) => {
            let program = Program {
                name: "doorman",
                version,
            };
            run(program, &args.log.clone(), |context| {
                napwake_doorman::run(args, context)
            })
        }
        Command::Operator(args) => {
            let program = Program {
                name: "operator",
                version,
            };
            run(program, &args.log.clone(), |context| {
                napwake_operator::run(args, context)
            })
        }
    }
}
