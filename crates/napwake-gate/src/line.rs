//! A line of those who wait for something scarce, served in the order they came.
//!
//! Owns the order, and what was granted but not fetched yet. What is granted,
//! and when, is its user's to say. A waiter that gives up loses nothing for the
//! others: what it was granted comes back.

use std::{collections::BTreeMap, task::Waker};

/// A place in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// What becomes of one waiter when there is something to give.
pub(crate) enum Serve<G> {
    /// It gets this.
    Grant(G),
    /// Not this one; ask the next.
    Skip,
    /// Nothing is left for anybody.
    Stop,
}

/// Those who want an `R`, and what they get, a `G`.
#[derive(Debug)]
pub(crate) struct Line<R, G> {
    next: u64,
    waiting: BTreeMap<Ticket, (R, Waker)>,
    granted: BTreeMap<Ticket, G>,
}

impl<R, G> Default for Line<R, G> {
    fn default() -> Self {
        Self {
            next: 0,
            waiting: BTreeMap::new(),
            granted: BTreeMap::new(),
        }
    }
}

impl<R, G> Line<R, G> {
    /// Joins the end of the line.
    pub(crate) fn join(&mut self, request: R, waker: Waker) -> Ticket {
        let ticket = Ticket(self.next);
        self.next += 1;
        self.waiting.insert(ticket, (request, waker));
        ticket
    }

    /// Fetches what was granted. If nothing was yet, `waker` is the one to wake.
    pub(crate) fn fetch(&mut self, ticket: Ticket, waker: &Waker) -> Option<G> {
        if let Some((_, stored)) = self.waiting.get_mut(&ticket) {
            stored.clone_from(waker);
        }
        self.granted.remove(&ticket)
    }

    /// Leaves the line, with what was granted and not fetched.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Option<G> {
        self.waiting.remove(&ticket);
        self.granted.remove(&ticket)
    }

    /// Offers what there is to each in turn. The wakers are to be woken once no
    /// lock is held.
    #[must_use]
    pub(crate) fn serve(&mut self, mut offer: impl FnMut(&R) -> Serve<G>) -> Vec<Waker> {
        let mut served = Vec::new();
        for (ticket, (request, _)) in &self.waiting {
            match offer(request) {
                Serve::Grant(grant) => served.push((*ticket, grant)),
                Serve::Skip => {}
                Serve::Stop => break,
            }
        }
        let mut wakers = Vec::with_capacity(served.len());
        for (ticket, grant) in served {
            wakers.extend(self.waiting.remove(&ticket).map(|(_, waker)| waker));
            self.granted.insert(ticket, grant);
        }
        wakers
    }

    /// How many wait, for tests.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

/// Wakes all of `wakers`. No lock may be held: a woken task may run at once.
pub(crate) fn wake(wakers: Vec<Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}
