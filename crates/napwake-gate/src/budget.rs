//! The budget: how many bytes of held callers the doorman keeps.
//!
//! Owns what may be read next from each of them, and the line of those who wait
//! for more. Reads nothing itself, and never decides what a caller is: whoever
//! may read no more of one judges it by what there is (T-44).

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

use crate::line::{Line, Serve, Ticket, wake};

/// How many bytes may be read, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The first of each connection, which don't count (LIMIT-23).
    pub free: usize,
    /// Counted from one connection, so after the free ones (LIMIT-21, T-45).
    pub each: usize,
    /// Counted from all held connections together (LIMIT-22).
    pub all: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            free: 8 * 1024,
            each: 1024 * 1024,
            all: 32 * 1024 * 1024,
        }
    }
}

/// The budget of one doorman pod. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget {
    limits: Limits,
    pool: Arc<Mutex<Pool>>,
}

#[derive(Debug)]
struct Pool {
    /// Counted bytes that nobody has.
    left: usize,
    /// Bytes that connections have, counted or not.
    held: usize,
    /// Those who wait, each with how much it wanted.
    line: Line<usize, usize>,
}

impl Pool {
    /// Puts counted bytes back, and hands them on to those who wait.
    #[must_use]
    fn put_back(&mut self, counted: usize) -> Vec<Waker> {
        self.left += counted;
        let Self { left, line, .. } = self;
        line.serve(|wanted| match (*wanted).min(*left) {
            0 => Serve::Stop,
            granted => {
                *left -= granted;
                Serve::Grant(granted)
            }
        })
    }
}

impl Budget {
    /// All of it unused.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            pool: Arc::new(Mutex::new(Pool {
                left: limits.all,
                held: 0,
                line: Line::default(),
            })),
        }
    }

    /// The share of one connection, which has read nothing yet.
    pub fn share(&self) -> Share {
        Share {
            budget: self.clone(),
            taken: 0,
            ahead: 0,
            wanted: 0,
        }
    }

    /// How many bytes of all connections are kept, the uncounted ones included.
    pub fn held(&self) -> usize {
        self.pool.lock().held
    }

    /// How many of them count.
    pub fn counted(&self) -> usize {
        self.limits.all - self.pool.lock().left
    }
}

/// What one connection took of the budget. Dropping it gives everything back;
/// it goes with the last of the bytes.
#[must_use]
#[derive(Debug)]
pub struct Share {
    budget: Budget,
    /// Bytes taken and not given back, the uncounted first ones included.
    taken: usize,
    /// Counted bytes granted while waiting, not taken yet.
    ahead: usize,
    /// How many counted bytes the last refused [`Share::take`] wanted.
    wanted: usize,
}

impl Share {
    /// Takes up to `want` bytes, and says how many may be read. To be asked for
    /// when there is something to read, and [given back](Self::give_back) where
    /// less was read.
    ///
    /// 0: the pool is empty, and [`freed`](Self::freed) tells when it no longer
    /// is; or this connection has had all it may have.
    pub fn take(&mut self, want: usize) -> usize {
        let Limits { free, each, .. } = self.budget.limits;
        let want = want.min((free + each).saturating_sub(self.taken));
        let uncounted = want.min(free.saturating_sub(self.taken));
        let wanted = want - uncounted;

        let mut pool = self.budget.pool.lock();
        pool.left += std::mem::take(&mut self.ahead);
        let counted = wanted.min(pool.left);
        pool.left -= counted;
        pool.held += uncounted + counted;
        let woken = pool.put_back(0);
        drop(pool);
        wake(woken);

        self.taken += uncounted + counted;
        self.wanted = wanted - counted;
        uncounted + counted
    }

    /// Gives back `bytes` of those taken, the last ones first.
    pub fn give_back(&mut self, bytes: usize) {
        let bytes = bytes.min(self.taken);
        let before = self.counted();
        self.taken -= bytes;
        let counted = before - self.counted();

        let mut pool = self.budget.pool.lock();
        pool.held -= bytes;
        let woken = pool.put_back(counted);
        drop(pool);
        wake(woken);
    }

    /// Completes when [`take`](Self::take) may give more, so at once if bytes
    /// were freed since it gave none, and never if this connection has had all
    /// it may have (LIMIT-25). Those who came first get theirs first.
    ///
    /// What was granted is kept for this connection until it takes it, so it is
    /// to take it at once. Dropping the future gives up.
    pub fn freed(&mut self) -> Freed<'_> {
        Freed {
            share: self,
            ticket: None,
        }
    }

    /// How many bytes were taken and not given back.
    pub const fn taken(&self) -> usize {
        self.taken
    }

    fn counted(&self) -> usize {
        self.taken.saturating_sub(self.budget.limits.free)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut pool = self.budget.pool.lock();
        pool.held -= self.taken;
        let woken = pool.put_back(self.counted() + self.ahead);
        drop(pool);
        wake(woken);
    }
}

/// Waits for bytes; see [`Share::freed`].
#[must_use]
#[derive(Debug)]
pub struct Freed<'a> {
    share: &'a mut Share,
    ticket: Option<Ticket>,
}

impl Future for Freed<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.share.ahead > 0 {
            return Poll::Ready(());
        }
        if this.share.wanted == 0 {
            return Poll::Pending;
        }
        let mut pool = this.share.budget.pool.lock();
        let granted = match this.ticket {
            Some(ticket) => pool.line.fetch(ticket, context.waker()).unwrap_or(0),
            None => this.share.wanted.min(pool.left),
        };
        if granted > 0 {
            if this.ticket.take().is_none() {
                pool.left -= granted;
            }
            this.share.ahead = granted;
            return Poll::Ready(());
        }
        if this.ticket.is_none() {
            let wanted = this.share.wanted;
            this.ticket = Some(pool.line.join(wanted, context.waker().clone()));
        }
        Poll::Pending
    }
}

impl Drop for Freed<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut pool = self.share.budget.pool.lock();
        let granted = pool.line.leave(ticket).unwrap_or(0);
        let woken = pool.put_back(granted);
        drop(pool);
        wake(woken);
    }
}

#[cfg(test)]
mod tests;
