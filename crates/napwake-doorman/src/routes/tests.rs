//! The board, told of changes and of the time.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use napwake_cluster::watch::{Change, ObjectKey, Unreadable};
use napwake_gate::places::WorkloadKey;
use napwake_kit::metrics::Registry;
use napwake_net::dial::AddressRule;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::metrics::Metrics;
use crate::pods::{Judge, Keepers};
use crate::tests::{Cluster, Lines, claimant, now, slice};

/// A board, and a clock that the test moves.
struct Fixture {
    board: Board,
    instant: Instant,
    time: Timestamp,
    next: Option<Instant>,
}

impl Fixture {
    fn new() -> Self {
        let client = Cluster::default().client();
        let judge = Judge::new("napwake-system");
        let keepers = Keepers::new(client, judge, tokio_util::task::TaskTracker::new());
        Self {
            board: Board::new(keepers, AddressRule::pods(|_| false)),
            instant: Instant::now(),
            time: now(),
            next: None,
        }
    }

    fn put(&mut self, phase: &str, state: &str, more: &Value) {
        let (key, claimant) = claimant(phase, state, more);
        self.board.put_workload(key, claimant);
        self.settle();
    }

    fn settle(&mut self) {
        let now = Now {
            instant: self.instant,
            time: self.time,
        };
        self.next = self.board.settle(now);
    }

    fn pass(&mut self, secs: u64) {
        let span = Duration::from_secs(secs);
        self.instant += span;
        self.time += span;
        self.settle();
    }

    fn ports(&self) -> Vec<u16> {
        let table = self.board.table();
        let ports = table
            .borrow()
            .as_ref()
            .map(|table| table.keys().copied().collect());
        ports.unwrap_or_default()
    }

    fn route(&self, port: u16) -> RouteHandle {
        let table = self.board.table();
        let table = table.borrow().clone().unwrap();
        table[&port].clone()
    }
}

fn candidates(route: &RouteHandle) -> Vec<String> {
    let route = route.now();
    route
        .candidates
        .iter()
        .map(|one| one.address.to_string())
        .collect()
}

/// One that can't be read keeps its ports, for its callers are better served by
/// what was read last; one that is then deleted has none any more (T-111).
#[tokio::test]
async fn an_unreadable_workload_that_goes_leaves_no_port() {
    let mut fixture = Fixture::new();
    let metrics = Metrics::register(&mut Registry::default());
    fixture.put("Paused", "Routed", &json!({}));
    let ports = fixture.ports();
    assert_eq!(ports.len(), 1);
    let (key, _) = claimant("Paused", "Routed", &json!({}));
    let key = ObjectKey::new(key.namespace(), key.name());
    let unreadable = Arc::new(Unreadable {
        key: key.clone(),
        uid: None,
        resource_version: None,
        error: "odd".to_owned(),
        status: Value::Null,
    });
    let spoiled = Change::Unreadable {
        old: None,
        object: unreadable,
    };
    on_workload(&mut fixture.board, &metrics, spoiled);
    fixture.settle();
    assert_eq!(fixture.ports(), ports);
    let gone = Change::Removed { key, old: None };
    on_workload(&mut fixture.board, &metrics, gone);
    fixture.settle();
    fixture.pass(31);
    assert!(fixture.ports().is_empty(), "{:?}", fixture.ports());
}

fn serving() -> Value {
    json!({ "serving": true })
}

/// ROUTE-79: a port is there as soon as its route is being opened, for the
/// operator connects to it as a check.
#[rstest]
#[case("Pausing", "Opening")]
#[case("Paused", "Routed")]
#[case("Running", "Draining")]
#[tokio::test(start_paused = true)]
async fn every_listed_route_has_its_port(
    #[case] phase: &str,
    #[case] state: &str,
    #[values(20_000, 29_999)] port: u16,
) {
    let mut fixture = Fixture::new();
    let more = json!({ "status": { "doorman": { "routes": [{
        "service": "api", "port": { "name": "http", "number": 80 }, "doormanPort": port,
        "families": ["IPv4"], "state": state,
    }] } } });
    fixture.put(phase, state, &more);
    assert_eq!(fixture.ports(), [port]);
}

