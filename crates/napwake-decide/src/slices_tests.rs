use jiff::SignedDuration;
use napwake_api::names::signal;
use rstest::rstest;

use super::*;
use crate::{
    sim::{
        Cluster, objects,
        questions::{give_twice, pause_with, paused, status},
    },
    world::{Check, CheckOutcome, DoormanPod, DoormanState, Endpoint, PodRef},
};

fn only_slice(cluster: &Cluster) -> SliceSpec {
    assert_eq!(cluster.slices.len(), 1);
    cluster.slices.values().next().expect("one").spec.clone()
}

/// ROUTE-69: `<service>-o<hash>`, always the same, another for each family.
#[rstest]
#[case("api", IpFamily::IPv4, "api-o0c3922427e")]
#[case("api", IpFamily::IPv6, "api-o24ef5f165c")]
fn names_are_stable(#[case] service: &str, #[case] family: IpFamily, #[case] expected: &str) {
    assert_eq!(slice_name(service, family), expected);
}

#[test]
fn a_long_service_name_is_not_cut() {
    let service = "s".repeat(63);
    let name = slice_name(&service, IpFamily::IPv4);
    assert!(name.starts_with(&format!("{service}-o")) && name.len() <= 253);
}

/// ROUTE-03: every Ready doorman pod, and no other.
#[test]
fn a_slice_names_each_ready_doorman_pod_once() {
    let cluster = pause_with(|cluster| {
        cluster.doormen().push(DoormanPod {
            state: DoormanState::NotReady,
            ..objects::doorman_pod(3)
        });
    });
    let slice = only_slice(&cluster);
    assert_eq!(slice.service_uid, cluster.services[0].uid);
    let expected: Vec<_> = [1u8, 2]
        .into_iter()
        .map(|n| Endpoint {
            address: [10, 0, 9, n].into(),
            node: Some(format!("node-{n}")),
            zone: None,
            pod: Some(PodRef {
                namespace: "napwake-system".to_owned(),
                name: format!("doorman-{n}"),
                uid: format!("doorman-uid-{n}"),
            }),
        })
        .collect();
    assert_eq!(slice.endpoints, expected);
}

/// ROUTE-02: one slice for each family of the Service, on the same ports.
/// ROUTE-04: each Service port has a doorman port of its own.
#[rstest]
#[case::ipv4(&[IpFamily::IPv4])]
#[case::ipv6(&[IpFamily::IPv6])]
#[case::dual(&[IpFamily::IPv6, IpFamily::IPv4])]
fn one_slice_for_each_family(#[case] families: &[IpFamily]) {
    let cluster = pause_with(|cluster| {
        let service = cluster.service();
        service.families = families.to_vec();
        service.ports = vec![objects::port("http", 80), objects::port("grpc", 90)];
        service.ports[1].app_protocol = Some("kubernetes.io/h2c".to_owned());
    });
    let slices: Vec<_> = cluster.slices.values().map(|slice| &slice.spec).collect();
    let mut found: Vec<_> = slices.iter().map(|slice| slice.family).collect();
    let mut expected = families.to_vec();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    for slice in &slices {
        assert_eq!(slice.ports, slices[0].ports);
        let is_in_family =
            |endpoint: &Endpoint| endpoint.address.is_ipv4() == (slice.family == IpFamily::IPv4);
        assert!(slice.endpoints.iter().all(is_in_family));
    }
    let [http, grpc] = slices[0].ports.as_slice() else {
        panic!("two ports: {:?}", slices[0].ports);
    };
    assert_eq!((http.name.as_str(), grpc.name.as_str()), ("http", "grpc"));
    assert_ne!(http.port, grpc.port);
    assert!((20_000..=29_999).contains(&http.port));
    assert_eq!(grpc.app_protocol.as_deref(), Some("kubernetes.io/h2c"));
}

