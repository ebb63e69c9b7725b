//! Endings: of a doorman pod that stops, of a route that is removed, and of a
//! connection that is passed.
//!
//! Owns the phases as functions of time. Closes nothing.

use std::time::Duration;

use crate::Moment;

/// How long after SIGTERM new connections are accepted (DRAIN-11).
pub const POD_ACCEPTS: Duration = Duration::from_secs(15);

/// How long after SIGTERM the process ends (DRAIN-13).
pub const POD_ENDS: Duration = Duration::from_secs(25);

/// How long the port of a removed route is served (DRAIN-17).
pub const ROUTE_LISTENS: Duration = Duration::from_secs(30);

/// How long connections of a removed route go on (DRAIN-25).
pub const ROUTE_PASSES: Duration = Duration::from_mins(5);

/// How long a passed connection may carry nothing either way (LIMIT-26).
pub const IDLE: Duration = Duration::from_mins(10);

/// A doorman pod that was told to stop. It isn't Ready from that moment on
/// (DRAIN-04).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopping {
    since: Moment,
}

/// How far a stopping pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopPhase {
    /// It accepts, holds and passes as ever.
    Accepting,
    /// It accepts nothing more; what it has goes on (DRAIN-12).
    Finishing,
    /// What is still open is closed: the held with nothing sent (T-84).
    Over,
}

impl Stopping {
    /// Told to stop at `since`, by SIGTERM (T-82).
    pub const fn since(since: Moment) -> Self {
        Self { since }
    }

    /// How far it is.
    pub fn phase(self, now: Moment) -> StopPhase {
        if now < self.accepts_until() {
            StopPhase::Accepting
        } else if now < self.ends_at() {
            StopPhase::Finishing
        } else {
            StopPhase::Over
        }
    }

    /// When it stops accepting.
    pub const fn accepts_until(self) -> Moment {
        self.since.plus(POD_ACCEPTS)
    }

    /// When it ends.
    pub const fn ends_at(self) -> Moment {
        self.since.plus(POD_ENDS)
    }
}

/// A route that was removed. If the workload pauses again, the drain is over
/// and its limits with it (T-78).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draining {
    since: Moment,
}

/// How far a removed route is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrainPhase {
    /// Its port is open: strays are passed or held, waking nothing (DRAIN-18, DRAIN-19).
    Listening,
    /// Its port is closed; connections it has go on (T-80).
    Passing,
    /// Those that were passed are closed.
    Over,
}

impl Draining {
    /// Removed at `since`.
    pub const fn since(since: Moment) -> Self {
        Self { since }
    }

    /// How far it is.
    pub fn phase(self, now: Moment) -> DrainPhase {
        if now < self.listens_until() {
            DrainPhase::Listening
        } else if now < self.passes_until() {
            DrainPhase::Passing
        } else {
            DrainPhase::Over
        }
    }

    /// When its port is closed.
    pub const fn listens_until(self) -> Moment {
        self.since.plus(ROUTE_LISTENS)
    }

    /// When the last of the connections that it passed are closed. Those still
    /// held have their own deadline (T-79).
    pub const fn passes_until(self) -> Moment {
        self.since.plus(ROUTE_PASSES)
    }
}

/// When a passed connection is closed, if nothing more passes: after ten idle
/// minutes or five of the drain, whichever comes first (T-81).
pub fn closed_at(last_byte: Moment, draining: Option<Draining>) -> Moment {
    let idle = last_byte.plus(IDLE);
    draining.map_or(idle, |route| idle.min(route.passes_until()))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn at(secs: u64) -> Moment {
        Moment::new(Duration::from_secs(secs))
    }

    /// T-82: 15 s accepting, 25 s in all.
    #[rstest]
    #[case(0, StopPhase::Accepting)]
    #[case(14, StopPhase::Accepting)]
    #[case(15, StopPhase::Finishing)]
    #[case(24, StopPhase::Finishing)]
    #[case(25, StopPhase::Over)]
    #[case(10_000, StopPhase::Over)]
    fn a_pod_stops_in_steps(#[case] after: u64, #[case] phase: StopPhase) {
        assert_eq!(Stopping::since(at(100)).phase(at(100 + after)), phase);
    }

    /// T-80: the port is served 30 s, connections live 5 min.
    #[rstest]
    #[case(0, DrainPhase::Listening)]
    #[case(29, DrainPhase::Listening)]
    #[case(30, DrainPhase::Passing)]
    #[case(299, DrainPhase::Passing)]
    #[case(300, DrainPhase::Over)]
    fn a_route_drains_in_steps(#[case] after: u64, #[case] phase: DrainPhase) {
        assert_eq!(Draining::since(at(100)).phase(at(100 + after)), phase);
    }

    /// T-81: ten idle minutes or five of the drain,
    /// whichever comes first. T-78: without a drain, only the first.
    #[rstest]
    #[case::not_draining(1_000, None, 1_600)]
    #[case::drain_first(1_000, Some(900), 1_200)]
    #[case::idle_first(1_000, Some(1_400), 1_600)]
    fn a_passed_connection_ends(
        #[case] last_byte: u64,
        #[case] drained: Option<u64>,
        #[case] expected: u64,
    ) {
        let draining = drained.map(|since| Draining::since(at(since)));
        assert_eq!(closed_at(at(last_byte), draining), at(expected));
    }
}
