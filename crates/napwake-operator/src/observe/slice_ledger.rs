//! What came of slice writes, and what others made of them afterwards.
//!
//! A write that was answered well has come to something only if the slice stands
//! like that: a webhook may have altered it on its way, which its answer shows, or
//! a controller soon after, which the watch shows. Both count as failures here, so
//! that Napwake writes it again with a backoff and not in a race.

use std::collections::BTreeMap;

use jiff::Timestamp;
use napwake_decide::{
    slices::altered,
    timing,
    world::{Slice, SliceFailure, SliceProblem, SliceSpec, WorkloadKey},
};
use tokio::time::Instant;

use super::layered::{Key, is_older};

/// Writes of one slice in a row that others were ahead of, before that counts as a
/// failure. One such is an everyday thing, and is decided anew at once.
const CONFLICTS: u32 = 5;

/// By ManagedWorkload and slice, what came of its writes.
#[derive(Debug, Default)]
pub(crate) struct SliceLedger {
    failures: BTreeMap<WorkloadKey, BTreeMap<String, SliceFailure>>,
    /// Writes in a row that others were ahead of.
    conflicts: BTreeMap<(WorkloadKey, String), u32>,
    /// By namespace and slice, what stands as it was written, as far as is known.
    standing: BTreeMap<Key, Standing>,
}

/// A slice that was written, and by whom.
#[derive(Debug)]
struct Standing {
    workload: WorkloadKey,
    uid: String,
    version: String,
    written: Box<SliceSpec>,
    at: Timestamp,
    since: Instant,
}

impl SliceLedger {
    pub(crate) fn failures(&self, key: &WorkloadKey) -> BTreeMap<String, SliceFailure> {
        self.failures.get(key).cloned().unwrap_or_default()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn forget(&mut self, key: &WorkloadKey) {
        self.failures.remove(key);
        self.conflicts.retain(|(workload, _), _| workload != key);
        self.standing
            .retain(|_, standing| standing.workload != *key);
    }

    /// What kept its slices from standing so far counts no longer. What stands now is
    /// looked after as before.
    pub(crate) fn begin_anew(&mut self, key: &WorkloadKey) {
        self.failures.remove(key);
        self.conflicts.retain(|(workload, _), _| workload != key);
    }

    /// A write begins: what becomes of the slice from now on isn't somebody else's
    /// doing.
    pub(crate) fn begin(&mut self, namespace: &str, slice: &str) {
        self.standing
            .remove(&(namespace.to_owned(), slice.to_owned()));
    }

    /// A write failed.
    pub(crate) fn failed(
        &mut self,
        key: &WorkloadKey,
        slice: &str,
        at: Timestamp,
        why: SliceProblem,
    ) {
        self.conflicts.remove(&(key.clone(), slice.to_owned()));
        let failures = self.failures.entry(key.clone()).or_default();
        let count = failures.get(slice).map_or(0, |last| last.count);
        let failure = SliceFailure {
            at,
            count: count.saturating_add(1),
            why,
        };
        failures.insert(slice.to_owned(), failure);
    }

    /// Somebody else was ahead of a write. Says whether that was so too often.
    pub(crate) fn overtaken(&mut self, key: &WorkloadKey, slice: &str) -> bool {
        let conflicts = self.conflicts.entry((key.clone(), slice.to_owned()));
        let count = conflicts.or_insert(0);
        *count += 1;
        *count >= CONFLICTS
    }

    /// A write succeeded, and its answer was as it should be. That others have
    /// altered the slice before isn't over yet.
    pub(crate) fn written(
        &mut self,
        key: &WorkloadKey,
        written: SliceSpec,
        answer: &Slice,
        (at, since): (Timestamp, Instant),
    ) {
        let name = written.name.clone();
        self.conflicts.remove(&(key.clone(), name.clone()));
        if let Some(failures) = self.failures.get_mut(key) {
            match failures.get_mut(&name) {
                Some(failure) if is_altered(failure) => failure.at = at,
                _ => {
                    failures.remove(&name);
                }
            }
        }
        let standing = Standing {
            workload: key.clone(),
            uid: answer.uid.clone(),
            version: answer.resource_version.clone(),
            written: Box::new(written),
            at,
            since,
        };
        self.standing
            .insert((key.namespace.clone(), name), standing);
    }

    /// A slice was deleted as it was to be.
    pub(crate) fn deleted(&mut self, key: &WorkloadKey, slice: &str) {
        self.conflicts.remove(&(key.clone(), slice.to_owned()));
        if let Some(failures) = self.failures.get_mut(key) {
            failures.remove(slice);
        }
    }

    /// The slice is there like this.
    pub(crate) fn saw(&mut self, key: &Key, found: &Slice, now: Instant) {
        let Some(standing) = self.standing.get(key) else {
            return;
        };
        let is_newer = is_older(&standing.version, &found.resource_version);
        if let Some(what) = altered(&standing.written, found).filter(|_| is_newer) {
            self.undone(key, what, now);
        }
    }

    /// The slice of that uid isn't there, or isn't Napwake's by its label any more.
    pub(crate) fn saw_gone(&mut self, key: &Key, uid: &str, now: Instant) {
        if self.standing.get(key).is_some_and(|known| known.uid == uid) {
            self.undone(
                key,
                "it is deleted, or its labels are changed".to_owned(),
                now,
            );
        }
    }

    /// Somebody else has undone a write. One that has stood for longer than it was
    /// waited for is written again at once, as after a slip; one that hasn't counts as
    /// a failure.
    fn undone(&mut self, key: &Key, what: String, now: Instant) {
        let Some(standing) = self.standing.remove(key) else {
            return;
        };
        let held = now.duration_since(standing.since);
        let failures = self.failures.entry(standing.workload).or_default();
        let last = failures.get(&key.1).map_or(0, |last| last.count);
        let waited = timing::retry_after(last).max(timing::SLICE_HOLDS);
        if held >= waited.unsigned_abs() {
            failures.remove(&key.1);
            return;
        }
        let written = standing.written;
        let failure = SliceFailure {
            at: standing.at,
            count: last.saturating_add(1),
            why: SliceProblem::Altered { written, what },
        };
        failures.insert(key.1.clone(), failure);
    }
}

const fn is_altered(failure: &SliceFailure) -> bool {
    matches!(failure.why, SliceProblem::Altered { .. })
}

#[cfg(test)]
#[path = "slice_ledger_tests.rs"]
mod tests;