/// ROUTE-79: one that is Ready but doesn't listen isn't named, and holds the
/// others up for a moment only.
#[test]
fn a_doorman_pod_that_does_not_listen_is_left_out() {
    let mut cluster = pause_with(|cluster| cluster.doormen()[1] = objects::deaf_doorman_pod(2));
    let slice = only_slice(&cluster);
    assert_eq!(slice.endpoints.len(), 1);
    assert_eq!(
        slice.endpoints[0].address,
        objects::doorman_pod(1).addresses[&IpFamily::IPv4]
    );
    let pause = cluster.status("api").pause.clone().expect("a pause");
    let routed = pause.routed_at.expect("routed").0;
    let took = routed.duration_since(pause.started_at.0);
    assert_eq!(took, timing::LAGGARD_BOUND);
    // It joins once it listens, checked again and again.
    cluster.doormen()[1] = objects::doorman_pod(2);
    cluster.pass_secs(5);
    assert_eq!(only_slice(&cluster).endpoints.len(), 2);
}

#[test]
fn a_check_from_before_the_route_opened_counts_for_nothing() {
    let mut cluster = paused();
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.pass_secs(200);
    cluster.log.clear();
    cluster.pause("api");
    assert!(cluster.written("api").contains(&"check"));
}

#[test]
fn slices_that_stand_are_not_checked_again_after_a_restart() {
    let mut cluster = paused();
    cluster.log.clear();
    cluster.restart();
    cluster.pass_secs(3600 / 4);
    assert_eq!(cluster.log, []);
}

#[test]
fn a_new_doorman_pod_joins_after_its_check_and_replaces_in_place() {
    let mut cluster = paused();
    let before = cluster.slices.values().next().expect("one").clone();
    cluster.doormen().push(objects::doorman_pod(3));
    cluster.log.clear();
    cluster.settle();
    assert_eq!(cluster.written("api"), ["check", "slice"]);
    let after = cluster.slices.values().next().expect("one").clone();
    assert_eq!(after.uid, before.uid);
    assert_eq!(after.spec.endpoints.len(), 3);
}

/// DRAIN-06: when every doorman pod was replaced while nobody looked, as between
/// two leaders, the slice is rewritten in place: those it names may serve still.
#[test]
fn a_whole_turnover_of_doorman_pods_replaces_in_place() {
    let mut cluster = paused();
    let before = cluster.slices.values().next().expect("one").clone();
    *cluster.doormen() = vec![objects::doorman_pod(3), objects::doorman_pod(4)];
    cluster.log.clear();
    cluster.restart();
    cluster.settle();
    assert!(!cluster.written("api").contains(&"unslice"));
    let after = cluster.slices.values().next().expect("one").clone();
    assert_eq!(after.uid, before.uid);
    assert_eq!(after.spec.endpoints.len(), 2);
    assert_ne!(after.spec.endpoints, before.spec.endpoints);
}

/// A pause begins, and a slice is there already that names these doorman pods, as of
/// a ManagedWorkload that was lost.
fn with_an_old_slice(doormen: [DoormanPod; 2]) -> Cluster {
    let mut old = paused().slices;
    for slice in old.values_mut() {
        for (endpoint, pod) in slice.spec.endpoints.iter_mut().zip(&doormen) {
            endpoint.pod = Some(pod.pod.clone());
        }
    }
    let mut cluster = objects::running();
    *cluster.doormen() = doormen.into();
    cluster.pass_secs(1);
    cluster.log.clear();
    cluster.stamp("api", signal::PAUSE_REQUESTED);
    cluster.slices = old;
    cluster.settle();
    cluster
}

/// ROUTE-79, DRAIN-06: a slice that is there before its route opened stays, and tells
/// nothing of who listens: each doorman pod passes a check first.
#[test]
fn a_slice_from_before_its_route_is_checked() {
    let cluster = with_an_old_slice([1, 2].map(objects::doorman_pod));
    let written = cluster.written("api");
    assert!(!written.contains(&"unslice"), "{written:?}");
    assert!(written.contains(&"check"), "{written:?}");
    assert_eq!(only_slice(&cluster).endpoints.len(), 2);

    let cluster = with_an_old_slice([1, 2].map(objects::deaf_doorman_pod));
    assert_eq!(cluster.slices.len(), 0);
}

/// One whose doorman pods are all deaf is taken away once that is known.
#[test]
fn a_slice_that_nobody_serves_is_taken_away() {
    let mut cluster = paused();
    let deaf = (3..=4).map(objects::deaf_doorman_pod).collect();
    *cluster.doormen() = deaf;
    cluster.settle();
    assert_eq!(cluster.slices.len(), 0);
}

