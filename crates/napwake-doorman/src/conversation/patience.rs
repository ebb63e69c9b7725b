//! What a held caller waits beside: its own leaving, its deadline, the end of
//! the process.
//!
//! Owns that these end every wait alike. Knows nothing of what is waited for.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use napwake_net::intake::IntakeEvent;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::budget::Caller;
use crate::pods::{self, Look, Outlook};
use crate::routes::{Route, RouteHandle};

/// Why a wait ended without what was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Impatience {
    /// The caller left (HOLD-33 to HOLD-36).
    Left,
    /// It was held as long as it may be (HOLD-26).
    TimedOut,
    /// The process ends (T-84).
    Stopped,
}

/// Until when, and until what, one may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience<'a> {
    pub(super) until: Instant,
    pub(super) cut: &'a CancellationToken,
}

impl Patience<'_> {
    /// Waits for `wanted`, reading on from the caller meanwhile. It is pinned by
    /// whoever asks: taken by value it would count twice in what a held caller
    /// costs.
    pub(super) async fn wait<T>(
        self,
        caller: &mut Caller,
        mut wanted: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, Impatience> {
        loop {
            if let Some(got) = self.wait_or_hear(caller, wanted.as_mut()).await? {
                return Ok(got);
            }
        }
    }

    /// The same for one that isn't held, for it found a Ready pod when it came: if it
    /// shuts its sending side, which can't be told from a close, it has said all it has
    /// to say, and its end is passed on like what it sent (T-58).
    pub(super) async fn wait_unheld<T>(
        self,
        caller: &mut Caller,
        mut wanted: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, Impatience> {
        let mut is_shut = false;
        loop {
            tokio::select! {
                biased;
                event = caller.next(), if !is_shut => match event {
                    IntakeEvent::Reset => return Err(Impatience::Left),
                    IntakeEvent::Shut => is_shut = true,
                    IntakeEvent::Bytes => {}
                },
                () = sleep_until(self.until) => return Err(Impatience::TimedOut),
                () = self.cut.cancelled() => return Err(Impatience::Stopped),
                got = &mut wanted => return Ok(got),
            }
        }
    }

    /// As [`Patience::wait`], but ends with nothing as soon as the caller has sent more.
    pub(super) async fn wait_or_hear<T>(
        self,
        caller: &mut Caller,
        wanted: Pin<&mut impl Future<Output = T>>,
    ) -> Result<Option<T>, Impatience> {
        tokio::select! {
            // A caller that left, or whose time is up, is never passed on,
            // even if a pod is Ready at the same moment.
            biased;
            event = caller.next() => match event {
                IntakeEvent::Shut | IntakeEvent::Reset => Err(Impatience::Left),
                IntakeEvent::Bytes => Ok(None),
            },
            () = sleep_until(self.until) => Err(Impatience::TimedOut),
            () = self.cut.cancelled() => Err(Impatience::Stopped),
            got = wanted => Ok(Some(got)),
        }
    }
}

/// Sees where a route stands, and when that changes.
#[derive(Debug)]
pub(super) struct Watcher {
    route: RouteHandle,
    look: Look,
}

impl Watcher {
    pub(super) fn new(route: &RouteHandle) -> Self {
        Self {
            route: route.clone(),
            look: route.look(),
        }
    }

    /// The route, and whether one of its pods is Ready, as things are now.
    /// [`Watcher::changed`] waits for something newer.
    pub(super) fn latest(&mut self) -> (Arc<Route>, Outlook) {
        let route = self.route.latest();
        let outlook = pods::outlook(&route, &self.look.seen());
        (route, outlook)
    }

    /// Whether a pod is Ready now.
    pub(super) fn is_ready(&mut self) -> bool {
        matches!(self.latest().1, Outlook::Ready(_))
    }

    /// Waits for something newer than [`Watcher::latest`] gave. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        tokio::select! {
            () = self.route.changed() => {}
            () = self.look.changed() => {}
        }
    }

    /// Waits for anything but these Ready addresses. Cancel-safe.
    pub(super) async fn other_than(&mut self, ready: &[SocketAddr]) {
        loop {
            self.changed().await;
            match self.latest().1 {
                Outlook::Ready(now) if now == ready => {}
                _ => return,
            }
        }
    }
}
