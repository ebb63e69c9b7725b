//! The wall clock.
//!
//! The only place that reads one. It gives stamps ([`Timestamp`]) for what is
//! written or compared with something written; spans are measured with
//! `tokio::time::Instant`, and the two are never compared.

use std::sync::Arc;

use jiff::{Timestamp, ToSpan};
use parking_lot::Mutex;

/// Where a process takes the time of day from. Cheap to clone; clones of a
/// manual clock move together.
#[derive(Clone, Debug, Default)]
pub struct Clock(Source);

#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    System,
    Manual(Arc<Mutex<Timestamp>>),
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands still until [`ManualClock`] moves it, for tests.
    pub fn manual(at: Timestamp) -> (Self, ManualClock) {
        let shared = Arc::new(Mutex::new(at));
        (
            Self(Source::Manual(Arc::clone(&shared))),
            ManualClock(shared),
        )
    }

    /// The time now, cut to whole microseconds: stamps are written with six
    /// places (T-127), so a time that was written and read back compares equal.
    pub fn now(&self) -> Timestamp {
        to_microseconds(match &self.0 {
            Source::System => system_now(),
            Source::Manual(at) => *at.lock(),
        })
    }
}

/// The hand that moves a manual [`Clock`].
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<Timestamp>>);

impl ManualClock {
    pub fn set(&self, at: Timestamp) {
        *self.0.lock() = at;
    }

    /// Moves forward by whole milliseconds; stops at the end of time.
    pub fn advance_millis(&self, millis: u32) {
        let mut at = self.0.lock();
        *at = at
            .checked_add(i64::from(millis).milliseconds())
            .unwrap_or(Timestamp::MAX);
    }
}

/// Cuts a time to whole microseconds, towards the past.
pub fn to_microseconds(at: Timestamp) -> Timestamp {
    let nanos = at.as_nanosecond();
    Timestamp::from_nanosecond(nanos - nanos.rem_euclid(1_000)).unwrap_or(at)
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the wall clock"
)]
fn system_now() -> Timestamp {
    Timestamp::now()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::cut("2026-11-30T10:00:00.123456789Z", "2026-11-30T10:00:00.123456Z")]
    #[case::whole("2026-11-30T10:00:00Z", "2026-11-30T10:00:00Z")]
    #[case::before_the_epoch("1969-12-31T23:59:59.9999999Z", "1969-12-31T23:59:59.999999Z")]
    fn cuts_to_microseconds(#[case] given: Timestamp, #[case] expected: Timestamp) {
        assert_eq!(to_microseconds(given), expected);
    }

    /// T-127: a stamp that was written and read back compares equal.
    #[test]
    fn a_reading_survives_being_written() {
        let now = Clock::system().now();
        let written = format!("{now:.6}");
        assert_eq!(written.parse::<Timestamp>().unwrap(), now);
    }

    #[test]
    fn a_manual_clock_moves_only_by_hand() {
        let start: Timestamp = "2026-11-30T10:00:00Z".parse().unwrap();
        let (clock, hand) = Clock::manual(start);
        let clone = clock.clone();
        assert_eq!(clock.now(), start);

        hand.advance_millis(1_500);
        assert_eq!(clone.now(), "2026-11-30T10:00:01.5Z".parse().unwrap());

        hand.set(start);
        assert_eq!(clock.now(), start);
    }
}
