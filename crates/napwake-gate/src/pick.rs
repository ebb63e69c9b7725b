//! Which of a Service's Ready endpoints are dialed next.
//!
//! Owns the spread of connections over them, and that one which just refused is
//! left until the others were tried. Never says which are Ready, and dials none.

use std::{collections::HashMap, net::SocketAddr};

use parking_lot::Mutex;

use crate::{Moment, deadline::DIAL_RETRY};

/// How one route's connections are spread over its endpoints. They share it.
#[derive(Debug, Default)]
pub struct Spread(Mutex<Record>);

#[derive(Debug, Default)]
struct Record {
    next: usize,
    refused: HashMap<SocketAddr, Moment>,
}

/// What one connection has tried, and when last.
#[derive(Clone, Debug, Default)]
pub struct Tries(Vec<(SocketAddr, Moment)>);

impl Tries {
    /// Nothing tried yet.
    pub fn none() -> Self {
        Self::default()
    }

    fn last(&self, endpoint: SocketAddr) -> Option<Moment> {
        let tried = self.0.iter().find(|(tried, _)| *tried == endpoint);
        tried.map(|(_, at)| *at)
    }

    fn note(&mut self, endpoints: &[SocketAddr], now: Moment) {
        self.0.retain(|(tried, _)| !endpoints.contains(tried));
        self.0
            .extend(endpoints.iter().map(|endpoint| (*endpoint, now)));
    }
}

/// What to dial next.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// These, in this order; at least one. They count as tried.
    Dial(Vec<SocketAddr>),
    /// All Ready ones were just tried: again at this time, or when there are others.
    Wait(Moment),
    /// Wait until one is Ready.
    NoneReady,
}

impl Spread {
    /// That of a route of whose endpoints nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// What a connection dials next, of those that are `ready`: up to `most` at
    /// a time, which must be above 0.
    ///
    /// Each connection begins with another endpoint, and dials each at most once
    /// a second (HOLD-21). Those that somebody saw refuse within the last second
    /// come last, then those that it tried most lately itself.
    pub fn next(&self, ready: &[SocketAddr], tries: &mut Tries, most: usize, now: Moment) -> Next {
        // Kept for its second even if it isn't Ready for a moment.
        tries
            .0
            .retain(|(tried, at)| ready.contains(tried) || is_recent(*at, now));
        let again_at = |endpoint: &SocketAddr| tries.last(*endpoint).map(|at| at.plus(DIAL_RETRY));
        let is_due = |endpoint: &&SocketAddr| again_at(endpoint).is_none_or(|at| at <= now);
        let mut due: Vec<_> = ready.iter().filter(is_due).copied().collect();
        if due.is_empty() {
            let soonest = ready.iter().filter_map(again_at).min();
            return soonest.map_or(Next::NoneReady, Next::Wait);
        }
        self.put_in_turn(&mut due, tries, now);
        due.truncate(most.max(1));
        tries.note(&due, now);
        Next::Dial(due)
    }

    /// An endpoint refused a connection, or couldn't be reached.
    pub fn refused(&self, endpoint: SocketAddr, now: Moment) {
        let mut record = self.0.lock();
        record.refused.retain(|_, at| is_recent(*at, now));
        record.refused.insert(endpoint, now);
    }

    fn put_in_turn(&self, endpoints: &mut [SocketAddr], tries: &Tries, now: Moment) {
        let mut record = self.0.lock();
        let turn = record.next.checked_rem(endpoints.len()).unwrap_or(0);
        record.next = record.next.wrapping_add(1);
        endpoints.rotate_left(turn);
        // Stable, so the turn holds among equals.
        endpoints.sort_by_key(|endpoint| {
            let refused = record.refused.get(endpoint);
            (
                refused.is_some_and(|at| is_recent(*at, now)),
                tries.last(*endpoint),
            )
        });
    }
}

/// Whether something of that time still keeps an endpoint from being dialed.
fn is_recent(then: Moment, now: Moment) -> bool {
    now < then.plus(DIAL_RETRY)
}

#[cfg(test)]
mod tests;
