use napwake_api::{
    condition::{self, ConditionType},
    names::signal,
    workload::Phase,
};
use rstest::rstest;

use crate::{
    sim::{
        Cluster, Part,
        objects::{self, shared},
    },
    world::{Doorman, DoormanState},
};

/// How often so far it was read who serves the Service `front`.
fn reads(cluster: &Cluster) -> usize {
    let asked = cluster.asked.iter();
    asked.filter(|(_, service)| service == "front").count()
}

/// How many slices of Napwake's the Service has.
fn slices(cluster: &Cluster, service: &str) -> usize {
    let slices = cluster.slices.values();
    slices.filter(|slice| slice.spec.service == service).count()
}

/// Whether a workload records a route for the Service.
fn has_route(cluster: &Cluster, name: &str, service: &str) -> bool {
    let doorman = cluster.status(name).doorman.as_ref();
    let mut routes = doorman.into_iter().flat_map(|doorman| &doorman.routes);
    routes.any(|route| route.service == service)
}

/// The condition `WakeOnRequest` of `worker`: status, reason, message.
fn says(cluster: &Cluster) -> (String, String, String) {
    let conditions = &cluster.status("worker").conditions;
    let known = condition::get(conditions, ConditionType::WakeOnRequest).expect("set");
    (
        known.status.clone(),
        known.reason.clone(),
        known.message.clone(),
    )
}

/// `worker` sleeps behind the Service `front` alone, which `api` serves.
fn beside() -> Cluster {
    let mut cluster = shared();
    cluster.services.retain(|service| service.name != "worker");
    cluster.settle();
    cluster.pause("worker");
    cluster
}

/// The same, and nobody manages `api`.
fn beside_unmanaged() -> Cluster {
    let mut cluster = shared();
    cluster.services.retain(|service| service.name != "worker");
    cluster.app("api").workload = None;
    cluster.settle();
    cluster.pause("worker");
    cluster
}

/// ROUTE-28, ROUTE-30: what another workload's Ready pods serve isn't routed, nor
/// is a port taken for it, whoever manages those.
#[rstest]
#[case::managed(beside())]
#[case::unmanaged(beside_unmanaged())]
fn what_others_serve_is_not_routed(#[case] cluster: Cluster) {
    let expected = (
        "False".to_owned(),
        "ServedByOtherPods".to_owned(),
        "Service front isn't routed: another workload's Ready pods serve it".to_owned(),
    );
    assert_eq!(says(&cluster), expected);
    assert_eq!(slices(&cluster, "front"), 0);
    assert_eq!(cluster.status("worker").doorman, None);
}

/// ROUTE-30: with another Service that is routed it's True, and says which isn't.
#[test]
fn beside_a_routed_service_it_is_named() {
    let mut cluster = shared();
    cluster.settle();
    cluster.pause("worker");
    let message = "requests are held and wake the workload; Service front isn't routed: another \
                   workload's Ready pods serve it";
    let expected = (
        "True".to_owned(),
        "DoormanRouted".to_owned(),
        message.to_owned(),
    );
    assert_eq!(says(&cluster), expected);
    assert_eq!(
        (slices(&cluster, "front"), slices(&cluster, "worker")),
        (0, 1)
    );
    assert!(!has_route(&cluster, "worker", "front"));
}

/// It's read before anything is written of a route: the doorman is never told of one
/// that it's about to lose.
#[test]
fn no_route_is_begun_before_it_is_known() {
    let mut cluster = shared();
    cluster.settle();
    cluster.pass_secs(1);
    cluster.stamp("worker", signal::PAUSE_REQUESTED);
    for _ in 0..30 {
        cluster.step_up_to("worker", 1);
        assert!(!has_route(&cluster, "worker", "front"));
    }
    assert!(has_route(&cluster, "worker", "worker"));
    assert_eq!(reads(&cluster), 1);
}

/// ROUTE-36: it's read every half a minute while others serve it, and no sooner.
#[test]
fn it_is_read_every_half_a_minute() {
    let mut cluster = beside();
    cluster.pass_secs(30);
    let before = reads(&cluster);
    cluster.pass_secs(290);
    assert_eq!(reads(&cluster) - before, 10);
}

/// ROUTE-33, ROUTE-34: once the others are all gone it's routed within 30 s, also where
/// nothing that is watched tells of them.
#[test]
fn it_is_routed_within_half_a_minute() {
    let mut cluster = shared();
    cluster.apps.remove("api");
    cluster.services.retain(|service| service.name == "front");
    cluster.strangers.insert("front".to_owned());
    cluster.settle();
    cluster.pause("worker");
    assert_eq!(says(&cluster).1, "ServedByOtherPods");
    cluster.pass_secs(17);
    cluster.strangers.clear();
    let mut waited = 0;
    while slices(&cluster, "front") == 0 {
        cluster.pass_secs(1);
        waited += 1;
        assert!(waited <= 30, "{:?}", says(&cluster));
    }
    assert_eq!(slices(&cluster, "front"), 2);
    assert_eq!(says(&cluster).1, "DoormanRouted");
}

