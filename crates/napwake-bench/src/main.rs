//! `napwake-bench`: measures what Napwake promises of a cold start and of its own
//! answers, on the cluster whose network it runs in, and prints tables.
//!
//! Owns the run. `cargo xtask bench` makes the cluster and starts this there.
//! Asserts nothing: figures are of a machine and an hour.

mod answers;
mod audit;
mod bare;
mod caller;
mod clock;
mod cold;
mod field;
mod machine;
mod memory;
mod moves;
mod report;
mod run;
mod sights;
mod stats;
mod table;
mod watching;
mod way_in;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, Parser, ValueEnum};

use crate::cold::Rounds;
use crate::field::Kind;

/// Measures Napwake in a cluster's network.
#[derive(Debug, Parser)]
enum Command {
    /// Cold starts, writes and memory
    ColdStarts(Arguments),
    /// The doorman's own answers, beside nginx
    Answers(answers::Arguments),
    /// Pauses and moves of many Services
    Moves(moves::Arguments),
    /// Asks a server, and prints what came of it: a part of `answers`
    #[command(hide = true)]
    Load(answers::Load),
}

#[derive(Debug, Args)]
struct Arguments {
    /// The API server's audit log
    #[arg(long, value_name = "FILE")]
    audit_log: PathBuf,
    /// How soon slices follow the pods here
    #[arg(long, value_name = "PACE", default_value = "prompt")]
    slices: Slices,
    /// When the apps are Ready
    #[arg(long, value_name = "WHEN", default_value = "at-once")]
    apps: Apps,
    /// How many workloads there are. Memory is measured with all of them running,
    /// and all paused
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    workloads: usize,
    /// Rounds of one workload, either way
    #[arg(long, value_name = "NUMBER", default_value_t = 40)]
    rounds_of_1: usize,
    /// Rounds of five workloads at once, either way
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    rounds_of_5: usize,
    /// Rounds of twenty-five workloads at once, either way
    #[arg(long, value_name = "NUMBER", default_value_t = 8)]
    rounds_of_25: usize,
    /// How long all rounds may take together
    #[arg(long, value_name = "MINUTES", default_value_t = 10)]
    minutes: u64,
    /// What the image weighs, to print it
    #[arg(long, value_name = "BYTES")]
    image_bytes: Option<u64>,
    /// A file for every wake's times
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Slices {
    Prompt,
    Late,
}

/// Nobody may be passed on before a slice names the pod's address, and slices name
/// it some time after it has one. An app that is Ready only later than that shows
/// what the rest takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Apps {
    AtOnce,
    Later,
}

/// Longer than slices lag, held back or not.
const READY_AFTER: Duration = Duration::from_secs(4);

impl Arguments {
    fn rounds(&self) -> Vec<Rounds> {
        let sizes = [
            (1, self.rounds_of_1),
            (5, self.rounds_of_5),
            (25, self.rounds_of_25),
        ];
        let wanted = sizes.map(|(at_once, rounds)| Rounds { at_once, rounds });
        wanted.into_iter().filter(|size| size.rounds > 0).collect()
    }

    fn kind(&self) -> Kind {
        match self.apps {
            Apps::AtOnce => Kind::AtOnce,
            Apps::Later => Kind::After(READY_AFTER),
        }
    }
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::ColdStarts(arguments) => in_a_runtime(run::run(&arguments)),
        Command::Answers(arguments) => in_a_runtime(answers::run(&arguments)),
        Command::Moves(arguments) => in_a_runtime(moves::run(&arguments)),
        Command::Load(load) => answers::load(&load),
    };
    done.map_or_else(|error| fail(&error), |()| ExitCode::SUCCESS)
}

fn in_a_runtime(measuring: impl Future<Output = Result<()>>) -> Result<()> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("start the runtime")?
        .block_on(measuring)
}

fn fail(error: &anyhow::Error) -> ExitCode {
    say(&format!("error: {error:#}"));
    ExitCode::FAILURE
}

/// Tells a person who waits.
fn say(line: &str) {
    use std::io::Write as _;
    // With nobody reading standard error there is nobody to tell.
    drop(writeln!(std::io::stderr(), "{line}"));
}

/// Prints a part of the report.
fn print(text: &str) -> Result<()> {
    use std::io::Write as _;
    writeln!(std::io::stdout(), "{text}").context("print the report")
}
