//! What one workload has turned away and isn't written yet.
//!
//! Owns the arithmetic: nothing is lost and nothing counted twice, however often
//! a write is tried and whatever became of it (T-96). Writes nothing; whether a
//! caller counts as turned away is the [`verdict`](crate::verdict)'s to say.

use jiff::Timestamp;
use napwake_api::turned_away::{Mark, TurnedAway};

use crate::age::is_too_far_ahead;

/// Marks that are kept: one for each process that may still be about to try a
/// write again.
const MARKS: usize = 8;

/// The count of one pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    pause: Timestamp,
    unwritten: u64,
    /// A write that was begun, until it's known what became of it.
    begun: Option<Addition>,
}

/// Something to be added to what the annotation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addition {
    pause: Timestamp,
    requests: u64,
    mark: Mark,
}

/// What the annotation becomes.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// This.
    Write(TurnedAway),
    /// Nothing: it was added by an earlier try.
    Added,
    /// Nothing: a later pause has begun.
    Over,
}

impl Count {
    /// Nothing yet, in the pause that began then.
    pub const fn new(pause: Timestamp) -> Self {
        Self {
            pause,
            unwritten: 0,
            begun: None,
        }
    }

    /// One more, in that pause. Of an earlier pause than the last one nobody
    /// wants to know any more.
    pub fn add(&mut self, pause: Timestamp) {
        if pause > self.pause {
            *self = Self::new(pause);
        }
        if pause == self.pause {
            self.unwritten += 1;
        }
    }

    /// What is to be written now: the write that was begun, or all there is.
    pub fn begin(&mut self, mark: impl FnOnce() -> Mark) -> Option<Addition> {
        if self.begun.is_none() && self.unwritten > 0 {
            self.begun = Some(Addition {
                pause: self.pause,
                requests: std::mem::take(&mut self.unwritten),
                mark: mark(),
            });
        }
        self.begun
    }

    /// It was written, or isn't wanted any more.
    pub fn done(&mut self, addition: Addition) {
        if self.begun == Some(addition) {
            self.begun = None;
        }
    }

    /// How many requests aren't known to be written.
    pub fn left(&self) -> u64 {
        let begun = self.begun.map_or(0, |addition| addition.requests);
        self.unwritten + begun
    }
}

