//! Wakes over a cluster in memory.

use std::time::Duration;

use napwake_api::stamp::RequestKind;
use napwake_gate::places::Source;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Asker, How};
use crate::tests::{World, claimant, numbered};

fn asker(source: &str) -> Asker {
    let source: std::net::IpAddr = source.parse().unwrap();
    Asker {
        source: Source::from(source),
        kind: RequestKind::Request,
        how: How::Waits,
    }
}

fn world(phase: &str, more: &Value) -> World {
    let world = World::new([]);
    world.put(claimant(phase, "Routed", more));
    world
}

/// Somebody asks, and waits for two minutes.
async fn ask(world: &World, source: &str) {
    let until = Instant::now() + Duration::from_mins(2);
    world
        .doorman
        .wakes
        .ask(&world.route(20_001), asker(source), until);
    world.quiet().await;
}

fn stamps(world: &World) -> usize {
    world.cluster.stamps().len()
}

/// T-65: exactly one patch, however many ask at once.
#[tokio::test(start_paused = true)]
async fn many_ask_and_one_stamp_is_written() {
    let world = world("Paused", &json!({}));
    for source in 0..200 {
        let until = Instant::now() + Duration::from_mins(2);
        let source = format!("192.0.2.{source}");
        world
            .doorman
            .wakes
            .ask(&world.route(20_001), asker(&source), until);
    }
    world.quiet().await;
    assert_eq!(stamps(&world), 1);
    world.pass(Duration::from_secs(30)).await;
    ask(&world, "192.0.2.7").await;
    assert_eq!(stamps(&world), 1);
    let patch = &world.cluster.calls()[0];
    assert_eq!(
        patch.path,
        "/apis/napwake.dev/v1alpha1/namespaces/shop/managedworkloads/api"
    );
    assert!(
        patch.query.contains("fieldManager=napwake-doorman"),
        "{}",
        patch.query
    );
    assert_eq!(
        patch.body.as_object().unwrap().len(),
        1,
        "nothing but metadata"
    );
    assert_eq!(
        patch.body["metadata"].as_object().unwrap().len(),
        1,
        "nothing but annotations"
    );
}

/// OBS-01: one event a pause, which names the Service; the next pause is
/// stamped and told again.
#[tokio::test(start_paused = true)]
async fn each_pause_is_stamped_and_told_once() {
    let world = world("Paused", &json!({}));
    ask(&world, "192.0.2.7").await;
    ask(&world, "192.0.2.7").await;
    let later = json!({ "status": { "pause": { "startedAt": "2026-11-30T10:10:00.000000Z" } } });
    world.put(claimant("Paused", "Routed", &later));
    world.pass(Duration::from_mins(10)).await;
    ask(&world, "192.0.2.7").await;
    assert_eq!(stamps(&world), 2);
    let woken = (
        "WokenByRequest".to_owned(),
        "A request to Service api woke it".to_owned(),
    );
    assert_eq!(world.cluster.events(), [woken.clone(), woken]);
}

/// T-65: one that another doorman pod has stamped needs no stamp of ours. T-12: a
/// stamp that the operator passes over is none.
#[rstest]
#[case::this_pause("2026-11-30T10:04:00.000000Z request api", 0)]
#[case::an_earlier_one("2026-11-30T09:59:00.000000Z request api", 1)]
#[case::bare("2026-11-30T10:00:00Z", 0)]
#[case::unreadable("soon", 1)]
#[case::ahead("2026-11-30T10:06:00.000000Z request api", 0)]
#[case::too_far_ahead("2026-11-30T10:06:01.000000Z request api", 1)]
#[tokio::test(start_paused = true)]
async fn a_stamp_that_is_there_counts(#[case] stamp: &str, #[case] expected: usize) {
    let more = json!({ "metadata": { "annotations": { "napwake.dev/last-request": stamp } } });
    let world = world("Paused", &more);
    ask(&world, "192.0.2.7").await;
    assert_eq!(stamps(&world), expected);
}

