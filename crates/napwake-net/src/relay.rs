//! Carrying bytes between a caller and a target until the connection ends.
//!
//! Owns a connection from the moment it is passed on: both directions, each
//! side's end, the idle limit, the deadline, and the account of how it ended. It
//! never interprets a byte; a [`Tap`] may look at the caller's first ones.
//!
//! Small exchanges are copied, through a scratch space that exists only during a
//! poll. Bulk is spliced, through pipes lent by [`Pipes`]. So an idle connection
//! owns no buffer at all, and a stalled one just what its reader didn't take.

mod flow;
mod pipes;
mod tap;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use self::flow::{Flow, FlowError};
pub use self::pipes::Pipes;
pub use self::tap::{TAP_LIMIT, Tap, TapVerdict};
use crate::kernel::{UNTAKEN, bound_passed, bound_untaken};
use crate::linger::{self, LingerLimits};
use crate::transport::Stream;
use crate::watched::Watched;

/// What bounds a relayed connection.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Ends a connection that carried nothing either way for this long
    /// (LIMIT-26, T-116). Keep-alive probes carry nothing.
    pub idle: Duration,
    /// Ends the connection at that time, whatever it carries; it may be set,
    /// moved and taken back later (DRAIN-25). A closed channel keeps its value.
    pub deadline: watch::Receiver<Option<Instant>>,
    /// Ends the connection at once.
    pub stop: CancellationToken,
    /// Where bulk gets its pipes from.
    pub pipes: Pipes,
}

/// The two ends of a relayed connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Who connected.
    Caller,
    /// Who was dialed.
    Target,
}

/// Why a relayed connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Both sides shut their sending side, `first` being the first to.
    Closed {
        /// Who began.
        first: Side,
    },
    /// A side reset the connection, or it broke there.
    Failed {
        /// Whose connection.
        side: Side,
        /// What the kernel said.
        kind: io::ErrorKind,
    },
    /// Nothing passed either way for the idle limit.
    Idle,
    /// The deadline passed.
    Deadline,
    /// It was stopped.
    Stopped,
}

/// The account of a relayed connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Bytes delivered to the target.
    pub to_target: u64,
    /// Bytes delivered to the caller.
    pub to_caller: u64,
    /// Why it ended.
    pub ending: Ending,
}

/// Relays between `caller` and `target` until the connection ends, and closes
/// both.
///
/// When one side shuts its sending side, that is relayed and the other direction
/// lives on (T-58). When one side fails, what it had sent is still delivered,
/// and the other learns of it by a close. `tap` sees the caller's first bytes as
/// they pass. Dropping the future closes both sides.
///
/// The future is some 900 bytes: box it where it follows other stages.
pub fn relay<A: Stream, B: Stream>(
    caller: A,
    target: B,
    limits: Limits,
    tap: Option<Tap>,
) -> impl Future<Output = Outcome> + Send {
    let Limits {
        idle,
        deadline,
        stop,
        pipes,
    } = limits;
    let mut bounds = Bounds {
        idle,
        deadline,
        stop,
    };
    bound_passed(&caller);
    bound_passed(&target);
    let mut engine = Engine::new(caller, target, pipes, tap);
    // Nothing but these two is kept across a wait: the rest is boxed, if needed.
    async move {
        let ending = bounds.watch(&mut engine).await;
        let (outcome, farewell) = engine.finish(ending);
        if let Some(farewell) = farewell {
            farewell.await;
        }
        outcome
    }
}

/// The limits of one connection.
struct Bounds {
    idle: Duration,
    deadline: watch::Receiver<Option<Instant>>,
    stop: CancellationToken,
}

