//! The index: what is put in, what Worlds come out, and whom changes concern.

use jiff::Timestamp;
use napwake_api::names::{opt, setting, signal};
use napwake_decide::{
    Seen,
    world::{CheckOutcome, Doorman, World},
};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{
    fixtures::*,
    observe::convert,
    queue::Urgency::{self, Usual, Wake},
};

/// An index with the workload `a`, its Service of that name, its namespace and
/// one doorman pod.
fn filled() -> Index {
    let (mut index, now) = (index(), Instant::now());
    index.apply_namespace(namespace(1, json!({})), now);
    index.apply_target(deployment("a", 1, json!({})), now);
    index.apply_service(service("a", "a", 1, json!({})), now);
    index.apply_service(doorman_service(), now);
    index.apply_pod(doorman_pod("d-1", 1, json!({})), now);
    index.apply_workload(workload("a", 1, json!({})), now);
    index
}

fn world(index: &Index, name: &str) -> Option<World> {
    index.world(
        &key(name),
        Seen::Unknown("not counted".to_owned()),
        Instant::now(),
    )
}

fn concerned(concerns: &Concerns) -> Vec<(&str, Urgency)> {
    let workloads = concerns.workloads.iter();
    workloads
        .map(|(key, urgency)| (key.name.as_str(), *urgency))
        .collect()
}

fn listener(port: u16) -> Listener {
    Listener {
        pod: "pod-d-1".to_owned(),
        address: [10, 1, 0, 1].into(),
        port,
    }
}

fn check() -> Check {
    Check {
        at: Timestamp::UNIX_EPOCH,
        outcome: CheckOutcome::Listening,
    }
}

#[test]
fn a_world_holds_what_was_put_in() {
    let mut index = filled();
    index.apply_slice(slice("a-o1", "a", 2, json!({})), Instant::now());
    let world = world(&index, "a").unwrap();
    assert_eq!(world.workload.key, key("a"));
    let target = world.target.known().unwrap();
    assert_eq!((target.replicas, target.ready_replicas), (1, 1));
    assert!(world.namespace.known().unwrap().deleted.is_none());
    let services = world.services.known().unwrap();
    assert_eq!(services.len(), 1);
    assert_eq!(services[0].name, "a");
    assert_eq!(world.slices.known().unwrap()[0].uid, "slice-a-o1");
    let Doorman::Enabled(Seen::Known(pods)) = &world.doorman else {
        panic!("{:?}", world.doorman);
    };
    assert_eq!(pods.len(), 1);
    assert_eq!(world.peers, Seen::Known(Vec::new()));
}

#[test]
fn absent_is_not_unknown() {
    let (mut index, now) = (filled(), Instant::now());
    index.delete_target(TargetKind::Deployment, &named("a"), "deployment-a", now);
    assert_eq!(world(&index, "a").unwrap().target, Seen::Absent);
    index.spoil_target(TargetKind::Deployment, &named("a"), "odd".to_owned(), now);
    assert!(
        matches!(world(&index, "a").unwrap().target, Seen::Unknown(why) if why.contains("odd"))
    );
    index.delete_workload(&key("a"), "mw-a", now);
    assert!(world(&index, "a").is_none());
}

/// A Service that can't be read is passed over, and the others stay.
#[test]
fn an_unreadable_service_is_passed_over() {
    let (mut index, now) = (filled(), Instant::now());
    index.apply_service(service("b", "a", 1, json!({})), now);
    index.spoil_service(&named("a"), "odd".to_owned(), now);
    let services = world(&index, "a").unwrap().services;
    let names: Vec<_> = services
        .known()
        .unwrap()
        .iter()
        .map(|one| &one.name)
        .collect();
    assert_eq!(names, ["b"]);
}

/// Unknown is never absent: a Service that can't be read isn't gone for the one that
/// has a route for it, and nobody else waits for it.
#[test]
fn an_unreadable_service_is_unknown_where_a_route_names_it() {
    let (mut index, now) = (filled(), Instant::now());
    index.apply_target(deployment("b", 1, json!({})), now);
    index.apply_workload(workload("b", 1, json!({})), now);
    index.apply_workload(workload("a", 2, routed("Paused", "a", 20_000)), now);
    index.apply_slice(slice("a-o1", "a", 2, json!({})), now);
    let concerns = index.spoil_service(&named("a"), "odd".to_owned(), now);
    assert_eq!(concerned(&concerns), [("a", Usual)]);
    let world_of_a = world(&index, "a").unwrap();
    assert_eq!(world_of_a.services, Seen::Unknown("a: odd".to_owned()));
    assert_eq!(world_of_a.slices.known().unwrap().len(), 1);
    assert_eq!(
        world(&index, "b").unwrap().services,
        Seen::Known(Vec::new())
    );
}

