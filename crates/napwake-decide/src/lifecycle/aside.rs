//! Workloads that Napwake doesn't manage: why, and what it undoes of its own
//! before it leaves them alone (T-136).

use napwake_api::workload::Phase;

use crate::{draft::Draft, owners::Standing, settle::Settled};

/// Whether a workload that is to be left alone is woken first, as one whose
/// ManagedWorkload is deleted: nobody is left at 0, and its routes stand until a
/// pod is Ready, so that nobody is refused meanwhile.
///
/// One that is suspended asleep stays exactly as it is; it counts as paused again
/// when that ends.
pub(super) fn is_woken_first(s: &Settled) -> bool {
    let is_under_way = s.status().pause.is_some()
        && matches!(
            s.phase(),
            Some(Phase::Pausing | Phase::Paused | Phase::Resuming)
        );
    match (&s.standing, s.is_asleep()) {
        (Standing::Ignored | Standing::Owned(_), true) => true,
        (Standing::Ignored | Standing::Owned(_) | Standing::Suspended, false) => is_under_way,
        _ => false,
    }
}

/// Leaves the workload alone.
pub(super) fn step(s: &Settled, draft: &mut Draft) {
    draft.status.phase = Some(Phase::Running);
    draft.status.pause = None;
    draft.status.resume = None;
    let has_routes = s.status().doorman.as_ref();
    let has_routes = has_routes.is_some_and(|doorman| !doorman.routes.is_empty());
    if let Some(clock) = &mut draft.status.clock {
        // Being managed again counts as becoming Running. Until then it tells for
        // how long the slices of one that was woken first may stay.
        if !has_routes {
            clock.running_since = None;
        }
        clock.idle_at = None;
    }
    let Some(target) = s.target else {
        draft.status.target = None;
        return;
    };
    match (&s.standing, s.is_asleep()) {
        (Standing::Ignored | Standing::Owned(_), _) => draft.mark(target, None),
        // By the mark it's known again later.
        (Standing::Suspended, true) => draft.mark(target, Some(s.replicas_before())),
        _ => {}
    }
    draft.record(target);
}

#[cfg(test)]
#[path = "aside_tests.rs"]
mod tests;
