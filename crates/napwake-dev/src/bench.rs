//! `cargo xtask bench`: a cluster of its own with Napwake in it, and the program
//! that measures there.
//!
//! Prepares and starts, and measures nothing. The measuring is a program of its
//! own because it has to be built as the product is, and to run in the cluster's
//! network; and because it needs a Kubernetes client, which these tools do without.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{self, BuildError};
use crate::cluster::{self, Audit, Cluster, ClusterError, ClusterName, Slices};
use crate::files::{self, FileError};
use crate::image::product::{self, Product, ProductError};
use crate::image::test_app;
use crate::install::{self, InstallError};
use crate::progress::Progress;
use crate::run::{self, RunError};
use crate::target::Target;
use crate::tools::ToolError;
use crate::tools::packages::{self, Need};

/// The cluster's name, unless another is wished for.
pub const DEFAULT_NAME: &str = "napwake-bench";

/// One time of measuring.
struct Pass {
    slices: Slices,
    /// When apps are Ready, as the program has it.
    apps: &'static str,
    /// Which part of the rounds is enough.
    share: u32,
}

/// With all rounds, and memory.
const MAIN: Pass = Pass {
    slices: Slices::Prompt,
    apps: "at-once",
    share: 1,
};

/// Apps that are Ready only when a slice names them surely. Each wake takes some
/// seconds.
const LATER: [Pass; 2] = [
    Pass {
        slices: Slices::Prompt,
        apps: "later",
        share: 2,
    },
    Pass {
        slices: Slices::Late,
        apps: "later",
        share: 4,
    },
];

/// What to measure.
#[derive(Debug, Clone)]
pub struct Wish {
    pub name: ClusterName,
    /// How many workloads there are while memory is looked at; up to 25: it isn't.
    pub workloads: u32,
    /// Rounds of 1, 5 and 25 workloads at once.
    pub rounds: [u32; 3],
    /// How long the rounds may take together.
    pub minutes: u32,
    pub late_slices: LateSlices,
    /// How many paused Services are moved at once, each number in turn.
    pub services: Vec<u32>,
    /// Nothing but this; everything without it.
    pub only: Option<Part>,
    /// A folder for every wake's times.
    pub samples: Option<PathBuf>,
    pub afterwards: Afterwards,
}

/// What serves the same bytes, and what keeps it on a core.
const BESIDE: [Need; 2] = [
    Need::program("nginx", "nginx-light"),
    Need::program("taskset", "util-linux"),
];

/// What can be measured by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Cold starts, writes and memory.
    ColdStarts,
    /// The doorman's own answers, beside nginx.
    Answers,
    /// Pauses and moves of many Services.
    Moves,
}

impl Part {
    /// What leaves many workloads behind comes last.
    const ALL: [Self; 3] = [Self::ColdStarts, Self::Answers, Self::Moves];

    /// What it needs beside what the cluster does.
    const fn needs(self) -> &'static [Need] {
        match self {
            Self::ColdStarts | Self::Moves => &[],
            Self::Answers => &BESIDE,
        }
    }
}

impl Wish {
    fn parts(&self) -> impl Iterator<Item = Part> {
        let only = self.only;
        let parts = Part::ALL.into_iter();
        parts.filter(move |part| only.is_none_or(|only| only == *part))
    }
}

/// Whether it's measured once more with slices that follow their pods late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateSlices {
    Measure,
    Skip,
}

