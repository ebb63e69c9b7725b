//! Callers that get an answer, or are closed.

use rstest::rstest;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::{GET, asks, millis, secs, wakes, world, world_with};
use crate::tests::{Ending, World, claimant, ending};

/// CLASS-08, CLASS-09, CLASS-10, CLASS-11, CLASS-12, CLASS-13, CLASS-18,
/// CLASS-21: answered and closed, and nothing is woken.
#[rstest]
#[case::probe(
    b"GET / HTTP/1.1\r\nUser-Agent: kube-probe/1.30\r\n\r\n",
    "503 Service Unavailable",
    "probe"
)]
#[case::head(
    b"HEAD / HTTP/1.1\r\nUser-Agent: Prometheus/2.53\r\n\r\n",
    "503 Service Unavailable",
    "probe"
)]
#[case::google(
    b"GET / HTTP/1.1\r\nUser-Agent: GoogleHC/1.0\r\n\r\n",
    "200 OK",
    "google_health_check"
)]
#[case::hidden(
    b"GET /.git/config HTTP/1.1\r\nUser-Agent: x\r\n\r\n",
    "404 Not Found",
    "hidden_file"
)]
#[tokio::test(start_paused = true)]
async fn checkers_are_answered(#[case] bytes: &[u8], #[case] status: &str, #[case] answer: &str) {
    let world = world("Paused", []);
    let mut caller = world.say(bytes).await;
    let Ending::Closed(got) = ending(&mut caller).await else {
        panic!("reset before it was read");
    };
    let got = String::from_utf8(got).unwrap();
    assert!(got.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{got}");
    assert!(got.contains("\r\nConnection: close\r\n"), "{got}");
    drop(caller);
    world.pass(secs(5)).await;
    assert_eq!(world.cluster.calls(), []);
    let count = format!("napwake_doorman_answers_total{{answer=\"{answer}\"}}");
    assert_eq!(world.metric(&count), "1");
    world.ends().await;
}

/// CLASS-07: connects and closes, and nothing comes of it.
#[rstest]
#[case(0)]
#[case(1_000)]
#[case(2_500)]
#[tokio::test(start_paused = true)]
async fn connect_and_close_wakes_nothing(#[case] after: u64) {
    let world = world("Paused", []);
    for _ in 0..20 {
        let caller = world.call().await;
        world.pass(millis(after)).await;
        drop(caller);
    }
    world.pass(secs(5)).await;
    assert_eq!(world.cluster.calls(), []);
    assert_eq!(wakes(&world, "left"), "", "it asked for nothing");
    world.ends().await;
}

/// ASK-28, ASK-42, T-46: in Ask nothing that isn't a person's is woken or held.
#[rstest]
#[case::curl(GET, "HTTP/1.1 503 Service Unavailable\r\n", "1")]
#[case::postgres(b"\x00\x00\x00\x08\x04\xd2\x16\x2f", "", "1")]
#[case::silent(b"", "", "")]
#[tokio::test(start_paused = true)]
async fn ask_turns_away(#[case] bytes: &[u8], #[case] start: &str, #[case] counted: &str) {
    let world = world_with("Paused", &asks(), []);
    let mut caller = world.say(bytes).await;
    world.pass(secs(3)).await;
    match ending(&mut caller).await {
        Ending::Closed(got) => {
            let got = String::from_utf8(got).unwrap();
            assert!(
                got.starts_with(start) && got.is_empty() == start.is_empty(),
                "{got}"
            );
        }
        Ending::Reset => assert_eq!(start, ""),
    }
    assert_eq!(world.cluster.calls(), []);
    assert_eq!(wakes(&world, "turned_away"), counted);
    drop(caller);
    world.ends().await;
}

/// ASK-45: once it is waking, everything is as in Request.
#[tokio::test(start_paused = true)]
async fn ask_holds_once_it_is_waking() {
    let world = world_with("Resuming", &asks(), []);
    let caller = world.say(GET).await;
    world.pass(secs(10)).await;
    assert_eq!(world.doorman.places.held(), 1);
    drop(caller);
    world.ends().await;
}

/// T-102: whoever is held stays held when the mode changes.
#[tokio::test(start_paused = true)]
async fn the_held_stay_held_when_the_mode_changes() {
    let world = world("Paused", []);
    let held = world.say(GET).await;
    world.put(claimant("Paused", "Routed", &asks()));
    let mut turned_away = world.say(GET).await;
    let Ending::Closed(got) = ending(&mut turned_away).await else {
        panic!("reset before it was read");
    };
    assert!(got.starts_with(b"HTTP/1.1 503 "));
    drop(turned_away);
    world.pass(secs(5)).await;
    assert_eq!(world.doorman.places.held(), 1);
    drop(held);
    world.ends().await;
}

/// T-43: the beginning of a head is judged after three silent seconds.
#[tokio::test(start_paused = true)]
async fn a_slow_head_is_judged_by_what_there_is() {
    let world = World::new([]);
    world.put(claimant("Paused", "Routed", &json!({})));
    let mut caller = world.say(b"GET / HTTP/1.1\r\nHost: a").await;
    world.pass(secs(2)).await;
    caller.write_all(b"pi\r\n").await.unwrap();
    world.pass(millis(2_999)).await;
    assert_eq!(world.cluster.calls(), []);
    world.pass(millis(1)).await;
    world
        .cluster
        .until(|cluster| cluster.stamps().len() == 1)
        .await;
    drop(caller);
    world.ends().await;
}
