//! How the plugin ends: its exit statuses and how an error is told.

use std::{io::Write, process::ExitCode};

/// Why the plugin didn't do what it was asked to.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The cluster or an object said no. Exit status 1.
    Failed(anyhow::Error),
    /// The workload didn't get there within the time given. Exit status 3.
    TimedOut(String),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// 0, 1 (failed) or 3 (timed out); clap itself ends with 2 (usage).
pub(crate) fn exit_code(outcome: Result<(), Failure>) -> ExitCode {
    let (text, code) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Failed(error)) => (one_line(&error), 1),
        Err(Failure::TimedOut(text)) => (text, 3),
    };
    // Nobody is left to tell when even this can't be written.
    drop(writeln!(anstream::stderr(), "error: {text}"));
    ExitCode::from(code)
}

/// The error with its sources. What a library says both in an error's text and
/// as its source is told once.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    let mut line = error.to_string();
    for source in error.chain().skip(1) {
        let text = source.to_string();
        if !line.ends_with(&text) {
            line = format!("{line}: {text}");
        }
    }
    line
}
