//! A duration in words.
//!
//! Owns how exact it is: to the second below an hour.

use std::{
    fmt::{self, Display, Formatter},
    time::Duration,
};

/// A duration as a person says it, such as `1 minute 5 seconds`.
#[derive(Clone, Copy)]
pub(super) struct Spoken(pub(super) Duration);

impl Spoken {
    /// As HTML's `datetime` wants it.
    pub(super) fn machine(self) -> String {
        format!("PT{}S", self.0.as_secs())
    }
}

impl Display for Spoken {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        match (hours, minutes, seconds) {
            (0, 0, _) => count(f, seconds, "second"),
            (0, _, 0) => count(f, minutes, "minute"),
            (0, _, _) => two(f, (minutes, "minute"), (seconds, "second")),
            (_, 0, _) => count(f, hours, "hour"),
            (_, _, _) => two(f, (hours, "hour"), (minutes, "minute")),
        }
    }
}

fn two(f: &mut Formatter<'_>, first: (u64, &str), second: (u64, &str)) -> fmt::Result {
    count(f, first.0, first.1)?;
    f.write_str(" ")?;
    count(f, second.0, second.1)
}

fn count(f: &mut Formatter<'_>, number: u64, unit: &str) -> fmt::Result {
    let ending = if number == 1 { "" } else { "s" };
    write!(f, "{number} {unit}{ending}")
}
