//! What a person sees while a command works: one line a step, on standard
//! error, so that standard output stays for results.

use std::fmt::Display;
use std::io::Write as _;
use std::time::Duration;

use crate::wait::Stopwatch;

/// Prints steps with the time since the command started.
#[derive(Debug)]
pub struct Progress {
    since: Stopwatch,
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress {
    pub fn new() -> Self {
        Self {
            since: Stopwatch::start(),
        }
    }

    /// One line. A closed standard error is no reason to stop working.
    pub fn line(&self, text: impl Display) {
        let text = format!("{} {text}\n", stamp(self.since.elapsed()));
        if std::io::stderr().write_all(text.as_bytes()).is_err() {
            // Nobody is reading: there is nobody to tell, either.
        }
    }
}

/// `[  3.2 s]` below a minute, `[2 m 05 s]` from there on.
fn stamp(elapsed: Duration) -> String {
    let (minutes, seconds) = (elapsed.as_secs() / 60, elapsed.as_secs() % 60);
    if minutes == 0 {
        return format!("[{:>5.1} s]", elapsed.as_secs_f64());
    }
    format!("[{minutes} m {seconds:02} s]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_keep_their_width_for_the_first_minute() {
        assert_eq!(stamp(Duration::from_millis(3200)), "[  3.2 s]");
        assert_eq!(stamp(Duration::from_millis(59_900)), "[ 59.9 s]");
        assert_eq!(stamp(Duration::from_secs(125)), "[2 m 05 s]");
    }
}