/// T-95, T-65: a stamp that somebody took away, as tools that replace objects do, is
/// none: whoever asks then has it written again.
#[rstest]
#[case::taken_away(&json!({}))]
#[case::set_back(&json!({ "metadata": { "annotations": {
    "napwake.dev/last-request": "2026-11-30T09:00:00.000000Z request api",
} } }))]
#[tokio::test(start_paused = true)]
async fn a_stamp_that_is_taken_away_is_written_again(#[case] without: &Value) {
    let world = world("Paused", &json!({}));
    ask(&world, "192.0.2.7").await;
    // Before the watch shows it, it is there all the same.
    world.put(claimant("Paused", "Routed", without));
    ask(&world, "192.0.2.7").await;
    assert_eq!(stamps(&world), 1);
    let stamp = "2026-11-30T10:05:00.000000Z request api";
    let shown = json!({ "metadata": { "annotations": { "napwake.dev/last-request": stamp } } });
    for _ in 0..2 {
        world.put(claimant("Paused", "Routed", &shown));
        ask(&world, "192.0.2.7").await;
        assert_eq!(stamps(&world), 1);
    }
    world.put(claimant("Paused", "Routed", without));
    ask(&world, "192.0.2.7").await;
    assert_eq!(stamps(&world), 2);
    ask(&world, "192.0.2.7").await;
    assert_eq!(stamps(&world), 2, "it's written");
}

/// T-12, T-65: one stamp is written over one that lies too far ahead, though the
/// watch is late to show it.
#[tokio::test(start_paused = true)]
async fn a_stamp_too_far_ahead_hides_none() {
    let ahead = "2027-11-30T10:05:00.000000Z request api";
    let more = json!({ "metadata": { "annotations": { "napwake.dev/last-request": ahead } } });
    let world = world("Paused", &more);
    for _ in 0..3 {
        ask(&world, "192.0.2.7").await;
    }
    assert_eq!(stamps(&world), 1);
    let annotations = &world.cluster.stamps()[0]["metadata"]["annotations"];
    let stamp = "2026-11-30T10:05:00.000000Z request api";
    assert_eq!(annotations["napwake.dev/last-request"], stamp);
}

/// T-112: while the API server can't be reached, the stamp is tried again every
/// two seconds.
#[tokio::test(start_paused = true)]
async fn a_refused_stamp_is_tried_again_every_two_seconds() {
    let world = world("Paused", &json!({}));
    world.cluster.refuse_stamps([500, 403, 500]);
    ask(&world, "192.0.2.7").await;
    let mut tried = vec![stamps(&world)];
    for _ in 0..8 {
        world.pass(Duration::from_secs(1)).await;
        tried.push(stamps(&world));
    }
    assert_eq!(tried, [1, 1, 2, 2, 3, 3, 4, 4, 4]);
}

/// T-112: one that the API server doesn't answer is given up after ten seconds, and
/// tried again like any other.
#[tokio::test(start_paused = true)]
async fn an_unanswered_stamp_is_tried_again() {
    let world = world("Paused", &json!({}));
    world.cluster.fall_silent();
    ask(&world, "192.0.2.7").await;
    for expected in [1, 2, 3] {
        world.pass(Duration::from_secs(10)).await;
        world.pass(Duration::from_millis(1_999)).await;
        assert_eq!(stamps(&world), expected);
        world.pass(Duration::from_millis(1)).await;
        assert_eq!(stamps(&world), expected + 1);
    }
}

/// LIMIT-20: no longer than somebody who asked would still be there.
#[tokio::test(start_paused = true)]
async fn nobody_is_left_to_try_for() {
    let world = world("Paused", &json!({}));
    world.cluster.refuse_stamps([500; 100]);
    ask(&world, "192.0.2.7").await;
    world.pass(Duration::from_mins(1)).await;
    // One who comes later is waited for, too (T-62).
    ask(&world, "192.0.2.8").await;
    for _ in 0..200 {
        world.pass(Duration::from_secs(1)).await;
    }
    let end = stamps(&world);
    assert!((55..=65).contains(&end), "{end}");
    world.pass(Duration::from_mins(5)).await;
    assert_eq!(stamps(&world), end);
    // The next one begins anew.
    ask(&world, "192.0.2.9").await;
    assert_eq!(stamps(&world), end + 1);
}

/// A ManagedWorkload that is gone is not asked for again.
#[tokio::test(start_paused = true)]
async fn one_that_is_gone_is_left() {
    let world = world("Paused", &json!({}));
    world.cluster.refuse_stamps([404]);
    ask(&world, "192.0.2.7").await;
    world.pass(Duration::from_secs(30)).await;
    assert_eq!(stamps(&world), 1);
}