/// ROUTE-04, ROUTE-66: a port that can't be a route's isn't listened on, such as
/// the one that serves metrics. That's said once, and once more if it comes back.
#[rstest]
#[case(0)]
#[case(8_443)]
#[case(19_999)]
#[case(30_000)]
#[tokio::test(start_paused = true)]
async fn a_port_outside_of_the_range_is_left_out(#[case] port: u16) {
    let mut fixture = Fixture::new();
    let (lines, _guard) = Lines::gather();
    let entry = |port: u16| {
        json!({
            "service": "api", "port": { "name": "http", "number": 80 }, "doormanPort": port,
            "families": ["IPv4"], "state": "Routed",
        })
    };
    let listing = |routes: &[Value]| json!({ "status": { "doorman": { "routes": routes } } });
    let both = listing(&[entry(port), entry(20_001)]);
    for phase in ["Pausing", "Paused", "Paused"] {
        fixture.put(phase, "Routed", &both);
        assert_eq!(fixture.ports(), [20_001]);
    }
    let said = lines.with(&format!("port={port}"));
    assert_eq!(said.len(), 1, "{said:?}");
    fixture.put("Paused", "Routed", &listing(&[entry(20_001)]));
    fixture.put("Paused", "Routed", &both);
    assert_eq!(fixture.ports(), [20_001]);
    assert_eq!(lines.with(&format!("port={port}")).len(), 2);
}

/// NET-26, NET-27, NET-28, T-72: an address that may not be dialed doesn't count as
/// one that may be Ready.
#[tokio::test(start_paused = true)]
async fn forbidden_addresses_are_no_candidates() {
    let mut fixture = Fixture::new();
    let addresses = ["127.0.0.1", "169.254.1.1", "100.100.100.200", "10.1.0.9"];
    let endpoints = addresses.map(|address| ("a", address, serving()));
    fixture
        .board
        .put_slice(Arc::new(slice("api-1", &endpoints)));
    fixture.put("Paused", "Routed", &json!({}));
    assert_eq!(candidates(&fixture.route(20_001)), ["10.1.0.9:8080"]);
}

/// A slice that comes before its route isn't missed, nor is one after it.
#[rstest]
#[tokio::test(start_paused = true)]
async fn slices_come_before_or_after(#[values(true, false)] before: bool) {
    let mut fixture = Fixture::new();
    let slice = Arc::new(slice("api-1", &[("a", "10.1.0.9", serving())]));
    if before {
        fixture.board.put_slice(Arc::clone(&slice));
        fixture.settle();
    }
    fixture.put("Paused", "Routed", &json!({}));
    if !before {
        fixture.board.put_slice(Arc::clone(&slice));
        fixture.settle();
    }
    let route = fixture.route(20_001);
    assert_eq!(candidates(&route), ["10.1.0.9:8080"]);
    fixture.board.drop_slice(&slice);
    fixture.settle();
    assert_eq!(candidates(&route), [""; 0]);
}

/// DRAIN-17, DRAIN-19: a route that is no longer listed is served for 30 s more,
/// waking nothing.
#[rstest]
#[case::route_removed(Some(json!({ "status": { "doorman": { "routes": [] } } })))]
#[case::workload_gone(None)]
#[tokio::test(start_paused = true)]
async fn a_route_that_left_is_served_for_thirty_seconds(#[case] left: Option<Value>) {
    let mut fixture = Fixture::new();
    fixture.put("Paused", "Routed", &json!({}));
    let route = fixture.route(20_001);
    assert_eq!(route.now().wakes().count(), 1);
    if let Some(more) = left {
        fixture.put("Paused", "Routed", &more);
    } else {
        // T-111
        let key = WorkloadKey::new("shop", "api");
        fixture.board.drop_workload(&key);
        fixture.settle();
    }
    assert_eq!(route.now().wakes().count(), 0);
    assert_eq!(
        fixture.next,
        Some(fixture.instant + Duration::from_secs(30))
    );
    fixture.pass(29);
    assert_eq!(fixture.ports(), [20_001]);
    fixture.pass(1);
    assert_eq!(fixture.ports(), [0; 0]);
}

