//! How routes are served by what ManagedWorkloads list, and whose a port is.
//!
//! Owns the rules of the doorman's port table. Opens nothing, and reads no clock:
//! the present is passed in, as whoever asks measures it.

use std::{collections::BTreeMap, ops::Add, time::Duration};

use jiff::Timestamp;
use napwake_api::workload::{Route, RouteState};

use crate::drain::{ROUTE_LISTENS, ROUTE_PASSES};

/// How far a ManagedWorkload says that a route is. One that is being opened is
/// served like any other: the operator connects to it as a check (ROUTE-79).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// It is served.
    Live,
    /// It is on its way out, and served until then at most.
    Draining(Option<Timestamp>),
}

impl Listed {
    /// Reads what a status lists.
    pub fn read(route: &Route) -> Self {
        match route.state {
            RouteState::Opening | RouteState::Routed => Self::Live,
            RouteState::Draining => {
                Self::Draining(route.draining_until.as_ref().map(|until| until.0))
            }
        }
    }
}

/// How a route is served, by a steady clock whose instants are `I`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Serving<I> {
    /// It holds, wakes and passes.
    Live,
    /// It passes and wakes nothing (DRAIN-17 to DRAIN-19).
    Draining(Drain<I>),
}

/// The two ends of a draining route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Drain<I> {
    /// When its port closes (DRAIN-17).
    pub closes: I,
    /// When connections passing through are cut (DRAIN-25).
    pub cuts: I,
}

/// The present, on both clocks: the steady one for spans, the wall clock to
/// read what the operator wrote.
#[derive(Clone, Copy, Debug)]
pub struct Now<I> {
    /// The steady clock.
    pub instant: I,
    /// The wall clock.
    pub time: Timestamp,
}

/// An instant of a steady clock.
pub trait Instant: Copy + Ord + Add<Duration, Output = Self> {}

impl<I: Copy + Ord + Add<Duration, Output = I>> Instant for I {}

impl<I: Instant> Serving<I> {
    /// How a route is served that everybody in `listed` lists, and that was served
    /// as `before`: it drains once each of them says so, or nobody lists it any
    /// more (DRAIN-17, T-111).
    ///
    /// Where it was served before, its drain begins now, by the steady clock: the
    /// end that the operator wrote is by another machine's clock, which may differ
    /// from ours by more than the drain is long (T-12, DRAIN-17). That end counts
    /// for a doorman that finds the drain as it starts. A port's rest of a minute
    /// covers both.
    pub fn next(
        listed: impl IntoIterator<Item = Listed>,
        before: Option<Self>,
        now: Now<I>,
    ) -> Self {
        let mut recorded = None;
        for one in listed {
            match one {
                Listed::Live => return Self::Live,
                Listed::Draining(until) => recorded = recorded.max(until),
            }
        }
        Self::Draining(match (before, recorded) {
            (Some(Self::Draining(drain)), _) => drain,
            (None, Some(until)) => Drain::until(until, now),
            (Some(Self::Live), _) | (None, None) => Drain::beginning(now.instant),
        })
    }

    /// Whether its port is open.
    pub fn is_open(self, now: I) -> bool {
        match self {
            Self::Live => true,
            Self::Draining(drain) => now < drain.closes,
        }
    }

    /// When connections passing through are cut, if the route drains.
    pub const fn cuts(self) -> Option<I> {
        match self {
            Self::Live => None,
            Self::Draining(drain) => Some(drain.cuts),
        }
    }
}

impl<I: Instant> Drain<I> {
    /// A drain that begins now.
    fn beginning(now: I) -> Self {
        Self {
            closes: now + ROUTE_LISTENS,
            cuts: now + ROUTE_PASSES,
        }
    }

    /// A drain that was under way before this doorman: the operator ends it at
    /// `until`.
    fn until(until: Timestamp, now: Now<I>) -> Self {
        let left = Duration::try_from(until.duration_since(now.time)).unwrap_or_default();
        let closes = now.instant + left.min(ROUTE_LISTENS);
        Self {
            closes,
            cuts: closes + ROUTE_PASSES.saturating_sub(ROUTE_LISTENS),
        }
    }
}