/// The routes of `api`: its own on 20001, and that of another Service on 20002.
fn routes(ports: &[u16]) -> Value {
    let routes: Vec<Value> = ports
        .iter()
        .map(|port| {
            let service = if *port == 20_001 { "api" } else { "other" };
            json!({
                "service": service, "port": { "name": "http", "number": 80 },
                "doormanPort": port, "families": ["IPv4"], "state": "Routed",
            })
        })
        .collect();
    json!({ "status": { "doorman": { "routes": routes } } })
}

/// T-62, T-69: a wake outlives the route that it was first asked for on: whoever asked
/// on another meanwhile has it written for them.
#[tokio::test(start_paused = true)]
async fn a_wake_outlives_its_first_route() {
    let world = world("Paused", &routes(&[20_001, 20_002]));
    world.cluster.refuse_stamps([500]);
    ask(&world, "192.0.2.7").await;
    let until = Instant::now() + Duration::from_mins(2);
    let other = world.route(20_002);
    world.doorman.wakes.ask(&other, asker("192.0.2.8"), until);
    world.put(claimant("Paused", "Routed", &routes(&[20_002])));
    world.pass(Duration::from_secs(2)).await;
    let annotations = &world.cluster.stamps()[1]["metadata"]["annotations"];
    let stamp = "2026-11-30T10:05:02.000000Z request other";
    assert_eq!(annotations["napwake.dev/last-request"], stamp);
    assert_eq!(annotations["napwake.dev/last-request-from"], "192.0.2.8");
    world.pass(Duration::from_secs(10)).await;
    assert_eq!(stamps(&world), 2);
}

/// DRAIN-19: without any route left, there is nobody to wake for.
#[tokio::test(start_paused = true)]
async fn a_wake_ends_with_its_last_route() {
    let world = world("Paused", &routes(&[20_001, 20_002]));
    world.cluster.refuse_stamps([500]);
    ask(&world, "192.0.2.7").await;
    world.put(claimant("Paused", "Routed", &routes(&[20_002])));
    world.pass(Duration::from_secs(10)).await;
    assert_eq!(stamps(&world), 1);
}

/// A wake is for the pause that it was asked for in. Who asks in the next one is
/// served at once, though the first still waits to be written.
#[tokio::test(start_paused = true)]
async fn a_wake_is_for_its_own_pause() {
    let world = world("Paused", &json!({}));
    let next = json!({ "status": { "pause": { "startedAt": "2026-11-30T10:04:30.000000Z" } } });
    world.cluster.refuse_stamps([500]);
    ask(&world, "192.0.2.7").await;
    world.put(claimant("Paused", "Routed", &next));
    ask(&world, "192.0.2.8").await;
    assert_eq!(stamps(&world), 2);
    let annotations = &world.cluster.stamps()[1]["metadata"]["annotations"];
    assert_eq!(annotations["napwake.dev/last-request-from"], "192.0.2.8");
    world.pass(Duration::from_secs(10)).await;
    assert_eq!(stamps(&world), 2);
}

/// The next pause is left alone where nobody asks in it.
#[tokio::test(start_paused = true)]
async fn a_wake_ends_with_its_pause() {
    let world = world("Paused", &json!({}));
    let next = json!({ "status": { "pause": { "startedAt": "2026-11-30T10:04:30.000000Z" } } });
    world.cluster.refuse_stamps([500]);
    ask(&world, "192.0.2.7").await;
    world.put(claimant("Paused", "Routed", &next));
    world.pass(Duration::from_secs(10)).await;
    assert_eq!(stamps(&world), 1);
}

/// T-75: a request wakes all those in Request behind its Service, and those in
/// Ask stay asleep.
#[tokio::test(start_paused = true)]
async fn all_behind_the_service_are_woken() {
    let world = world("Paused", &json!({}));
    world.put(claimant("Paused", "Routed", &beside("asks", "Ask")));
    world.put(claimant("Paused", "Routed", &beside("other", "Request")));
    ask(&world, "192.0.2.7").await;
    assert_eq!(woken(&world), ["api", "other"]);
}

/// HOLD-11: a request that was passed to a pod calls the pauses off that are under
/// way, and wakes nobody who sleeps behind the same Service: a pod has it already.
#[tokio::test(start_paused = true)]
async fn calling_a_pause_off_wakes_nobody_else() {
    let world = world("Pausing", &json!({}));
    world.put(claimant("Paused", "Routed", &beside("asleep", "Request")));
    world.put(claimant("Pausing", "Routed", &beside("pausing", "Request")));
    let asker = Asker {
        how: How::Passed,
        ..asker("192.0.2.7")
    };
    let until = Instant::now() + Duration::from_mins(2);
    world.doorman.wakes.ask(&world.route(20_001), asker, until);
    world.quiet().await;
    assert_eq!(woken(&world), ["api", "pausing"]);
}