/// Unknown is never absent: a ManagedWorkload that can't be read, as one that a newer
/// operator wrote, may share any Service of its namespace. Its peers are decided
/// again when it comes and when it goes.
#[test]
fn peers_are_unknown_while_one_cannot_be_read() {
    let (mut index, now) = (filled(), Instant::now());
    let concerns = index.spoil_workload(&key("b"), "odd".to_owned(), None, now);
    assert_eq!(concerned(&concerns), [("a", Usual), ("b", Usual)]);
    let peers = |index: &Index| world(index, "a").unwrap().peers;
    assert_eq!(peers(&index), Seen::Unknown("b: odd".to_owned()));
    let concerns = index.delete_workload(&key("b"), "", now);
    assert_eq!(concerned(&concerns), [("a", Usual), ("b", Usual)]);
    assert_eq!(peers(&index), Seen::Known(Vec::new()));
}

/// DRAIN-23: nobody gets the ports of a ManagedWorkload that can't be read, neither
/// in the term under way nor in the next.
#[test]
fn one_that_cannot_be_read_keeps_its_ports() {
    let (mut index, now) = (index(), Instant::now());
    let at = Timestamp::UNIX_EPOCH;
    let newer = routed("Hibernating", "b", 20_000)["status"].clone();
    let doorman = convert::doorman(&newer);
    index.spoil_workload(&key("b"), "odd".to_owned(), doorman, now);
    assert_eq!(index.ports.in_use(at), 1);
    index.begin_term(Ports::default(), now);
    assert_eq!(index.ports.in_use(at), 1);
    // Readable again, and without a route.
    index.apply_workload(workload("b", 2, json!({})), now);
    index.begin_term(Ports::default(), now);
    assert_eq!(index.ports.in_use(at), 0);
    let odd = json!({"doorman": {"routes": [{"service": "b"}]}});
    assert_eq!(convert::doorman(&odd), None);
}

/// A Service that no longer selects the pods is given while a route names it.
#[test]
fn routed_services_are_given_whatever_they_select() {
    let (mut index, now) = (filled(), Instant::now());
    index.apply_service(service("old", "other", 1, json!({})), now);
    assert_eq!(
        world(&index, "a").unwrap().services.known().unwrap().len(),
        1
    );
    index.apply_workload(workload("a", 2, routed("Paused", "old", 20_000)), now);
    assert_eq!(
        world(&index, "a").unwrap().services.known().unwrap().len(),
        2
    );
}

#[rstest]
#[case::ready(json!({}), DoormanState::Ready)]
#[case::not_ready(
    json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
    DoormanState::NotReady
)]
// T-83
#[case::going(
    json!({"metadata": {"deletionTimestamp": "2026-11-30T10:00:00Z"}}),
    DoormanState::NotReady
)]
fn doorman_pods_are_ready_or_not(#[case] patch: Value, #[case] expected: DoormanState) {
    let mut index = filled();
    index.apply_pod(doorman_pod("d-1", 2, patch), Instant::now());
    let Doorman::Enabled(Seen::Known(pods)) = world(&index, "a").unwrap().doorman else {
        panic!("the pods are known");
    };
    assert_eq!(pods[0].state, expected);
}

#[test]
fn only_pods_behind_the_doormans_service_are_the_doormans() {
    let (mut index, now) = (filled(), Instant::now());
    let other = json!({"metadata": {"labels": {"control-plane": "controller-manager"}}});
    index.apply_pod(doorman_pod("operator", 1, other), now);
    let Doorman::Enabled(Seen::Known(pods)) = world(&index, "a").unwrap().doorman else {
        panic!("the pods are known");
    };
    assert_eq!(pods.len(), 1);
    let service = (SYSTEM.to_owned(), DOORMAN.to_owned());
    index.delete_service(&service, "service-napwake-doorman", now);
    let doorman = world(&index, "a").unwrap().doorman;
    assert_eq!(doorman, Doorman::Enabled(Seen::Absent));
}

