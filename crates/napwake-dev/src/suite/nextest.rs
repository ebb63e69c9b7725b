//! Running a level's tests with nextest, inside of a cluster's network where
//! the level needs one. Building stays outside, where the registries are.

use super::prepare::Ready;
use super::{Cases, Counts, Level, Shape, SuiteError, Wish, junit};
use crate::progress::Progress;
use crate::run::RunError;
use crate::tools::cargo_install;
use crate::workspace;
use crate::{cargo, files};

const NEXTEST: (&str, &str) = ("cargo-nextest", "0.9.151");

/// Where nextest leaves its report in the clone, whichever folder Cargo builds into.
const REPORT: &str = "target/nextest/default/junit.xml";

/// Runs the level's tests and counts them.
pub(super) fn run(
    level: Level,
    wish: &Wish,
    ready: &Ready,
    progress: &Progress,
) -> Result<Counts, SuiteError> {
    let nextest = cargo_install(NEXTEST.0, NEXTEST.1, progress)?;
    let report = workspace::root().join(REPORT);
    files::remove(&report)?;
    let mut command = cargo::that_runs_cargo(&nextest);
    command.args(["nextest", "run", "--locked"]);
    // Always the whole workspace, whichever tests run: with another set of
    // packages Cargo would build the dependencies again with other features.
    command
        .args(["--workspace", "-E", &filter(level, wish)])
        .arg("--no-tests=pass");
    if let Some(threads) = level.threads() {
        command.args(["--test-threads", threads]);
    }
    ready.enter(&mut command);
    let program = "cargo nextest".to_owned();
    let status = command
        .status()
        .map_err(|source| RunError::Start { program, source })?;
    let text = std::fs::read_to_string(&report);
    match text.ok().as_deref().and_then(junit::counts) {
        Some(counts) => Ok(counts),
        // Without a single test there is no report.
        None if status.success() => Ok(Counts::default()),
        None => Err(SuiteError::NoReport(level, status.to_string())),
    }
}

fn filter(level: Level, wish: &Wish) -> String {
    let short = r" & not test(/(^|::)long::/)";
    let cases = if wish.cases == Cases::Usual {
        short
    } else {
        ""
    };
    let nodes = if level == Level::C && wish.shape != Shape::Nodes {
        r" & not test(/(^|::)nodes::/)"
    } else {
        ""
    };
    let name = wish
        .filter
        .as_ref()
        .map(|name| format!(" & test(~{name})"))
        .unwrap_or_default();
    format!("({}){cases}{nodes}{name}", level.filter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_cases_and_names_narrow_the_filter() {
        let wish = Wish {
            filter: Some("hold_21".to_owned()),
            ..Wish::default()
        };
        assert_eq!(
            filter(Level::D, &wish),
            r"(package(napwake-tests-process)) & not test(/(^|::)long::/) & test(~hold_21)"
        );
        let long = Wish {
            cases: Cases::Long,
            ..Wish::default()
        };
        assert_eq!(filter(Level::D, &long), "(package(napwake-tests-process))");
    }

    #[test]
    fn what_needs_three_nodes_runs_where_they_are() {
        let needs = "test(/(^|::)nodes::/)";
        let usual = Wish::default();
        assert!(filter(Level::C, &usual).contains(&format!("not {needs}")));
        assert!(!filter(Level::A, &usual).contains(needs));
        let three = Wish {
            shape: Shape::Nodes,
            ..Wish::default()
        };
        assert!(!filter(Level::C, &three).contains(needs));
    }
}
