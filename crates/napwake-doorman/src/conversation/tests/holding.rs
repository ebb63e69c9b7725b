//! Callers that are held.

use rstest::rstest;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::{GET, millis, ready_pod, secs, serving, wakes, world};
use crate::tests::{Cluster, Dial, Lines, claimant, read, slice};

/// HOLD-03, HOLD-14, HOLD-17, HOLD-32, OBS-20, OBS-23, OBS-24: held, stamped,
/// and passed with what it had sent once a pod is Ready.
#[tokio::test(start_paused = true)]
async fn a_caller_is_held_and_passed() {
    let mut world = world("Paused", [Dial::Accept]);
    let mut caller = world.say(GET).await;
    world
        .cluster
        .until(|cluster| !cluster.stamps().is_empty())
        .await;
    let annotations = &world.cluster.stamps()[0]["metadata"]["annotations"];
    let expected = json!({
        "napwake.dev/last-request": "2026-11-30T10:05:00.000000Z request api",
        "napwake.dev/last-request-from": "192.0.2.7",
    });
    assert_eq!(*annotations, expected);

    world.pass(secs(5)).await;
    assert!(world.made().is_none());
    ready_pod(&world);
    let mut backend = world.backend().await;
    caller.write_all(b"more").await.unwrap();
    assert_eq!(
        read(&mut backend, GET.len() + 4).await,
        [GET, b"more"].concat()
    );

    backend.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    assert_eq!(read(&mut caller, 19).await, b"HTTP/1.1 200 OK\r\n\r\n");
    drop((caller, backend));
    world.quiet().await;
    assert_eq!(wakes(&world, "served"), "1");
    assert_eq!(
        world.metric("napwake_doorman_wait_seconds_sum{result=\"served\"}"),
        "5.0"
    );
    world.ends().await;
}

/// HOLD-13, CLASS-04, CLASS-05: nothing on connect; three silent seconds wake.
#[tokio::test(start_paused = true)]
async fn silence_speaks_after_three_seconds() {
    let mut world = world("Paused", [Dial::Accept]);
    let caller = world.call().await;
    world.pass(millis(2_999)).await;
    assert_eq!(world.cluster.calls(), []);
    world.pass(millis(1)).await;
    world
        .cluster
        .until(|cluster| cluster.stamps().len() == 1)
        .await;

    // CLASS-06: it gets the server's greeting.
    ready_pod(&world);
    let mut backend = world.backend().await;
    backend.write_all(b"5.5.5-MariaDB").await.unwrap();
    let mut caller = caller;
    assert_eq!(read(&mut caller, 13).await, b"5.5.5-MariaDB");
    drop((caller, backend));
    world.ends().await;
}

/// T-123, PAGE-01: a browser's spare connection is held for its silence. What it is
/// used for later is judged as on any other: a page is opened, and the page is
/// there at once. Anything else stays held.
#[rstest]
#[case::page(
    b"GET / HTTP/1.1\r\nUser-Agent: Mozilla/5.0\r\nAccept: text/html\r\n\r\n",
    "HTTP/1.1 503 "
)]
#[case::hidden_file(b"GET /.env HTTP/1.1\r\n\r\n", "HTTP/1.1 404 ")]
#[case::script(GET, "")]
#[case::database(b"\x00\x00\x00\x08\x04\xd2\x16\x2f", "")]
#[tokio::test(start_paused = true)]
async fn what_breaks_the_silence_is_judged(#[case] bytes: &[u8], #[case] answer: &str) {
    let mut world = world("Paused", answer.is_empty().then_some(Dial::Accept));
    let mut caller = world.call().await;
    world.pass(secs(20)).await;
    assert_eq!(world.cluster.stamps().len(), 1);
    let (head, rest) = bytes.split_at(bytes.len() / 2);
    caller.write_all(head).await.unwrap();
    world.pass(secs(1)).await;
    caller.write_all(rest).await.unwrap();
    if answer.is_empty() {
        world.pass(secs(20)).await;
        ready_pod(&world);
        let mut backend = world.backend().await;
        assert_eq!(read(&mut backend, bytes.len()).await, bytes);
        assert_eq!(wakes(&world, "served"), "1");
    } else {
        let answered = read(&mut caller, answer.len()).await;
        assert_eq!(answered, answer.as_bytes());
    }
    assert_eq!(world.cluster.stamps().len(), 1);
    drop(caller);
    world.ends().await;
}