/// DRAIN-17: the drain that the operator records is the same 30 s, however often
/// it is told of it, and whether the record goes before its end or after.
#[tokio::test(start_paused = true)]
async fn a_recorded_drain_ends_once() {
    let mut fixture = Fixture::new();
    fixture.put("Paused", "Routed", &json!({}));
    fixture.put("Running", "Draining", &json!({}));
    fixture.pass(10);
    fixture.put(
        "Running",
        "Draining",
        &json!({ "metadata": { "labels": { "a": "b" } } }),
    );
    fixture.pass(15);
    fixture.put(
        "Running",
        "Routed",
        &json!({ "status": { "doorman": { "routes": [] } } }),
    );
    assert_eq!(fixture.ports(), [20_001]);
    fixture.pass(5);
    assert_eq!(fixture.ports(), [0; 0]);
}

/// DRAIN-17, T-12: whose clock differs from the operator's serves a drain that it sees
/// begin for 30 s all the same.
#[rstest]
#[case::behind(60)]
#[case::alike(30)]
#[case::ahead(10)]
#[case::ahead_by_the_drain(0)]
#[case::further_ahead(-30)]
#[tokio::test(start_paused = true)]
async fn a_drain_is_as_long_by_any_clock(#[case] left: i64) {
    let mut fixture = Fixture::new();
    fixture.put("Paused", "Routed", &json!({}));
    let until = now() + jiff::SignedDuration::from_secs(left);
    fixture.put("Running", "Draining", &draining_until(&until.to_string()));
    fixture.pass(29);
    assert_eq!(fixture.ports(), [20_001]);
    fixture.pass(1);
    assert_eq!(fixture.ports(), [0; 0]);
}

/// A drain that the operator ends then.
fn draining_until(until: &str) -> Value {
    json!({ "status": { "doorman": { "routes": [{
        "service": "api", "port": { "name": "http", "number": 80 }, "doormanPort": 20001,
        "families": ["IPv4"], "state": "Draining", "drainingUntil": until,
    }] } } })
}

/// One that starts during a drain serves what is left of it.
#[rstest]
#[case::half("2026-11-30T10:05:12.000000Z", 12)]
#[case::over("2026-11-30T10:04:00.000000Z", 0)]
#[case::nonsense("2027-11-30T10:05:12.000000Z", 30)]
#[tokio::test(start_paused = true)]
async fn a_drain_found_at_the_start_is_served_to_its_end(
    #[case] until: &str,
    #[case] expected: u64,
) {
    let mut fixture = Fixture::new();
    fixture.put("Running", "Draining", &draining_until(until));
    let mut served = 0;
    while fixture.ports() == [20_001] {
        fixture.pass(1);
        served += 1;
    }
    assert_eq!(served, expected);
}

/// T-78: the same workload takes its port back, and the drain ends.
#[tokio::test(start_paused = true)]
async fn a_new_pause_ends_the_drain() {
    let mut fixture = Fixture::new();
    fixture.put("Running", "Draining", &json!({}));
    let route = fixture.route(20_001);
    let cuts = route.cuts();
    assert_eq!(
        *cuts.borrow(),
        Some(fixture.instant + Duration::from_mins(5))
    );
    fixture.pass(20);
    fixture.put("Pausing", "Opening", &json!({}));
    assert_eq!(*cuts.borrow(), None);
    assert!(route.is_same(&fixture.route(20_001)));
    fixture.pass(60);
    assert_eq!(fixture.ports(), [20_001]);
}

