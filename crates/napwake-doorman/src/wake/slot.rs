//! A workload's slot: its pending wake, and its newest stamp.
//!
//! Owns that each workload has one pending wake at a time, which whoever asks in the
//! same pause joins (T-62), on whichever of its routes, and what is known of its stamps
//! before the watch shows them.

use std::sync::Arc;

use jiff::Timestamp;
use napwake_api::stamp::{RequestKind, Stamp};
use napwake_gate::allowance::OverRate;
use napwake_gate::places::WorkloadKey;
use napwake_gate::wake::{self as rule, Need};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedMutexGuard};
use tokio::time::Instant;

use super::Asker;
use crate::routes::{Pause, RouteHandle, ServiceKey, Serving, Workload};

/// Why a pending wake isn't written yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// LIMIT-11 to LIMIT-14.
    OverRate(OverRate),
    /// The API server refused it, or couldn't be reached (T-112).
    Unwritten(Arc<str>),
}

/// What a workload's pending wake and newest stamp are kept in. It lives as long as
/// the workload is known.
#[derive(Debug, Default)]
pub struct Slot {
    pub(super) state: Mutex<SlotState>,
    /// Whose click is being carried out.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// A click's turn: no other's begins before this is dropped.
pub(super) type ClickTurn = OwnedMutexGuard<()>;

#[derive(Debug, Default)]
pub(super) struct SlotState {
    /// The newest stamp written here: the watch shows it a little later.
    pub(super) stamped: Option<Stamp>,
    /// The stamp that the watch shows.
    shown: Option<Stamp>,
    pending: Option<Pending>,
    /// Whether the workload isn't known any more.
    is_gone: bool,
}

/// A wake from one pause that isn't written yet.
#[derive(Debug)]
pub(super) struct Pending {
    pause: Pause,
    /// Who asked for it, for each route once. The first whose route still wakes counts.
    joiners: Vec<Joiner>,
    /// When the last of those who asked stops waiting.
    until: Instant,
    pub(super) obstacle: Option<Obstacle>,
    /// Told when somebody joins who may be allowed what others weren't.
    joined: Arc<Notify>,
}

/// Somebody who asked, and on which route.
#[derive(Debug, Clone)]
pub(super) struct Joiner {
    pub(super) asker: Asker,
    pub(super) route: RouteHandle,
}

/// A wake that somebody wants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) workload: &'a WorkloadKey,
    pub(super) pause: Pause,
    pub(super) asker: Asker,
    pub(super) route: &'a RouteHandle,
    pub(super) until: Instant,
}

impl Slot {
    /// The newest stamp that was written here.
    pub fn stamped(&self) -> Option<Stamp> {
        self.state.lock().stamped
    }

    /// Its ManagedWorkload is gone. Whoever is still held for it goes on holding this.
    pub fn leave(&self) {
        self.state.lock().is_gone = true;
    }

    /// Whether its ManagedWorkload is gone.
    pub fn is_gone(&self) -> bool {
        self.state.lock().is_gone
    }

    /// The watch shows this stamp now. One of ours that it has shown and shows no more was
    /// taken away (T-95): the operator may not have seen it either.
    pub fn shows(&self, stamp: Option<Stamp>) {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.shown, stamp);
        if before != stamp && before == state.stamped {
            state.stamped = None;
        }
    }

    /// Whether a wake from this pause is to be written that couldn't be yet.
    pub fn is_pending(&self, pause: Pause) -> bool {
        self.state.lock().pending(pause).is_some()
    }

    /// Waits until nobody else's click is being carried out. Cancel-safe.
    pub(super) async fn turn(&self) -> ClickTurn {
        Arc::clone(&self.turn).lock_owned().await
    }

    /// Joins a wake that is pending already (T-62); whether one is.
    pub(super) fn join(&self, wanted: Wanted<'_>) -> bool {
        let mut state = self.state.lock();
        let pending = state.pending(wanted.pause);
        pending.map(|pending| pending.join(wanted)).is_some()
    }

    /// Remembers what keeps the pending wake of `workload` from being written, and
    /// tells of it once.
    pub(super) fn stands_in_the_way(
        &self,
        workload: &WorkloadKey,
        pause: Pause,
        obstacle: Obstacle,
    ) {
        let mut state = self.state.lock();
        let Some(pending) = state.pending(pause) else {
            return;
        };
        if pending.obstacle.as_ref() == Some(&obstacle) {
            return;
        }
        let error = match &obstacle {
            Obstacle::Unwritten(error) => Some(Arc::clone(error)),
            // That is the caller's own doing.
            Obstacle::OverRate(_) => None,
        };
        pending.obstacle = Some(obstacle);
        drop(state);
        if let Some(error) = error {
            tracing::warn!(
                namespace = workload.namespace(),
                workload = workload.name(),
                error = &*error,
                "a wake can't be written, trying on"
            );
        }
    }

    /// What keeps the pending wake from being written, if anything does.
    pub fn obstacle(&self) -> Option<Obstacle> {
        let state = self.state.lock();
        state.pending.as_ref()?.obstacle.clone()
    }
}

