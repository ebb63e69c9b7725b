//! The `bench` command.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use napwake_dev::bench::{self, Afterwards, DEFAULT_NAME, LateSlices, Part, Wish};
use napwake_dev::cluster::ClusterName;
use napwake_dev::progress::Progress;

#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// The cluster's name: it's made, and taken away at the end
    #[arg(long, default_value = DEFAULT_NAME)]
    name: ClusterName,
    /// Measure nothing but this
    #[arg(long, value_name = "PART")]
    only: Option<Only>,
    /// Workloads that are there while memory is measured; it isn't with 25 or fewer
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    workloads: u32,
    /// Rounds of one workload, either way
    #[arg(long, value_name = "NUMBER", default_value_t = 40)]
    rounds_of_1: u32,
    /// Rounds of five workloads at once, either way
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    rounds_of_5: u32,
    /// Rounds of twenty-five workloads at once, either way
    #[arg(long, value_name = "NUMBER", default_value_t = 8)]
    rounds_of_25: u32,
    /// How long the rounds of the first pass may take together; what isn't done by
    /// then is left out. The second pass gets half of it, and the third a quarter
    #[arg(long, value_name = "MINUTES", default_value_t = 8)]
    minutes: u32,
    /// Leave out the third pass, with EndpointSlices that follow their pods late
    #[arg(long)]
    no_late_slices: bool,
    /// How many paused Services are moved off a doorman pod, each number in turn
    #[arg(
        long,
        value_name = "NUMBERS",
        value_delimiter = ',',
        default_value = "100,1000"
    )]
    services: Vec<u32>,
    /// A folder for every wake's times
    #[arg(long, value_name = "FOLDER")]
    samples: Option<PathBuf>,
    /// Leave the cluster up
    #[arg(long)]
    keep: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Only {
    /// Cold starts, writes and memory
    ColdStarts,
    /// The doorman's own answers, beside nginx
    Answers,
    /// Pauses and moves of many Services
    Moves,
}

pub(crate) fn run(bench: Bench) -> anyhow::Result<ExitCode> {
    let wish = Wish {
        name: bench.name,
        workloads: bench.workloads,
        rounds: [bench.rounds_of_1, bench.rounds_of_5, bench.rounds_of_25],
        minutes: bench.minutes,
        late_slices: if bench.no_late_slices {
            LateSlices::Skip
        } else {
            LateSlices::Measure
        },
        services: bench.services,
        only: bench.only.map(|only| match only {
            Only::ColdStarts => Part::ColdStarts,
            Only::Answers => Part::Answers,
            Only::Moves => Part::Moves,
        }),
        samples: bench.samples,
        afterwards: if bench.keep {
            Afterwards::Keep
        } else {
            Afterwards::TakeDown
        },
    };
    bench::run(&wish, &Progress::new())?;
    Ok(ExitCode::SUCCESS)
}
