use jiff::SignedDuration;
use napwake_api::{
    condition::ConditionType,
    names::signal,
    workload::{DoormanStatus, MicroTime, Phase, RestingPort, RouteState},
};
use rstest::rstest;

use crate::{
    sim::{
        Cluster, Part,
        objects::{self, running},
        questions::{give_twice, pause_with, reason, routes, sliced, status},
    },
    world::{Doorman, WorkloadKey},
};

/// ROUTE-14: gone once it's Running.
/// ROUTE-75: awake means NotPaused.
#[test]
fn a_running_workload_has_no_slices() {
    let mut cluster = pause_with(|_| {});
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.settle();
    // T-120: routed still while it wakes.
    assert_eq!(cluster.phase("api"), Some(Phase::Resuming));
    assert_eq!(
        reason(&cluster, ConditionType::WakeOnRequest),
        "DoormanRouted"
    );
    assert_eq!(cluster.slices.len(), 1);
    cluster.until("api", Phase::Running);
    assert_eq!(cluster.slices.len(), 0);
    assert_eq!(reason(&cluster, ConditionType::WakeOnRequest), "NotPaused");
}

/// DRAIN-22: the rest is on record, after 30 s of drain.
#[test]
fn a_route_drains_and_its_port_rests() {
    let mut cluster = pause_with(|_| {});
    let port = routes(&cluster)[0].1;
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.until("api", Phase::Running);
    let ran = cluster.now;
    let doorman = cluster.status("api").doorman.clone().expect("a drain");
    assert_eq!(doorman.routes[0].state, RouteState::Draining);
    let until = doorman.routes[0].draining_until.clone().expect("set").0;
    assert_eq!(until, ran + SignedDuration::from_secs(30));
    cluster.pass_secs(30);
    let doorman = cluster.status("api").doorman.clone().expect("a rest");
    assert_eq!(doorman.routes, []);
    assert_eq!(doorman.resting[0].port, port);
    assert_eq!(
        doorman.resting[0].until.0,
        ran + SignedDuration::from_secs(90)
    );
    cluster.pass_secs(60);
    assert_eq!(cluster.status("api").doorman, None);
}

/// DRAIN-17, DRAIN-21: a port that two leaders gave twice stays on record until its drain
/// and its rest are over, for each of the two.
#[test]
fn a_port_that_two_have_is_left_by_way_of_a_drain() {
    let mut cluster = objects::empty();
    cluster.add("api", 1);
    cluster.add("worker", 1);
    cluster.settle();
    cluster.pause("api");
    let port = routes(&cluster)[0].1;
    give_twice(&mut cluster);
    let plan = cluster.plan("api").expect("it's there");
    let status = status(&plan);
    let doorman = status.and_then(|status| status.doorman.as_ref());
    let routes = &doorman.expect("routes").routes;
    let (old, new): (Vec<_>, Vec<_>) = routes.iter().partition(|one| one.doorman_port == port);
    assert_eq!((old.len(), new.len()), (1, 1), "{routes:#?}");
    assert_eq!(new[0].state, RouteState::Opening);
}

#[rstest]
#[case::in_the_drain(10)]
#[case::in_the_rest(50)]
fn pausing_again_takes_the_port_back(#[case] seconds: i64) {
    let mut cluster = pause_with(|_| {});
    let port = routes(&cluster)[0].1;
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.until("api", Phase::Running);
    cluster.pass_secs(seconds);
    cluster.pause("api");
    assert_eq!(
        routes(&cluster),
        [(String::new(), port, RouteState::Routed)]
    );
    assert_eq!(
        cluster.status("api").doorman.clone().expect("it").resting,
        []
    );
}

/// SET-21: a doorman that's turned off leaves no slice, and says so.
#[test]
fn a_doorman_turned_off_routes_nothing() {
    let mut cluster = pause_with(|_| {});
    cluster.doorman = Doorman::Disabled;
    cluster.settle();
    assert_eq!(cluster.slices.len(), 0);
    assert_eq!(
        reason(&cluster, ConditionType::WakeOnRequest),
        "DoormanDisabled"
    );
    cluster.pass_secs(90);
    assert_eq!(cluster.status("api").doorman, None, "its ports have rested");
}

/// ROUTE-65: no free port, and nothing is routed.
#[test]
fn without_a_free_port_nothing_is_routed() {
    let mut cluster = running();
    let mut status = cluster.status("api").clone();
    status.doorman = Some(DoormanStatus {
        routes: Vec::new(),
        resting: (20_000..=29_999)
            .map(|port| RestingPort {
                port,
                until: MicroTime(cluster.now + SignedDuration::from_mins(60)),
            })
            .collect(),
    });
    let other = WorkloadKey {
        namespace: "other".to_owned(),
        name: "other".to_owned(),
    };
    cluster.ports.observe(&other, &status);
    cluster.pause("api");
    assert_eq!(reason(&cluster, ConditionType::WakeOnRequest), "NoFreePort");
    assert_eq!(cluster.slices.len(), 0);
    // Looked at again once ports are free.
    cluster.pass_secs(3600 + 30);
    assert_eq!(
        reason(&cluster, ConditionType::WakeOnRequest),
        "DoormanRouted"
    );
}

