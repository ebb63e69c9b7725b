//! `kubectl napwake`: what Napwake does with your workloads, and two wishes
//! people can have, a wake and a pause.
//!
//! Reads ManagedWorkloads and sets two annotations on them; it never scales or
//! routes anything itself.

use std::process::ExitCode;

use clap::Parser;

mod cli;
mod cluster;
mod complete;
mod outcome;
mod signal;
mod status;
mod table;

fn main() -> ExitCode {
    if let Some(code) = complete::answer_kubectl() {
        return code;
    }
    complete::answer_shell();
    let args = cli::Cli::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(cli::run(args)),
        Err(error) => Err(outcome::Failure::Failed(error.into())),
    };
    outcome::exit_code(outcome)
}