/// T-80: a port goes to another route while connections of the first live on,
/// and each keeps to its own pods.
#[tokio::test(start_paused = true)]
async fn a_port_goes_on_to_another_route() {
    let mut fixture = Fixture::new();
    fixture.put("Running", "Draining", &json!({}));
    let old = fixture.route(20_001);
    let other = json!({
        "metadata": { "name": "other", "uid": "u2" },
        "status": { "doorman": { "routes": [{
            "service": "other", "port": { "name": "http", "number": 80 }, "doormanPort": 20001,
            "families": ["IPv4"], "state": "Opening",
        }] } },
    });
    fixture.put("Pausing", "Opening", &other);
    fixture.pass(29);
    assert!(fixture.route(20_001).is_same(&old), "it drains still");
    fixture.pass(1);
    let new = fixture.route(20_001);
    assert!(!new.is_same(&old));
    assert_eq!(&*new.now().key.service.name, "other");
    let pods = slice("api-1", &[("a", "10.1.0.9", serving())]);
    fixture.board.put_slice(Arc::new(pods));
    fixture.pass(40);
    assert_eq!(candidates(&old), ["10.1.0.9:8080"]);
    assert_eq!(candidates(&new), [""; 0]);
}

/// A status that lists a port which another route has doesn't take its callers,
/// whichever name comes first, until that route is gone.
#[rstest]
#[tokio::test(start_paused = true)]
async fn a_port_that_is_taken_stays_with_its_route(#[values("a-shop", "zoo")] namespace: &str) {
    let mut fixture = Fixture::new();
    fixture.put("Paused", "Routed", &json!({}));
    let theirs = fixture.route(20_001);
    let forged = json!({ "metadata": { "namespace": namespace, "name": "x", "uid": "u2" } });
    fixture.put("Paused", "Routed", &forged);
    assert!(fixture.route(20_001).is_same(&theirs));
    fixture.put("Running", "Draining", &json!({}));
    fixture.pass(29);
    assert!(fixture.route(20_001).is_same(&theirs));
    fixture.pass(1);
    assert_eq!(
        &*fixture.route(20_001).now().key.service.namespace,
        namespace
    );
}

/// A route is forgotten once its port is closed and nobody is on it, and not
/// before: those on it still hear of its pods.
#[tokio::test(start_paused = true)]
async fn a_route_lives_as_long_as_somebody_is_on_it() {
    let mut fixture = Fixture::new();
    fixture.put("Paused", "Routed", &json!({}));
    let route = fixture.route(20_001);
    fixture.put(
        "Running",
        "Routed",
        &json!({ "status": { "doorman": { "routes": [] } } }),
    );
    fixture.pass(100);
    let pods = Arc::new(slice("api-1", &[("a", "10.1.0.9", serving())]));
    fixture.board.put_slice(Arc::clone(&pods));
    fixture.settle();
    assert_eq!(candidates(&route), ["10.1.0.9:8080"]);
    assert!(fixture.next.is_some());
    drop(route);
    fixture.pass(5);
    assert_eq!(fixture.next, None);
    let table = fixture.board.table();
    assert!(!table.has_changed().unwrap_or(true) || fixture.ports().is_empty());
}

/// T-76, T-114: workloads behind one Service share a route, which counts for each
/// and is live as long as one of them wants it.
#[tokio::test(start_paused = true)]
async fn workloads_share_a_route() {
    let mut fixture = Fixture::new();
    let other = json!({
        "metadata": { "name": "canary", "uid": "u2" },
        "spec": { "wake": { "maxWait": "5m" } },
    });
    fixture.put("Paused", "Routed", &json!({}));
    fixture.put("Paused", "Routed", &other);
    let route = fixture.route(20_001);
    let keys: Vec<String> = route.now().keys.iter().map(ToString::to_string).collect();
    assert_eq!(keys, ["shop/api", "shop/canary"]);
    assert_eq!(route.now().max_wait(), Duration::from_mins(5));
    fixture.put("Running", "Draining", &other);
    assert_eq!(route.now().serving, Serving::Live);
    assert_eq!(route.now().wakes().count(), 1);
    fixture.put("Running", "Draining", &json!({}));
    assert!(matches!(route.now().serving, Serving::Draining(_)));
}