/// Whose each port is, of the routes that are open there; `has_it` says whether a route
/// has had the port until now.
///
/// Two at once can only be a drain and its successor, a mistake, or a status that
/// somebody forged. The one that has the port keeps it to the end of its drain, for its
/// callers come there; then a live route wins, then the order of names.
pub fn holders<K: Copy + Ord, I: Instant>(
    open: impl IntoIterator<Item = (u16, (Serving<I>, K))>,
    has_it: impl Fn(u16, K) -> bool,
) -> BTreeMap<u16, K> {
    let mut ports: BTreeMap<u16, (Serving<I>, K)> = BTreeMap::new();
    for (port, route) in open {
        let rank = |(serving, key)| {
            let drains = matches!(serving, Serving::Draining::<I>(_));
            (!has_it(port, key), drains, key)
        };
        let holder = ports.entry(port).or_insert(route);
        if rank(route) < rank(*holder) {
            *holder = route;
        }
    }
    let holders = ports.into_iter().map(|(port, (_, key))| (port, key));
    holders.collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).expect("in range")
    }

    fn drains_until(second: i64) -> Serving<Timestamp> {
        Serving::Draining(Drain {
            closes: at(second),
            cuts: at(second) + Duration::from_secs(270),
        })
    }

    /// DRAIN-17, T-111, T-76: a route is served for as long as anybody lists it as
    /// live, and 30 s from when that ends, by whatever clock.
    #[rstest]
    #[case::live(&[Listed::Live], None, Serving::Live)]
    #[case::live_for_one_of_two(&[Listed::Draining(Some(at(9))), Listed::Live], None, Serving::Live)]
    #[case::taken_back(&[Listed::Live], Some(drains_until(5)), Serving::Live)]
    #[case::drains(&[Listed::Draining(Some(at(9)))], Some(Serving::Live), drains_until(30))]
    #[case::drains_on(&[Listed::Draining(Some(at(9)))], Some(drains_until(5)), drains_until(5))]
    #[case::unlisted(&[], Some(Serving::Live), drains_until(30))]
    #[case::unlisted_in_its_drain(&[], Some(drains_until(5)), drains_until(5))]
    #[case::found_draining(&[Listed::Draining(Some(at(9)))], None, drains_until(9))]
    #[case::found_drained(&[Listed::Draining(Some(at(-9)))], None, drains_until(0))]
    #[case::found_draining_for_two(&[Listed::Draining(Some(at(9))), Listed::Draining(Some(at(12)))], None, drains_until(12))]
    #[case::by_a_clock_ahead(&[Listed::Draining(Some(at(900)))], None, drains_until(30))]
    fn how_a_route_is_served(
        #[case] listed: &[Listed],
        #[case] before: Option<Serving<Timestamp>>,
        #[case] expected: Serving<Timestamp>,
    ) {
        let now = Now {
            instant: at(0),
            time: at(0),
        };
        let next = Serving::next(listed.iter().copied(), before, now);
        assert_eq!(next, expected);
    }

    /// Of the routes on a port the one that has had it keeps it, though it drains; then
    /// one that lives has it, then the first by name.
    #[rstest]
    #[case::one(&[("api", Serving::Live)], "", Some("api"))]
    #[case::by_name(&[("worker", Serving::Live), ("api", Serving::Live)], "", Some("api"))]
    #[case::has_it(&[("worker", Serving::Live), ("api", Serving::Live)], "worker", Some("worker"))]
    #[case::has_it_and_drains(&[("worker", Serving::Live), ("api", drains_until(5))], "api", Some("api"))]
    #[case::lives(&[("worker", Serving::Live), ("api", drains_until(5))], "", Some("worker"))]
    #[case::none(&[], "api", None)]
    fn whose_a_port_is(
        #[case] open: &[(&str, Serving<Timestamp>)],
        #[case] before: &str,
        #[case] expected: Option<&str>,
    ) {
        let other = (20_002, (Serving::Live, "other"));
        let routes = open
            .iter()
            .map(|(name, serving)| (20_001, (*serving, *name)));
        let holders = holders(routes.chain([other]), |port, key| {
            port == 20_001 && key == before
        });
        assert_eq!(holders.get(&20_001).copied(), expected);
        assert_eq!(holders.get(&20_002), Some(&"other"));
    }
}
