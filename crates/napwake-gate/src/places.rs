//! Places: how many connections are held and passed at once, per doorman pod,
//! workload and source.
//!
//! Owns the counts and the line of those who wait to be passed. Each place is a
//! guard: dropping it gives it back, by whatever path a connection ends. Never
//! closes anything itself.

mod book;
mod keys;

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use parking_lot::Mutex;

use book::Book;
pub use book::OverCap;
pub use keys::{Source, WorkloadKey};

use crate::line::{Ticket, wake};

/// How many connections may be held and passed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// Held by this doorman pod (LIMIT-01).
    pub held: usize,
    /// Held for one workload (LIMIT-02).
    pub held_per_workload: usize,
    /// Held from one source (LIMIT-03).
    pub held_per_source: usize,
    /// Held from one source for one workload (LIMIT-04).
    pub held_per_source_and_workload: usize,
    /// Passed by this doorman pod (LIMIT-06).
    pub passed: usize,
    /// Passed from one source (LIMIT-07).
    pub passed_per_source: usize,
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            held: 2048,
            held_per_workload: 256,
            held_per_source: 1024,
            held_per_source_and_workload: 128,
            passed: 1024,
            passed_per_source: 512,
        }
    }
}

/// The places of one doorman pod. Clones share them.
#[derive(Clone, Debug)]
pub struct Places(Arc<Mutex<Book>>);

impl Places {
    /// All of them free.
    pub fn new(caps: Caps) -> Self {
        Self(Arc::new(Mutex::new(Book::new(caps))))
    }

    /// Takes a held place, for a connection that was just accepted: browsers
    /// and callers of unknown kind need one too (T-27, T-125). It counts for
    /// each of `workloads`, those behind the route (T-114).
    ///
    /// On an error the connection is closed at once, unread (LIMIT-05).
    pub fn hold(
        &self,
        source: Source,
        workloads: impl Into<Arc<[WorkloadKey]>>,
    ) -> Result<HeldPlace, OverCap> {
        let workloads = workloads.into();
        self.0.lock().hold(source, &workloads)?;
        Ok(HeldPlace {
            book: Arc::clone(&self.0),
            source,
            workloads,
        })
    }

    /// How many connections are held.
    pub fn held(&self) -> usize {
        self.0.lock().held()
    }

    /// How many connections are passed, or being dialed for.
    pub fn passed(&self) -> usize {
        self.0.lock().passed()
    }
}

/// A held place. Dropping it gives it back.
#[must_use]
#[derive(Debug)]
pub struct HeldPlace {
    book: Arc<Mutex<Book>>,
    source: Source,
    workloads: Arc<[WorkloadKey]>,
}

impl HeldPlace {
    /// Where the connection comes from.
    pub const fn source(&self) -> Source {
        self.source
    }

    /// A passed place beside this one, if one is free now (LIMIT-06, LIMIT-07).
    ///
    /// While its pod is being dialed a connection has both places. Once it is
    /// passed it drops the held one, with [`PassedPlace::instead_of`]; if the
    /// dial fails it drops the passed one, and is held as before.
    pub fn try_pass(&self) -> Option<PassedPlace> {
        let taken = self.book.lock().try_pass(self.source);
        taken.then(|| PassedPlace::new(&self.book, self.source))
    }

    /// The same, as soon as one is free: those who came first get theirs first,
    /// and one who waits for its own source's cap holds up nobody else
    /// (LIMIT-08). Dropping the future gives up.
    pub fn pass(&self) -> WaitToPass {
        WaitToPass {
            book: Arc::clone(&self.book),
            source: self.source,
            ticket: None,
        }
    }
}

impl Drop for HeldPlace {
    fn drop(&mut self) {
        self.book.lock().leave_hold(self.source, &self.workloads);
    }
}

/// A passed place. Dropping it gives it back.
#[must_use]
#[derive(Debug)]
pub struct PassedPlace {
    book: Arc<Mutex<Book>>,
    source: Source,
}

impl PassedPlace {
    fn new(book: &Arc<Mutex<Book>>, source: Source) -> Self {
        Self {
            book: Arc::clone(book),
            source,
        }
    }

    /// The connection is passed and no longer held.
    pub fn instead_of(self, held: HeldPlace) -> Self {
        drop(held);
        self
    }
}

impl Drop for PassedPlace {
    fn drop(&mut self) {
        let woken = self.book.lock().leave_pass(self.source);
        wake(woken);
    }
}

/// Waits for a passed place; see [`HeldPlace::pass`].
#[must_use]
#[derive(Debug)]
pub struct WaitToPass {
    book: Arc<Mutex<Book>>,
    source: Source,
    ticket: Option<Ticket>,
}

impl Future for WaitToPass {
    type Output = PassedPlace;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<PassedPlace> {
        let this = &mut *self;
        let mut book = this.book.lock();
        let taken = match this.ticket {
            Some(ticket) => book.line.fetch(ticket, context.waker()).is_some(),
            None => book.try_pass(this.source),
        };
        if taken {
            this.ticket = None;
            drop(book);
            return Poll::Ready(PassedPlace::new(&this.book, this.source));
        }
        if this.ticket.is_none() {
            this.ticket = Some(book.line.join(this.source, context.waker().clone()));
        }
        Poll::Pending
    }
}

impl Drop for WaitToPass {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let granted = self.book.lock().line.leave(ticket).is_some();
        if granted {
            // Granted, and never fetched: the next in line gets it.
            drop(PassedPlace::new(&self.book, self.source));
        }
    }
}

#[cfg(test)]
mod tests;
