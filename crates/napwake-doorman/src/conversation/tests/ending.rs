//! Callers that are not served.

use napwake_gate::places::Caps;
use rstest::rstest;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::{GET, asks, max_wait, millis, ready_pod, secs, serving, wakes, world, world_with};
use crate::tests::{Cluster, Dial, World, claimant, ending, merge, read, slice};

/// HOLD-26, HOLD-27, OBS-07, OBS-08, OBS-09: two minutes by default, then closed
/// with nothing sent, and an event that names the Service, the wait and why.
#[tokio::test(start_paused = true)]
async fn held_for_two_minutes() {
    let world = world("Paused", []);
    let mut caller = world.say(GET).await;
    world.pass(secs(119)).await;
    assert_eq!(world.doorman.places.held(), 1);
    world.pass(secs(1)).await;
    assert!(ending(&mut caller).await.is_silent());
    world
        .cluster
        .until(|cluster| cluster.events().len() == 2)
        .await;
    let expected = [
        ("WokenByRequest", "A request to Service api woke it"),
        (
            "RequestNotServed",
            "A request to Service api was held for 2m and not served: no pod was Ready",
        ),
    ];
    let expected = expected.map(|(reason, note)| (reason.to_owned(), note.to_owned()));
    assert_eq!(world.cluster.events(), expected);
    assert_eq!(wakes(&world, "timed_out"), "1");
    world.ends().await;
}

/// CLASS-04, HOLD-27: one that is held for no longer than silence takes to speak wakes
/// when its time is up: a retry finds a pod. So does one whose first words aren't whole
/// by then, and one that waits for a Pod to be read.
#[rstest]
#[case::as_long("3s", 3_000)]
#[case::shorter("1500ms", 1_500)]
#[case::no_time_to_read_a_pod("400ms", 400)]
#[tokio::test(start_paused = true)]
async fn a_short_hold_wakes_by_its_end(
    #[case] span: &str,
    #[case] held: u64,
    #[values("", "GET / HT")] begun: &str,
    #[values(true, false)] is_unread: bool,
) {
    let world = world_with("Paused", &max_wait(span), []);
    if is_unread {
        world.put_slice(slice("api-1", &[("api-0", "10.1.0.9", serving(true))]));
    }
    let mut caller = world.say(begun.as_bytes()).await;
    world.pass(millis(held - 1)).await;
    assert_eq!(world.doorman.places.held(), 1);
    assert!(world.cluster.stamps().is_empty());
    world.pass(millis(1)).await;
    assert!(ending(&mut caller).await.is_silent());
    world.quiet().await;
    assert_eq!(world.cluster.stamps().len(), 1);
    let events = world.cluster.events();
    let reasons: Vec<_> = events.iter().map(|(reason, _)| &**reason).collect();
    assert_eq!(reasons, ["RequestNotServed", "WokenByRequest"]);
    assert_eq!(wakes(&world, "timed_out"), "1");
    world.ends().await;
}

/// T-46: where it asks first, such a caller is closed, and nothing wakes or complains.
#[tokio::test(start_paused = true)]
async fn a_short_hold_that_asks_is_closed_by_its_end() {
    let mut more = asks();
    merge(&mut more, &max_wait("2s"));
    let world = world_with("Paused", &more, []);
    let mut caller = world.call().await;
    world.pass(secs(2)).await;
    assert!(ending(&mut caller).await.is_silent());
    world.pass(secs(10)).await;
    assert!(world.cluster.calls().is_empty());
    assert_eq!(wakes(&world, "turned_away"), "");
    world.ends().await;
}

/// OBS-09: one that queued for a place all its short time is told to have had none.
#[tokio::test(start_paused = true)]
async fn a_short_hold_without_a_place_says_so() {
    let caps = Caps {
        passed_per_source: 0,
        ..Caps::default()
    };
    let world = World::with_caps([], caps);
    world.put(claimant("Paused", "Routed", &max_wait("2s")));
    ready_pod(&world);
    let mut caller = world.say(b"GET / HT").await;
    world.pass(secs(2)).await;
    assert!(ending(&mut caller).await.is_silent());
    world.quiet().await;
    let events = world.cluster.events();
    let [(_, note)] = &events[..] else {
        panic!("{events:?}");
    };
    assert!(
        note.ends_with("too many connections pass through the doorman"),
        "{note}"
    );
    world.ends().await;
}

