//! The level of checks: the tree itself.

use super::Counts;
use crate::checks::tidy;
use crate::codegen::{self, Codegen};
use crate::progress::Progress;
use crate::{run, workspace};

/// Good, or what is wrong.
type Check = fn() -> Result<(), String>;

/// Runs every check, the failing ones' words included.
pub(super) fn run(progress: &Progress) -> Counts {
    let checks: [(&str, Check); 4] = [
        ("formatting", formatting),
        ("generated files", generated),
        ("layers and sources", layers),
        ("lints", lints),
    ];
    let mut counts = Counts::default();
    for (name, check) in checks {
        match check() {
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

fn formatting() -> Result<(), String> {
    cargo(&["fmt", "--all", "--check"])
}

fn lints() -> Result<(), String> {
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

fn generated() -> Result<(), String> {
    codegen::run(&workspace::root(), Codegen::Check)
        .map(drop)
        .map_err(|error| error.to_string())
}

fn layers() -> Result<(), String> {
    let broken = tidy::run().map_err(|error| format!("{error:#}"))?;
    if broken.is_empty() {
        Ok(())
    } else {
        Err(broken.join("\n"))
    }
}
