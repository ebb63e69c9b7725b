//! Clicks over a cluster in memory, with a clock that only the test moves.

use std::time::Duration;

use futures::FutureExt;
use napwake_api::stamp::RequestKind;
use napwake_gate::places::Source;
use rstest::rstest;
use serde_json::{Value, json};

use super::super::{Asker, How};
use super::*;
use crate::tests::{World, claimant, managed, merge, numbered};

const MANAGED: &str = "/apis/napwake.dev/v1alpha1/namespaces/shop/managedworkloads";

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// The ManagedWorkload `api` asks, and is paused; `more` is merged over it.
fn world(more: &Value) -> World {
    let world = World::new([]);
    asleep(&world, more);
    world
}

fn asking(more: &Value) -> Value {
    let mut asking = json!({ "spec": { "wake": { "mode": "Ask" } } });
    merge(&mut asking, more);
    asking
}

/// It is so at the API server, and the doorman has seen it.
fn asleep(world: &World, more: &Value) {
    let more = asking(more);
    let object = managed("Paused", "Routed", &more);
    let name = object.metadata.name.clone().unwrap();
    let object = serde_json::to_value(object).unwrap();
    world.cluster.store(&format!("{MANAGED}/{name}"), object);
    world.put(claimant("Paused", "Routed", &more));
}

/// It has become so at the API server, and the doorman hasn't seen it yet.
fn changes(world: &World, more: &Value) {
    let path = format!("{MANAGED}/api");
    let mut object = world.cluster.stored(&path).unwrap();
    merge(&mut object, more);
    world.cluster.store(&path, object);
}

fn clicker(source: &str) -> Asker {
    let source: std::net::IpAddr = source.parse().unwrap();
    Asker {
        source: Source::from(source),
        kind: RequestKind::Click,
        how: How::Waits,
    }
}

/// Somebody clicks at `world`'s pod.
async fn click_on(world: &World, port: u16, source: &str) -> Vec<Press> {
    let (route, until) = (world.route(port), Instant::now() + secs(120));
    let wakes = world.doorman.wakes.clone();
    let judged = route.now();
    wakes.click(&route, &judged, clicker(source), until).await
}

async fn click(world: &World) -> Vec<Press> {
    click_on(world, 20_001, "192.0.2.7").await
}

/// What `last-request` says.
fn stamped(world: &World, name: &str) -> String {
    let object = world.cluster.stored(&format!("{MANAGED}/{name}")).unwrap();
    let stamp = object["metadata"]["annotations"]["napwake.dev/last-request"].as_str();
    stamp.unwrap_or_default().to_owned()
}

fn writes(world: &World) -> usize {
    world.cluster.stamps().len()
}

/// ASK-08, ASK-09: it is stamped as a click, over the version that was read, and
/// the event says that a person asked.
#[tokio::test(start_paused = true)]
async fn a_click_is_stamped_and_told() {
    let world = world(&json!({}));
    assert_eq!(click(&world).await, [Press::Stamp]);
    assert_eq!(
        stamped(&world, "api"),
        "2026-11-30T10:05:00.000000Z click api"
    );
    let patch = &world.cluster.stamps()[0]["metadata"];
    assert_eq!(
        (&patch["resourceVersion"], &patch["uid"]),
        (&json!("1"), &json!("u1"))
    );
    let from = &patch["annotations"]["napwake.dev/last-request-from"];
    assert_eq!(from, "192.0.2.7");
    world.quiet().await;
    let told = "A person asked at Service api to wake it".to_owned();
    assert_eq!(
        world.cluster.events(),
        [("WokenByRequest".to_owned(), told)]
    );
}

/// LIMIT-10, T-10, TOKEN-26: of two clicks at the same instant, at whichever pods, one wakes.
#[tokio::test(start_paused = true)]
async fn of_two_clicks_at_once_one_wakes() {
    for _ in 0..100 {
        let one = world(&json!({}));
        let other = one.beside();
        other.put(claimant("Paused", "Routed", &asking(&json!({}))));
        let (first, second, third) = tokio::join!(click(&one), click(&other), click(&one));
        let mut presses = [first, second, third].concat();
        presses.sort_by_key(|press| *press != Press::Stamp);
        assert_eq!(presses, [Press::Stamp, Press::TooSoon, Press::TooSoon]);
    }
}