#[test]
fn ports_added_and_removed_while_paused_come_and_go() {
    let mut cluster = pause_with(|cluster| {
        cluster.service().ports = vec![objects::port("http", 80), objects::port("old", 81)];
    });
    let before = routes(&cluster);
    cluster.service().ports = vec![objects::port("http", 80), objects::port("new", 82)];
    cluster.settle();
    let after = routes(&cluster);
    assert_eq!(after[0], before[0], "an unchanged port keeps its own");
    assert_eq!(
        (after[1].0.as_str(), after[1].2),
        ("new", RouteState::Routed)
    );
    assert_eq!(
        after[2],
        ("old".to_owned(), before[1].1, RouteState::Draining)
    );
    assert_eq!(sliced(&cluster), ["http", "new"]);
    cluster.pass_secs(30);
    let doorman = cluster.status("api").doorman.clone().expect("routes");
    assert_eq!(doorman.resting[0].port, before[1].1);
}

#[test]
fn a_service_made_anew_gets_slices_of_its_own() {
    let mut cluster = pause_with(|_| {});
    let before = cluster.slices.values().next().expect("a slice").clone();
    cluster.service().uid = "anew".to_owned();
    cluster.settle();
    let after = cluster.slices.values().next().expect("a slice").clone();
    assert_ne!(after.uid, before.uid);
    assert_eq!(after.spec.service_uid, "anew");
    assert_eq!(after.spec.ports, before.spec.ports);
}

#[test]
fn a_service_that_selects_the_pods_no_longer_is_let_go() {
    let mut cluster = pause_with(|_| {});
    cluster.service().selector = objects::service("x", "x").selector;
    cluster.settle();
    assert_eq!(cluster.slices.len(), 0);
    assert_eq!(routes(&cluster)[0].2, RouteState::Draining);
    assert_eq!(reason(&cluster, ConditionType::WakeOnRequest), "NoServices");
}

#[rstest]
#[case(Part::Doorman)]
#[case(Part::Services)]
fn routes_leave_without_what_they_need_no_longer(#[case] part: Part) {
    let mut cluster = pause_with(|_| {});
    cluster.unknown.insert(part);
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.until("api", Phase::Running);
    assert_eq!(cluster.slices.len(), 0);
    assert_eq!(routes(&cluster)[0].2, RouteState::Draining);
}

fn front(cluster: &Cluster, name: &str) -> Option<(u16, RouteState, Option<String>)> {
    let doorman = cluster.status(name).doorman.as_ref()?;
    let route = doorman
        .routes
        .iter()
        .find(|route| route.service == "front")?;
    Some((route.doorman_port, route.state, route.taken_by.clone()))
}

/// ROUTE-31: a Service whose workloads are all paused is routed.
#[test]
fn workloads_behind_one_service_share_its_slices() {
    let mut cluster = objects::shared();
    cluster.pass_secs(1);
    cluster.pause("api");
    cluster.pause("worker");
    let slices = |cluster: &Cluster| {
        let slices = cluster.slices.values();
        slices.filter(|slice| slice.spec.service == "front").count()
    };
    let (port, _, _) = front(&cluster, "api").expect("taken");
    let shared = (port, RouteState::Routed, Some("api".to_owned()));
    assert_eq!(front(&cluster, "worker"), Some(shared));
    assert_eq!(slices(&cluster), 2);
    // The one that took the port wakes: it's on record until the other has it.
    cluster.stamp("api", signal::ACTIVITY);
    cluster.now += SignedDuration::from_secs(1);
    cluster.target("api").ready_replicas = 3;
    for _ in 0..9 {
        cluster.step_up_to("api", usize::MAX);
        cluster.target("api").ready_replicas = 3;
    }
    assert_eq!(cluster.phase("api"), Some(Phase::Running));
    assert_eq!(
        front(&cluster, "api"),
        Some((port, RouteState::Draining, None))
    );
    cluster.settle();
    assert_eq!(front(&cluster, "api"), None);
    assert_eq!(
        front(&cluster, "worker"),
        Some((port, RouteState::Routed, None))
    );
    assert_eq!(slices(&cluster), 2);
    cluster.pass_secs(300);
    assert_eq!(
        cluster.status("api").doorman,
        None,
        "its own port alone rested"
    );
}
