//! Callers that find a Ready pod.

use rstest::rstest;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::{GET, asks, millis, ready_pod, secs, serving, wakes, world, world_with};
use crate::tests::{Dial, Ending, claimant, ending, read, slice};

/// HOLD-07, HOLD-08, HOLD-09, HOLD-10, T-58: straight on to a Ready pod, before
/// a byte was sent.
#[rstest]
#[case::pausing("Pausing")]
#[case::waking("Resuming")]
#[case::running("Running")]
#[case::of_another_workload("Paused")]
#[tokio::test(start_paused = true)]
async fn the_server_may_speak_first(#[case] phase: &str) {
    let mut world = world(phase, [Dial::Accept]);
    ready_pod(&world);
    let mut caller = world.call().await;
    let mut backend = world.backend().await;
    backend.write_all(b"banner").await.unwrap();
    assert_eq!(read(&mut caller, 6).await, b"banner");
    assert_eq!(world.doorman.places.held(), 0);
    assert_eq!(world.doorman.places.passed(), 1);

    // Each side's end is its own (T-58).
    caller.write_all(b"bye").await.unwrap();
    caller.shutdown().await.unwrap();
    assert_eq!(ending(&mut backend).await, Ending::Closed(b"bye".to_vec()));
    backend.write_all(b"late").await.unwrap();
    drop(backend);
    assert_eq!(ending(&mut caller).await, Ending::Closed(b"late".to_vec()));
    world.quiet().await;
    assert!(world.cluster.stamps().is_empty());
    assert_eq!(wakes(&world, "served"), "", "it never waited");
    world.ends().await;
}

/// T-58: one that finds a Ready pod isn't held, so it's passed on with its end, though
/// that came before the Pod was read (the first) or dialed (the second).
#[rstest]
#[case::pausing("Pausing", "Routed")]
#[case::waking("Resuming", "Routed")]
#[case::draining("Running", "Draining")]
#[case::of_another_workload("Paused", "Routed")]
#[tokio::test(start_paused = true)]
async fn one_that_has_said_all_is_passed(#[case] phase: &str, #[case] state: &str) {
    let mut world = world(phase, [Dial::Accept; 2]);
    world.put(claimant(phase, state, &json!({})));
    ready_pod(&world);
    for _ in 0..2 {
        let mut caller = world.say_all(GET).await;
        let mut backend = world.made().expect("it was dialed");
        assert_eq!(ending(&mut backend).await, Ending::Closed(GET.to_vec()));
        backend.write_all(b"answer").await.unwrap();
        drop(backend);
        let answer = ending(&mut caller).await;
        assert_eq!(answer, Ending::Closed(b"answer".to_vec()));
    }
    world.ends().await;
}

/// T-58, HOLD-35: one whose Ready pod can't be reached is held from then on, and one
/// for whom none is Ready after all is, too. There its end means that it left.
#[rstest]
#[case::refused(true, 1)]
#[case::gone(false, 0)]
#[tokio::test(start_paused = true)]
async fn one_that_has_said_all_is_dropped_once_it_would_be_held(
    #[case] is_ready: bool,
    #[case] dialed: usize,
) {
    let world = world("Paused", (0..dialed).map(|_| Dial::Refuse));
    if is_ready {
        ready_pod(&world);
    } else {
        world.put_slice(slice("api-1", &[("api-0", "10.1.0.9", serving(true))]));
    }
    let mut caller = world.say_all(GET).await;
    world.pass(secs(1)).await;
    assert!(ending(&mut caller).await.is_silent());
    world.pass(secs(5)).await;
    assert_eq!(world.dialed().len(), dialed);
    world.ends().await;
}

/// CLASS-07: what connects and closes wakes nothing either where it is passed on,
/// whatever its pod makes of that.
#[tokio::test(start_paused = true)]
async fn a_passed_tcp_check_leaves_the_pause_going() {
    let mut world = world("Pausing", [Dial::Accept]);
    ready_pod(&world);
    let caller = world.say_all(b"").await;
    let backend = world.made().expect("it was dialed");
    world.pass(secs(10)).await;
    assert!(world.cluster.stamps().is_empty());
    drop((caller, backend));
    world.ends().await;
}

/// HOLD-11, HOLD-12, T-02, CLASS-23: while pausing, a request that would wake
/// calls the pause off, and every request passes.
#[rstest]
#[case::request(GET, 1)]
#[case::postgres(b"\x00\x00\x00\x08\x04\xd2\x16\x2f", 1)]
#[case::probe(b"GET /healthz HTTP/1.1\r\nUser-Agent: kube-probe/1.30\r\n\r\n", 0)]
#[case::google(b"GET / HTTP/1.1\r\nUser-Agent: GoogleHC/1.0\r\n\r\n", 0)]
#[case::hidden(b"GET /.env HTTP/1.1\r\nUser-Agent: curl/8\r\n\r\n", 0)]
#[tokio::test(start_paused = true)]
async fn a_passed_request_calls_the_pause_off(#[case] bytes: &[u8], #[case] stamps: usize) {
    let mut world = world("Pausing", [Dial::Accept]);
    ready_pod(&world);
    let caller = world.say(bytes).await;
    let mut backend = world.backend().await;
    assert_eq!(read(&mut backend, bytes.len()).await, bytes);
    // Each is settled by its bytes, or never.
    world.pass(secs(10)).await;
    assert_eq!(world.cluster.stamps().len(), stamps);
    assert_eq!(world.cluster.events(), [], "nothing was woken");
    drop((caller, backend));
    world.ends().await;
}

/// T-03: three silent seconds of a passed caller count as a request.
#[tokio::test(start_paused = true)]
async fn a_silent_passed_caller_calls_the_pause_off() {
    let mut world = world("Pausing", [Dial::Accept]);
    ready_pod(&world);
    let caller = world.call().await;
    let backend = world.backend().await;
    world.pass(millis(2_999)).await;
    assert!(world.cluster.stamps().is_empty());
    world.pass(millis(1)).await;
    world
        .cluster
        .until(|cluster| cluster.stamps().len() == 1)
        .await;
    drop((caller, backend));
    world.ends().await;
}

/// T-04: in Ask a passed request never calls the pause off.
#[tokio::test(start_paused = true)]
async fn in_ask_a_passed_request_leaves_the_pause_going() {
    let mut world = world_with("Pausing", &asks(), [Dial::Accept]);
    ready_pod(&world);
    let caller = world.say(GET).await;
    let mut backend = world.backend().await;
    assert_eq!(read(&mut backend, GET.len()).await, GET);
    world.pass(secs(10)).await;
    assert!(world.cluster.stamps().is_empty());
    drop((caller, backend));
    world.ends().await;
}

/// T-65: while it pauses, a stamp is refreshed every few seconds at most.
#[tokio::test(start_paused = true)]
async fn a_pause_is_told_again_every_few_seconds() {
    let mut world = world("Pausing", [Dial::Accept; 20]);
    ready_pod(&world);
    for _ in 0..20 {
        let caller = world.say(GET).await;
        drop((caller, world.backend().await));
        world.pass(secs(1)).await;
    }
    assert_eq!(world.cluster.stamps().len(), 4);
    world.ends().await;
}
