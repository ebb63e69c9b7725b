//! The commands that judge the tree: tests, tidiness, and which requirements
//! no test shows.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use napwake_dev::checks::{tidy, trace};
use napwake_dev::progress::Progress;
use napwake_dev::suite::{self, Cases, Level, Shape, Wish};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the tests: all levels, or those asked for
    Test(Test),
    /// Check the layers and the sources
    Tidy,
    /// Print the requirements that no test shows, one a line
    TraceRequirements,
}

#[derive(Debug, Args)]
pub(crate) struct Test {
    /// A level to run: checks, U (functions), fuzz, H (the chart), A (an API
    /// server), D (the doorman's process), C (a cluster) or B (browsers); may be
    /// repeated
    #[arg(long, value_name = "LEVEL")]
    level: Vec<Level>,
    /// Run the cases that take minutes, too
    #[arg(long)]
    long: bool,
    /// Levels C and B on a cluster of your own, by a context of your kubeconfig. Its
    /// Services must be reachable from this machine and its nodes must have this
    /// machine's programs, as with k3s here; A and D need an API server without
    /// nodes, and use the development one all the same
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Levels C and B on a development cluster of another shape: `iptables`, where
    /// kube-proxy works by iptables, or `nodes`, which has three nodes and name
    /// resolution, and runs the tests that need them, too
    #[arg(
        long,
        value_name = "SHAPE",
        default_value = "usual",
        conflicts_with = "context"
    )]
    shape: Shape,
    /// Run only tests whose names have this in them
    filter: Option<String>,
}

pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Test(test) => run_tests(test),
        Command::Tidy => {
            let broken = tidy::run()?;
            for rule in &broken {
                writeln!(std::io::stdout(), "{rule}")?;
            }
            Ok(code(broken.is_empty()))
        }
        Command::TraceRequirements => {
            let trace = trace::run()?;
            for id in &trace.missing {
                writeln!(std::io::stdout(), "{id}")?;
            }
            writeln!(
                std::io::stderr(),
                "{} shown, {} not shown, {} listed as unchecked",
                trace.shown,
                trace.missing.len(),
                trace.unchecked
            )?;
            Ok(code(trace.missing.is_empty()))
        }
    }
}

fn run_tests(test: Test) -> anyhow::Result<ExitCode> {
    let cases = if test.long { Cases::Long } else { Cases::Usual };
    let wish = Wish {
        levels: test.level,
        cases,
        filter: test.filter,
        context: test.context,
        shape: test.shape,
    };
    let progress = Progress::new();
    let tally = suite::run(&wish, &progress)?;
    progress.line(format_args!("{tally}"));
    Ok(code(tally.is_good()))
}

fn code(good: bool) -> ExitCode {
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
