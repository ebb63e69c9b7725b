//! Pods that don't take the connection.

use napwake_gate::places::Caps;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::{GET, asks, max_wait, millis, ready_pod, secs, serving, wakes, world, world_with};
use crate::tests::{Dial, World, claimant, ending, read, slice};

fn two_ready_pods(world: &World) {
    world.cluster.put_pod("shop", "a", "10.1.0.1", true);
    world.cluster.put_pod("shop", "b", "10.1.0.2", true);
    let endpoints = [
        ("a", "10.1.0.1", serving(true)),
        ("b", "10.1.0.2", serving(true)),
    ];
    world.put_slice(slice("api-1", &endpoints));
}

/// HOLD-21, field case 24: a pod that isn't listening yet is dialed again each
/// second, and what the caller had sent is still whole.
#[tokio::test(start_paused = true)]
async fn a_refused_dial_is_repeated_each_second() {
    let refused = std::iter::repeat_n(Dial::Refuse, 5);
    let mut world = world("Paused", refused.chain([Dial::Accept]));
    let caller = world.say(GET).await;
    ready_pod(&world);
    for _ in 0..50 {
        world.pass(millis(100)).await;
    }
    let mut backend = world.backend().await;
    let at: Vec<_> = world.dialed().iter().map(|(_, at)| *at).collect();
    assert_eq!(at, [0, 1, 2, 3, 4, 5].map(secs));
    assert_eq!(read(&mut backend, GET.len()).await, GET);
    drop((caller, backend));
    world.ends().await;
}

/// HOLD-22, HOLD-29, OBS-06, OBS-07, OBS-08, OBS-09, T-60: until maxWait and no
/// longer, counted from the accept; then nothing is sent, and an event says why.
#[tokio::test(start_paused = true)]
async fn until_max_wait_and_no_longer() {
    let refused = std::iter::repeat_n(Dial::Refuse, 3);
    let world = world_with("Paused", &max_wait("5s"), refused);
    let mut caller = world.say(GET).await;
    world.pass(secs(2)).await;
    ready_pod(&world);
    for span in [secs(1), secs(1), millis(999)] {
        world.pass(span).await;
        assert_eq!(world.doorman.places.held(), 1);
    }
    world.pass(millis(1)).await;
    assert!(ending(&mut caller).await.is_silent());
    world
        .cluster
        .until(|cluster| cluster.events().len() == 2)
        .await;
    let events = world.cluster.events();
    let (reason, note) = events.last().unwrap();
    assert_eq!(reason, "RequestNotServed");
    assert_eq!(
        note,
        "A request to Service api was held for 5s and not served: can't connect to its Ready \
         pods: 10.1.0.9:8080 refused the connection"
    );
    assert_eq!(wakes(&world, "unreachable"), "1");
    world.ends().await;
}

/// HOLD-29: one whose pod doesn't answer at all is held until maxWait and no longer,
/// though a dial is under way.
#[tokio::test(start_paused = true)]
async fn a_silent_pod_is_waited_for_until_max_wait() {
    let world = world_with("Paused", &max_wait("3s"), [Dial::Silence]);
    let mut caller = world.say(GET).await;
    ready_pod(&world);
    world.pass(millis(2_999)).await;
    assert_eq!(world.doorman.places.held(), 1);
    world.pass(millis(1)).await;
    assert!(ending(&mut caller).await.is_silent());
    world
        .cluster
        .until(|cluster| cluster.events().len() == 2)
        .await;
    world.ends().await;
}

/// Field case 24: a different Ready pod is tried at once.
#[tokio::test(start_paused = true)]
async fn another_ready_pod_is_tried_at_once() {
    let mut world = world("Paused", [Dial::Refuse, Dial::Accept]);
    let caller = world.say(GET).await;
    two_ready_pods(&world);
    let backend = world.backend().await;
    assert_eq!(world.dialed().len(), 2);
    assert_ne!(world.dialed()[0].0, world.dialed()[1].0);
    drop((caller, backend));
    world.ends().await;
}