/// CLASS-01, CLASS-02, CLASS-03, CLASS-16, HOLD-39, T-43: what sends bytes is held
/// and wakes at once, whoever sent them.
#[rstest]
#[case::curl(GET)]
#[case::googlebot(b"GET / HTTP/1.1\r\nUser-Agent: Googlebot/2.1\r\n\r\n")]
#[case::no_agent(b"GET / HTTP/1.1\r\n\r\n")]
#[case::remote_write(b"POST /api/v1/write HTTP/1.1\r\nUser-Agent: Prometheus/2.53\r\n\r\n")]
#[case::tls(b"\x16\x03\x01\x02\x00\x01")]
#[case::postgres(b"\x00\x00\x00\x08\x04\xd2\x16\x2f")]
#[case::redis(b"*1\r\n$4\r\nPING\r\n")]
#[tokio::test(start_paused = true)]
async fn bytes_wake(#[case] bytes: &[u8]) {
    let world = world("Paused", []);
    let caller = world.say(bytes).await;
    world
        .cluster
        .until(|cluster| cluster.stamps().len() == 1)
        .await;
    assert_eq!(world.doorman.places.held(), 1);
    drop(caller);
    world.quiet().await;
    assert_eq!(wakes(&world, "left"), "1");
    world.ends().await;
}

/// T-65: many callers, one stamp.
#[tokio::test(start_paused = true)]
async fn many_callers_lead_to_one_stamp() {
    let world = world("Paused", []);
    let mut callers = Vec::new();
    for _ in 0..40 {
        callers.push(world.say(GET).await);
        world.pass(millis(300)).await;
    }
    assert_eq!(world.doorman.places.held(), 40);
    assert_eq!(world.cluster.stamps().len(), 1);
    drop(callers);
    world.ends().await;
}

/// HOLD-16, HOLD-41, T-74: of one not Ready, one terminating and one Ready, only
/// the Ready one gets the connection.
#[tokio::test(start_paused = true)]
async fn only_a_ready_pod_gets_it() {
    let mut world = world("Paused", [Dial::Accept]);
    let caller = world.say(GET).await;
    for (pod, address, ready) in [("a", "10.1.0.1", false), ("b", "10.1.0.2", true)] {
        world.cluster.put_pod("shop", pod, address, ready);
    }
    world.cluster.put_pod("shop", "c", "10.1.0.3", true);
    let terminating = json!({ "ready": false, "serving": true, "terminating": true });
    world.put_slice(slice(
        "api-1",
        &[
            ("a", "10.1.0.1", serving(false)),
            ("b", "10.1.0.2", terminating),
            ("c", "10.1.0.3", serving(true)),
        ],
    ));
    let backend = world.backend().await;
    let dialed: Vec<String> = world
        .dialed()
        .iter()
        .map(|(to, _)| to.to_string())
        .collect();
    assert_eq!(dialed, ["10.1.0.3:8080"]);
    drop((caller, backend));
    world.ends().await;
}

/// T-135: the Pod may say so before the slice does.
#[tokio::test(start_paused = true)]
async fn the_pods_own_ready_is_enough() {
    let mut world = world("Paused", [Dial::Accept]);
    let caller = world.say(GET).await;
    world.cluster.put_pod("shop", "api-0", "10.1.0.9", false);
    world.put_slice(slice("api-1", &[("api-0", "10.1.0.9", serving(false))]));
    world.pass(secs(2)).await;
    assert!(world.made().is_none());

    world.cluster.put_pod("shop", "api-0", "10.1.0.9", true);
    let backend = world.backend().await;
    drop((caller, backend));
    world.ends().await;
}

/// T-135: a slice alone is not enough.
#[rstest]
#[case::another_address(json!({ "podIPs": [{ "ip": "10.1.0.8" }] }), json!({}))]
#[case::deleted(
    json!({ "podIPs": [{ "ip": "10.1.0.9" }] }),
    json!({ "deletionTimestamp": "2026-11-30T10:05:00Z" })
)]
#[tokio::test(start_paused = true)]
async fn the_pod_must_agree(#[case] status: serde_json::Value, #[case] more: serde_json::Value) {
    let world = world("Paused", []);
    let caller = world.say(GET).await;
    let mut metadata = json!({ "namespace": "shop", "name": "api-0", "resourceVersion": "7" });
    metadata
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let pod = json!({ "metadata": metadata, "status": status });
    world.cluster.put("shop", "api-0", pod);
    world.put_slice(slice("api-1", &[("api-0", "10.1.0.9", serving(true))]));
    world.pass(secs(10)).await;
    assert_eq!(world.dialed(), []);
    drop(caller);
    world.ends().await;
}

