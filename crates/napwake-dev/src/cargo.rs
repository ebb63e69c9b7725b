//! Cargo on this workspace, run so that nothing is built twice.
//!
//! Two things make Cargo build the same dependency again: another set of
//! features, which comes with another choice of packages, and other variables
//! in the environment that a build script looks at. Both are decided here.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files::{self, FileError};
use crate::progress::Progress;
use crate::run::{self, RunError};
use crate::workspace;

/// What Cargo tells a program about its own package. `cargo xtask` passes it
/// on, and a Cargo below it would take it for a changed environment.
const ABOUT_US: [&str; 6] = [
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_PATH",
    "CARGO_MANIFEST_LINKS",
    "CARGO_PRIMARY_PACKAGE",
    "CARGO_BIN_NAME",
    "CARGO_CRATE_NAME",
];

/// What users run.
const PROGRAMS: [&str; 2] = ["napwake", "kubectl-napwake"];

/// What measures it.
const BENCH: &str = "napwake-bench";

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error("can't build the programs")]
    Cargo(#[from] RunError),
    #[error(transparent)]
    File(#[from] FileError),
}

/// The release builds of what users run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    pub napwake: PathBuf,
    pub kubectl_napwake: PathBuf,
}

/// Builds both programs, or finds that nothing has changed.
pub fn release(progress: &Progress) -> Result<Release, BuildError> {
    progress.line("building napwake and kubectl-napwake (a few minutes the first time)…");
    build_release(&PROGRAMS, progress)?;
    Ok(Release {
        napwake: released("napwake"),
        kubectl_napwake: released("kubectl-napwake"),
    })
}

/// Builds the program that measures, as the others are built.
pub fn release_bench(progress: &Progress) -> Result<PathBuf, BuildError> {
    progress.line("building napwake-bench…");
    // Together with the others, so that what they share is of the same features.
    let [napwake, plugin] = PROGRAMS;
    build_release(&[napwake, plugin, BENCH], progress)?;
    Ok(released(BENCH))
}

fn build_release(packages: &[&str], progress: &Progress) -> Result<(), BuildError> {
    let target = workspace::target();
    files::create_dir(&target)?;
    let mut build = command();
    build
        .args(["build", "--release", "--locked", "--target-dir"])
        .arg(&target);
    for package in packages {
        build.arg(format!("--package={package}"));
    }
    let log = target.join("release-build.log");
    run::with_heartbeat(&mut build, "building the programs", &log, progress)?;
    Ok(())
}

fn released(program: &str) -> PathBuf {
    workspace::target().join("release").join(program)
}

/// Cargo, in the clone's first folder, ready to get its arguments.
pub fn command() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(workspace::root());
    forget_us(&mut cargo);
    cargo
}

/// Another program that runs Cargo on this workspace.
pub fn that_runs_cargo(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(workspace::root());
    forget_us(&mut command);
    command
}

fn forget_us(command: &mut Command) {
    for name in ABOUT_US {
        command.env_remove(name);
    }
    let of_our_package = |name: &std::ffi::OsString| {
        name.to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_"))
    };
    for name in std::env::vars_os()
        .map(|(name, _)| name)
        .filter(of_our_package)
    {
        command.env_remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cargo tells this test about its package, as it tells `cargo xtask`.
    #[test]
    fn cargo_is_told_nothing_of_the_program_that_runs_it() {
        let told = std::env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_"));
        assert!(told.count() > 0);
        let cargo = command();
        let kept = |name: &str| {
            cargo
                .get_envs()
                .all(|(other, value)| other != name || value.is_some())
        };
        assert!(!kept("CARGO_PKG_NAME") && !kept("CARGO_MANIFEST_DIR"));
        assert!(kept("CARGO_HOME") && kept("PATH"));
    }
}