/// T-10, LIMIT-10: clicks at one pod are carried out one after the other, so that only
/// one at a time asks the API server, however many there are and whoever of them left.
#[tokio::test(start_paused = true)]
async fn one_click_at_a_time_is_carried_out() {
    let world = world(&json!({}));
    world.cluster.fall_silent();
    for _ in 0..100 {
        assert_eq!(click(&world).now_or_never(), None, "it isn't answered yet");
    }
    world.quiet().await;
    assert_eq!(world.cluster.calls().len(), 1);
}

/// T-07, T-10: whoever waited for another's click that woke comes too soon, and nothing
/// is read for them.
#[tokio::test(start_paused = true)]
async fn those_who_waited_come_too_soon() {
    let world = world(&json!({}));
    let presses = futures::future::join_all((0..10).map(|_| click(&world))).await;
    let mut expected = [Press::TooSoon; 10];
    expected[0] = Press::Stamp;
    assert_eq!(presses.concat(), expected);
    let calls = world.cluster.calls();
    let reads = calls.iter().filter(|call| call.method == http::Method::GET);
    assert_eq!(reads.count(), 1);
}

/// T-62: those who waited for one that can't be written yet join it.
#[tokio::test(start_paused = true)]
async fn those_who_waited_join_one_that_is_tried_on() {
    let world = world(&json!({}));
    world.cluster.refuse_stamps([500]);
    let presses = futures::future::join_all((0..10).map(|_| click(&world))).await;
    assert_eq!(presses.concat(), [Press::Stamp; 10]);
    assert_eq!(writes(&world), 1);
    world.pass(secs(2)).await;
    assert_eq!(writes(&world), 2);
}

/// Annotations with times of that morning.
fn says(stamps: &[(&str, &str)]) -> Value {
    let stamps = stamps.iter().map(|(name, clock)| {
        let stamp = format!("2026-11-30T{clock}.000000Z");
        (format!("napwake.dev/{name}"), json!(stamp))
    });
    json!({ "metadata": { "annotations": Value::Object(stamps.collect()) } })
}

fn phase(phase: &str) -> Value {
    json!({ "status": { "phase": phase } })
}

/// What is at the API server counts, though the watch hasn't shown it yet. T-11,
/// TOKEN-27, TOKEN-28: the minute since the last wake request. T-12: one that lies
/// too far ahead doesn't count. TOKEN-05: another pause.
#[rstest]
#[case::requested_59_s_ago(says(&[("last-request", "10:04:01")]), Press::TooSoon)]
#[case::requested_61_s_ago(says(&[("last-request", "10:03:59")]), Press::Stamp)]
#[case::by_command(says(&[("wake-requested", "10:04:40")]), Press::TooSoon)]
#[case::the_later_counts(
    says(&[("wake-requested", "10:04:40"), ("last-request", "10:00:30")]),
    Press::TooSoon
)]
#[case::too_far_ahead(says(&[("last-request", "10:06:01")]), Press::Stamp)]
#[case::one_too_far_ahead_hides_none(
    says(&[("last-request", "18:00:00"), ("wake-requested", "10:04:40")]),
    Press::TooSoon
)]
#[case::nor_does_one_by_command(
    says(&[("last-request", "10:04:40"), ("wake-requested", "18:00:00")]),
    Press::TooSoon
)]
#[case::waking(phase("Resuming"), Press::IsWaking)]
#[case::awake(phase("Running"), Press::IsWaking)]
#[case::pausing(phase("Pausing"), Press::Stamp)]
#[case::another_pause(
    json!({ "status": { "pause": { "startedAt": "2026-11-30T10:04:00.000000Z" } } }),
    Press::OtherPause
)]
#[case::made_anew(json!({ "metadata": { "uid": "u2" } }), Press::OtherPause)]
#[tokio::test(start_paused = true)]
async fn what_is_read_decides(#[case] changed: Value, #[case] expected: Press) {
    let world = world(&json!({}));
    changes(&world, &changed);
    assert_eq!(click(&world).await, [expected]);
    assert_eq!(writes(&world), usize::from(expected == Press::Stamp));
}

