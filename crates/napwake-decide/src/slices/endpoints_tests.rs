use rstest::rstest;

use super::*;
use crate::sim::{Cluster, objects, questions::pause_with};

/// What the endpoints of the only slice name.
fn named(cluster: &Cluster) -> Vec<bool> {
    let slices = cluster.slices.values();
    let endpoints = slices.flat_map(|slice| &slice.spec.endpoints);
    endpoints
        .inspect(|one| assert!(one.node.is_some(), "{one:?}"))
        .map(|one| one.pod.is_some())
        .collect()
}

/// T-132: by the setting, the namespace and the Service; the node is always named.
#[rstest]
#[case::usual(TargetRefs::Auto, false, false, true)]
#[case::namespace_in_ambient(TargetRefs::Auto, true, false, false)]
#[case::service_in_ambient(TargetRefs::Auto, false, true, false)]
#[case::always(TargetRefs::Always, true, true, true)]
#[case::never(TargetRefs::Never, false, false, false)]
fn endpoints_name_their_pods(
    #[case] target_refs: TargetRefs,
    #[case] namespace: bool,
    #[case] service: bool,
    #[case] expected: bool,
) {
    let cluster = pause_with(|cluster| {
        cluster.target_refs = target_refs;
        cluster.app("api").namespace.is_ambient = namespace;
        cluster.service().is_ambient = service;
    });
    assert_eq!(named(&cluster), [expected; 2]);
}

/// T-132: a slice is rewritten in place when that changes, without another look at
/// who listens; and a workload whose endpoints name no pod wakes as any other.
#[test]
fn what_stands_follows_a_label_in_place() {
    let mut cluster = pause_with(|_| {});
    let uids = |cluster: &Cluster| -> Vec<String> {
        let slices = cluster.slices.values();
        slices.map(|slice| slice.uid.clone()).collect()
    };
    let before = uids(&cluster);
    for is_ambient in [true, false, true] {
        cluster.log.clear();
        cluster.app("api").namespace.is_ambient = is_ambient;
        cluster.settle();
        assert_eq!(named(&cluster), [!is_ambient; 2]);
        assert_eq!(cluster.written("api"), ["slice"]);
    }
    assert_eq!(uids(&cluster), before);
    cluster.stamp("api", napwake_api::names::signal::LAST_REQUEST);
    cluster.pass_secs(120);
    cluster.check_clean();
}

/// A doorman pod that leaves is taken out, though no endpoint names its pod.
#[test]
fn one_that_leaves_is_known_by_its_address() {
    let mut cluster = pause_with(|cluster| cluster.target_refs = TargetRefs::Never);
    let left = cluster.doormen().remove(0);
    cluster.settle();
    let slices = cluster.slices.values();
    let endpoints: Vec<_> = slices.flat_map(|slice| &slice.spec.endpoints).collect();
    assert_eq!(endpoints.len(), 1);
    assert!(!endpoints[0].is_of(&left, IpFamily::IPv4));
    assert!(endpoints[0].is_of(&objects::doorman_pod(2), IpFamily::IPv4));
}

/// Where the namespace can't be seen, what stands stays; and what's made anew names
/// its pods.
#[rstest]
#[case::none_stands(None, true)]
#[case::named(Some(true), true)]
#[case::not_named(Some(false), false)]
fn an_unknown_namespace_changes_nothing(#[case] found: Option<bool>, #[case] expected: bool) {
    let mut cluster = pause_with(|cluster| {
        if found == Some(false) {
            cluster.target_refs = TargetRefs::Never;
        }
    });
    cluster.target_refs = TargetRefs::Auto;
    let mut world = cluster.world("api").expect("it's there");
    world.namespace = Seen::Unknown("not read".to_owned());
    let slice = cluster.slices.values().next().filter(|_| found.is_some());
    assert_eq!(are_named(&world, &cluster.services[0], slice), expected);
}
