use napwake_api::{
    condition::{self, ConditionType},
    names::{event, signal},
    workload::Phase,
};
use rstest::rstest;

use super::*;
use crate::{
    plan::Write,
    sim::{
        Cluster, objects,
        questions::{pause_with, reason},
    },
    world::TrafficPolicy,
};

fn ingress(annotation: Option<&str>, class_name: Option<&str>) -> Ingress {
    Ingress {
        name: "web".to_owned(),
        class_annotation: annotation.map(str::to_owned),
        class_name: class_name.map(str::to_owned),
        services: ["api".to_owned()].into(),
    }
}

/// NEG-10: the classes that are GKE's. NEG-11: no class is GKE's, too. NEG-12: the
/// field alone never is. T-91: an empty annotation says nothing, and one that names
/// a class goes before the field.
#[rstest]
#[case(Some("gce"), None, true)]
#[case(Some("gce-internal"), None, true)]
#[case(Some("gce-regional-external"), None, true)]
#[case(Some("gce-multi-cluster"), None, true)]
#[case(Some("nginx"), None, false)]
#[case(Some("GCE"), None, false)]
#[case(None, None, true)]
#[case(Some(""), None, true)]
#[case(None, Some("gce"), false)]
#[case(None, Some("nginx"), false)]
#[case(Some(""), Some("gce"), false)]
#[case(Some("gce"), Some("nginx"), true)]
#[case(Some("nginx"), Some("gce"), false)]
fn which_ingresses_are_gkes(
    #[case] annotation: Option<&str>,
    #[case] class_name: Option<&str>,
    #[case] expected: bool,
) {
    assert_eq!(is_gkes(&ingress(annotation, class_name)), expected);
}

/// NEG-01, NEG-02, NEG-09: an Ingress of GKE's and the annotation only count
/// together. NEG-13: standalone groups, and NEG-14: groups that are listed, count
/// by themselves. NEG-79: as a Gateway's do.
#[rstest]
#[case::nothing(&[], &[], false)]
#[case::annotation_alone(&[NegSign::ForIngress], &[], false)]
#[case::anothers_ingress(&[NegSign::ForIngress], &[Some("nginx")], false)]
#[case::instance_groups(&[], &[None], false)]
#[case::used(&[NegSign::ForIngress], &[None], true)]
#[case::used_by_gce(&[NegSign::ForIngress], &[Some("gce")], true)]
#[case::standalone(&[NegSign::Standalone], &[], true)]
#[case::standalone_behind_another(&[NegSign::Standalone], &[Some("nginx")], true)]
#[case::listed(&[NegSign::Listed], &[], true)]
fn when_a_service_is_in_negs(
    #[case] signs: &[NegSign],
    #[case] classes: &[Option<&str>],
    #[case] expected: bool,
) {
    let mut service = objects::service("api", "service");
    service.negs = signs.iter().copied().collect();
    let ingresses: Vec<_> = classes.iter().map(|class| ingress(*class, None)).collect();
    assert_eq!(in_negs(&service, &ingresses).is_some(), expected);
}

#[test]
fn an_ingress_of_another_service_does_not_count() {
    let mut service = objects::service("other", "service");
    service.negs = [NegSign::ForIngress].into();
    assert_eq!(in_negs(&service, &[ingress(None, None)]), None);
}

fn message(cluster: &Cluster) -> String {
    let conditions = &cluster.status("api").conditions;
    let known = condition::get(conditions, ConditionType::WakeOnRequest);
    known.expect("set").message.clone()
}

fn warned(cluster: &Cluster) -> usize {
    let events = cluster.events("api");
    let warned = events
        .iter()
        .filter(|reason| **reason == event::UNSUPPORTED_LOAD_BALANCER);
    warned.count()
}

fn sliced_ever(cluster: &Cluster) -> bool {
    let mut slices = cluster.log.iter();
    slices.any(|(_, _, write)| matches!(write, Write::ApplySlice { .. }))
}

