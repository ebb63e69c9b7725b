//! The level of checks: the tree itself.

use std::process::Command;

use super::Counts;
use crate::checks::tidy;
use crate::codegen::{self, Codegen};
use crate::progress::Progress;
use crate::tools::cargo_install;
use crate::{run, workspace};

/// Licenses, bans and sources of what is linked, as `deny.toml` allows them.
const DENY: (&str, &str) = ("cargo-deny", "0.20.2");

/// Dependencies that a manifest names and no source uses.
const MACHETE: (&str, &str) = ("cargo-machete", "0.9.2");

/// Good, or what is wrong.
type Check = fn(&Progress) -> Result<(), String>;

/// Runs every check, the failing ones' words included.
pub(super) fn run(progress: &Progress) -> Counts {
    let checks: [(&str, Check); 6] = [
        ("formatting", formatting),
        ("generated files", generated),
        ("layers and sources", layers),
        ("unused dependencies", unused),
        ("licenses, bans and sources", linked),
        ("lints", lints),
    ];
    let mut counts = Counts::default();
    for (name, check) in checks {
        match check(progress) {
            Ok(()) => {
                counts.passed += 1;
                progress.line(format_args!("  {name}: good"));
            }
            Err(words) => {
                counts.failed += 1;
                progress.line(format_args!("  {name}: FAILED\n{words}"));
            }
        }
    }
    counts
}

fn cargo(words: &[&str]) -> Result<(), String> {
    let mut command = crate::cargo::command();
    command.args(words);
    run::check(&mut command).map_err(|error| error.to_string())
}

fn formatting(_: &Progress) -> Result<(), String> {
    cargo(&["fmt", "--all", "--check"])
}

fn lints(_: &Progress) -> Result<(), String> {
    cargo(&[
        "clippy",
        "--locked",
        "--workspace",
        "--all-targets",
        "--quiet",
        "--",
        "-D",
        "warnings",
    ])
}

fn generated(_: &Progress) -> Result<(), String> {
    codegen::run(&workspace::root(), Codegen::Check)
        .map(drop)
        .map_err(|error| error.to_string())
}

fn layers(_: &Progress) -> Result<(), String> {
    let broken = tidy::run().map_err(|error| format!("{error:#}"))?;
    if broken.is_empty() {
        Ok(())
    } else {
        Err(broken.join("\n"))
    }
}

fn unused(progress: &Progress) -> Result<(), String> {
    installed(MACHETE, &[], progress)
}

/// Advisories are left out: their database is on the internet, where tests don't go.
fn linked(progress: &Progress) -> Result<(), String> {
    let words = [
        "--locked",
        "check",
        "--hide-inclusion-graph",
        "bans",
        "licenses",
        "sources",
    ];
    installed(DENY, &words, progress)
}

/// Runs a program of [`cargo_install`] on the whole workspace.
fn installed(
    (name, version): (&str, &str),
    words: &[&str],
    progress: &Progress,
) -> Result<(), String> {
    let program = cargo_install(name, version, progress).map_err(|error| format!("{error:#}"))?;
    let mut command = Command::new(program);
    command.args(words).current_dir(workspace::root());
    run::check(&mut command).map_err(|error| error.to_string())
}