/// Another workload behind the same Service.
fn beside(name: &str, mode: &str) -> Value {
    json!({
        "metadata": { "name": name, "uid": name },
        "spec": { "wake": { "mode": mode } },
    })
}

/// Whom stamps were written to, by name.
fn woken(world: &World) -> Vec<String> {
    let calls = world.cluster.calls();
    let names = calls.iter().filter_map(|call| {
        let name = call.path.split("managedworkloads/").nth(1)?;
        Some(name.to_owned())
    });
    let mut woken: Vec<_> = names.collect();
    woken.sort_unstable();
    woken
}

/// T-12: newer than the pause in any case, though the operator's clock is ahead.
#[tokio::test(start_paused = true)]
async fn a_stamp_is_newer_than_its_pause() {
    let ahead = json!({ "status": { "pause": { "startedAt": "2026-11-30T10:05:20.000000Z" } } });
    let world = world("Paused", &ahead);
    ask(&world, "192.0.2.7").await;
    let annotations = &world.cluster.stamps()[0]["metadata"]["annotations"];
    let stamp = "2026-11-30T10:05:20.000001Z request api";
    assert_eq!(annotations["napwake.dev/last-request"], stamp);
}

/// LIMIT-11, LIMIT-12, LIMIT-18, LIMIT-19: beyond the burst of its source, a wake
/// waits, and comes at a multiple of two seconds.
#[tokio::test(start_paused = true)]
async fn over_the_rate_a_wake_waits() {
    let world = World::new([]);
    for number in 0..32 {
        world.put(claimant("Paused", "Routed", &numbered(number)));
    }
    let until = Instant::now() + Duration::from_mins(2);
    for number in 0..32 {
        let route = world.route(20_100 + number);
        world.doorman.wakes.ask(&route, asker("192.0.2.7"), until);
    }
    world.quiet().await;
    let mut written = vec![stamps(&world)];
    for _ in 0..5 {
        world.pass(Duration::from_secs(1)).await;
        written.push(stamps(&world));
    }
    assert_eq!(written, [30, 30, 31, 31, 32, 32]);
}

/// LIMIT-15, HOLD-11: calling pauses off counts for nothing, however many they are and
/// whoever asks: a pause that goes on stops the pods of somebody who is there.
#[rstest]
#[case::passed(How::Passed)]
#[case::held(How::Waits)]
#[tokio::test(start_paused = true)]
async fn pauses_are_called_off_over_any_rate(#[case] how: How) {
    let world = World::new([]);
    let until = Instant::now() + Duration::from_mins(2);
    for number in 0..40 {
        world.put(claimant("Pausing", "Routed", &numbered(number)));
        let route = world.route(20_100 + number);
        let asker = Asker {
            how,
            ..asker("192.0.2.7")
        };
        world.doorman.wakes.ask(&route, asker, until);
    }
    world.quiet().await;
    assert_eq!(stamps(&world), 40);
    // The whole burst is left for those that are paused.
    for number in 40..71 {
        world.put(claimant("Paused", "Routed", &numbered(number)));
        let route = world.route(20_100 + number);
        world.doorman.wakes.ask(&route, asker("192.0.2.7"), until);
    }
    world.quiet().await;
    assert_eq!(stamps(&world), 70);
}

/// Another source's allowance serves for a wake that its first asker's doesn't.
#[tokio::test(start_paused = true)]
async fn another_source_may_be_allowed() {
    let world = World::new([]);
    for number in 0..31 {
        world.put(claimant("Paused", "Routed", &numbered(number)));
        let until = Instant::now() + Duration::from_mins(2);
        let route = world.route(20_100 + number);
        world.doorman.wakes.ask(&route, asker("192.0.2.7"), until);
    }
    world.quiet().await;
    assert_eq!(stamps(&world), 30);
    let until = Instant::now() + Duration::from_mins(2);
    world
        .doorman
        .wakes
        .ask(&world.route(20_130), asker("192.0.2.8"), until);
    world.quiet().await;
    assert_eq!(stamps(&world), 31);
}
