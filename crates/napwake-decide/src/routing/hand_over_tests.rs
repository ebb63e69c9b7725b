use jiff::SignedDuration;
use napwake_api::{
    condition::ConditionType,
    names::{opt, signal},
    workload::{Phase, RouteState},
};
use rstest::rstest;

use super::*;
use crate::{
    Write, decide,
    sim::{
        Cluster, Part, objects,
        questions::{pause_with, reason, routes},
    },
    slices::slice_name,
    world::DoormanPod,
};

/// `api` has woken, behind a dual-stack Service whose own slices lag by `lag`.
fn woken(lag: SignedDuration) -> Cluster {
    let mut cluster = pause_with(|cluster| {
        cluster.service().families = vec![IpFamily::IPv4, IpFamily::IPv6];
    });
    cluster.endpoints_lag = lag;
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.until("api", Phase::Running);
    cluster
}

/// `api` has woken, and nobody writes into the Service's own slices who serves it.
fn unnamed() -> Cluster {
    woken(SignedDuration::from_hours(1))
}

/// ROUTE-14: slices go once it's Running, but not before the Service's own name a
/// Ready pod. T-120: the condition stays for as long.
#[rstest]
#[case::prompt(0, 0)]
#[case::in_between(100, 250)]
#[case::late(2_000, 4_000)]
#[case::very_late(9_900, 15_000)]
#[case::never(30_000, 30_000)]
fn slices_stay_until_the_services_own_name_a_pod(#[case] lag: i64, #[case] at_most: i64) {
    let mut cluster = woken(SignedDuration::from_millis(lag));
    let ran = cluster.now;
    while !cluster.slices.is_empty() {
        assert_eq!(cluster.slices.len(), 2);
        assert!(
            routes(&cluster)
                .iter()
                .all(|one| one.2 == RouteState::Routed)
        );
        let says = reason(&cluster, ConditionType::WakeOnRequest);
        assert_eq!(says, "DoormanRouted");
        cluster.pass(SignedDuration::from_millis(10));
    }
    let stood = cluster.now.duration_since(ran).as_millis();
    let expected = i128::from(lag)..=i128::from(at_most) + 10;
    assert!(expected.contains(&stood), "{stood} ms");
    assert_eq!(reason(&cluster, ConditionType::WakeOnRequest), "NotPaused");
    assert!(
        routes(&cluster)
            .iter()
            .all(|one| one.2 == RouteState::Draining)
    );
}

fn suspend(cluster: &mut Cluster) {
    cluster.workload("api").spec.suspend = true;
}

fn ignore(cluster: &mut Cluster) {
    let ignore = (opt::IGNORE.to_owned(), "true".to_owned());
    cluster.target("api").labels.extend([ignore]);
}

fn delete(cluster: &mut Cluster) {
    let now = cluster.now;
    cluster.workload("api").deleted = Some(now);
}

/// They stay in doubt, and however the ManagedWorkload leaves. They go at once
/// where no pod can come, or no doorman is left (ROUTE-63).
#[rstest]
#[case::as_it_is(|_: &mut Cluster| {}, 2)]
#[case::not_read(|c: &mut Cluster| { c.unknown.insert(Part::Served); }, 2)]
#[case::services_not_read(|c: &mut Cluster| { c.unknown.insert(Part::Services); }, 2)]
#[case::suspended(suspend, 2)]
#[case::ignored(ignore, 2)]
#[case::being_deleted(delete, 2)]
#[case::restarted(Cluster::restart, 2)]
#[case::doorman_not_seen(|c: &mut Cluster| { c.unknown.insert(Part::Doorman); }, 2)]
#[case::one_doorman_left(|c: &mut Cluster| c.doormen()[0].state = DoormanState::NotReady, 2)]
#[case::no_doorman_left(|c: &mut Cluster| for pod in c.doormen() { pod.state = DoormanState::NotReady }, 0)]
#[case::doorman_turned_off(|c: &mut Cluster| c.doorman = Doorman::Disabled, 0)]
#[case::deselected(|c: &mut Cluster| c.service().selector = objects::service("x", "x").selector, 0)]
#[case::scaled_to_0(|c: &mut Cluster| c.scale("api", 0), 0)]
fn slices_stay_where_a_pod_can_come(#[case] change: fn(&mut Cluster), #[case] slices: usize) {
    let mut cluster = unnamed();
    change(&mut cluster);
    cluster.settle();
    assert_eq!(cluster.slices.len(), slices);
    cluster.pass_secs(29);
    assert_eq!(cluster.slices.len(), slices);
    cluster.unknown.clear();
    cluster.pass_secs(1);
    assert_eq!(cluster.slices.len(), 0);
}

