//! The value of `napwake.dev/turned-away`: how many requests a pause has turned
//! away, as doorman pods write it and the operator reads it.
//!
//! Owns how it's written and read. What it becomes when one more pod adds to it is
//! the doorman's to decide. Reads no clock.

use std::{fmt, str::FromStr};

use jiff::Timestamp;

use crate::stamp;

/// `<RFC 3339 in microseconds> <number> <marks>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnedAway {
    /// When the pause began: this names it (T-97).
    pub pause: Timestamp,
    /// How many requests it has turned away so far.
    pub requests: u64,
    /// The last write of each pod that added to it, so that none that was lost on
    /// its way is added twice (T-96).
    pub marks: Vec<Mark>,
}

/// A write of one doorman process, as `<process in hexadecimal>/<number>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The process, by a number drawn at its start.
    pub writer: u32,
    /// Which of its writes, counted from 1.
    pub write: u64,
}

/// A text that is no [`TurnedAway`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be the time of a pause and a number")]
pub struct NotACount;

impl FromStr for TurnedAway {
    type Err = NotACount;

    fn from_str(text: &str) -> Result<Self, NotACount> {
        let mut words = text.split_ascii_whitespace();
        let mut word = || words.next().ok_or(NotACount);
        let pause = word()?.parse().map_err(|_| NotACount)?;
        let requests = word()?.parse().map_err(|_| NotACount)?;
        Ok(Self {
            pause,
            requests,
            // What can't be read was written by somebody else.
            marks: words.filter_map(|word| Mark::read(word).ok()).collect(),
        })
    }
}

impl Mark {
    fn read(word: &str) -> Result<Self, NotACount> {
        let (writer, write) = word.split_once('/').ok_or(NotACount)?;
        Ok(Self {
            writer: u32::from_str_radix(writer, 16).map_err(|_| NotACount)?,
            write: write.parse().map_err(|_| NotACount)?,
        })
    }
}

impl fmt::Display for TurnedAway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", stamp::render(self.pause), self.requests)?;
        self.marks
            .iter()
            .try_for_each(|Mark { writer, write }| write!(f, " {writer:08x}/{write}"))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("2026-10-23T18:04:12.000000Z 312", 0)]
    #[case("2026-10-23T18:04:12.000000Z 312 0003fa94/17 fffffff0/1", 2)]
    fn reads_what_it_writes(#[case] text: &str, #[case] marks: usize) {
        let read: TurnedAway = text.parse().expect("readable");
        assert_eq!((read.requests, read.marks.len()), (312, marks));
        assert_eq!(read.to_string(), text);
    }

    /// Others may write it too, by hand.
    #[rstest]
    #[case("2026-10-23T18:04:12Z 5", Some(5))]
    #[case("2026-10-23T20:04:12+02:00 5 so many", Some(5))]
    #[case("2026-10-23T18:04:12Z", None)]
    #[case("2026-10-23T18:04:12Z -1", None)]
    #[case("5", None)]
    #[case("", None)]
    fn reads_what_others_write(#[case] text: &str, #[case] requests: Option<u64>) {
        let read = text.parse::<TurnedAway>().ok();
        assert_eq!(read.map(|read| read.requests), requests);
    }
}
