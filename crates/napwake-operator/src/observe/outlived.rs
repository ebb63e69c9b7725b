//! What was found out about a workload's routes and doesn't count any more.

use std::collections::BTreeSet;

use napwake_api::workload::{MicroTime, Phase};
use napwake_decide::world::WorkloadKey;

use super::{
    convert::ObservedWorkload,
    index::{Index, routes},
};

impl Index {
    /// Forgets what a change of a ManagedWorkload has outlived.
    pub(super) fn forget_outlived(
        &mut self,
        key: &WorkloadKey,
        old: Option<&ObservedWorkload>,
        new: Option<&ObservedWorkload>,
    ) {
        // Results for ports that it has given back say nothing about whoever gets them
        // next.
        let (before, after) = (ports(old), ports(new));
        for port in before.difference(&after) {
            self.checks.remove(port);
        }
        // ROUTE-40: what kept slices from standing at an earlier pause may be mended.
        // Awake, they are taken away at once.
        if course(old) != course(new) {
            self.slice_ledger.begin_anew(key);
        }
    }
}

fn ports(observed: Option<&ObservedWorkload>) -> BTreeSet<u16> {
    routes(observed).map(|route| route.doorman_port).collect()
}

/// Which pause it's in, or whether it's awake.
fn course(observed: Option<&ObservedWorkload>) -> Option<(Option<&MicroTime>, bool)> {
    observed.map(|observed| {
        let status = &observed.workload.status;
        let pause = status.pause.as_ref().map(|pause| &pause.started_at);
        (pause, status.phase == Some(Phase::Running))
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use napwake_decide::world::SliceProblem;
    use rstest::rstest;
    use serde_json::{Value, json};
    use tokio::time::Instant;

    use crate::fixtures::{index, key, workload};

    fn in_pause(phase: &str, began: &str) -> Value {
        let pause = json!({"startedAt": began, "reason": "Idle", "replicas": 1});
        json!({"status": {"phase": phase, "pause": pause}})
    }

    const FIRST: &str = "2026-11-30T10:00:00Z";

    /// ROUTE-40: what kept a slice from standing at one pause doesn't count at the next,
    /// nor once the workload is awake, where it's only to be taken away.
    #[rstest]
    #[case::asleep(in_pause("Paused", FIRST), 1)]
    #[case::on_its_way_up(in_pause("Resuming", FIRST), 1)]
    #[case::awake(json!({"status": {"phase": "Running"}}), 0)]
    #[case::another_pause(in_pause("Pausing", "2026-11-30T10:01:00Z"), 0)]
    fn failures_are_of_one_pause(#[case] next: Value, #[case] known: usize) {
        let (mut index, now) = (index(), Instant::now());
        index.apply_workload(workload("a", 1, in_pause("Pausing", FIRST)), now);
        let at = Timestamp::UNIX_EPOCH;
        let ledger = &mut index.slice_ledger;
        ledger.failed(&key("a"), "a-o1", at, SliceProblem::Foreign);
        index.apply_workload(workload("a", 2, next), now);
        assert_eq!(index.slice_ledger.failures(&key("a")).len(), known);
    }
}