/// What changes nothing wakes nobody.
#[tokio::test(start_paused = true)]
async fn what_changes_nothing_wakes_nobody() {
    let mut fixture = Fixture::new();
    fixture.put("Paused", "Routed", &json!({}));
    fixture
        .board
        .put_slice(Arc::new(slice("api-1", &[("a", "10.1.0.9", serving())])));
    fixture.settle();
    let mut route = fixture.route(20_001);
    route.latest();
    let mut table = fixture.board.table();
    table.mark_unchanged();

    fixture
        .board
        .put_slice(Arc::new(slice("api-1", &[("a", "10.1.0.9", serving())])));
    fixture
        .board
        .put_slice(Arc::new(slice("api-2", &[("a", "10.1.0.9", serving())])));
    fixture.pass(1);
    let changed = tokio::time::timeout(Duration::from_millis(1), route.changed()).await;
    assert!(
        changed.is_err(),
        "the same endpoint twice is the same endpoint"
    );
    assert!(!table.has_changed().unwrap());
}

/// T-113: there is no table before the first settling, and an empty one is one.
#[tokio::test(start_paused = true)]
async fn there_is_no_table_before_the_first_settling() {
    let mut fixture = Fixture::new();
    assert!(fixture.board.table().borrow().is_none());
    fixture.settle();
    assert!(
        fixture
            .board
            .table()
            .borrow()
            .as_ref()
            .is_some_and(|table| table.is_empty())
    );
}

/// NET-24, NET-25, T-72, F-15: what of a slice counts.
#[rstest]
#[case::plain(json!({}), Some(1))]
#[case::ours(
    json!({ "metadata": { "labels": {
        "endpointslice.kubernetes.io/managed-by": "napwake.dev",
    } } }),
    None
)]
#[case::nobodys(
    json!({ "metadata": { "labels": { "endpointslice.kubernetes.io/managed-by": "" } } }),
    None
)]
#[case::of_no_service(
    json!({ "metadata": { "labels": { "kubernetes.io/service-name": "" } } }),
    None
)]
#[case::names(json!({ "addressType": "FQDN" }), None)]
#[case::no_pod(
    json!({ "endpoints": [{ "addresses": ["10.1.0.9"], "conditions": {} }] }),
    Some(0)
)]
#[case::a_node(
    json!({ "endpoints": [{
        "addresses": ["10.1.0.9"], "targetRef": { "kind": "Node", "name": "n" },
    }] }),
    Some(0)
)]
#[case::another_namespaces(
    json!({ "endpoints": [{
        "addresses": ["10.1.0.9"],
        "targetRef": { "kind": "Pod", "name": "a", "namespace": "bank" },
    }] }),
    Some(0)
)]
#[case::terminating(
    json!({ "endpoints": [{
        "addresses": ["10.1.0.9"], "targetRef": { "kind": "Pod", "name": "a" },
        "conditions": { "serving": true, "terminating": true },
    }] }),
    Some(0)
)]
fn slices_that_count(#[case] more: Value, #[case] endpoints: Option<usize>) {
    let mut object = json!({
        "metadata": { "namespace": "shop", "name": "api-1", "labels": {
            "kubernetes.io/service-name": "api",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        } },
        "addressType": "IPv4",
        "endpoints": [{
            "addresses": ["10.1.0.9"],
            "targetRef": { "kind": "Pod", "name": "a", "namespace": "shop" },
        }],
        "ports": [
            { "name": "http", "port": 8080 },
            { "name": "dns", "port": 53, "protocol": "UDP" },
            { "name": "any" },
        ],
    });
    crate::tests::merge(&mut object, &more);
    let slice = Slice::read(&serde_json::from_value(object).unwrap());
    assert_eq!(
        slice.as_ref().map(|slice| slice.content.endpoints.len()),
        endpoints
    );
    if let Some(slice) = slice {
        assert_eq!(slice.content.ports.len(), 1, "TCP ports with a number");
    }
}