/// Field case 28: a pod that drops packets costs a second, and only those who turn
/// to it first.
#[tokio::test(start_paused = true)]
async fn a_silent_pod_costs_a_second() {
    let dials = [Dial::Silence, Dial::Accept, Dial::Accept];
    let mut world = world("Running", dials.repeat(3));
    two_ready_pods(&world);
    for _ in 0..3 {
        let first = world.say(GET).await;
        world.pass(millis(999)).await;
        assert!(world.made().is_none());
        world.pass(millis(1)).await;
        let first = (first, world.backend().await);
        // The next begins with the other, and nothing passes but bytes.
        let second = (world.say(GET).await, world.backend().await);
        drop((first, second));
        world.quiet().await;
    }
    let at: Vec<_> = world.dialed().iter().map(|(_, at)| *at).collect();
    assert_eq!(at, [0, 1, 1, 1, 2, 2, 2, 3, 3].map(secs));
    world.ends().await;
}

/// One that doesn't answer holds another up for a second.
#[tokio::test(start_paused = true)]
async fn a_silent_pod_is_passed_by_after_a_second() {
    let mut world = world("Paused", [Dial::Silence, Dial::Accept]);
    let caller = world.say(GET).await;
    two_ready_pods(&world);
    world.pass(millis(999)).await;
    assert!(world.made().is_none());
    world.pass(millis(1)).await;
    let backend = world.backend().await;
    drop((caller, backend));
    world.ends().await;
}

/// The same where the other becomes Ready only later.
#[tokio::test(start_paused = true)]
async fn a_silent_pod_is_passed_by_for_one_that_comes_later() {
    let mut world = world("Paused", [Dial::Silence, Dial::Accept]);
    let caller = world.say(GET).await;
    ready_pod(&world);
    world.pass(secs(2)).await;
    assert!(world.made().is_none());
    world.cluster.put_pod("shop", "b", "10.1.0.2", true);
    world.put_slice(slice("api-2", &[("b", "10.1.0.2", serving(true))]));
    let backend = world.backend().await;
    drop((caller, backend));
    world.ends().await;
}

/// NET-24: an endpoint that no Pod backs is never dialed.
#[tokio::test(start_paused = true)]
async fn an_endpoint_without_a_pod_is_never_dialed() {
    let world = world("Paused", []);
    let caller = world.say(GET).await;
    let mut stray = slice("api-1", &[("api-0", "10.1.0.9", serving(true))]);
    for endpoint in &mut stray.content.endpoints {
        endpoint.pod = None;
    }
    world.put_slice(stray);
    world.pass(secs(10)).await;
    assert_eq!(world.dialed(), []);
    drop(caller);
    world.ends().await;
}

/// NET-26, NET-27, NET-28: a Pod with such an address is never connected to.
#[rstest::rstest]
#[case("127.0.0.1")]
#[case("169.254.1.1")]
#[case("169.254.169.254")]
#[tokio::test(start_paused = true)]
async fn special_addresses_are_never_dialed(#[case] address: &str) {
    let world = world("Paused", []);
    let caller = world.say(GET).await;
    world.cluster.put_pod("shop", "api-0", address, true);
    world.put_slice(slice("api-1", &[("api-0", address, serving(true))]));
    for _ in 0..5 {
        world.pass(secs(1)).await;
    }
    assert_eq!(world.dialed(), []);
    drop(caller);
    world.ends().await;
}

/// T-71: each endpoint is dialed on its own slice's port.
#[tokio::test(start_paused = true)]
async fn each_slice_has_its_own_port() {
    let mut world = world("Paused", [Dial::Refuse, Dial::Accept]);
    let caller = world.say(GET).await;
    two_ready_pods(&world);
    let backend = world.backend().await;
    drop((caller, backend));
    world.quiet().await;

    let mut other = slice("api-2", &[("c", "10.1.0.3", serving(true))]);
    other.content.ports[0].number = 9090;
    world.cluster.put_pod("shop", "c", "10.1.0.3", true);
    world.put_slice(slice("api-1", &[]));
    world.put_slice(other);
    world.put(claimant("Running", "Routed", &json!({})));
    let (next, dialed) = (world.route(20_001).now(), "10.1.0.3:9090");
    assert_eq!(next.candidates[0].address.to_string(), dialed);
    world.ends().await;
}

/// HOLD-17: what is sent while dials are refused isn't lost or repeated.
#[tokio::test(start_paused = true)]
async fn bytes_sent_between_dials_arrive_once() {
    let mut world = world("Paused", [Dial::Refuse, Dial::Refuse, Dial::Accept]);
    let mut caller = world.say(GET).await;
    ready_pod(&world);
    for piece in [b"one", b"two"] {
        world.quiet().await;
        caller.write_all(piece).await.unwrap();
        world.pass(secs(1)).await;
    }
    let mut backend = world.backend().await;
    caller.write_all(b"end").await.unwrap();
    let expected = [GET, b"onetwoend"].concat();
    assert_eq!(read(&mut backend, expected.len()).await, expected);
    drop((caller, backend));
    world.ends().await;
}