impl Joiner {
    pub(super) fn new(wanted: Wanted<'_>) -> Self {
        Self {
            asker: wanted.asker,
            route: wanted.route.clone(),
        }
    }

    /// The workload, if this route still wakes it from that pause for such an asker.
    fn wakes(&self, workload: &WorkloadKey, pause: Pause) -> Option<Arc<Workload>> {
        let route = self.route.now();
        let is_it = |one: &&Arc<Workload>| one.key == *workload && one.state.pause() == Some(pause);
        let found = match self.asker.kind {
            // A click wakes in either mode (T-75).
            RequestKind::Click if route.serving == Serving::Live => {
                route.workloads.iter().find(is_it)
            }
            RequestKind::Click => None,
            _ => route.wakes().find(is_it),
        };
        found.map(Arc::clone)
    }

    /// The Service that it came by.
    pub(super) fn service(&self) -> ServiceKey {
        self.route.now().key.service.clone()
    }

    fn is_like(&self, wanted: &Wanted<'_>) -> bool {
        let clicks = [self.asker, wanted.asker].map(|one| one.kind == RequestKind::Click);
        clicks[0] == clicks[1] && self.route.is_same(wanted.route)
    }
}

impl Pending {
    /// One more wants the same. Where the first one's source is over its rate,
    /// the newcomer's may not be.
    fn join(&mut self, wanted: Wanted<'_>) {
        self.until = self.until.max(wanted.until);
        let over = matches!(self.obstacle, Some(Obstacle::OverRate(OverRate::Source)));
        let first = self.joiners.first().map(|one| one.asker.source);
        let known = self.joiners.iter().position(|one| one.is_like(&wanted));
        if over && first != Some(wanted.asker.source) {
            if let Some(known) = known {
                self.joiners.remove(known);
            }
            self.joiners.insert(0, Joiner::new(wanted));
            self.joined.notify_one();
        } else if known.is_none() {
            self.joiners.push(Joiner::new(wanted));
        }
    }

    /// For whom it is to be written: the first of those who asked whose route still
    /// wakes. None once nobody who asked would still be there.
    pub(super) fn awaited(&self, workload: &WorkloadKey) -> Option<(Joiner, Arc<Workload>)> {
        if self.until <= Instant::now() {
            return None;
        }
        self.joiners.iter().find_map(|joiner| {
            let workload = joiner.wakes(workload, self.pause)?;
            Some((joiner.clone(), workload))
        })
    }

    /// Whether that is a late view of an earlier pause.
    fn outdates(&self, wanted: &Wanted<'_>) -> bool {
        self.pause.started_at > wanted.pause.started_at && self.awaited(wanted.workload).is_some()
    }
}

impl SlotState {
    /// The newest stamp of this workload that counts, whoever wrote it.
    fn newest(&self, workload: &Workload, now: Timestamp) -> Option<Stamp> {
        let seen = workload.last_request.as_ref().map(|request| request.stamp);
        rule::newest([seen, self.stamped], started_at(workload), now)
    }

    pub(super) fn need(&self, workload: &Workload, now: Timestamp) -> Need {
        let seen = rule::Wakeable {
            phase: workload.state.phase(),
            pause_started: started_at(workload),
            last_request: self.newest(workload, now),
        };
        rule::need(seen, now)
    }

    /// The wake that is pending for this pause. One of another pause is as good as none.
    pub(super) fn pending(&mut self, pause: Pause) -> Option<&mut Pending> {
        self.pending.as_mut().filter(|one| one.pause == pause)
    }

    /// Joins what is pending for that pause (T-62). If nothing is, it is from now on,
    /// for whoever asks to see to: it's given what is told when somebody joins.
    pub(super) fn join_or_begin(&mut self, wanted: Wanted<'_>) -> Option<Arc<Notify>> {
        if let Some(pending) = self.pending(wanted.pause) {
            pending.join(wanted);
            return None;
        }
        if self
            .pending
            .as_ref()
            .is_some_and(|one| one.outdates(&wanted))
        {
            return None;
        }
        let joined = Arc::new(Notify::new());
        self.pending = Some(Pending {
            pause: wanted.pause,
            joiners: vec![Joiner::new(wanted)],
            until: wanted.until,
            obstacle: None,
            joined: Arc::clone(&joined),
        });
        Some(joined)
    }

    /// Nothing is pending any more for this pause.
    pub(super) fn end(&mut self, pause: Pause) {
        if self.pending(pause).is_some() {
            self.pending = None;
        }
    }

    /// No click waits for it any more; whether a request does.
    pub(super) fn end_clicks(&mut self, pause: Pause) -> bool {
        let Some(pending) = self.pending(pause) else {
            return false;
        };
        let joiners = &mut pending.joiners;
        joiners.retain(|one| one.asker.kind != RequestKind::Click);
        let rest = !joiners.is_empty();
        if !rest {
            self.pending = None;
        }
        rest
    }
}

fn started_at(workload: &Workload) -> Option<Timestamp> {
    workload.state.pause().map(|pause| pause.started_at)
}