#[rstest]
#[case::request(signal::LAST_REQUEST, Wake)]
#[case::command(signal::WAKE_REQUESTED, Wake)]
#[case::activity(signal::ACTIVITY, Wake)]
#[case::pause(signal::PAUSE_REQUESTED, Usual)]
#[case::another(setting::WAKE, Usual)]
fn a_stamp_hurries(#[case] annotation: &str, #[case] expected: Urgency) {
    let mut index = filled();
    let patch = json!({"metadata": {"annotations": {annotation: "2026-11-30T11:00:00Z"}}});
    let concerns = index.apply_workload(workload("a", 2, patch.clone()), Instant::now());
    assert_eq!(concerned(&concerns), [("a", expected)]);
    // The same stamp again doesn't.
    let concerns = index.apply_workload(workload("a", 3, patch), Instant::now());
    assert_eq!(concerned(&concerns), [("a", Usual)]);
}

#[test]
fn a_target_concerns_those_that_name_it() {
    let (mut index, now) = (filled(), Instant::now());
    index.apply_workload(workload("b", 1, json!({})), now);
    let concerns = index.apply_target(deployment("a", 2, json!({})), now);
    assert_eq!(concerned(&concerns), [("a", Usual)]);
    let active = json!({"metadata": {"annotations": {signal::ACTIVITY: "2026-11-30T11:00:00Z"}}});
    let concerns = index.apply_target(deployment("a", 3, active), now);
    assert_eq!(concerned(&concerns), [("a", Wake)]);
    // Its labels or annotations may opt it in or out.
    assert_eq!(concerns.targets.len(), 1);
}

#[test]
fn a_service_concerns_whom_it_selects_or_selected_and_whom_it_is_routed_for() {
    let (mut index, now) = (filled(), Instant::now());
    index.apply_target(deployment("b", 1, json!({})), now);
    index.apply_workload(workload("b", 1, json!({})), now);
    index.apply_workload(workload("c", 1, routed("Paused", "a", 20_000)), now);
    let moved = index.apply_service(service("a", "b", 2, json!({})), now);
    let all = [("a", Usual), ("b", Usual), ("c", Usual)];
    assert_eq!(concerned(&moved), all);
    let same = index.apply_service(service("a", "b", 3, json!({})), now);
    assert_eq!(concerned(&same), []);
    let gone = index.delete_service(&named("a"), "service-a", now);
    assert_eq!(concerned(&gone), [("b", Usual), ("c", Usual)]);
}

#[test]
fn a_slice_concerns_those_behind_its_service() {
    let (mut index, now) = (filled(), Instant::now());
    let concerns = index.apply_slice(slice("a-o1", "a", 2, json!({})), now);
    assert_eq!(concerned(&concerns), [("a", Usual)]);
    let concerns = index.delete_slice(&named("a-o1"), "slice-a-o1", now);
    assert_eq!(concerned(&concerns), [("a", Usual)]);
    let concerns = index.apply_slice(slice("x-o1", "x", 2, json!({})), now);
    assert_eq!(concerned(&concerns), []);
}

/// The pods of the doorman concern everybody who is routed.
#[test]
fn a_doorman_pod_concerns_all_that_are_routed() {
    let (mut index, now) = (filled(), Instant::now());
    index.apply_workload(workload("b", 1, routed("Paused", "b", 20_001)), now);
    let running = json!({"status": {"phase": "Running"}});
    index.apply_workload(workload("a", 2, running), now);
    let going = json!({"metadata": {"deletionTimestamp": "2026-11-30T10:00:00Z"}});
    let concerns = index.apply_pod(doorman_pod("d-1", 2, going.clone()), now);
    assert_eq!(concerned(&concerns), [("b", Usual)]);
    let concerns = index.apply_pod(doorman_pod("d-1", 3, going), now);
    assert_eq!(concerned(&concerns), []);
}