/// T-74: a pod, of another workload, that goes before it took the connection leaves the
/// caller to be judged after all, so that it wakes.
#[tokio::test(start_paused = true)]
async fn a_caller_whose_pod_goes_is_judged_after_all() {
    let world = world("Paused", [Dial::Refuse]);
    ready_pod(&world);
    let caller = world.say(GET).await;
    assert_eq!(world.dialed().len(), 1);
    assert!(world.cluster.stamps().is_empty());
    world.put_slice(slice("api-1", &[]));
    world
        .cluster
        .until(|cluster| cluster.stamps().len() == 1)
        .await;
    drop(caller);
    world.quiet().await;
    assert_eq!(wakes(&world, "left"), "1");
    world.ends().await;
}

/// HOLD-11, T-02, T-03: one that is held while pausing, for its Ready pod can't be
/// reached, calls the pause off as one that is passed on does: by what it sent, by its
/// silence, or not at all.
#[rstest::rstest]
#[case::request(GET, 1, 1)]
#[case::silence(b"", 3, 1)]
#[case::begun(b"GET / HT", 3, 1)]
#[case::probe(b"GET / HTTP/1.1\r\nUser-Agent: kube-probe/1.30\r\n\r\n", 3, 0)]
#[tokio::test(start_paused = true)]
async fn a_caller_whose_pod_cant_be_reached_calls_the_pause_off(
    #[case] bytes: &[u8],
    #[case] after: usize,
    #[case] stamps: usize,
) {
    let dials = std::iter::repeat_n(Dial::Refuse, after + 1);
    let mut world = world("Pausing", dials.chain([Dial::Accept]));
    ready_pod(&world);
    let caller = world.say(bytes).await;
    for second in 1..=after {
        world.pass(millis(999)).await;
        if second == after {
            assert!(after == 1 || world.cluster.stamps().is_empty());
        }
        world.pass(millis(1)).await;
    }
    assert_eq!(world.cluster.stamps().len(), stamps);
    world.pass(secs(1)).await;
    let mut backend = world.backend().await;
    assert_eq!(read(&mut backend, bytes.len()).await, bytes);
    assert_eq!(world.cluster.stamps().len(), stamps);
    assert_eq!(world.cluster.events(), [], "nothing was woken");
    drop((caller, backend));
    world.ends().await;
}

/// HOLD-11, T-04: in Ask it leaves the pause going.
#[tokio::test(start_paused = true)]
async fn in_ask_a_caller_whose_pod_cant_be_reached_leaves_the_pause_going() {
    let mut world = world_with(
        "Pausing",
        &asks(),
        [Dial::Refuse; 4].into_iter().chain([Dial::Accept]),
    );
    ready_pod(&world);
    let caller = world.say(GET).await;
    for _ in 0..4 {
        world.pass(secs(1)).await;
    }
    let backend = world.backend().await;
    assert!(world.cluster.stamps().is_empty());
    drop((caller, backend));
    world.ends().await;
}

/// LIMIT-08, HOLD-11: one that waits for a place to pass calls a pause off, too,
/// whether it was on when the caller came or began since.
#[rstest::rstest]
#[case::came_later("Pausing")]
#[case::came_before("Running")]
#[tokio::test(start_paused = true)]
async fn a_caller_without_a_place_calls_the_pause_off(
    #[case] phase: &str,
    #[values(GET, b"GET / HT", b"")] bytes: &[u8],
) {
    let caps = Caps {
        passed_per_source: 1,
        ..Caps::default()
    };
    let mut world = World::with_caps([Dial::Accept; 2], caps);
    world.put(claimant("Running", "Routed", &json!({})));
    ready_pod(&world);
    let first = world.say(GET).await;
    let first = (first, world.backend().await);
    world.put(claimant(phase, "Routed", &json!({})));
    let second = world.say(bytes).await;
    world.pass(secs(3)).await;
    world.put(claimant("Pausing", "Routed", &json!({})));
    world.pass(secs(1)).await;
    assert_eq!(world.cluster.stamps().len(), 1);
    drop(first);
    world.quiet().await;
    let backend = world.backend().await;
    drop((second, backend));
    world.ends().await;
}
