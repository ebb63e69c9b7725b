//! The times of a held connection: until when it is held, when its silence
//! speaks, and when a dial or a wake is tried again.
//!
//! Owns the spans. Sets no timer.

use std::time::Duration;

use crate::Moment;

/// How long a caller must be silent to be judged by what it sent, or by having
/// sent nothing (CLASS-04, CLASS-05, T-43).
pub const SILENCE: Duration = Duration::from_secs(3);

/// How long after an endpoint refused a connection it is dialed again (HOLD-21).
pub const DIAL_RETRY: Duration = Duration::from_secs(1);

/// How long after a wake was refused, or couldn't be written, it is tried again
/// (LIMIT-19, T-112).
pub const WAKE_RETRY: Duration = Duration::from_secs(2);

/// When the silence of a caller that was accepted at `accepted` speaks: 3 s
/// after its last byte, or after it was accepted if it sent none.
pub fn silent_at(accepted: Moment, last_byte: Option<Moment>) -> Moment {
    last_byte.unwrap_or(accepted).plus(SILENCE)
}

/// Until when one connection is held.
///
/// One clock for everything it waits for: a pod, a dial, a wake, a passed place
/// (T-60).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(Moment);

impl Deadline {
    /// Of a connection that was accepted at `accepted`, and is held for
    /// `max_wait` as its workload sets it (HOLD-26).
    pub const fn new(accepted: Moment, max_wait: Duration) -> Self {
        Self(accepted.plus(max_wait))
    }

    /// When the connection is closed.
    pub const fn at(self) -> Moment {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::new(Duration::from_millis(millis))
    }

    /// T-43: silence speaks 3 s after the last byte, or
    /// after the accept.
    #[rstest]
    #[case::nothing_sent(None, 10_000)]
    #[case::spoke_at_once(Some(7_000), 10_000)]
    #[case::spoke_at_the_last_moment(Some(9_900), 12_900)]
    fn silence_speaks(#[case] last_byte: Option<u64>, #[case] expected: u64) {
        assert_eq!(silent_at(at(7_000), last_byte.map(at)), at(expected));
    }

    /// T-60: maxWait counts from the accept.
    #[test]
    fn is_over_max_wait_after_the_accept() {
        let deadline = Deadline::new(at(5_000), Duration::from_mins(2));
        assert_eq!(deadline.at(), at(125_000));
    }

    #[test]
    fn no_wait_is_too_long_for_the_clock() {
        let deadline = Deadline::new(at(1), Duration::MAX);
        assert!(deadline.at() > at(1_000_000));
    }
}