/// One that is gone has nothing to wake.
#[tokio::test(start_paused = true)]
async fn one_that_is_gone_is_left() {
    let world = world(&json!({}));
    world.cluster.unstore(&format!("{MANAGED}/api"));
    assert_eq!(click(&world).await, [Press::OtherPause]);
    assert_eq!(writes(&world), 0);
}

/// T-10: one that changed in between is read again.
#[tokio::test(start_paused = true)]
async fn one_that_changes_meanwhile_is_read_again() {
    let world = world(&json!({}));
    world.cluster.refuse_stamps([409, 409]);
    assert_eq!(click(&world).await, [Press::Stamp]);
    assert_eq!(writes(&world), 3);
    assert!(stamped(&world, "api").ends_with(" click api"));
}

/// T-112: where it can't be written, it counts as written, and is tried again
/// every two seconds apart from whoever clicked. Another click joins it.
#[tokio::test(start_paused = true)]
async fn a_click_that_cannot_be_written_is_tried_again() {
    let world = world(&json!({}));
    world.cluster.refuse_stamps([500, 403, 500]);
    assert_eq!(click(&world).await, [Press::Stamp]);
    let mut tried = vec![writes(&world)];
    for _ in 0..6 {
        assert_eq!(click(&world).await, [Press::Stamp], "it is pending");
        world.pass(secs(1)).await;
        tried.push(writes(&world));
    }
    assert_eq!(tried, [1, 1, 2, 2, 3, 3, 4]);
    assert_eq!(
        stamped(&world, "api"),
        "2026-11-30T10:05:06.000000Z click api"
    );
    assert_eq!(click(&world).await, [Press::TooSoon], "it was written");
    world.pass(secs(10)).await;
    assert_eq!(writes(&world), 4);
}

/// T-62, TOKEN-05: a click in another pause doesn't join one of an earlier pause,
/// which stays unwritten.
#[tokio::test(start_paused = true)]
async fn a_click_joins_none_of_an_earlier_pause() {
    let world = world(&json!({}));
    world.cluster.refuse_stamps([500, 500]);
    assert_eq!(click(&world).await, [Press::Stamp]);
    let next = json!({ "status": { "pause": { "startedAt": "2026-11-30T10:04:00.000000Z" } } });
    asleep(&world, &next);
    assert_eq!(click(&world).await, [Press::Stamp], "it is pending");
    world.pass(secs(2)).await;
    assert!(stamped(&world, "api").ends_with(" click api"));
    assert_eq!(writes(&world), 3);
    world.pass(secs(10)).await;
    assert_eq!(writes(&world), 3);
}

/// T-62, T-69: one that is pending outlives the route that it was made on where
/// somebody clicked on another.
#[tokio::test(start_paused = true)]
async fn a_click_outlives_its_first_route() {
    let routes = |ports: &[u16]| {
        let entry = |port: &u16| {
            json!({
                "service": format!("s{port}"), "port": { "name": "http", "number": 80 },
                "doormanPort": port, "families": ["IPv4"], "state": "Routed",
            })
        };
        let routes: Vec<Value> = ports.iter().map(entry).collect();
        json!({ "status": { "doorman": { "routes": routes } } })
    };
    let world = world(&routes(&[20_001, 20_002]));
    world.cluster.refuse_stamps([500]);
    assert_eq!(click(&world).await, [Press::Stamp]);
    let joins = click_on(&world, 20_002, "192.0.2.8").await;
    assert_eq!(joins, [Press::Stamp], "it is pending");
    asleep(&world, &routes(&[20_002]));
    world.pass(secs(2)).await;
    assert!(stamped(&world, "api").ends_with(" click s20002"));
}

/// T-62: no longer than whoever clicked would be held.
#[tokio::test(start_paused = true)]
async fn nobody_is_left_to_try_for() {
    let world = world(&json!({}));
    world.cluster.refuse_stamps([500; 200]);
    click(&world).await;
    for _ in 0..150 {
        world.pass(secs(1)).await;
    }
    let end = writes(&world);
    assert!((58..=61).contains(&end), "{end}");
    world.pass(secs(60)).await;
    assert_eq!(writes(&world), end);
}