/// One that is watched needn't be waited for.
#[test]
fn it_is_routed_at_once_when_a_known_one_goes() {
    let mut cluster = beside_unmanaged();
    cluster.pass_secs(3);
    cluster.scale("api", 0);
    cluster.settle();
    assert_eq!(slices(&cluster, "front"), 2);
    assert_eq!(says(&cluster).1, "DoormanRouted");
}

/// ROUTE-31, ROUTE-32, T-76: with everybody asleep, or on the way, it's routed for all
/// of them, once.
#[rstest]
#[case::one_after_the_other(false)]
#[case::together(true)]
fn two_that_go_to_sleep_wait_for_nobody(#[case] together: bool) {
    let mut cluster = shared();
    cluster.settle();
    cluster.pass_secs(1);
    cluster.stamp("worker", signal::PAUSE_REQUESTED);
    if together {
        cluster.stamp("api", signal::PAUSE_REQUESTED);
    }
    cluster.until("worker", Phase::Paused);
    if !together {
        cluster.pause("api");
    }
    cluster.until("api", Phase::Paused);
    assert_eq!(slices(&cluster, "front"), 2);
    assert!(has_route(&cluster, "worker", "front") && has_route(&cluster, "api", "front"));
    // Nobody is left who could be read of.
    let before = reads(&cluster);
    cluster.pass_secs(600);
    assert_eq!(reads(&cluster), before);
}

/// Both asleep behind `front`.
fn both_asleep() -> Cluster {
    let mut cluster = shared();
    cluster.settle();
    cluster.pause("api");
    cluster.pause("worker");
    cluster
}

/// ROUTE-28, T-76: when one of two wakes, the Service is its pods' again, and not
/// before its slices name one; the other sleeps on.
#[rstest]
#[case::prompt(0)]
#[case::late(2_500)]
fn a_service_goes_back_to_whoever_wakes(#[case] lag: i64, #[values("api", "worker")] woken: &str) {
    let other = if woken == "api" { "worker" } else { "api" };
    let mut cluster = both_asleep();
    cluster.endpoints_lag = jiff::SignedDuration::from_millis(lag);
    cluster.stamp(woken, signal::ACTIVITY);
    cluster.until(woken, Phase::Running);
    let ran = cluster.now;
    while slices(&cluster, "front") > 0 {
        cluster.pass(jiff::SignedDuration::from_millis(10));
        let waited = cluster.now.duration_since(ran).as_millis();
        assert!(waited <= i128::from(2 * lag + 500), "{waited} ms");
    }
    assert!(cluster.now.duration_since(ran).as_millis() >= i128::from(lag));
    assert_eq!(cluster.phase(other), Some(Phase::Paused));
    assert_eq!(
        slices(&cluster, other),
        1,
        "its own Service is routed still"
    );
    cluster.pass_secs(100);
    assert!(!has_route(&cluster, other, "front"));
    // And when that one sleeps again, it's routed for both.
    cluster.pause(woken);
    assert_eq!(slices(&cluster, "front"), 2);
}

/// A pause that is called off behind a Service leaves it to its pods.
#[test]
fn a_service_goes_back_when_a_pause_is_called_off() {
    let mut cluster = shared();
    cluster.settle();
    cluster.pause("worker");
    cluster.pass_secs(60);
    cluster.stamp("api", signal::PAUSE_REQUESTED);
    cluster.pass_secs(2);
    assert_eq!(cluster.phase("api"), Some(Phase::Pausing));
    assert_eq!(slices(&cluster, "front"), 2);
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.until("api", Phase::Running);
    cluster.pass_secs(1);
    assert_eq!(cluster.phase("worker"), Some(Phase::Paused));
    assert_eq!(slices(&cluster, "front"), 0);
}

/// Woken again, a workload serves nothing yet, though it did when that was read last:
/// the route stands until it does. Nor is it taken away when one that has just woken is
/// paused once more.
#[test]
fn who_served_a_while_ago_does_not_count() {
    let mut cluster = both_asleep();
    cluster.endpoints_lag = jiff::SignedDuration::from_secs(3);
    for _ in 0..3 {
        cluster.stamp("api", signal::ACTIVITY);
        cluster.until("api", Phase::Running);
        cluster.pass_secs(40);
        assert_eq!(slices(&cluster, "front"), 0);
        cluster.stamp("api", signal::PAUSE_REQUESTED);
        cluster.until("api", Phase::Paused);
        cluster.stamp("api", signal::ACTIVITY);
        cluster.settle();
        while cluster.phase("api") == Some(Phase::Resuming) {
            assert_eq!(slices(&cluster, "front"), 2);
            cluster.pass(jiff::SignedDuration::from_millis(500));
        }
        cluster.pause("api");
    }
}