/// T-135: Pods are watched by name, while somebody waits, and never listed.
#[tokio::test(start_paused = true)]
async fn pods_are_watched_while_somebody_waits() {
    let world = world("Resuming", []);
    world.cluster.put_pod("shop", "api-0", "10.1.0.9", false);
    world.put_slice(slice("api-1", &[("api-0", "10.1.0.9", serving(false))]));
    world.pass(secs(10)).await;
    assert_eq!(world.cluster.calls(), []);

    let callers = [world.say(GET).await, world.say(GET).await];
    world.cluster.until(|cluster| cluster.watched() == 1).await;
    world.pass(secs(20)).await;
    assert_eq!(world.cluster.watched(), 1);
    drop(callers);
    world.pass(secs(3)).await;
    assert_eq!(world.cluster.watched(), 0);
    for call in world.cluster.calls() {
        assert_eq!(call.path, "/api/v1/namespaces/shop/pods");
        assert!(call.query.contains("watch=true"), "{call:?}");
        assert!(
            call.query.contains("fieldSelector=metadata.name%3Dapi-0"),
            "{call:?}"
        );
    }
    world.ends().await;
}

/// What the API server said is told as it said it, and nothing of how.
#[tokio::test(start_paused = true)]
async fn errors_of_the_api_server_are_told_plainly() {
    let (lines, _guard) = Lines::gather();
    let world = world("Resuming", []);
    world.cluster.break_down();
    let caller = world.say(GET).await;
    world.put_slice(slice("api-1", &[("api-0", "10.1.0.9", serving(false))]));
    world.quiet().await;
    for text in ["the API server can't be reached", "a pod's watch failed"] {
        let said = lines.with(text);
        let plainly = |line: &String| line.contains(" error=\"not now\"");
        assert!(
            !said.is_empty() && said.iter().all(plainly),
            "{text}: {said:?}"
        );
    }
    drop(caller);
    world.ends().await;
}

/// While its pods start, a connection is made ready for the first one that is
/// named: once for all who wait.
#[tokio::test(start_paused = true)]
async fn a_connection_is_ready_before_the_first_pod_is_named() {
    let world = world("Paused", []);
    let callers = [world.say(GET).await, world.say(GET).await];
    world.pass(secs(1)).await;
    let versions = |cluster: &Cluster| {
        let calls = cluster.calls();
        calls.iter().filter(|call| call.path == "/version").count()
    };
    assert_eq!(versions(&world.cluster), 0);
    world.put(claimant("Resuming", "Routed", &json!({})));
    world.cluster.until(|cluster| versions(cluster) == 1).await;
    world.pass(secs(20)).await;
    assert_eq!(versions(&world.cluster), 1);
    drop(callers);
    world.ends().await;
}

/// HOLD-09, T-124: waking or awake, there is nothing to wake, and one is held
/// all the same.
#[rstest]
#[case("Resuming")]
#[case("Running")]
#[tokio::test(start_paused = true)]
async fn nothing_to_wake(#[case] phase: &str) {
    let mut world = world(phase, [Dial::Accept]);
    let caller = world.say(GET).await;
    world.pass(secs(30)).await;
    assert!(world.cluster.stamps().is_empty());
    ready_pod(&world);
    let backend = world.backend().await;
    drop((caller, backend));
    world.ends().await;
}

/// A pause that begins while a caller is held is one that the caller calls off.
#[tokio::test(start_paused = true)]
async fn a_pause_that_begins_meanwhile_is_stamped() {
    let world = world("Running", []);
    let caller = world.say(GET).await;
    world.put(claimant("Pausing", "Routed", &json!({})));
    world
        .cluster
        .until(|cluster| cluster.stamps().len() == 1)
        .await;
    drop(caller);
    world.ends().await;
}

/// DRAIN-19, T-79: a stray in the drain is held, and wakes nothing.
#[tokio::test(start_paused = true)]
async fn a_stray_in_the_drain_wakes_nothing() {
    let mut world = world("Paused", [Dial::Accept]);
    world.put(claimant("Paused", "Draining", &json!({})));
    let caller = world.say(GET).await;
    world.pass(secs(40)).await;
    assert!(world.cluster.stamps().is_empty());
    // Its port is closed by now, and it is still held, and passed.
    ready_pod(&world);
    let backend = world.backend().await;
    drop((caller, backend));
    world.ends().await;
}

/// What a held connection costs: its futures, in bytes. Stages that come later
/// are boxed, so that they cost nothing until then.
#[tokio::test(start_paused = true)]
async fn a_held_caller_is_small() {
    let world = world("Paused", []);
    let size = world.held_size().await;
    assert!(size <= 1_792, "{size} bytes");
}
