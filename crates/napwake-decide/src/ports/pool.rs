//! The doorman ports by their last use, so that the next one is found without
//! looking at all of them.
//!
//! Owns no names: who has a port for what is the ledger's.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use napwake_api::names::DOORMAN_PORTS;

/// How many ports there are.
const COUNT: u16 = *DOORMAN_PORTS.end() - *DOORMAN_PORTS.start() + 1;

/// Ports of which none, one or several owners keep something.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    /// How many owners have a port for a route.
    taken: BTreeMap<u16, usize>,
    /// When each port that ever rested is or was free again.
    freed: BTreeMap<u16, Timestamp>,
    /// The same, of those that nobody has for a route, the earliest first.
    idle: BTreeSet<(Timestamp, u16)>,
    /// Those that are taken or ever rested.
    touched: Bits,
}

impl Pool {
    /// An owner has the port for a route.
    pub(super) fn take(&mut self, port: u16) {
        *self.taken.entry(port).or_default() += 1;
        if let Some(until) = self.freed.get(&port) {
            self.idle.remove(&(*until, port));
        }
        self.touched.set(port, true);
    }

    /// An owner that had it for a route hasn't any more.
    pub(super) fn let_go(&mut self, port: u16) {
        let left = self.taken.get(&port).map_or(0, |owners| owners - 1);
        if left > 0 {
            self.taken.insert(port, left);
            return;
        }
        self.taken.remove(&port);
        match self.freed.get(&port) {
            Some(until) => drop(self.idle.insert((*until, port))),
            None => self.touched.set(port, false),
        }
    }

    /// It rests, or has rested, until then.
    pub(super) fn rest(&mut self, port: u16, until: Timestamp) {
        if let Some(before) = self.freed.insert(port, until) {
            self.idle.remove(&(before, port));
        }
        if !self.taken.contains_key(&port) {
            self.idle.insert((until, port));
        }
        self.touched.set(port, true);
    }

    /// A port that was never used, from `start` on and round to it.
    pub(super) fn untouched(&self, start: u16, but: &BTreeSet<u16>) -> Option<u16> {
        self.touched
            .unset_from(start)
            .find(|port| !but.contains(port))
    }

    /// The others that nobody has for a route, the one unused longest first, each
    /// with when it is or was free again.
    pub(super) fn idle(&self) -> impl Iterator<Item = (Timestamp, u16)> + '_ {
        self.idle.iter().copied()
    }
}

const WORDS: usize = (COUNT as usize).div_ceil(64);

/// A bit for each port. Ports outside of the range have none.
#[derive(Clone, Debug)]
struct Bits([u64; WORDS]);

impl Default for Bits {
    fn default() -> Self {
        Self([0; WORDS])
    }
}

/// The word and the bit of a port.
fn place(port: u16) -> Option<(usize, u64)> {
    DOORMAN_PORTS.contains(&port).then(|| {
        let offset = port - DOORMAN_PORTS.start();
        (usize::from(offset / 64), 1 << (offset % 64))
    })
}

impl Bits {
    fn set(&mut self, port: u16, value: bool) {
        let word = place(port).and_then(|(word, bit)| Some((self.0.get_mut(word)?, bit)));
        match word {
            Some((word, bit)) if value => *word |= bit,
            Some((word, bit)) => *word &= !bit,
            None => {}
        }
    }

    /// Those that aren't set, from `start` on and round to it.
    fn unset_from(&self, start: u16) -> impl Iterator<Item = u16> + '_ {
        let (first, last) = DOORMAN_PORTS.into_inner();
        self.unset(start, last).chain(
            self.unset(first, last)
                .take_while(move |port| *port < start),
        )
    }

    /// Those from `first` to `last` that aren't set. Words without any are skipped
    /// whole: with nearly all ports in use, nearly all are.
    fn unset(&self, first: u16, last: u16) -> impl Iterator<Item = u16> + '_ {
        let words = (0..).step_by(64).zip(&self.0);
        words
            .filter(|(_, word)| **word != u64::MAX)
            .flat_map(|(base, word)| {
                let bits = (0..64).filter(move |bit| word & (1 << bit) == 0);
                bits.map(move |bit| *DOORMAN_PORTS.start() + base + bit)
            })
            .skip_while(move |port| *port < first)
            .take_while(move |port| *port <= last)
    }
}

#[cfg(test)]
impl Pool {
    /// The port is never given.
    pub(super) fn bar(&mut self, port: u16) {
        self.touched.set(port, true);
    }

    /// When each port that ever rested is or was free again.
    pub(super) fn freed(&self) -> &BTreeMap<u16, Timestamp> {
        &self.freed
    }

    /// That a port of so many takers is found where it belongs, and nowhere else.
    pub(super) fn check(&self, port: u16, takers: usize) {
        assert_eq!(
            self.taken.get(&port).copied().unwrap_or(0),
            takers,
            "{port}"
        );
        let freed = self.freed.get(&port);
        let idle: Vec<_> = self.idle.iter().filter(|(_, idle)| *idle == port).collect();
        let expected: Vec<_> = freed.filter(|_| takers == 0).into_iter().collect();
        assert!(idle.iter().map(|(until, _)| until).eq(expected), "{port}");
        let untouched = self.touched.unset(port, port).next() == Some(port);
        assert_eq!(untouched, takers == 0 && freed.is_none(), "{port}");
    }
}