/// In doubt nothing is changed, and nothing waits for it for long (ROUTE-38). What is
/// routed stays so; what isn't says why, and is read again with backoff.
#[test]
fn without_an_answer_it_stays_as_it_is() {
    let mut cluster = shared();
    cluster.services.retain(|service| service.name != "worker");
    cluster.settle();
    cluster.unknown.insert(Part::Behind);
    let begun = cluster.now;
    cluster.pause("worker");
    let took = cluster.now.duration_since(begun).as_secs();
    assert!(took <= 25, "{took} s");
    let (status, reason, message) = says(&cluster);
    assert_eq!((&*status, &*reason), ("False", "RoutingFailed"));
    assert!(message.contains("the test says so"), "{message}");
    assert_eq!(slices(&cluster, "front"), 0);
    let before = reads(&cluster);
    cluster.pass_secs(1_200);
    let more = reads(&cluster) - before;
    assert!((5..=10).contains(&more), "{more}");

    cluster.unknown.clear();
    cluster.pass_secs(301);
    assert_eq!(says(&cluster).1, "ServedByOtherPods");
    cluster.unknown.insert(Part::Behind);
    cluster.pass_secs(100);
    assert_eq!(says(&cluster).1, "ServedByOtherPods");
}

/// What is routed stays so where it can't be read.
#[test]
fn a_route_stays_without_an_answer() {
    let mut cluster = both_asleep();
    cluster.unknown.insert(Part::Behind);
    cluster.stamp("api", signal::ACTIVITY);
    cluster.until("api", Phase::Running);
    cluster.pass_secs(20);
    assert_eq!(slices(&cluster, "front"), 2);
    cluster.unknown.clear();
    cluster.pass_secs(60);
    assert_eq!(slices(&cluster, "front"), 0);
}

/// A new leader has read nothing yet: it reads once, and what stood stands.
#[rstest]
#[case::served(beside(), 0)]
#[case::routed(both_asleep(), 2)]
fn another_leader_changes_nothing(#[case] mut cluster: Cluster, #[case] expected: usize) {
    let before = (says(&cluster), reads(&cluster));
    cluster.log.clear();
    cluster.restart();
    cluster.settle();
    assert_eq!(slices(&cluster, "front"), expected);
    assert_eq!(says(&cluster), before.0);
    assert_eq!(cluster.written("worker"), Vec::<&str>::new());
    assert!(reads(&cluster) > before.1);
}

/// ROUTE-39: a wake asks for nothing before its writes, whatever was read.
#[rstest]
#[case::read(false)]
#[case::not_read(true)]
fn a_wake_asks_nothing(#[case] is_unread: bool) {
    let mut cluster = both_asleep();
    if is_unread {
        cluster.restart();
    }
    cluster.stamp("worker", signal::LAST_REQUEST);
    let before = reads(&cluster);
    let plan = cluster.plan("worker").expect("there");
    assert_eq!(objects::kind(&plan.writes[0]), "wake");
    assert_eq!(reads(&cluster), before);
}

/// ROUTE-76, ROUTE-77: awake it's still told of, and met anew at the next pause.
#[test]
fn it_stays_on_the_condition_of_an_awake_workload() {
    let mut cluster = beside();
    cluster.stamp("worker", signal::ACTIVITY);
    cluster.until("worker", Phase::Running);
    let (_, reason, message) = says(&cluster);
    assert_eq!(reason, "ServedByOtherPods");
    assert!(message.starts_with("at its last pause: "), "{message}");
    let before = reads(&cluster);
    cluster.pass_secs(300);
    assert_eq!(reads(&cluster), before, "awake it isn't read");
    cluster.pause("api");
    cluster.pause("worker");
    assert_eq!(says(&cluster).1, "DoormanRouted");
}

/// A workload that nobody shares a Service with is read of once each pause.
#[test]
fn alone_it_is_read_once() {
    let mut cluster = objects::running();
    for round in 1..=3 {
        cluster.pause("api");
        cluster.pass_secs(600);
        assert_eq!(cluster.asked.len(), round);
        cluster.stamp("api", signal::ACTIVITY);
        cluster.until("api", Phase::Running);
        cluster.pass_secs(60);
        assert_eq!(cluster.asked.len(), round);
    }
}

/// Without a doorman there's nothing to route and nothing to read.
#[test]
fn without_a_doorman_nothing_is_read() {
    let mut cluster = shared();
    cluster.settle();
    cluster.doorman = Doorman::Disabled;
    cluster.pause("worker");
    assert_eq!(cluster.asked.len(), 0);
}

/// ROUTE-63, T-133: without a Ready doorman pod that is what is said.
#[test]
fn a_doorman_that_is_gone_comes_first() {
    let mut cluster = beside();
    for pod in cluster.doormen() {
        pod.state = DoormanState::NotReady;
    }
    cluster.settle();
    // It wouldn't be routed with one either.
    assert_eq!(says(&cluster).1, "ServedByOtherPods");
    cluster.pause("api");
    assert_eq!(says(&cluster).1, "DoormanUnavailable");
}