/// T-63: clicks use the allowances: over them it counts as written, and is written
/// at a multiple of two seconds.
#[tokio::test(start_paused = true)]
async fn clicks_use_the_allowances() {
    let world = World::new([]);
    for number in 0..32 {
        asleep(&world, &numbered(number));
    }
    for number in 0..32 {
        let pressed = click_on(&world, 20_100 + number, "192.0.2.7").await;
        assert_eq!(pressed, [Press::Stamp]);
    }
    let mut written = vec![writes(&world)];
    for _ in 0..4 {
        world.pass(secs(1)).await;
        written.push(writes(&world));
    }
    assert_eq!(written, [30, 30, 31, 31, 32]);
    // Nothing is read again before it may be written.
    let calls = world.cluster.calls();
    let reads = calls.iter().filter(|call| call.method == http::Method::GET);
    assert_eq!(reads.count(), 32 + 2);
}

/// LIMIT-15: a click that wakes nothing uses none of the allowance.
#[tokio::test(start_paused = true)]
async fn only_what_wakes_uses_the_allowances() {
    let world = world(&json!({}));
    click(&world).await;
    for _ in 0..100 {
        assert_eq!(click(&world).await, [Press::TooSoon]);
    }
    for number in 0..29 {
        asleep(&world, &numbered(number));
        click_on(&world, 20_100 + number, "192.0.2.7").await;
    }
    assert_eq!(writes(&world), 30);
}

/// LIMIT-15: of clicks at the same instant, only the one that wakes uses the allowances.
#[tokio::test(start_paused = true)]
async fn only_the_first_of_many_uses_the_allowances() {
    let world = world(&json!({}));
    let presses = futures::future::join_all((0..10).map(|_| click(&world))).await;
    let mut presses = presses.concat();
    presses.sort_by_key(|press| *press != Press::Stamp);
    assert_eq!(presses[..2], [Press::Stamp, Press::TooSoon]);
    let names: Vec<String> = (0..30).map(|number| format!("api-{number}")).collect();
    for number in 0..30 {
        asleep(&world, &numbered(number));
        click_on(&world, 20_100 + number, "192.0.2.7").await;
    }
    let is_woken = |name: &&String| !stamped(&world, name).is_empty();
    assert_eq!(names.iter().filter(is_woken).count(), 29);
}

/// LIMIT-15: nor does one that waited for them and found another ahead.
#[tokio::test(start_paused = true)]
async fn one_that_waited_in_vain_uses_none() {
    let world = World::new([]);
    for number in 0..31 {
        asleep(&world, &numbered(number));
        click_on(&world, 20_100 + number, "192.0.2.7").await;
    }
    assert_eq!(writes(&world), 30);
    let path = format!("{MANAGED}/api-30");
    let mut object = world.cluster.stored(&path).unwrap();
    merge(&mut object, &says(&[("last-request", "10:05:01")]));
    world.cluster.store(&path, object);
    world.pass(secs(2)).await;
    assert_eq!(writes(&world), 30);
    asleep(&world, &numbered(31));
    click_on(&world, 20_131, "192.0.2.7").await;
    assert_eq!(writes(&world), 31);
}

/// LIMIT-15: a click that calls a pause off counts for nothing.
#[tokio::test(start_paused = true)]
async fn a_pause_is_called_off_over_any_rate() {
    let world = World::new([]);
    for number in 0..40 {
        let mut pausing = numbered(number);
        merge(&mut pausing, &json!({ "status": { "phase": "Pausing" } }));
        asleep(&world, &pausing);
        click_on(&world, 20_100 + number, "192.0.2.7").await;
    }
    assert_eq!(writes(&world), 40);
}

/// T-75: it wakes every workload behind its Service, each for itself.
#[tokio::test(start_paused = true)]
async fn all_behind_the_service_are_woken() {
    let world = world(&json!({}));
    asleep(
        &world,
        &json!({ "metadata": { "name": "other", "uid": "u2" } }),
    );
    changes(&world, &says(&[("last-request", "10:04:30")]));
    let mut pressed = click(&world).await;
    pressed.sort_by_key(|press| *press != Press::Stamp);
    assert_eq!(pressed, [Press::Stamp, Press::TooSoon]);
    assert!(stamped(&world, "other").ends_with(" click api"));
}