impl Addition {
    /// What the annotation becomes that says `current` at `now`. What can't be read,
    /// and the count of an earlier pause, begin afresh. So does that of a pause which
    /// lies too far ahead for anybody to have begun it (T-12).
    pub fn merge(self, current: Option<&str>, now: Timestamp) -> Merged {
        let current = current.and_then(|text| text.parse::<TurnedAway>().ok());
        // Our pause was written by the operator's clock, which is at least there.
        let latest = now.max(self.pause);
        let current = current.filter(|current| !is_too_far_ahead(current.pause, latest));
        let mut merged = match current {
            Some(current) if current.pause > self.pause => return Merged::Over,
            Some(current) if current.pause == self.pause => current,
            Some(_) | None => TurnedAway {
                pause: self.pause,
                requests: 0,
                marks: Vec::new(),
            },
        };
        let Mark { writer, write } = self.mark;
        let is_in = |mark: &Mark| mark.writer == writer && mark.write >= write;
        if merged.marks.iter().any(is_in) {
            return Merged::Added;
        }
        merged.requests = merged.requests.saturating_add(self.requests);
        merged.marks.retain(|mark| mark.writer != writer);
        merged.marks.push(self.mark);
        let dropped = merged.marks.len().saturating_sub(MARKS);
        merged.marks.drain(..dropped);
        Merged::Write(merged)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn time(clock: &str) -> Timestamp {
        format!("2026-11-30T{clock}Z").parse().unwrap()
    }

    fn addition(requests: u64, writer: u32, write: u64) -> Addition {
        Addition {
            pause: time("10:00:00"),
            requests,
            mark: Mark { writer, write },
        }
    }

    /// T-96: each process adds its own; of an earlier pause nothing is kept, nor of
    /// one that can't have begun yet (T-12).
    #[rstest]
    #[case::first(None, "2026-11-30T10:00:00.000000Z 3 0000000a/1")]
    #[case::unreadable(Some("many"), "2026-11-30T10:00:00.000000Z 3 0000000a/1")]
    #[case::by_hand(
        Some("2026-11-30T10:00:00Z 4"),
        "2026-11-30T10:00:00.000000Z 7 0000000a/1"
    )]
    #[case::anothers(
        Some("2026-11-30T10:00:00.000000Z 4 0000000b/9"),
        "2026-11-30T10:00:00.000000Z 7 0000000b/9 0000000a/1"
    )]
    #[case::its_own_before(
        Some("2026-11-30T10:00:00.000000Z 4 0000000a/0 0000000b/9"),
        "2026-11-30T10:00:00.000000Z 7 0000000b/9 0000000a/1"
    )]
    #[case::of_an_earlier_pause(
        Some("2026-11-30T09:00:00.000000Z 4 0000000b/9"),
        "2026-11-30T10:00:00.000000Z 3 0000000a/1"
    )]
    #[case::of_a_pause_too_far_ahead(
        Some("2026-11-30T10:06:00.000001Z 4 0000000b/9"),
        "2026-11-30T10:00:00.000000Z 3 0000000a/1"
    )]
    #[case::at_the_end(
        Some("2026-11-30T10:00:00Z 18446744073709551615"),
        "2026-11-30T10:00:00.000000Z 18446744073709551615 0000000a/1"
    )]
    fn adds_to_what_is_there(#[case] current: Option<&str>, #[case] expected: &str) {
        let Merged::Write(merged) = addition(3, 0xa, 1).merge(current, time("10:05:00")) else {
            panic!("nothing to write");
        };
        assert_eq!(merged.to_string(), expected);
    }

    /// T-96: a write whose answer was lost is added once, though another process
    /// wrote after it.
    #[test]
    fn a_write_counts_once_however_often_it_is_tried() {
        let (ours, now) = (addition(3, 0xa, 1), time("10:05:00"));
        let Merged::Write(written) = ours.merge(None, now) else {
            panic!("nothing to write");
        };
        assert_eq!(ours.merge(Some(&written.to_string()), now), Merged::Added);
        let Merged::Write(theirs) = addition(5, 0xb, 1).merge(Some(&written.to_string()), now)
        else {
            panic!("nothing to write");
        };
        assert_eq!(theirs.requests, 8);
        assert_eq!(ours.merge(Some(&theirs.to_string()), now), Merged::Added);
    }

    /// T-97: never added to the count of a later pause, though the clock of whoever
    /// wrote that is ahead (T-12).
    #[rstest]
    #[case::over("11:30:00")]
    #[case::by_a_clock_ahead("10:59:00")]
    fn a_later_pause_is_left_alone(#[case] now: &str) {
        let (later, now) = (Some("2026-11-30T11:00:00.000000Z 1"), time(now));
        assert_eq!(addition(3, 0xa, 1).merge(later, now), Merged::Over);
    }

    #[test]
    fn marks_do_not_pile_up() {
        let mut text = None;
        for writer in 0..100 {
            let Merged::Write(merged) =
                addition(1, writer, 1).merge(text.as_deref(), time("10:05:00"))
            else {
                panic!("nothing to write");
            };
            assert!(merged.marks.len() <= MARKS);
            assert_eq!(merged.requests, u64::from(writer) + 1);
            text = Some(merged.to_string());
        }
    }

    /// What comes while a write is under way is written by the next one.
    #[test]
    fn nothing_is_lost_between_two_writes() {
        let mut count = Count::new(time("10:00:00"));
        count.add(time("10:00:00"));
        let mark = |write| move || Mark { writer: 0xa, write };
        let first = count.begin(mark(1)).unwrap();
        count.add(time("10:00:00"));
        count.add(time("09:00:00"));
        assert_eq!(
            count.begin(mark(2)),
            Some(first),
            "the same until it's known"
        );
        assert_eq!(count.left(), 2);
        count.done(first);
        assert_eq!(count.begin(mark(2)), Some(addition(1, 0xa, 2)));
        count.add(time("11:00:00"));
        assert_eq!(count.left(), 1, "a later pause begins anew");
        count.done(addition(1, 0xa, 2));
        assert_eq!(count.left(), 1);
    }
}
