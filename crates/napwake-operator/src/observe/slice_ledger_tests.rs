use std::{sync::Arc, time::Duration};

use jiff::SignedDuration;
use napwake_decide::Seen;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{
    fixtures::{deployment, index, key, named, routed, slice, workload},
    observe::{Index, convert::ObservedSlice},
};

const SLICE: &str = "a-o1";

/// An index and its own time.
struct Stage {
    index: Index,
    now: Instant,
    at: Timestamp,
}

impl Stage {
    fn new() -> Self {
        let (mut index, now) = (index(), Instant::now());
        index.apply_target(deployment("a", 1, json!({})), now);
        index.apply_workload(workload("a", 1, routed("Paused", "a", 20_000)), now);
        let at = "2026-11-30T12:00:00Z".parse().unwrap();
        Self { index, now, at }
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.at += SignedDuration::from_secs(i64::try_from(seconds).unwrap());
    }

    /// Writes the slice, and gets this answer.
    fn write(&mut self, version: u32) {
        let answer = found(version, json!({}));
        let written = answer.slice.spec.clone();
        self.index.slice_ledger.begin("ns", SLICE);
        self.index
            .slice_stands(&key("a"), written, answer, (self.at, self.now));
    }

    /// The watch shows it like this.
    fn show(&mut self, version: u32, patch: Value) {
        self.index.apply_slice(found(version, patch), self.now);
    }

    fn failure(&self) -> Option<SliceFailure> {
        self.index.slice_ledger.failures(&key("a")).remove(SLICE)
    }

    fn count(&self) -> u32 {
        self.failure().map_or(0, |failure| failure.count)
    }
}

fn found(version: u32, patch: Value) -> Arc<ObservedSlice> {
    slice(SLICE, "a", version, patch)
}

fn without_ports() -> Value {
    json!({"ports": []})
}

#[tokio::test(start_paused = true)]
async fn failures_count_until_a_write_succeeds() {
    let mut stage = Stage::new();
    for _ in 0..3 {
        let why = SliceProblem::Refused("no".to_owned());
        let ledger = &mut stage.index.slice_ledger;
        ledger.failed(&key("a"), SLICE, stage.at, why);
    }
    let seen = Seen::Unknown(String::new());
    let world = stage.index.world(&key("a"), seen, stage.now).unwrap();
    assert_eq!(world.slice_failures[SLICE].count, 3);
    stage.write(5);
    assert_eq!(stage.failure(), None);
}

/// Labels, annotations, owners and fields that Napwake doesn't write are left to
/// whoever writes them.
#[rstest]
#[case::label(json!({"metadata": {"labels": {"team": "a"}}}))]
#[case::annotation(json!({"metadata": {"annotations": {"a": "b"}}}))]
#[case::managed_fields(json!({"metadata": {"managedFields": [{"manager": "somebody"}]}}))]
#[case::finalizer(json!({"metadata": {"finalizers": ["a.example/b"]}}))]
#[tokio::test(start_paused = true)]
async fn what_does_not_matter_is_not_fought(#[case] patch: Value) {
    let mut stage = Stage::new();
    stage.write(5);
    stage.show(6, patch);
    assert_eq!(stage.failure(), None);
    let seen = Seen::Unknown(String::new());
    let world = stage.index.world(&key("a"), seen, stage.now).unwrap();
    let slices = world.slices.known().unwrap();
    assert_eq!(slices[0].spec, found(5, json!({})).slice.spec);
}

/// ROUTE-74: what somebody else alters right after each write counts up, whatever
/// the writes were answered; each from when it was written.
#[tokio::test(start_paused = true)]
async fn what_is_altered_after_each_write_counts_up() {
    let mut stage = Stage::new();
    for round in 1..=8 {
        stage.write(round * 10);
        let written = stage.at;
        stage.pass(1);
        stage.show(round * 10 + 1, without_ports());
        let failure = stage.failure().unwrap();
        assert_eq!((failure.count, failure.at), (round, written));
        let SliceProblem::Altered { what, .. } = failure.why else {
            panic!("{:?}", failure.why);
        };
        assert_eq!(what, "its ports");
        stage.pass(timing::retry_after(round).unsigned_abs().as_secs());
    }
}

/// The same of one that somebody else deletes.
#[tokio::test(start_paused = true)]
async fn what_is_deleted_after_each_write_counts_up() {
    let mut stage = Stage::new();
    for round in 1..=3 {
        stage.write(round * 10);
        stage.pass(1);
        let uid = format!("slice-{SLICE}");
        stage.index.delete_slice(&named(SLICE), &uid, stage.now);
        assert_eq!(stage.count(), round);
    }
}

/// One that has stood for longer than it was waited for is mended as after a slip.
#[tokio::test(start_paused = true)]
async fn what_has_stood_for_a_while_is_no_failure() {
    let mut stage = Stage::new();
    for round in 1..=2 {
        stage.write(round * 10);
        stage.show(round * 10 + 1, without_ports());
    }
    assert_eq!(stage.count(), 2);
    stage.write(30);
    assert_eq!(stage.count(), 2, "not over before it has stood");
    stage.pass(60);
    stage.show(31, without_ports());
    assert_eq!(stage.count(), 0);
}

/// What the watch shows late of earlier versions, and of this process's own writes
/// and deletions, is nobody's doing.
#[tokio::test(start_paused = true)]
async fn own_writes_are_not_somebody_elses() {
    let mut stage = Stage::new();
    stage.write(5);
    stage.show(4, without_ports());
    stage.show(5, json!({}));
    stage.index.slice_ledger.begin("ns", SLICE);
    stage.show(6, without_ports());
    let uid = format!("slice-{SLICE}");
    stage.index.delete_slice(&named(SLICE), &uid, stage.now);
    assert_eq!(stage.failure(), None);
}

/// One whose change the watch shows before the write is answered counts all the same.
#[tokio::test(start_paused = true)]
async fn a_change_that_is_seen_before_the_answer_counts() {
    let mut stage = Stage::new();
    stage.index.slice_ledger.begin("ns", SLICE);
    stage.show(6, without_ports());
    let answer = found(5, json!({}));
    let written = answer.slice.spec.clone();
    let when = (stage.at, stage.now);
    stage.index.slice_stands(&key("a"), written, answer, when);
    assert_eq!(stage.count(), 1);
}

/// A few conflicts are decided anew; more in a row are too many, until one succeeds.
#[tokio::test(start_paused = true)]
async fn conflicts_in_a_row_are_a_failure() {
    let mut stage = Stage::new();
    let overtaken = |stage: &mut Stage| stage.index.slice_ledger.overtaken(&key("a"), SLICE);
    for _ in 1..CONFLICTS {
        assert!(!overtaken(&mut stage));
    }
    assert!(overtaken(&mut stage));
    stage.write(5);
    assert!(!overtaken(&mut stage));
}

/// T-76: a slice that others changed the label of is seen by its name.
#[tokio::test(start_paused = true)]
async fn a_slice_is_seen_by_its_name() {
    let mut stage = Stage::new();
    let name = napwake_decide::slices::slice_name("a", napwake_decide::world::IpFamily::IPv4);
    let changed = slice(&name, "another", 5, json!({}));
    stage.index.apply_slice(changed, stage.now);
    let seen = Seen::Unknown(String::new());
    let world = stage.index.world(&key("a"), seen, stage.now).unwrap();
    assert_eq!(world.slices.known().unwrap().len(), 1);
}