/// What becomes of the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Afterwards {
    TakeDown,
    Keep,
}

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Image(#[from] ProductError),
    #[error(transparent)]
    Install(#[from] InstallError),
    #[error("can't measure")]
    Measure(#[from] RunError),
    #[error(transparent)]
    Tool(#[from] ToolError),
}

/// Measures, and takes the cluster away however that ended, unless it's to be kept.
pub fn run(wish: &Wish, progress: &Progress) -> Result<(), BenchError> {
    if let Some(folder) = &wish.samples {
        // Found out now rather than after minutes.
        files::create_dir(folder)?;
    }
    for part in wish.parts() {
        packages::ensure(part.needs(), progress)?;
    }
    let product = product::image(progress)?;
    let program = cargo::release_bench(progress)?;
    let done = on_a_cluster(wish, &product, &program, progress);
    if wish.afterwards == Afterwards::TakeDown {
        let down = cluster::down(&wish.name, progress).map(drop);
        done.and(down.map_err(BenchError::from))
    } else {
        done
    }
}

fn on_a_cluster(
    wish: &Wish,
    product: &Product,
    program: &Path,
    progress: &Progress,
) -> Result<(), BenchError> {
    let cluster = up(wish, Slices::Prompt, progress)?;
    cluster.load_image(&test_app::image(progress)?)?;
    install::install(&Target::Dev(cluster), None, progress)?;
    for part in wish.parts() {
        match part {
            Part::ColdStarts => cold_starts(wish, product, program, progress)?,
            Part::Answers => answers(wish, program, progress)?,
            Part::Moves => moves(wish, program, progress)?,
        }
    }
    Ok(())
}

fn cold_starts(
    wish: &Wish,
    product: &Product,
    program: &Path,
    progress: &Progress,
) -> Result<(), BenchError> {
    let cluster = up(wish, MAIN.slices, progress)?;
    let mut measure = measure(wish, &cluster, program, &MAIN);
    measure.arg(format!("--workloads={}", wish.workloads));
    measure.arg(format!("--image-bytes={}", product.size));
    run::passing_on(&mut measure)?;
    for pass in &LATER {
        if pass.slices == Slices::Late && wish.late_slices == LateSlices::Skip {
            continue;
        }
        let cluster = up(wish, pass.slices, progress)?;
        let mut measure = self::measure(wish, &cluster, program, pass);
        measure.arg("--workloads=0");
        run::passing_on(&mut measure)?;
    }
    Ok(())
}

fn answers(wish: &Wish, program: &Path, progress: &Progress) -> Result<(), BenchError> {
    let cluster = up(wish, Slices::Prompt, progress)?;
    let mut measure = cluster.command(program);
    measure.arg("answers");
    measure.arg("--folder").arg(cluster.scratch("answers"));
    Ok(run::passing_on(&mut measure)?)
}

fn moves(wish: &Wish, program: &Path, progress: &Progress) -> Result<(), BenchError> {
    let cluster = up(wish, Slices::Prompt, progress)?;
    let services: Vec<_> = wish.services.iter().map(u32::to_string).collect();
    let mut measure = cluster.command(program);
    measure.arg("moves");
    measure.arg(format!("--services={}", services.join(",")));
    Ok(run::passing_on(&mut measure)?)
}

fn up(wish: &Wish, slices: Slices, progress: &Progress) -> Result<Cluster, ClusterError> {
    let settings = cluster::Wish {
        audit: Some(Audit::On),
        slices: Some(slices),
        ..cluster::Wish::default()
    };
    cluster::up(&wish.name, settings, progress)
}

fn measure(wish: &Wish, cluster: &Cluster, program: &Path, pass: &Pass) -> Command {
    let Pass {
        slices,
        apps,
        share,
    } = pass;
    let mut command = cluster.command(program);
    command.arg("cold-starts");
    command.arg("--audit-log").arg(cluster.audit_log());
    command.arg(format!("--slices={slices}"));
    command.arg(format!("--apps={apps}"));
    for (size, rounds) in ["1", "5", "25"].iter().zip(wish.rounds) {
        command.arg(format!("--rounds-of-{size}={}", rounds.div_ceil(*share)));
    }
    command.arg(format!("--minutes={}", wish.minutes.div_ceil(*share)));
    if let Some(folder) = &wish.samples {
        let file = folder.join(format!("{slices}-{apps}.tsv"));
        command.arg("--samples").arg(file);
    }
    command
}