/// Each family by itself.
#[test]
fn a_family_that_is_served_is_let_go_of() {
    let mut cluster = unnamed();
    let mut world = cluster.world("api").expect("there");
    world.served = Seen::Known([("api".to_owned(), [IpFamily::IPv6].into())].into());
    let plan = decide(&world, &mut cluster.ports, cluster.now);
    let [Write::DeleteSlice { name, .. }] = plan.writes.as_slice() else {
        panic!("{plan:#?}");
    };
    assert_eq!(*name, slice_name("api", IpFamily::IPv6));
    assert_eq!(plan.reads, ["api".to_owned()].into());
}

/// Where the pods are never named, it isn't read without end.
#[test]
fn it_is_read_a_dozen_times_at_most() {
    let mut cluster = unnamed();
    let (ran, mut reads) = (cluster.now, 0);
    while !cluster.slices.is_empty() {
        reads += 1;
        let again = cluster.plan("api").expect("there").again.expect("a bound");
        cluster.pass(again.duration_since(cluster.now));
    }
    assert_eq!(cluster.now.duration_since(ran).as_secs(), 30);
    assert!(reads <= 12, "{reads}");
}

/// ROUTE-35: nothing is read for workloads that sleep, or are awake.
#[test]
fn only_a_wake_asks_who_serves_a_service() {
    let mut cluster = unnamed();
    assert_eq!(cluster.plan("api").expect("there").reads.len(), 1);
    cluster.pass_secs(30);
    assert_eq!(cluster.plan("api").expect("there").reads.len(), 0);
    cluster.pause("api");
    assert_eq!(cluster.plan("api").expect("there").reads.len(), 0);
}

/// A doorman pod that leaves meanwhile, or stands there anew under its address, is
/// taken out of them: its callers would be refused.
#[rstest]
#[case::not_ready(|pod: &mut DoormanPod| pod.state = DoormanState::NotReady)]
#[case::another_pod(|pod: &mut DoormanPod| pod.pod.uid = "another".to_owned())]
fn a_doorman_pod_that_leaves_is_taken_out(#[case] leave: fn(&mut DoormanPod)) {
    let mut cluster = unnamed();
    leave(&mut cluster.doormen()[0]);
    cluster.settle();
    assert_eq!(cluster.slices.len(), 2);
    for slice in cluster.slices.values() {
        let [endpoint] = slice.spec.endpoints.as_slice() else {
            panic!("{slice:#?}");
        };
        assert_eq!(endpoint.node.as_deref(), Some("node-2"));
    }
}

/// One that is paused again meanwhile stays routed.
#[test]
fn a_pause_that_comes_meanwhile_keeps_the_slices() {
    let mut cluster = unnamed();
    let before: Vec<_> = cluster.slices.values().cloned().collect();
    cluster.pass_secs(2);
    cluster.pause("api");
    assert!(cluster.slices.values().eq(&before));
}

/// Where the clock was set back by much, they wait for nobody.
#[test]
fn a_start_far_ahead_keeps_nothing() {
    let mut cluster = unnamed();
    let ahead = after(cluster.now, SignedDuration::from_hours(1));
    let clock = cluster.workload("api").status.clock.as_mut();
    clock.expect("a clock").running_since = Some(crate::draft::micro(ahead));
    let writes = cluster.plan("api").expect("there").writes;
    let lets_go = |write: &&Write| matches!(write, Write::DeleteSlice { .. });
    assert_eq!(writes.iter().filter(lets_go).count(), 2, "{writes:#?}");
}

#[rstest]
#[case::at_first(0, 250)]
#[case::later(600, 1_200)]
#[case::every_5_s(7_000, 12_000)]
#[case::at_the_bound(29_600, 30_000)]
#[case::from_ahead(-2_000, -1_750)]
fn it_is_read_again_later_and_later(#[case] age: i64, #[case] expected: i64) {
    let at = |millis| Timestamp::from_millisecond(1_000_000 + millis).expect("in range");
    let hand_over = HandOver {
        since: Some(at(0)),
        now: at(age),
        selecting: None,
        served: None,
        doorman: &Doorman::Disabled,
    };
    assert_eq!(hand_over.again(), Some(at(expected)));
}
