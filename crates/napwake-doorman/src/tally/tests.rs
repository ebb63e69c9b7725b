//! Counts over a cluster in memory, with a clock that only the test moves.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::*;
use crate::tests::{Lines, World, claimant, merge};

const WORKLOAD: &str = "/apis/napwake.dev/v1alpha1/namespaces/shop/managedworkloads/api";

/// The pause of `claimant`.
const PAUSE: &str = "2026-11-30T10:00:00.000000Z";

/// A doorman process over the cluster of `world`.
struct Process {
    tallies: Tallies,
    stopped: CancellationToken,
    following: JoinSet<Result<(), Infallible>>,
}

fn process(world: &World, writer: u32) -> Process {
    let tallies = Tallies::new(world.cluster.client(), world.time.clone(), writer);
    let stopped = CancellationToken::new();
    let mut following = JoinSet::new();
    following.spawn(tallies.clone().follow(stopped.clone()));
    Process {
        tallies,
        stopped,
        following,
    }
}

impl Process {
    fn turns_away(&self, world: &World, requests: usize) {
        for _ in 0..requests {
            self.tallies.turned_away(&world.route(20_001).now());
        }
    }

    async fn stops(mut self) {
        self.stopped.cancel();
        self.following.join_next().await.unwrap().unwrap().unwrap();
    }
}

/// `api` asks, and is paused.
fn world() -> World {
    let world = World::new([]);
    pauses(&world, PAUSE);
    world.cluster.store(WORKLOAD, workload(&json!({})));
    world
}

fn workload(more: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "napwake.dev/v1alpha1", "kind": "ManagedWorkload",
        "metadata": { "namespace": "shop", "name": "api", "uid": "u1" },
    });
    merge(&mut object, more);
    object
}

fn pauses(world: &World, since: &str) {
    let asks = json!({
        "spec": { "wake": { "mode": "Ask" } },
        "status": { "pause": { "startedAt": since } },
    });
    world.put(claimant("Paused", "Routed", &asks));
}

/// What the annotation says, without its marks.
fn says(world: &World) -> String {
    let object = world.cluster.stored(WORKLOAD).unwrap();
    let text = object["metadata"]["annotations"][signal::TURNED_AWAY].as_str();
    let words: Vec<&str> = text.unwrap_or_default().split(' ').take(2).collect();
    words.join(" ")
}

fn counted(requests: u64) -> String {
    format!("{PAUSE} {requests}")
}

fn writes(world: &World) -> usize {
    world.cluster.stamps().len()
}

/// AWAY-01, AWAY-08: those that come together are written together, and then at
/// most once a minute, however many come.
#[tokio::test(start_paused = true)]
async fn at_most_once_a_minute() {
    let world = world();
    let process = process(&world, 1);
    process.turns_away(&world, 5);
    world.pass(GATHER).await;
    assert_eq!((says(&world), writes(&world)), (counted(5), 1));
    for _ in 0..59 {
        process.turns_away(&world, 10);
        world.pass(Duration::from_secs(1)).await;
    }
    assert_eq!((says(&world), writes(&world)), (counted(5), 1));
    world.pass(Duration::from_secs(1)).await;
    assert_eq!((says(&world), writes(&world)), (counted(595), 2));
    world.pass(Duration::from_mins(10)).await;
    assert_eq!(writes(&world), 2, "nothing more was turned away");
    process.turns_away(&world, 1);
    world.pass(GATHER).await;
    assert_eq!((says(&world), writes(&world)), (counted(596), 3));
}

/// T-96: two pods add to one number, at the version they read; one that stops
/// writes what it has.
#[tokio::test(start_paused = true)]
async fn two_pods_add_to_one_number() {
    let world = world();
    let (one, two) = (process(&world, 1), process(&world, 2));
    one.turns_away(&world, 3);
    two.turns_away(&world, 4);
    world.pass(GATHER).await;
    assert_eq!(says(&world), counted(7));
    one.turns_away(&world, 10);
    two.turns_away(&world, 20);
    tokio::join!(one.stops(), two.stops());
    assert_eq!(says(&world), counted(37));
}

/// T-96: a write whose answer was lost isn't added again, neither later nor when
/// the process stops.
#[tokio::test(start_paused = true)]
async fn a_write_that_was_carried_out_unseen_counts_once() {
    let world = world();
    let process = process(&world, 1);
    process.turns_away(&world, 3);
    world.cluster.lose_answers(1);
    world.pass(GATHER).await;
    assert_eq!(says(&world), counted(3));
    process.turns_away(&world, 2);
    process.stops().await;
    assert_eq!(says(&world), counted(5));
}

/// A write that fails is tried again.
#[tokio::test(start_paused = true)]
async fn a_failed_write_is_tried_again() {
    let world = world();
    let process = process(&world, 1);
    process.turns_away(&world, 3);
    world.cluster.refuse_stamps([403]);
    world.pass(GATHER).await;
    assert_eq!(says(&world), "");
    world.pass(RETRY).await;
    assert_eq!(says(&world), counted(3));
}

/// AWAY-09, T-96, T-97: another pause begins at zero, and nothing is added to it
/// that an earlier one turned away.
#[tokio::test(start_paused = true)]
async fn each_pause_has_its_own_number() {
    let world = world();
    let process = process(&world, 1);
    process.turns_away(&world, 3);
    world.pass(GATHER).await;
    process.turns_away(&world, 4);
    pauses(&world, "2026-11-30T10:10:00.000000Z");
    process.turns_away(&world, 2);
    world.pass(EVERY).await;
    assert_eq!(says(&world), "2026-11-30T10:10:00.000000Z 2");
}

/// One that is gone, or was made anew, isn't written.
#[tokio::test(start_paused = true)]
async fn one_that_is_gone_is_left() {
    let world = world();
    let process = process(&world, 1);
    process.turns_away(&world, 3);
    let anew = workload(&json!({ "metadata": { "uid": "u2" } }));
    world.cluster.store(WORKLOAD, anew);
    world.pass(Duration::from_mins(5)).await;
    assert_eq!(says(&world), "");
    world.cluster.unstore(WORKLOAD);
    process.turns_away(&world, 3);
    world.pass(Duration::from_mins(5)).await;
    assert_eq!(writes(&world), 0);
}

/// A stop doesn't wait for an API server that doesn't answer.
#[tokio::test(start_paused = true)]
async fn a_stop_has_its_bound() {
    let world = world();
    let mut process = process(&world, 1);
    process.turns_away(&world, 3);
    world.cluster.fall_silent();
    process.stopped.cancel();
    let nearly = LAST_WRITES.saturating_sub(Duration::from_millis(1));
    world.pass(nearly).await;
    assert!(process.following.try_join_next().is_none());
    world.pass(Duration::from_millis(1)).await;
    assert!(process.following.try_join_next().is_some());
    assert_eq!(says(&world), "");
}

/// A trouble is told once, however often it is tried again, and told again only after it
/// was over.
#[tokio::test(start_paused = true)]
async fn a_trouble_is_told_once() {
    let (lines, _guard) = Lines::gather();
    let world = world();
    let process = process(&world, 1);
    let told = || lines.with("what was turned away can't be written").len();
    for times in 1..=2 {
        world.cluster.refuse_stamps([500; 4]);
        process.turns_away(&world, 1);
        for _ in 0..100 {
            world.pass(Duration::from_secs(1)).await;
        }
        assert_eq!(told(), times);
        assert_eq!(writes(&world), times * 5);
    }
    process.stops().await;
}
