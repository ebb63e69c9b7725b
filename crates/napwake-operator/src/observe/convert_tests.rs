//! Conversions whose outcome isn't obvious.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{
    deployment, doorman_pod, made_by_label, namespace, service, slice, workload,
};

/// F-11, F-15, F-17: what Napwake wouldn't write is given without endpoints, so
/// that it's written anew.
#[rstest]
#[case::as_written(json!({}), 1)]
#[case::serving_absent(
    json!({"endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": true}}]}),
    0
)]
#[case::two_addresses(
    json!({"endpoints": [{
        "addresses": ["10.1.0.1", "10.1.0.2"],
        "conditions": {"ready": true, "serving": true, "terminating": false},
    }]}),
    0
)]
#[case::a_name(
    json!({"endpoints": [{
        "addresses": ["pod.example"],
        "conditions": {"ready": true, "serving": true, "terminating": false},
    }]}),
    0
)]
#[case::udp(json!({"ports": [{"name": "http", "port": 20_000, "protocol": "UDP"}]}), 0)]
#[case::port_without_number(json!({"ports": [{"name": "http", "protocol": "TCP"}]}), 0)]
#[case::null(json!({"endpoints": null, "ports": null}), 0)]
fn a_slice_is_as_napwake_writes_it_or_empty(#[case] patch: Value, #[case] endpoints: usize) {
    let observed = slice("a-o1", "a", 1, patch);
    assert_eq!(observed.slice.spec.endpoints.len(), endpoints);
    assert_eq!(observed.slice.spec.service_uid, "service-a");
}

#[rstest]
#[case::proxied(json!({}), ServiceKind::Proxied)]
#[case::headless(json!({"spec": {"clusterIP": "None"}}), ServiceKind::Headless)]
#[case::external(
    json!({"spec": {"type": "ExternalName", "clusterIP": null}}),
    ServiceKind::ExternalName
)]
#[case::node_port(json!({"spec": {"type": "NodePort"}}), ServiceKind::Proxied)]
fn services_are_told_apart(#[case] patch: Value, #[case] expected: ServiceKind) {
    assert_eq!(service("a", "a", 1, patch).service.kind, expected);
}

#[test]
fn only_tcp_is_tcp() {
    let ports = json!({"spec": {"ports": [
        {"name": "a", "port": 1},
        {"name": "b", "port": 2, "protocol": "UDP"},
        {"name": "c", "port": 3, "protocol": "SCTP"},
    ]}});
    let observed = service("a", "a", 1, ports);
    let protocols: Vec<_> = observed
        .service
        .ports
        .iter()
        .map(|port| port.protocol)
        .collect();
    assert_eq!(protocols, [Protocol::Tcp, Protocol::Other, Protocol::Other]);
}

#[test]
fn of_annotations_only_what_is_read_is_kept() {
    let patch = json!({"metadata": {
        "annotations": {"napwake.dev/lookout": "0s", "napwake.devil/x": "", "other": "x"},
        "ownerReferences": [
            {"apiVersion": "x/v1", "kind": "Bystander", "name": "b", "uid": "1"},
            {"apiVersion": "x/v1", "kind": "Cluster", "name": "c", "uid": "2", "controller": true},
        ],
    }});
    let target = &deployment("a", 1, patch).target;
    let keys: Vec<_> = target.annotations.keys().collect();
    assert_eq!(keys, ["napwake.dev/lookout"]);
    let controller = target.controller.as_ref().unwrap();
    assert_eq!(
        (controller.kind.as_str(), controller.name.as_str()),
        ("Cluster", "c")
    );
}

#[test]
fn pods_have_one_address_in_each_family() {
    let ips = json!({"status": {"podIPs": [
        {"ip": "::ffff:10.1.0.9"}, {"ip": "10.1.0.1"}, {"ip": "fd00::1"},
    ]}});
    let pod = &doorman_pod("d", 1, ips).pod;
    let addresses: Vec<_> = pod.addresses.values().map(ToString::to_string).collect();
    assert_eq!(addresses, ["10.1.0.9", "fd00::1"]);
}

#[test]
fn the_label_says_who_made_it() {
    assert_eq!(workload("a", 1, json!({})).made, Made::ByHand);
    let expected = Made::ByLabel(Some("deployment-a".to_owned()));
    assert_eq!(workload("a", 1, made_by_label("a")).made, expected);
    // An owner of another name isn't the target.
    let other = workload("a", 1, made_by_label("b"));
    assert_eq!(other.made, Made::ByLabel(None));
}

#[rstest]
#[case::labels(json!({"matchLabels": {"app": "a"}}), Some("app=a"))]
#[case::expressions(
    json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}),
    Some("app")
)]
#[case::unknown_operator(
    json!({"matchExpressions": [{"key": "app", "operator": "Near", "values": ["a"]}]}),
    None
)]
#[case::everything(json!({}), None)]
fn selectors_are_put_as_lists_take_them(#[case] given: Value, #[case] expected: Option<&str>) {
    let given: LabelSelector = serde_json::from_value(given).unwrap();
    assert_eq!(selector(&given).as_deref(), expected);
}

/// T-132: a Namespace or a Service is in Istio's ambient mesh by its label alone.
#[rstest]
#[case::none(json!({}), false)]
#[case::ambient(json!({"istio.io/dataplane-mode": "ambient"}), true)]
#[case::left_out(json!({"istio.io/dataplane-mode": "none"}), false)]
fn the_ambient_mesh_is_told_by_a_label(#[case] labels: Value, #[case] expected: bool) {
    let labeled = json!({"metadata": {"labels": labels}});
    assert_eq!(namespace(1, labeled.clone()).is_ambient, expected);
    assert_eq!(service("a", "a", 1, labeled).service.is_ambient, expected);
}