#[rstest]
#[case::a_setting(json!({"annotations": {setting::WAKE: "ask"}}))]
#[case::opted_in(json!({"labels": {opt::MANAGED: "true"}}))]
#[case::a_mesh(json!({"labels": {"istio.io/dataplane-mode": "ambient"}}))]
#[case::going(json!({"deletionTimestamp": "2026-11-30T08:00:00Z"}))]
fn a_namespace_concerns_all_in_it_when_it_says_something_new(#[case] new: Value) {
    let (mut index, now) = (filled(), Instant::now());
    let other = json!({"metadata": {"labels": {"team": "a"}}});
    let concerns = index.apply_namespace(namespace(2, other), now);
    assert_eq!(concerned(&concerns), []);
    let new = json!({"metadata": new});
    let concerns = index.apply_namespace(namespace(3, new), now);
    assert_eq!(concerned(&concerns), [("a", Usual)]);
    assert_eq!(concerns.targets.len(), 1);
}

/// T-75, T-76: those behind one Service see each other's phase and routes.
#[test]
fn neighbors_are_concerned_by_phases_and_routes() {
    let (mut index, now) = (filled(), Instant::now());
    // Both targets' pods carry `app: a`.
    let same_labels = json!({"spec": {"template": {"metadata": {"labels": {"app": "a"}}}}});
    index.apply_target(deployment("b", 1, same_labels), now);
    index.apply_workload(workload("b", 1, json!({})), now);
    let paused = json!({"status": {"phase": "Paused"}});
    let concerns = index.apply_workload(workload("b", 2, paused.clone()), now);
    assert_eq!(concerned(&concerns), [("a", Usual), ("b", Usual)]);
    let concerns = index.apply_workload(workload("b", 3, paused), now);
    assert_eq!(concerned(&concerns), [("b", Usual)]);
    let peers = world(&index, "a").unwrap().peers;
    let peers = peers.known().unwrap();
    assert_eq!((peers.len(), peers[0].phase), (1, Some(Phase::Paused)));
}

#[test]
fn own_writes_are_seen_at_once() {
    let (mut index, now) = (filled(), Instant::now());
    index.wrote_workload(
        workload("a", 9, json!({"status": {"phase": "Pausing"}})),
        now,
    );
    // What the watch shows late.
    index.apply_workload(workload("a", 5, json!({})), now);
    let seen = world(&index, "a").unwrap().workload;
    assert_eq!(seen.status.phase, Some(Phase::Pausing));
    assert_eq!(seen.resource_version, "9");

    index.wrote_scale(TargetKind::Deployment, &named("a"), "9".to_owned(), now);
    assert!(matches!(
        world(&index, "a").unwrap().target,
        Seen::Unknown(_)
    ));
    let scaled = json!({"spec": {"replicas": 0}});
    index.apply_target(deployment("a", 9, scaled), now);
    assert_eq!(
        world(&index, "a").unwrap().target.known().unwrap().replicas,
        0
    );

    index.wrote_slice(slice("a-o1", "a", 9, json!({})), now);
    assert_eq!(world(&index, "a").unwrap().slices.known().unwrap().len(), 1);
    index.deleted_slice(&named("a-o1"), "slice-a-o1", now);
    assert_eq!(world(&index, "a").unwrap().slices.known().unwrap().len(), 0);
}

#[test]
fn checks_are_given_for_own_ports_and_forgotten_with_them() {
    let (mut index, now) = (filled(), Instant::now());
    index.apply_workload(workload("a", 2, routed("Pausing", "a", 20_000)), now);
    index.checked(listener(20_000), check(), now);
    index.checked(listener(20_001), check(), now);
    let checks = |index: &Index| world(index, "a").unwrap().checks.len();
    assert_eq!(checks(&index), 1);
    index.apply_workload(workload("a", 3, json!({})), now);
    index.apply_workload(workload("a", 4, routed("Pausing", "a", 20_000)), now);
    assert_eq!(checks(&index), 0);
    // Those of a pod go when it's no longer Ready.
    index.checked(listener(20_000), check(), now);
    assert_eq!(checks(&index), 1);
    let not_ready = json!({"status": {"conditions": []}});
    index.apply_pod(doorman_pod("d-1", 2, not_ready), now);
    assert_eq!(checks(&index), 0);
    // One that was under way by then says nothing of it when it's Ready again.
    index.checked(listener(20_000), check(), now);
    index.apply_pod(doorman_pod("d-1", 3, json!({})), now);
    assert_eq!(checks(&index), 0);
    index.delete_pod(&(SYSTEM.to_owned(), "d-1".to_owned()), "pod-d-1", now);
    index.checked(listener(20_000), check(), now);
    index.apply_pod(doorman_pod("d-1", 4, json!({})), now);
    assert_eq!(checks(&index), 0);
    index.checked(listener(20_000), check(), now);
    assert_eq!(checks(&index), 1);
}

