//! A ManagedWorkload that is being deleted: its workload is woken first, its
//! routes drain, its ports rest (T-86, T-130).

use napwake_api::workload::{ActivitySource, Phase};

use super::{become_resuming, become_running};
use crate::{
    draft::Draft,
    settle::Settled,
    timing::{self, after},
    world::{Target, Tenure},
};

/// Wakes the workload if Napwake has paused it, and waits for a Ready pod for
/// as long as a caller could have been held.
pub(super) fn wake_first(s: &Settled, target: &Target, draft: &mut Draft) {
    if s.is_asleep() {
        draft.scale_up(s, target);
        become_resuming(s.now, ActivitySource::Command, draft);
        return;
    }
    draft.mark(target, None);
    draft.record(target);
    match s.phase() {
        _ if target.replicas == 0 || s.is_ready() => leave(s, target, draft),
        Some(Phase::Pausing | Phase::Paused) => {
            become_resuming(s.now, ActivitySource::Command, draft);
        }
        Some(Phase::Resuming) => await_ready(s, target, draft),
        Some(Phase::Running) | None => leave(s, target, draft),
    }
}

/// The finalizer doesn't outlast a broken workload by more than `maxWait`: by
/// then every caller that was held has been let go of. An uninstall can't wait
/// for each workload's own.
fn await_ready(s: &Settled, target: &Target, draft: &mut Draft) {
    let started = draft
        .status
        .resume
        .as_ref()
        .map(|resume| resume.started_at.0);
    let max_wait = s.workload().spec.wake.max_wait.0.signed();
    let patience = match s.world.tenure {
        Tenure::Stays => max_wait,
        Tenure::Ends => max_wait.min(timing::READY_BEFORE_THE_END),
    };
    let until = after(started.unwrap_or(s.now), patience);
    if s.now < until {
        draft.again(until);
    } else {
        leave(s, target, draft);
    }
}

fn leave(s: &Settled, target: &Target, draft: &mut Draft) {
    if draft.status.phase != Some(Phase::Running) {
        become_running(s, target, draft);
    }
}

/// Nothing can be woken any more: the routes go at once.
pub(super) fn lost(s: &Settled, draft: &mut Draft) {
    draft.status.phase = Some(Phase::Running);
    draft.status.pause = None;
    draft.status.resume = None;
    if s.target.is_none() {
        draft.status.target = None;
    }
}

#[cfg(test)]
#[path = "leaving_tests.rs"]
mod tests;
