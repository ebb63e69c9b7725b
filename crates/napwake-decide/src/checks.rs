//! Which connect checks are needed, and when a failed one is repeated.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::{
    timing::{self, after},
    world::{Check, CheckOutcome, Listener},
};

/// How a listener stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It listens.
    Nothing,
    /// It's to be checked now.
    Now,
    /// It was silent, and is to be checked again then.
    At(Timestamp),
}

/// How a listener stands, for a route that was opened at `opened`: an older
/// check tells of an earlier listener (ROUTE-79).
///
/// A route that opens only later was opened by another clock, of an operator that
/// led before: whatever was checked by this one counts.
pub(crate) fn need(
    checks: &BTreeMap<Listener, Check>,
    listener: &Listener,
    opened: Timestamp,
    now: Timestamp,
) -> Need {
    let counts = |check: &&Check| check.at >= opened || opened > now;
    let Some(check) = checks.get(listener).filter(counts) else {
        return Need::Now;
    };
    if check.outcome == CheckOutcome::Listening {
        return Need::Nothing;
    }
    let is_new = now < after(opened, timing::ROUTING_BOUND);
    let wait = if is_new {
        soon(check, opened)
    } else {
        timing::CHECK_LATER
    };
    match after(check.at, wait) {
        again if again <= now => Need::Now,
        again => Need::At(again),
    }
}

/// How soon a check is repeated that found nobody listening for a new route.
fn soon(check: &Check, opened: Timestamp) -> SignedDuration {
    let (first, last) = timing::CHECK_SOON;
    if check.at < opened {
        return last; // Opened by another clock: its age can't be told.
    }
    check.at.duration_since(opened).clamp(first, last)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::never_checked(None, 100, 100_000, Need::Now)]
    #[case::from_before_it_opened(Some((99, CheckOutcome::Listening)), 100, 100_000, Need::Now)]
    #[case::opened_by_a_clock_ahead(Some((99, CheckOutcome::Listening)), 3700, 100_000, Need::Nothing)]
    #[case::silent_by_then(Some((99, CheckOutcome::Silent)), 3700, 99_100, Need::At(millis(99_250)))]
    #[case::listens(Some((100, CheckOutcome::Listening)), 100, 900_000, Need::Nothing)]
    #[case::soon(Some((101, CheckOutcome::Silent)), 100, 101_000, Need::At(millis(101_250)))]
    #[case::due(Some((101, CheckOutcome::Silent)), 100, 101_250, Need::Now)]
    #[case::later(Some((120, CheckOutcome::Silent)), 100, 120_250, Need::At(millis(125_000)))]
    fn a_check_is_asked_for(
        #[case] check: Option<(i64, CheckOutcome)>,
        #[case] opened: i64,
        #[case] now: i64,
        #[case] expected: Need,
    ) {
        let listener = Listener {
            pod: "uid".to_owned(),
            address: [10, 0, 0, 1].into(),
            port: 20_000,
        };
        let checks = check
            .map(|(at, outcome)| {
                let at = millis(at * 1000);
                (listener.clone(), Check { at, outcome })
            })
            .into_iter()
            .collect();
        let need = need(&checks, &listener, millis(opened * 1000), millis(now));
        assert_eq!(need, expected);
    }

    #[rstest]
    #[case::at_once(0, 20)]
    #[case::in_a_moment(30, 30)]
    #[case::in_a_while(100, 100)]
    #[case::at_last(900, 250)]
    #[case::by_a_clock_ahead(-900, 250)]
    fn what_opens_is_checked_again_soon(#[case] age: i64, #[case] expected: i64) {
        let check = Check {
            at: millis(age),
            outcome: CheckOutcome::Silent,
        };
        let wait = soon(&check, millis(0));
        assert_eq!(wait, SignedDuration::from_millis(expected));
    }

    fn millis(at: i64) -> Timestamp {
        Timestamp::from_millisecond(at).expect("in range")
    }
}
