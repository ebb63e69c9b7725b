//! Running other programs and saying well what went wrong with them.
//!
//! Never decides what to do about a failure: callers do.

use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::progress::Progress;
use crate::wait::{Stopwatch, pause};

/// How much of a program's last words an error repeats, in lines.
const LAST_WORDS: usize = 15;

/// How much of a program's line stands in one of ours, in characters.
const MOST_OF_A_LINE: usize = 30;

/// How often a long build says that it still lives.
const HEARTBEAT: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("can't start {program}")]
    Start { program: String, source: io::Error },
    #[error("{program} ended with {status}: {last_words}")]
    Failed {
        program: String,
        status: ExitStatus,
        last_words: String,
    },
    #[error("can't keep the output of {program} in {}", file.display())]
    Log {
        program: String,
        file: PathBuf,
        source: io::Error,
    },
}

/// Runs to the end and returns what it printed; its errors become ours.
pub fn output(command: &mut Command) -> Result<String, RunError> {
    let program = name(command);
    let done = command
        .stdin(Stdio::null())
        .output()
        .map_err(|source| RunError::Start {
            program: program.clone(),
            source,
        })?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let words = if done.stderr.is_empty() {
        &done.stdout
    } else {
        &done.stderr
    };
    let last_words = tail(&String::from_utf8_lossy(words), LAST_WORDS);
    Err(RunError::Failed {
        program,
        status: done.status,
        last_words,
    })
}

/// Runs to the end; only success matters.
pub fn check(command: &mut Command) -> Result<(), RunError> {
    output(command).map(drop)
}

/// Runs to the end and tells whether it succeeded. What it prints is dropped.
pub fn succeeds(command: &mut Command) -> Result<bool, RunError> {
    match output(command) {
        Ok(_) => Ok(true),
        Err(RunError::Failed { .. }) => Ok(false),
        Err(other) => Err(other),
    }
}

/// Runs to the end; what it prints is for whoever runs us.
pub fn passing_on(command: &mut Command) -> Result<(), RunError> {
    let program = name(command);
    let status = command
        .stdin(Stdio::null())
        .status()
        .map_err(|source| RunError::Start {
            program: program.clone(),
            source,
        })?;
    if status.success() {
        return Ok(());
    }
    Err(RunError::Failed {
        program,
        status,
        last_words: "it said why".to_owned(),
    })
}

/// Runs something that takes minutes: its output goes to a file, a line every
/// half minute says that it still works, and its end shows the last of the file.
pub fn with_heartbeat(
    command: &mut Command,
    what: &str,
    log: &std::path::Path,
    progress: &Progress,
) -> Result<(), RunError> {
    let program = name(command);
    let lost = |source| RunError::Log {
        program: program.clone(),
        file: log.to_owned(),
        source,
    };
    let out = std::fs::File::create(log).map_err(lost)?;
    let err = out.try_clone().map_err(lost)?;
    let started = |source| RunError::Start {
        program: program.clone(),
        source,
    };
    let mut child = command
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .map_err(started)?;
    let since = Stopwatch::start();
    let mut beats = 0;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(started)? {
            break status;
        }
        pause(Duration::from_millis(200));
        if since.elapsed() >= HEARTBEAT * (beats + 1) {
            beats += 1;
            progress.line(format_args!(
                "  still {what} ({} s){}",
                since.elapsed().as_secs(),
                now_at(&std::fs::read(log).unwrap_or_default())
            ));
        }
    };
    if status.success() {
        return Ok(());
    }
    let text = std::fs::read(log).map_err(lost)?;
    let last_words = tail(&String::from_utf8_lossy(&text), LAST_WORDS);
    Err(RunError::Failed {
        program,
        status,
        last_words,
    })
}

/// What a program printed last, to stand behind another text: empty if it has
/// printed nothing yet, and cut where a terminal's line would end.
fn now_at(printed: &[u8]) -> String {
    let last = tail(&String::from_utf8_lossy(printed), 1);
    let short: String = last.trim().chars().take(MOST_OF_A_LINE).collect();
    if short.is_empty() {
        short
    } else {
        format!(": {short}")
    }
}

/// The last lines of a text, joined as they were.
pub(crate) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.trim_end().lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

fn name(command: &Command) -> String {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .take(6)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    format!("`{}`", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_repeats_the_last_words() {
        let failed = output(Command::new("sh").args(["-c", "echo first; echo broken >&2; exit 3"]));
        let text = failed.unwrap_err().to_string();
        assert!(
            text.contains("broken") && text.contains("exit status: 3"),
            "{text}"
        );
    }

    #[test]
    fn a_missing_program_is_told_apart_from_one_that_failed() {
        assert!(matches!(
            succeeds(&mut Command::new("napwake-no-such-program")),
            Err(RunError::Start { .. })
        ));
        assert!(!succeeds(&mut Command::new("false")).unwrap());
    }

    #[test]
    fn a_sign_of_life_says_what_was_printed_last() {
        assert_eq!(
            now_at(b"   Compiling a v1.0.0\n   Compiling b v1.0.0\n"),
            ": Compiling b v1.0.0"
        );
        assert_eq!(now_at(b""), "");
        assert!(now_at(&[b'a'; 900]).len() < 40);
    }

    #[test]
    fn tails_are_whole_lines() {
        assert_eq!(tail("a\nb\nc\n", 2), "b\nc");
        assert_eq!(tail("a\n", 5), "a");
    }
}
