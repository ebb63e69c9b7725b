//! Fuzzing every parser: each target of `fuzz/`, for a while.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use super::{Cases, Counts, SuiteError, Wish};
use crate::files::{self, failed};
use crate::progress::Progress;
use crate::tools::cargo_install;
use crate::{cargo, run, workspace};

/// Builds the targets with a sanitizer.
const CARGO_FUZZ: (&str, &str) = ("cargo-fuzz", "0.13.2");

/// How long each target is fed, in seconds.
const USUAL: u32 = 30;

/// The same with `--long`.
const LONG: u32 = 3600;

/// How many targets are fed at once: as many as the smallest machine has cores.
const AT_ONCE: usize = 2;

/// A head is at most 16 KiB, and what comes behind it may matter.
const LONGEST_INPUT: u32 = 20_000;

/// Feeds every target that is wished for.
pub(super) fn run(wish: &Wish, progress: &Progress) -> Result<Counts, SuiteError> {
    let targets = targets(wish.filter.as_deref())?;
    let mut counts = Counts::default();
    if targets.is_empty() {
        return Ok(counts);
    }
    build(progress)?;
    let seconds = match wish.cases {
        Cases::Usual => USUAL,
        Cases::Long => LONG,
    };
    for pair in targets.chunks(AT_ONCE) {
        let fed: Vec<Fed> = pair
            .iter()
            .map(|target| Fed::start(target, seconds))
            .collect::<Result<_, _>>()?;
        for fed in fed {
            let (name, log) = (fed.name.clone(), fed.log.clone());
            if fed.end()?.success() {
                counts.passed += 1;
                let inputs = inputs(&log);
                progress.line(format_args!("  {name}: good, {inputs} inputs"));
            } else {
                counts.failed += 1;
                let words = last_words(&fs::read_to_string(&log).unwrap_or_default());
                let log = log.display();
                progress.line(format_args!("  {name}: FAILED, as {log} says:\n{words}"));
            }
        }
    }
    Ok(counts)
}

/// The names of the targets, in order.
fn targets(filter: Option<&str>) -> Result<Vec<String>, SuiteError> {
    let paths = files::list(&folder().join("fuzz_targets"))?;
    let names = paths
        .iter()
        .filter_map(|path| path.file_stem()?.to_str())
        .filter(|name| filter.is_none_or(|part| format!("fuzz::{name}").contains(part)));
    let mut names: Vec<_> = names.map(str::to_owned).collect();
    names.sort_unstable();
    Ok(names)
}

fn folder() -> PathBuf {
    workspace::root().join("fuzz")
}

/// Where builds, new inputs and words go.
fn out() -> PathBuf {
    workspace::target().join("fuzz")
}

fn build(progress: &Progress) -> Result<(), SuiteError> {
    let (name, version) = CARGO_FUZZ;
    let program = cargo_install(name, version, progress)?;
    files::create_dir(&out())?;
    // The build itself would write a lock file that is out of date anew.
    let mut locked = cargo::command();
    locked.args(["metadata", "--locked", "--format-version=1"]);
    locked
        .arg("--manifest-path")
        .arg(folder().join("Cargo.toml"));
    run::check(&mut locked)?;
    let mut command = cargo::that_runs_cargo(&program);
    command
        .args(["fuzz", "build", "--target-dir"])
        .arg(out())
        // Sanitizers are for nightly builds by name only.
        .env("RUSTC_BOOTSTRAP", "1");
    let log = out().join("build.log");
    run::with_heartbeat(&mut command, "building the fuzz targets", &log, progress)?;
    Ok(())
}

/// A target that is being fed.
struct Fed {
    name: String,
    log: PathBuf,
    process: Child,
}

impl Fed {
    fn start(name: &str, seconds: u32) -> Result<Self, SuiteError> {
        let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let program = out().join(triple).join("release").join(name);
        let found = out().join("found").join(name);
        files::create_dir(&found)?;
        let log = out().join(format!("{name}.log"));
        let file = fs::File::create(&log).map_err(failed("create", &log))?;
        let mut command = Command::new(&program);
        command
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-max_len={LONGEST_INPUT}"))
            .args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"])
            .arg(format!("-artifact_prefix={}/", found.display()))
            .args([found_inputs(&found)?, folder().join("corpus").join(name)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file);
        let process = command.spawn().map_err(failed("start", &program))?;
        Ok(Self {
            name: name.to_owned(),
            log,
            process,
        })
    }

    fn end(mut self) -> Result<ExitStatus, SuiteError> {
        let waited = self.process.wait();
        Ok(waited.map_err(failed("wait for", Path::new(&self.name)))?)
    }
}

/// New inputs stay out of the tree: what is kept there is chosen.
fn found_inputs(found: &Path) -> Result<PathBuf, SuiteError> {
    let inputs = found.join("inputs");
    files::create_dir(&inputs)?;
    Ok(inputs)
}

/// How many of a failed target's last lines are shown.
const SHOWN_LINES: usize = 20;

/// How much of each: an input may be all one line.
const SHOWN_CHARS: usize = 300;

/// What a target that failed said last, without its progress, its stack and its
/// statistics: the panic, what was fed, and the file that keeps it.
fn last_words(log: &str) -> String {
    let says_why = |line: &&str| {
        let line = line.trim_start();
        !line.is_empty() && !line.starts_with('#') && !line.starts_with("stat::")
    };
    let lines: Vec<_> = log.lines().filter(says_why).collect();
    let last = lines.iter().skip(lines.len().saturating_sub(SHOWN_LINES));
    let cut = last.map(|line| line.chars().take(SHOWN_CHARS).collect::<String>());
    cut.collect::<Vec<_>>().join("\n")
}

/// How many inputs there were, as the fuzzer's last words say.
fn inputs(log: &Path) -> String {
    let words = fs::read_to_string(log).unwrap_or_default();
    let executed = words
        .lines()
        .filter_map(|line| line.strip_prefix("stat::number_of_executed_units:"))
        .next_back();
    executed.map_or_else(|| "?".to_owned(), |count| count.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_target_s_panic_and_input_are_shown() {
        let stack = "    #7 0x55d in fuzz\n".repeat(60);
        let fed = "x".repeat(20_000);
        let log = format!(
            "#2\tINITED cov: 9 ft: 9\n#512\tNEW cov: 11\n\n\
             thread '<unnamed>' (7) panicked at gate/src/head.rs:9:5:\nnot whole\n\
             ==7== ERROR: libFuzzer: deadly signal\n{stack}\
             SUMMARY: libFuzzer: deadly signal\n{fed}\n\
             artifact_prefix='found/head/'; Test unit written to found/head/crash-1\n\
             stat::number_of_executed_units: 512\n"
        );
        let words = last_words(&log);
        let lines: Vec<_> = words.lines().collect();
        assert!(lines[0].contains("panicked at gate/src/head.rs"), "{words}");
        assert_eq!(lines[1], "not whole");
        assert!(words.ends_with("Test unit written to found/head/crash-1"));
        assert!(!words.contains("NEW") && !words.contains("#7"), "{words}");
        assert!(lines.iter().all(|line| line.len() <= SHOWN_CHARS));
    }
}
