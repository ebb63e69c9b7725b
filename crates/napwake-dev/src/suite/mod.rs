//! `cargo xtask test`: all levels of tests, one after the other.
//!
//! Prepares what a level needs (a cluster, the image, the programs of stock
//! clients), runs it, and counts. What a test shows is the tests' own matter.

mod browsers;
mod checks;
mod fuzz;
mod ingress;
mod junit;
mod level;
mod nextest;
mod prepare;
mod shape;

use std::fmt;

pub use level::{Level, UnknownLevel};
pub use shape::{Shape, UnknownShape};

use crate::cluster::{ClusterError, NameError};
use crate::files::FileError;
use crate::install::InstallError;
use crate::progress::Progress;
use crate::run::RunError;
use crate::target::TargetError;
use crate::tools::ToolError;

/// What to run.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// Which levels; none means all.
    pub levels: Vec<Level>,
    /// Whether the cases that take minutes run, too.
    pub cases: Cases,
    /// A part of the names of the tests to run.
    pub filter: Option<String>,
    /// A cluster of the user's own for levels C and B, by a context of the kubeconfig.
    pub context: Option<String>,
    /// What the development cluster of levels C and B is, where it isn't one of
    /// the user's own.
    pub shape: Shape,
}

/// Which cases run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cases {
    /// All but those in modules named `long`.
    #[default]
    Usual,
    /// All.
    Long,
}

/// How a run ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    levels: Vec<(Level, Counts)>,
}

/// Tests by how they ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// How many ended well.
    pub passed: usize,
    /// How many didn't.
    pub failed: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum SuiteError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Install(#[from] InstallError),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error("the tests of level {0} ended without a report: {1}")]
    NoReport(Level, String),
}

/// Runs the tests. An error means that they couldn't be run.
pub fn run(wish: &Wish, progress: &Progress) -> Result<Tally, SuiteError> {
    let mut tally = Tally::default();
    for level in Level::ALL.into_iter().filter(|level| wish.wants(*level)) {
        progress.line(format_args!("level {level}: {}…", level.title()));
        let counts = match level {
            Level::Checks => checks::run(progress),
            Level::Fuzz => fuzz::run(wish, progress)?,
            _ => {
                let ready = prepare::level(level, wish, progress)?;
                nextest::run(level, wish, &ready, progress)?
            }
        };
        tally.levels.push((level, counts));
    }
    Ok(tally)
}

impl Wish {
    /// The checks are no tests: a filter by name leaves them out. Browsers take
    /// packages of some hundred megabytes, so they run when asked for.
    fn wants(&self, level: Level) -> bool {
        let is_usual = level != Level::B || self.cases == Cases::Long;
        let listed = (self.levels.is_empty() && is_usual) || self.levels.contains(&level);
        let filtered_out = level == Level::Checks && self.filter.is_some();
        listed && !filtered_out
    }
}

impl Tally {
    /// Whether something ran and nothing failed.
    pub fn is_good(&self) -> bool {
        let total = self.total();
        total.failed == 0 && total.passed > 0
    }

    fn total(&self) -> Counts {
        let mut total = Counts::default();
        for (_, counts) in &self.levels {
            total.passed += counts.passed;
            total.failed += counts.failed;
        }
        total
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        write!(f, "{} passed, {} failed", total.passed, total.failed)?;
        let each: Vec<_> = self
            .levels
            .iter()
            .map(|(level, counts)| {
                format!(
                    "{level} {}/{}",
                    counts.passed,
                    counts.passed + counts.failed
                )
            })
            .collect();
        if each.is_empty() {
            Ok(())
        } else {
            write!(f, " ({})", each.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closing_line_has_the_counts_of_each_level() {
        let tally = Tally {
            levels: vec![
                (
                    Level::Checks,
                    Counts {
                        passed: 4,
                        failed: 0,
                    },
                ),
                (
                    Level::C,
                    Counts {
                        passed: 9,
                        failed: 1,
                    },
                ),
            ],
        };
        assert_eq!(
            tally.to_string(),
            "13 passed, 1 failed (checks 4/4, C 9/10)"
        );
        assert!(!tally.is_good());
    }

    #[test]
    fn a_run_of_nothing_is_no_success() {
        assert!(!Tally::default().is_good());
    }

    #[test]
    fn a_filter_by_name_leaves_the_checks_out() {
        let wish = Wish {
            filter: Some("hold".to_owned()),
            ..Wish::default()
        };
        assert!(!wish.wants(Level::Checks) && wish.wants(Level::U));
    }

    #[test]
    fn browsers_run_when_asked_for() {
        let mut wish = Wish::default();
        assert!(!wish.wants(Level::B) && wish.wants(Level::C));
        wish.levels = vec![Level::B];
        assert!(wish.wants(Level::B) && !wish.wants(Level::C));
        let wish = Wish {
            cases: Cases::Long,
            ..Wish::default()
        };
        assert!(wish.wants(Level::B));
    }
}
