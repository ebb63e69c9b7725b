//! Every span that a decision goes by and that nobody sets.

use jiff::{SignedDuration, Timestamp};
use napwake_api::agreed;

/// How long routing may take from the start of a pause. After that the pause
/// goes on with whatever is routed (ROUTE-38).
pub const ROUTING_BOUND: SignedDuration = SignedDuration::from_secs(15);

/// How long the doorman's pods that listen already wait for the others before
/// the slices are written without those.
pub const LAGGARD_BOUND: SignedDuration = SignedDuration::from_secs(3);

/// How soon a failed connect check is repeated at first, and after a while, as long as
/// its route is new: within [`ROUTING_BOUND`] of its opening. In between, after as long
/// as the route had been open.
///
/// A doorman pod listens some milliseconds after the route was written, and often just
/// after the first check.
pub const CHECK_SOON: (SignedDuration, SignedDuration) = (
    SignedDuration::from_millis(20),
    SignedDuration::from_millis(250),
);

/// How soon a failed connect check is repeated later.
pub const CHECK_LATER: SignedDuration = SignedDuration::from_secs(5);

/// How long slices stand before the pods stop, even with a lookout of 0s.
///
/// kube-proxy programs its rules at most once a second and usually within two
/// (F-37). A pod stopped before that would be all that a node knows of, and
/// refuse (ROUTE-13). Readers that lag by more, as ingress controllers do by up
/// to five seconds (F-53), go on to pods that end gracefully, and have the
/// default lookout of 30s.
pub const SLICE_SETTLES: SignedDuration = SignedDuration::from_secs(3);

/// How long after the start of a pause the scale-down waits for the target's
/// controller to take note of the mark.
///
/// A Deployment's does so within milliseconds, and writes that down in the
/// target: a scale-down on the version before would be refused. One that takes
/// longer is perhaps not there, and holds no pause up.
pub const MARK_BOUND: SignedDuration = SignedDuration::from_secs(5);

/// How long slices stay at most, from when the workload is Running, while the
/// Service's own name no Ready pod.
///
/// The EndpointSlice controller writes those by itself, and usually has by then.
/// When hundreds wake together, or it backs off, it lags by seconds (F-35). In a
/// family in which the pods have no address it never writes any.
pub const HAND_OVER_BOUND: SignedDuration = SignedDuration::from_secs(30);

/// How soon a Service's own slices are read again at first, and after a while: in
/// between, after as long as the workload has been Running. That's a dozen reads
/// at most, and slices stay up to twice as long as they have to.
pub const READ_AGAIN: (SignedDuration, SignedDuration) = (
    SignedDuration::from_millis(250),
    SignedDuration::from_secs(5),
);

/// How soon it's read again who serves a Service that other workloads' pods serve
/// (ROUTE-36): a moment before the half minute is over in which it's to be routed
/// once they are gone (ROUTE-33).
pub const OTHERS_AGAIN: SignedDuration = SignedDuration::from_secs(29);

/// How long a route that leaves is still served (DRAIN-17).
pub const DRAIN: SignedDuration = agreed::ROUTE_DRAIN.signed();

/// How long before and after a drain's end its own workload takes another port, if there
/// is one, rather than that one back (T-78).
///
/// A doorman pod that hears late of the new route listens there all the same, for the
/// old one, and stops as that one's drain ends: a connect check that found it would have
/// sent callers to a closed port. A pod hears of it within this time, or its drain began
/// so late.
pub const DRAIN_ENDS: SignedDuration = SignedDuration::from_secs(10);

/// How long a port rests after that (DRAIN-21).
pub const REST: SignedDuration = SignedDuration::from_secs(60);

/// How long an uninstall waits for a Ready pod of what it woke, so that callers
/// who are held meanwhile are served. That nobody is left at 0 is promised; that
/// everybody is Ready isn't, and an uninstall has five minutes in all.
pub const READY_BEFORE_THE_END: SignedDuration = SignedDuration::from_mins(1);

/// How far a stamp may lie in the future, for clocks differ (T-12).
pub const SKEW: SignedDuration = agreed::CLOCK_SKEW.signed();

/// When to look again at something unknown, though no watch has told of it.
pub const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(2);

/// When to count pods again that are still stopping.
pub const COUNT_AGAIN: SignedDuration = SignedDuration::from_secs(5);

/// When to ask again for doorman ports after there were too few (T-118).
pub const PORTS_AGAIN: SignedDuration = SignedDuration::from_secs(30);

/// The first wait before a refused slice write is tried again (ROUTE-74).
const RETRY_FIRST: SignedDuration = SignedDuration::from_secs(5);

/// The longest such wait (ROUTE-74).
const RETRY_LAST: SignedDuration = SignedDuration::from_secs(5 * 60);

/// How long to wait after the `count`th failure in a row: 5 s, doubling, up to
/// 5 min (ROUTE-74).
pub fn retry_after(count: u32) -> SignedDuration {
    let doublings = count.saturating_sub(1).min(16);
    RETRY_FIRST
        .checked_mul(1 << doublings)
        .map_or(RETRY_LAST, |wait| wait.min(RETRY_LAST))
}

/// How long a slice has to stand as it was written before whatever alters it isn't
/// one who fights over it.
pub const SLICE_HOLDS: SignedDuration = SignedDuration::from_secs(10);

/// `span` after `time`, or the end of time.
pub fn after(time: Timestamp, span: SignedDuration) -> Timestamp {
    time.checked_add(span).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// ROUTE-74: attempts start 5 s apart, grow, and stay at or below 5 min.
    #[rstest]
    #[case(1, 5)]
    #[case(2, 10)]
    #[case(3, 20)]
    #[case(6, 160)]
    #[case(7, 300)]
    #[case(u32::MAX, 300)]
    fn retries_back_off(#[case] count: u32, #[case] seconds: i64) {
        assert_eq!(retry_after(count).as_secs(), seconds);
    }
}