/// OBS-09: that no pod has the port is another reason than that none is Ready.
#[tokio::test(start_paused = true)]
async fn a_port_that_no_pod_has() {
    let world = world_with("Paused", &max_wait("5s"), []);
    let mut portless = slice("api-1", &[("api-0", "10.1.0.9", serving(true))]);
    portless.content.ports.clear();
    world.put_slice(portless);
    let mut caller = world.say(GET).await;
    world.pass(secs(5)).await;
    assert!(ending(&mut caller).await.is_silent());
    let is_told = |cluster: &Cluster| cluster.events().len() == 2;
    world.cluster.until(is_told).await;
    let events = world.cluster.events();
    let (reason, note) = &events[1];
    assert_eq!(reason, "RequestNotServed");
    assert!(note.ends_with("the Service's targetPort"), "{note}");
    world.ends().await;
}

/// OBS-10: many are not served within a minute, and one event says so.
#[tokio::test(start_paused = true)]
async fn one_event_a_minute() {
    let world = world_with("Paused", &max_wait("5s"), []);
    let mut callers = Vec::new();
    for _ in 0..50 {
        callers.push(world.say(GET).await);
    }
    world.pass(secs(5)).await;
    let not_served = || {
        let events = world.cluster.events();
        events
            .iter()
            .filter(|(reason, _)| reason == "RequestNotServed")
            .count()
    };
    assert_eq!(not_served(), 1);
    world.pass(secs(54)).await;
    let late = world.say(GET).await;
    world.pass(secs(5)).await;
    assert_eq!(not_served(), 1);
    // Now the minute is over.
    let later = world.say(GET).await;
    world.pass(secs(5)).await;
    assert_eq!(not_served(), 2);
    drop((callers, late, later));
    world.ends().await;
}

/// HOLD-33, HOLD-34, HOLD-35, HOLD-36, T-59: one who leaves is let go at once and
/// never passed on, whatever its protocol; the wake goes on, and no event
/// complains.
#[rstest]
#[case::http(GET)]
#[case::postgres(b"\x00\x00\x00\x08\x04\xd2\x16\x2f")]
#[case::tls(b"\x16\x03\x01\x02\x00\x01")]
#[tokio::test(start_paused = true)]
async fn who_leaves_is_let_go(#[case] bytes: &[u8], #[values(true, false)] shuts_only: bool) {
    let world = world("Paused", []);
    let mut caller = world.say(bytes).await;
    world
        .cluster
        .until(|cluster| cluster.stamps().len() == 1)
        .await;
    assert_eq!(world.doorman.places.held(), 1);
    if shuts_only {
        caller.shutdown().await.unwrap();
        assert!(ending(&mut caller).await.is_silent());
    } else {
        drop(caller);
    }
    world.quiet().await;
    assert_eq!(world.doorman.places.held(), 0);
    ready_pod(&world);
    world.pass(secs(200)).await;
    assert_eq!(world.dialed(), []);
    assert_eq!(wakes(&world, "left"), "1");
    let events = world.cluster.events();
    assert!(
        events.iter().all(|(reason, _)| reason == "WokenByRequest"),
        "{events:?}"
    );
    world.ends().await;
}

/// T-110: the event says that the target is gone.
#[tokio::test(start_paused = true)]
async fn the_target_is_gone() {
    let world = world_with("Resuming", &max_wait("60s"), []);
    let mut caller = world.say(GET).await;
    let gone = json!({
        "spec": { "wake": { "maxWait": "60s" } },
        "status": {
            "doorman": { "routes": [] },
            "conditions": [{
                "type": "TargetAvailable", "status": "False", "reason": "TargetNotFound",
                "message": "", "lastTransitionTime": "2026-11-30T10:00:00Z",
            }],
        },
    });
    world.put(claimant("Running", "Routed", &gone));
    world.pass(secs(60)).await;
    assert!(ending(&mut caller).await.is_silent());
    world
        .cluster
        .until(|cluster| cluster.events().len() == 1)
        .await;
    assert_eq!(
        world.cluster.events()[0].1,
        "A request to Service api was held for 1m and not served: its Deployment or StatefulSet \
         is gone"
    );
    world.ends().await;
}

/// LIMIT-05: one over a cap is closed at once, and another source is
/// still held.
#[tokio::test(start_paused = true)]
async fn over_a_cap_is_closed_at_once() {
    let caps = Caps {
        held_per_source_and_workload: 2,
        ..Caps::default()
    };
    let world = World::with_caps([], caps);
    world.put(claimant("Paused", "Routed", &json!({})));
    let held = [world.say(GET).await, world.say(GET).await];
    let mut over = world.call().await;
    assert!(ending(&mut over).await.is_silent());
    assert_eq!(wakes(&world, "over_limit"), "1");
    let other = world.call_from("192.0.2.8").await;
    world.quiet().await;
    assert_eq!(world.doorman.places.held(), 3);
    drop((held, other));
    world.ends().await;
}