/// DRAIN-23: a new leader's ledger is made of every status.
#[test]
fn a_term_begins_with_the_ports_that_statuses_record() {
    let (mut index, now) = (filled(), Instant::now());
    index.apply_workload(workload("a", 2, routed("Paused", "a", 20_000)), now);
    let resting = json!({"status": {"doorman": {
        "routes": [],
        "resting": [{"port": 20_001, "until": "2026-11-30T12:00:00Z"}],
    }}});
    index.apply_workload(workload("b", 2, resting), now);
    let at: Timestamp = "2026-11-30T11:59:30Z".parse().unwrap();
    assert_eq!(index.ports.in_use(at), 2);
    index.begin_term(Ports::default(), now);
    assert_eq!(index.ports.in_use(at), 2);
}

/// Only those made for a label have settings in annotations.
#[rstest]
#[case::by_label(made_by_label("a"), true)]
#[case::by_hand(json!({}), false)]
fn unreadable_idle_after_is_told(#[case] patch: Value, #[case] expected: bool) {
    let (mut index, now) = (filled(), Instant::now());
    let never = json!({"metadata": {"annotations": {setting::IDLE_AFTER: "soon"}}});
    index.apply_target(deployment("a", 2, never), now);
    index.apply_workload(workload("a", 2, patch), now);
    assert_eq!(world(&index, "a").unwrap().never_idle.is_some(), expected);
}

/// Unknown is never idle: a namespace that can't be read may say anything, unless the
/// workload says it itself.
#[rstest]
#[case::unsaid(json!({}), true)]
#[case::its_own(json!({setting::IDLE_AFTER: "2h"}), false)]
fn one_in_a_namespace_that_cannot_be_read_is_never_idle(
    #[case] annotations: Value,
    #[case] expected: bool,
) {
    let (mut index, now) = (filled(), Instant::now());
    let says = json!({"metadata": {"annotations": annotations}});
    index.apply_target(deployment("a", 2, says), now);
    index.apply_workload(workload("a", 2, made_by_label("a")), now);
    assert_eq!(world(&index, "a").unwrap().never_idle, None);
    index.spoil_namespace(NAMESPACE, "odd".to_owned(), now);
    assert_eq!(world(&index, "a").unwrap().never_idle.is_some(), expected);
}

/// What a watch shows of a write that is known already is no reason to decide again.
#[test]
fn what_was_just_written_concerns_nobody_twice() {
    let (mut index, now) = (filled(), Instant::now());
    let written = workload("a", 2, routed("Pausing", "a", 20_000));
    let concerns = index.wrote_workload(written.clone(), now);
    assert_eq!(concerned(&concerns), [("a", Usual)]);
    assert_eq!(index.apply_workload(written, now), Concerns::nobody());
    let written = deployment("a", 2, json!({}));
    let concerns = index.wrote_target(written.clone(), now);
    assert_eq!(concerned(&concerns), [("a", Usual)]);
    assert_eq!(index.apply_target(written, now), Concerns::nobody());
}

/// T-111, DRAIN-21: one whose finalizer was taken off by hand leaves its port in use,
/// whether or not it's seen that it was gone before another one was made; and whoever
/// leads next in this process knows of it.
#[rstest]
#[case::gone(None)]
#[case::made_again(Some(workload("a", 9, json!({"metadata": {"uid": "another"}}))))]
fn one_that_goes_at_once_leaves_its_port_in_use(#[case] next: Option<Arc<ObservedWorkload>>) {
    let (mut index, now) = (index(), Instant::now());
    index.apply_workload(workload("a", 1, routed("Paused", "a", 20_000)), now);
    match next {
        Some(next) => index.apply_workload(next, now),
        None => index.delete_workload(&key("a"), "mw-a", now),
    };
    let at = Timestamp::UNIX_EPOCH;
    assert_eq!(index.ports.in_use(at), 1);
    index.begin_term(Ports::default(), now);
    assert_eq!(index.ports.in_use(at), 1);
}
