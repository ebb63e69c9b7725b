//! Workloads that Napwake doesn't manage: why, and what it undoes of its own
//! before it leaves them alone (T-136).

use napwake_api::workload::Phase;

use crate::{draft::Draft, owners::Standing, settle::Settled};

/// Leaves the workload alone.
///
/// One that Napwake has paused and that is kept out since, or was taken over by
/// another controller, gets its replicas back first: nobody is left at 0. A
/// suspended one stays exactly as it is; it counts as paused again when that
/// ends.
pub(super) fn step(s: &Settled, draft: &mut Draft) {
    draft.status.phase = Some(Phase::Running);
    draft.status.pause = None;
    draft.status.resume = None;
    if let Some(clock) = &mut draft.status.clock {
        // Being managed again counts as becoming Running.
        clock.running_since = None;
        clock.idle_at = None;
    }
    let Some(target) = s.target else {
        draft.status.target = None;
        return;
    };
    match (&s.standing, s.is_asleep()) {
        (Standing::Ignored | Standing::Owned(_), true) => {
            draft.scale_up(s, target);
            return;
        }
        (Standing::Ignored | Standing::Owned(_), false) => draft.mark(target, None),
        // By the mark it's known again later.
        (Standing::Suspended, true) => draft.mark(target, Some(s.replicas_before())),
        _ => {}
    }
    draft.record(target);
}

#[cfg(test)]
#[path = "aside_tests.rs"]
mod tests;
