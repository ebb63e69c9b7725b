//! A workload's slot: its pending wake, and its newest stamp.
//!
//! Owns that each workload has one pending wake at a time, which whoever asks
//! meanwhile joins (T-62), and what is known of its stamps before the watch shows
//! them.

use std::sync::Arc;

use jiff::Timestamp;
use napwake_api::stamp::Stamp;
use napwake_gate::allowance::OverRate;
use napwake_gate::places::WorkloadKey;
use napwake_gate::wake::{self as rule, Need};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Asker;
use crate::routes::Workload;

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
    /// Told when somebody joins who may be allowed what others weren't.
    pub(super) joined: Notify,
}

#[derive(Debug, Default)]
pub(super) struct SlotState {
    /// The newest stamp written here: the watch shows it a little later.
    pub(super) stamped: Option<Stamp>,
    pub(super) pending: Option<Pending>,
}

#[derive(Debug)]
pub(super) struct Pending {
    pub(super) asker: Asker,
    /// When the last of those who asked stops waiting.
    pub(super) until: Instant,
    pub(super) obstacle: Option<Obstacle>,
}

impl Slot {
    /// The newest stamp that was written here.
    pub fn stamped(&self) -> Option<Stamp> {
        self.state.lock().stamped
    }

    /// Whether a wake is to be written that couldn't be yet.
    pub fn is_pending(&self) -> bool {
        self.state.lock().pending.is_some()
    }

    /// Joins a wake that is pending already (T-62); whether one is.
    pub(super) fn join(&self, asker: Asker, until: Instant) -> bool {
        let mut state = self.state.lock();
        let Some(pending) = &mut state.pending else {
            return false;
        };
        pending.join(asker, until, &self.joined);
        true
    }

    /// Remembers what keeps the pending wake of `workload` from being written, and
    /// tells of it once.
    pub(super) fn stands_in_the_way(&self, workload: &WorkloadKey, obstacle: Obstacle) {
        let mut state = self.state.lock();
        let Some(pending) = &mut state.pending else {
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

impl Pending {
    /// One more wants the same. Where the first one's source is over its rate,
    /// the newcomer's may not be.
    pub(super) fn join(&mut self, asker: Asker, until: Instant, joined: &Notify) {
        self.until = self.until.max(until);
        let over = matches!(self.obstacle, Some(Obstacle::OverRate(OverRate::Source)));
        if over && asker.source != self.asker.source {
            self.asker = asker;
            joined.notify_one();
        }
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

    /// Whether the pause under way was stamped, so that another stamp refreshes
    /// it and wakes nothing.
    pub(super) fn is_stamped(&self, workload: &Workload, now: Timestamp) -> bool {
        self.newest(workload, now)
            .zip(started_at(workload))
            .is_some_and(|(stamp, started)| stamp.is_newer_than(started))
    }
}

fn started_at(workload: &Workload) -> Option<Timestamp> {
    workload.state.pause().map(|pause| pause.started_at)
}