impl Bounds {
    /// Runs the engine until it, or one of the limits, ends the connection.
    async fn watch<A: Stream, B: Stream>(&mut self, engine: &mut Engine<A, B>) -> Ending {
        let mut may_change = true;
        loop {
            let deadline = *self.deadline.borrow_and_update();
            let idle_at = engine.last_activity() + self.idle;
            let wake_at = deadline.map_or(idle_at, |deadline| deadline.min(idle_at));
            tokio::select! {
                // The limits come first: an engine that always has something to
                // move uses up the task's share of the runtime, and theirs with it.
                biased;
                () = self.stop.cancelled() => return Ending::Stopped,
                changed = self.deadline.changed(), if may_change => may_change = changed.is_ok(),
                () = sleep_until(wake_at) => {
                    let now = Instant::now();
                    if deadline.is_some_and(|deadline| deadline <= now) {
                        return Ending::Deadline;
                    }
                    // Activity moves the limit without touching the timer.
                    if engine.last_activity() + self.idle <= now {
                        return Ending::Idle;
                    }
                }
                ending = std::future::poll_fn(|cx| engine.poll(cx)) => return ending,
            }
        }
    }
}

/// Both directions of a connection.
struct Engine<A, B> {
    caller: Watched<A>,
    target: Watched<B>,
    up: Flow,
    down: Flow,
    tap: Option<Tap>,
    pipes: Pipes,
    /// Who ended first, in order or by failing.
    first: Option<Ending>,
}

impl<A: Stream, B: Stream> Engine<A, B> {
    fn new(caller: A, target: B, pipes: Pipes, tap: Option<Tap>) -> Self {
        Self {
            caller: Watched::new(caller),
            target: Watched::new(target),
            up: Flow::default(),
            down: Flow::default(),
            tap,
            pipes,
            first: None,
        }
    }

    fn last_activity(&self) -> Instant {
        self.caller.traffic().last.max(self.target.traffic().last)
    }

    /// Moves what can be moved, both ways.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        if let Poll::Ready(result) = self.up.poll(
            cx,
            &mut self.caller,
            &mut self.target,
            &mut self.tap,
            &self.pipes,
        ) {
            self.tap = None;
            if self.ended(result, Side::Caller, Side::Target) {
                return Poll::Ready(self.ending());
            }
        }
        if let Poll::Ready(result) = self.down.poll(
            cx,
            &mut self.target,
            &mut self.caller,
            &mut None,
            &self.pipes,
        ) && self.ended(result, Side::Target, Side::Caller)
        {
            return Poll::Ready(self.ending());
        }
        if self.up.is_over() && self.down.is_over() {
            return Poll::Ready(self.ending());
        }
        Poll::Pending
    }

    /// Notes how one direction ended, and says whether the other must end, too.
    fn ended(&mut self, result: Result<(), FlowError>, from: Side, to: Side) -> bool {
        let (ending, both) = match result {
            Ok(()) => (Ending::Closed { first: from }, false),
            // Whoever can't be read from is gone.
            Err(FlowError::Read(kind)) => (Ending::Failed { side: from, kind }, true),
            // Whoever can't be written to may have sent an answer first, still
            // unread here: that comes through before the other direction ends.
            Err(FlowError::Write(kind)) => (Ending::Failed { side: to, kind }, false),
        };
        match self.first {
            None => self.first = Some(ending),
            // A failure tells more than who closed first.
            Some(Ending::Closed { .. }) if matches!(ending, Ending::Failed { .. }) => {
                self.first = Some(ending);
            }
            Some(_) => {}
        }
        both
    }

    fn ending(&self) -> Ending {
        self.first.unwrap_or(Ending::Stopped)
    }

    /// Closes both sides, the caller's perhaps only after a farewell, and gives
    /// the account.
    fn finish(
        self,
        ending: Ending,
    ) -> (
        Outcome,
        Option<Pin<Box<impl Future<Output = ()> + Send + use<A, B>>>>,
    ) {
        let outcome = Outcome {
            to_target: self.target.traffic().written,
            to_caller: self.caller.traffic().written,
            ending,
        };
        bound_untaken(&self.caller, UNTAKEN);
        bound_untaken(&self.target, UNTAKEN);
        // A target may answer and close while the caller still sends. Closing at
        // once would reset the caller, and could lose it that answer.
        let stays = matches!(
            ending,
            Ending::Failed {
                side: Side::Target,
                ..
            }
        );
        let mut caller = self.caller.into_inner();
        let farewell = stays.then(|| {
            Box::pin(async move {
                linger::farewell(&mut caller, LingerLimits::default()).await;
            })
        });
        (outcome, farewell)
    }
}

#[cfg(test)]
mod tcp_tests;
#[cfg(test)]
mod tests;