#[test]
fn a_slice_somebody_deleted_is_made_again() {
    let mut cluster = paused();
    cluster.pass_secs(60);
    cluster.slices.clear();
    cluster.log.clear();
    cluster.settle();
    assert_eq!(cluster.slices.len(), 1);
    assert_eq!(cluster.written("api"), ["slice"]);
}

#[test]
fn a_deleted_doorman_pod_with_a_new_one_of_its_address_is_another() {
    let mut cluster = paused();
    cluster.now += SignedDuration::from_secs(1);
    cluster.doormen()[0].pod.uid = "another".to_owned();
    cluster.settle();
    let pods: Vec<_> = only_slice(&cluster)
        .endpoints
        .into_iter()
        .filter_map(|endpoint| endpoint.pod)
        .map(|pod| pod.uid)
        .collect();
    assert_eq!(pods, ["another", "doorman-uid-2"]);
}

/// `api` of two ports, and `worker`, both Running.
fn two() -> Cluster {
    let mut cluster = objects::empty();
    cluster.add("api", 1);
    cluster.add("worker", 1);
    cluster.service().ports = vec![objects::port("web", 80), objects::port("admin", 81)];
    cluster.settle();
    cluster
}

/// No Service is sent to a port that its workload is about to leave, as another one was
/// given it too.
#[test]
fn no_slice_is_made_for_a_port_that_is_left() {
    let mut cluster = two();
    cluster.pass_secs(1);
    cluster.stamp("api", signal::PAUSE_REQUESTED);
    while cluster.apps["api"].checks.is_empty() {
        assert!(cluster.step_up_to("api", usize::MAX), "nothing is checked");
    }
    let plan = cluster.plan("api").expect("it's there");
    assert_eq!(sliced(&plan).len(), 1, "{plan:#?}");
    give_twice(&mut cluster);
    let plan = cluster.plan("api").expect("it's there");
    assert_eq!(sliced(&plan), [] as [&Write; 0], "{plan:#?}");
}

/// DRAIN-06, ROUTE-79: a Service goes from one port to another, where two leaders gave
/// that twice, once doorman pods listen there; until then its slice stands as it is.
#[rstest]
#[case::none_listens(&[])]
#[case::one_listens(&[1])]
fn a_slice_stands_until_the_doorman_listens_on_another_port(#[case] listening: &[u8]) {
    let mut cluster = two();
    cluster.pause("api");
    let before = only_slice(&cluster);
    give_twice(&mut cluster);
    let moved = cluster.plan("api").expect("it's there");
    assert_eq!(sliced(&moved), [] as [&Write; 0], "{moved:#?}");
    let moved = status(&moved).expect("other ports").clone();
    cluster.workload("api").status = moved;
    let asked = cluster.plan("api").expect("it's there");
    let [Write::CheckListeners(listeners)] = asked.writes.as_slice() else {
        panic!("{asked:#?}");
    };
    let at = cluster.now;
    let mut answer = |silent: bool| {
        for listener in listeners {
            let is_silent = |n: &u8| !listener.address.to_string().ends_with(&n.to_string());
            let outcome = if silent && listening.iter().all(is_silent) {
                CheckOutcome::Silent
            } else {
                CheckOutcome::Listening
            };
            let checks = &mut cluster.app("api").checks;
            checks.insert(listener.clone(), Check { at, outcome });
        }
        cluster.plan("api").expect("it's there")
    };
    let waits = answer(true);
    assert_eq!(sliced(&waits), [] as [&Write; 0], "{waits:#?}");
    let moves = answer(false);
    let [Write::ApplySlice { slice, over }] = sliced(&moves)[..] else {
        panic!("{moves:#?}");
    };
    assert!(matches!(over, Over::Existing { .. }));
    assert_eq!(slice.endpoints, before.endpoints);
    let mut pairs = slice.ports.iter().zip(&before.ports);
    assert!(pairs.all(|(new, old)| new.name == old.name && new.port != old.port));
}

/// What a plan does to slices.
fn sliced(plan: &crate::Plan) -> Vec<&Write> {
    let is_of_slice =
        |write: &&Write| matches!(write, Write::ApplySlice { .. } | Write::DeleteSlice { .. });
    plan.writes.iter().filter(is_of_slice).collect()
}
