//! Whether a request that wakes needs a stamp of its own.
//!
//! Owns the rule that many callers lead to one stamp. Writes nothing; whether a
//! wake is allowed now is the [`allowance`](crate::allowance)'s to say.

use std::time::Duration;

use jiff::Timestamp;
use napwake_api::{stamp::Stamp, workload::Phase};

use crate::age::is_too_far_ahead;

/// How often a pause under way is told of further requests (T-65).
pub const REFRESH: Duration = Duration::from_secs(5);

/// One workload that a request would wake, as last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakeable {
    /// Where it stands.
    pub phase: Phase,
    /// When its pause began (`status.pause.startedAt`).
    pub pause_started: Option<Timestamp>,
    /// The newest `napwake.dev/last-request`, by whichever doorman pod.
    pub last_request: Option<Stamp>,
}

/// What a request that wakes is to do.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Stamp: this pause has no stamp yet. It counts against the allowance where
    /// the workload is paused already (LIMIT-15).
    Wake,
    /// Stamp anew, so that the operator sees that somebody is still there (T-65).
    /// It wakes nothing and counts against nothing.
    Refresh,
    /// Nothing: it wakes already, or has nothing to wake (T-65, T-124).
    Nothing,
}

/// Whether a request at `now` needs a stamp to wake this workload.
///
/// Once a stamp of this pause is seen, further requests need none. While it
/// pauses they refresh it every few seconds, so that the operator, which may be
/// between two steps, sees that somebody is still there.
pub fn need(workload: Wakeable, now: Timestamp) -> Need {
    let last_request = newest([workload.last_request], workload.pause_started, now);
    let stamped = match (last_request, workload.pause_started) {
        (Some(stamp), Some(started)) if stamp.is_newer_than(started) => Some(stamp),
        _ => None,
    };
    match (workload.phase, stamped) {
        (Phase::Running | Phase::Resuming, _) | (Phase::Paused, Some(_)) => Need::Nothing,
        (Phase::Paused | Phase::Pausing, None) => Need::Wake,
        (Phase::Pausing, Some(stamp)) => refresh(stamp.at(), now),
    }
}

/// The newest of these stamps that counts at `now`, as the operator counts: one
/// that lies further ahead than clocks may differ is as good as none, and hides
/// none that counts (T-12).
///
/// The pause was written by the operator's own clock, which is at least there: a
/// stamp little newer than its pause counts, however far ahead of `now` that is.
pub fn newest(
    stamps: impl IntoIterator<Item = Option<Stamp>>,
    pause_started: Option<Timestamp>,
    now: Timestamp,
) -> Option<Stamp> {
    let latest = pause_started.map_or(now, |started| started.max(now));
    stamps
        .into_iter()
        .flatten()
        .filter(|stamp| !is_too_far_ahead(stamp.at(), latest))
        .max_by_key(|stamp| stamp.at())
}

fn refresh(stamped: Timestamp, now: Timestamp) -> Need {
    let age = now.duration_since(stamped);
    if age >= jiff::SignedDuration::try_from(REFRESH).unwrap_or_default() {
        Need::Refresh
    } else {
        Need::Nothing
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const STARTED: &str = "2026-11-30T10:00:00.000000Z";

    /// T-65, T-124: one stamp a pause, refreshed every 5 s while pausing. T-12: one
    /// that the operator passes over, for it lies too far ahead, is none.
    #[rstest]
    #[case::first(Phase::Paused, None, "10:00:30", Need::Wake)]
    #[case::of_an_older_pause(Phase::Paused, Some("09:59:59.999999"), "10:00:30", Need::Wake)]
    #[case::already_asked(Phase::Paused, Some("10:00:20.000000"), "10:00:30", Need::Nothing)]
    #[case::asked_long_ago(Phase::Paused, Some("10:00:20.000000"), "11:00:30", Need::Nothing)]
    #[case::first_while_pausing(Phase::Pausing, None, "10:00:01", Need::Wake)]
    #[case::just_called_off(Phase::Pausing, Some("10:00:01.000000"), "10:00:05", Need::Nothing)]
    #[case::refreshes(Phase::Pausing, Some("10:00:01.000000"), "10:00:06", Need::Refresh)]
    #[case::stamped_ahead(Phase::Pausing, Some("10:00:09.000000"), "10:00:06", Need::Nothing)]
    #[case::a_minute_ahead(Phase::Paused, Some("10:01:30.000000"), "10:00:30", Need::Nothing)]
    #[case::further_ahead(Phase::Paused, Some("10:01:30.000001"), "10:00:30", Need::Wake)]
    #[case::further_ahead_while_pausing(
        Phase::Pausing,
        Some("10:01:06.000001"),
        "10:00:06",
        Need::Wake
    )]
    #[case::of_a_pause_far_ahead(Phase::Paused, Some("10:00:00.000001"), "09:00:00", Need::Nothing)]
    #[case::waking(Phase::Resuming, None, "10:00:30", Need::Nothing)]
    #[case::awake(Phase::Running, None, "10:00:30", Need::Nothing)]
    fn one_stamp_a_pause(
        #[case] phase: Phase,
        #[case] stamp: Option<&str>,
        #[case] now: &str,
        #[case] expected: Need,
    ) {
        let time = |clock: &str| format!("2026-11-30T{clock}Z");
        let seen = Wakeable {
            phase,
            pause_started: Some(STARTED.parse().expect("a time")),
            last_request: stamp.map(|clock| time(clock).parse().expect("a stamp")),
        };
        assert_eq!(need(seen, time(now).parse().expect("a time")), expected);
    }

    /// T-12: one that lies too far ahead hides none that counts.
    #[rstest]
    #[case::the_later(&["10:00:10", "10:00:20"], Some("10:00:20"))]
    #[case::ahead(&["10:00:10", "10:01:30"], Some("10:01:30"))]
    #[case::too_far_ahead(&["10:00:10", "10:01:31"], Some("10:00:10"))]
    #[case::all_too_far_ahead(&["10:05:00", "11:00:00"], None)]
    #[case::none(&[], None)]
    fn the_newest_that_counts(#[case] clocks: &[&str], #[case] expected: Option<&str>) {
        let stamp = |clock: &str| {
            format!("2026-11-30T{clock}.000000Z")
                .parse()
                .expect("a stamp")
        };
        let stamps = clocks.iter().map(|clock| Some(stamp(clock)));
        let now = "2026-11-30T10:00:30Z".parse().expect("a time");
        let started = Some(STARTED.parse().expect("a time"));
        assert_eq!(newest(stamps, started, now), expected.map(stamp));
    }

    /// T-127: a stamp in whole seconds counts for the pause that began within
    /// its second, so it isn't asked for twice.
    #[test]
    fn whole_seconds_count_in_doubt() {
        let seen = Wakeable {
            phase: Phase::Paused,
            pause_started: Some("2026-11-30T10:00:00.9Z".parse().expect("a time")),
            last_request: Some("2026-11-30T10:00:00Z".parse().expect("a stamp")),
        };
        let now = "2026-11-30T10:00:30Z".parse().expect("a time");
        assert_eq!(need(seen, now), Need::Nothing);
    }
}
