//! How long ago something was, by the clock of whoever wrote it down.
//!
//! Owns what counts as recent where two clocks differ (T-12).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use napwake_api::agreed;

/// Whether `at` is further ahead than clocks may differ: no time to go by.
pub(crate) fn is_too_far_ahead(at: Timestamp, now: Timestamp) -> bool {
    at.duration_since(now) > agreed::CLOCK_SKEW.signed()
}

/// Whether `at` is less than `span` ago, or ahead by no more than clocks may
/// differ. What is further ahead is no time to go by.
pub(crate) fn is_within(span: Duration, at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at) < signed(span) && !is_too_far_ahead(at, now)
}

fn signed(span: Duration) -> SignedDuration {
    SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// T-12: up to 60 s ahead counts as just now.
    #[rstest]
    #[case::just_now(0, true)]
    #[case::nearly_that_long_ago(-59_999, true)]
    #[case::that_long_ago(-60_000, false)]
    #[case::a_little_ahead(60_000, true)]
    #[case::too_far_ahead(60_001, false)]
    fn tells_what_is_recent(#[case] millis: i64, #[case] expected: bool) {
        let now: Timestamp = "2026-11-30T10:00:00Z".parse().expect("a time");
        let at = now + SignedDuration::from_millis(millis);
        assert_eq!(is_within(Duration::from_mins(1), at, now), expected);
    }

    #[test]
    fn no_time_is_too_far_away() {
        for at in [Timestamp::MIN, Timestamp::MAX] {
            assert!(!is_within(
                Duration::from_secs(1),
                at,
                Timestamp::UNIX_EPOCH
            ));
        }
        let (at, now) = (Timestamp::MIN, Timestamp::MAX);
        assert!(is_within(Duration::MAX, at, now));
    }
}