/// LIMIT-08, LIMIT-09, T-61: over the cap of those who pass, one is held until a
/// place frees or maxWait runs out.
#[tokio::test(start_paused = true)]
async fn over_the_passing_cap_is_held() {
    let caps = Caps {
        passed_per_source: 1,
        ..Caps::default()
    };
    let mut world = World::with_caps([Dial::Accept, Dial::Accept], caps);
    world.put(claimant("Paused", "Routed", &max_wait("20s")));
    ready_pod(&world);
    let first = world.call().await;
    let first = (first, world.backend().await);
    let second = world.say(GET).await;
    world.pass(secs(10)).await;
    assert!(world.made().is_none());
    assert!(
        world.cluster.stamps().is_empty(),
        "a pod is Ready: nothing to wake"
    );

    drop(first);
    let mut backend = world.backend().await;
    assert_eq!(read(&mut backend, GET.len()).await, GET);
    let mut third = world.say(GET).await;
    world.pass(millis(19_999)).await;
    assert_eq!(world.doorman.places.held(), 1);
    world.pass(millis(1)).await;
    assert!(ending(&mut third).await.is_silent());
    world
        .cluster
        .until(|cluster| cluster.events().len() == 1)
        .await;
    let note = &world.cluster.events()[0].1;
    assert!(
        note.ends_with("too many connections pass through the doorman"),
        "{note}"
    );
    drop((second, backend));
    world.ends().await;
}

/// T-84: those still held when the pod ends get nothing, and no event complains.
#[tokio::test(start_paused = true)]
async fn the_end_of_the_pod_closes_the_held() {
    let world = world("Resuming", []);
    let mut held = world.say(GET).await;
    let mut silent = world.call().await;
    world.doorman.cut.cancel();
    assert!(ending(&mut held).await.is_silent());
    assert!(ending(&mut silent).await.is_silent());
    world.quiet().await;
    assert_eq!(world.cluster.events(), []);
    world.ends().await;
}

/// DRAIN-13: a passed connection that is still open when the pod ends is cut.
#[tokio::test(start_paused = true)]
async fn the_end_of_the_pod_cuts_the_passed() {
    let mut world = world("Running", [Dial::Accept]);
    ready_pod(&world);
    let mut caller = world.call().await;
    let mut backend = world.backend().await;
    world.doorman.cut.cancel();
    assert!(ending(&mut caller).await.is_silent());
    assert!(ending(&mut backend).await.is_silent());
    world.ends().await;
}

/// DRAIN-25, LIMIT-28, T-78: once the route drains, a passed connection has five
/// minutes; a new pause takes the limit back.
#[tokio::test(start_paused = true)]
async fn a_drain_cuts_after_five_minutes() {
    let mut world = world("Running", [Dial::Accept]);
    ready_pod(&world);
    let mut caller = world.call().await;
    let mut backend = world.backend().await;
    world.put(claimant("Running", "Draining", &json!({})));
    world.pass(secs(200)).await;
    world.put(claimant("Pausing", "Routed", &json!({})));
    world.pass(secs(200)).await;
    caller.write_all(b"still here").await.unwrap();
    assert_eq!(read(&mut backend, 10).await, b"still here");

    world.put(claimant("Running", "Draining", &json!({})));
    world.pass(secs(299)).await;
    caller.write_all(b"still here").await.unwrap();
    assert_eq!(read(&mut backend, 10).await, b"still here");
    world.pass(secs(1)).await;
    assert!(ending(&mut caller).await.is_silent());
    assert!(ending(&mut backend).await.is_silent());
    world.ends().await;
}

/// A ManagedWorkload that is gone leaves no series behind, whoever was held for it then.
#[tokio::test(start_paused = true)]
async fn what_is_gone_leaves_no_series() {
    let world = world("Paused", []);
    let caller = world.say(GET).await;
    drop(world.say(GET).await);
    world.quiet().await;
    assert_eq!(wakes(&world, "left"), "1");
    let (key, _) = claimant("Paused", "Routed", &json!({}));
    world.remove(&key);
    assert_eq!(wakes(&world, "left"), "");
    drop(world.say(GET).await);
    world.pass(secs(120)).await;
    assert_eq!(world.doorman.places.held(), 0);
    for result in ["left", "timed_out"] {
        assert_eq!(wakes(&world, result), "", "{result}");
    }
    drop(caller);
    world.ends().await;

    // One that is made anew counts anew.
    world.put(claimant("Paused", "Routed", &json!({})));
    drop(world.say(GET).await);
    world.quiet().await;
    assert_eq!(wakes(&world, "left"), "1");
}