/// ROUTE-54, NEG-03: not routed. ROUTE-55, OBS-11: with a warning, once each pause.
/// ROUTE-56: the reason where nothing else is routed. NEG-04: not one slice is ever
/// written for it. ROUTE-76: it stays on the condition once it's awake.
#[test]
fn a_service_in_negs_is_not_routed() {
    let mut cluster = objects::running();
    cluster.service().negs = [NegSign::ForIngress].into();
    cluster.ingresses.push(ingress(Some("gce"), None));
    for pause in 1..=2 {
        cluster.pause("api");
        cluster.pass_secs(600);
        assert_eq!(
            reason(&cluster, ConditionType::WakeOnRequest),
            "UnsupportedLoadBalancer"
        );
        let live = message(&cluster);
        assert!(
            live.starts_with("Service api isn't routed: it is behind GKE"),
            "{live}"
        );
        assert!(live.ends_with("the GKE Ingress web uses it"), "{live}");
        assert_eq!(warned(&cluster), pause);
        cluster.stamp("api", signal::ACTIVITY);
        cluster.until("api", Phase::Running);
        cluster.pass_secs(100);
        assert_eq!(message(&cluster), format!("at its last pause: {live}"));
        assert_eq!(warned(&cluster), pause);
    }
    assert!(!sliced_ever(&cluster));
}

/// ROUTE-57: beside one that is routed the condition stays True, and its message
/// names the Service. NEG-22: callers in the cluster have the other one.
#[test]
fn beside_a_routed_service_one_in_negs_is_named() {
    let mut cluster = pause_with(|cluster| {
        let mut second = objects::service("api", "second");
        second.name = "public".to_owned();
        second.negs = [NegSign::Standalone].into();
        cluster.services.push(second);
    });
    assert_eq!(
        reason(&cluster, ConditionType::WakeOnRequest),
        "DoormanRouted"
    );
    let named = "; Service public isn't routed: it is behind GKE";
    assert!(message(&cluster).contains(named), "{}", message(&cluster));
    assert_eq!(cluster.slices.len(), 1);
    cluster.stamp("api", signal::ACTIVITY);
    cluster.until("api", Phase::Running);
    cluster.log.clear();
    cluster.pause("api");
    assert_eq!(warned(&cluster), 1, "once more with each pause");
}

/// NEG-05, NEG-07: it comes off the doorman once a GKE Ingress uses it. NEG-06,
/// NEG-08: and is routed again once none does.
#[test]
fn routing_follows_the_ingresses() {
    let mut cluster = pause_with(|cluster| {
        cluster.service().negs = [NegSign::ForIngress].into();
    });
    assert_eq!(
        reason(&cluster, ConditionType::WakeOnRequest),
        "DoormanRouted"
    );
    cluster.ingresses.push(ingress(None, None));
    cluster.settle();
    assert_eq!(cluster.slices.len(), 0);
    assert_eq!(
        reason(&cluster, ConditionType::WakeOnRequest),
        "UnsupportedLoadBalancer"
    );
    assert_eq!(warned(&cluster), 1);
    cluster.pass_secs(300);
    cluster.ingresses.clear();
    cluster.settle();
    assert_eq!(cluster.slices.len(), 1);
    assert_eq!(
        reason(&cluster, ConditionType::WakeOnRequest),
        "DoormanRouted"
    );
}

/// T-133: it goes before what else there is, and after what counts as absent.
#[rstest]
#[case::node_local(TrafficPolicy::Local, false, "UnsupportedLoadBalancer")]
#[case::headless(TrafficPolicy::Cluster, true, "NoServices")]
fn the_first_reason_is_given(
    #[case] policy: TrafficPolicy,
    #[case] is_headless: bool,
    #[case] expected: &str,
) {
    let cluster = pause_with(|cluster| {
        let service = cluster.service();
        service.negs = [NegSign::Listed].into();
        service.internal_traffic = policy;
        if is_headless {
            service.kind = crate::world::ServiceKind::Headless;
        }
    });
    assert_eq!(reason(&cluster, ConditionType::WakeOnRequest), expected);
}
