//! Tests of reading thin objects.

use std::net::IpAddr;

use kube::Resource;
use rstest::rstest;
use serde_json::{Value, from_value, json};

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn slice(endpoints: &Value, ports: &Value) -> EndpointSlice {
    from_value(json!({
        "metadata": {
            "name": "api-x1", "namespace": "shop", "uid": "u1", "resourceVersion": "7",
            "labels": {"kubernetes.io/service-name": "api"},
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-11-30T10:00:00Z"},
            "managedFields": [{"manager": "x", "fieldsV1": {"f:metadata": {}}}],
            "deletionTimestamp": "2026-11-30T10:00:00Z",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "api", "uid": "s1"}],
        },
        "addressType": "IPv6",
        "endpoints": endpoints,
        "ports": ports,
    }))
    .unwrap()
}

#[test]
fn a_slice_keeps_what_is_used() {
    let read = slice(
        &json!([{
            "addresses": ["fd00::1"],
            "conditions": {"ready": false, "serving": true, "terminating": true},
            "targetRef": {"kind": "Pod", "namespace": "shop", "name": "api-0", "uid": "p1"},
            "nodeName": "n1", "zone": "z", "hints": {"forZones": []},
        }]),
        &json!([{"name": "http", "port": 8080, "protocol": "TCP"}]),
    );
    assert_eq!(read.address_type, AddressType::IPv6);
    assert_eq!(read.label("kubernetes.io/service-name"), "api");
    assert_eq!(read.label("absent"), "");
    let endpoint = &read.endpoints[0];
    assert_eq!(endpoint.addresses, [ip("fd00::1")]);
    assert_eq!(endpoint.target_ref.as_ref().unwrap().uid, "p1");
    let conditions = Conditions {
        ready: Some(false),
        serving: Some(true),
        terminating: Some(true),
    };
    assert_eq!(endpoint.conditions, conditions);
    assert_eq!(read.ports[0].port, Some(8080));

    let meta = read.meta();
    assert_eq!(meta.resource_version.as_deref(), Some("7"));
    assert!(meta.deletion_timestamp.is_some());
    assert_eq!(meta.owner_references.as_ref().unwrap()[0].uid, "s1");
    assert_eq!(meta.managed_fields, None);
    assert_eq!(meta.annotations, None);
}

#[test]
fn a_slice_without_endpoints_has_null_lists() {
    let read = slice(&Value::Null, &Value::Null);
    assert!(read.endpoints.is_empty() && read.ports.is_empty());
}

/// T-73: what isn't written is told apart from either answer.
#[rstest]
#[case::all_absent(&json!({}), (None, None, None))]
#[case::null(&Value::Null, (None, None, None))]
#[case::null_each(&json!({"ready": null, "serving": null}), (None, None, None))]
#[case::not_ready(&json!({"ready": false}), (Some(false), None, None))]
#[case::serving_alone(&json!({"serving": true}), (None, Some(true), None))]
fn absent_conditions(
    #[case] conditions: &Value,
    #[case] expected: (Option<bool>, Option<bool>, Option<bool>),
) {
    let endpoints = json!([{"addresses": ["fd00::1"], "conditions": conditions}]);
    let read = slice(&endpoints, &Value::Null).endpoints[0].conditions;
    assert_eq!((read.ready, read.serving, read.terminating), expected);
}

#[test]
fn names_are_no_addresses() {
    let read: EndpointSlice = from_value(json!({
        "metadata": {"name": "x"},
        "addressType": "FQDN",
        "endpoints": [{"addresses": ["db.example.com"]}],
        "ports": [{"port": null}],
    }))
    .unwrap();
    assert_eq!(read.address_type, AddressType::Other);
    assert!(read.endpoints[0].addresses.is_empty());
    assert_eq!(read.ports[0], SlicePort::default());
}

#[test]
fn a_service_keeps_what_is_used() {
    let read: Service = from_value(json!({
        "metadata": {
            "name": "api", "namespace": "shop",
            "annotations": {
                "napwake.dev/doorman-ignore-ports": "metrics",
                "kubectl.kubernetes.io/last-applied-configuration": "{…}",
            },
        },
        "spec": {
            "type": "NodePort", "selector": {"app": "api"}, "clusterIP": "None",
            "clusterIPs": ["None"], "ipFamilies": ["IPv4", "IPv6"],
            "internalTrafficPolicy": "Local", "publishNotReadyAddresses": true,
            "ports": [
                {"name": "http", "port": 80, "targetPort": "web", "nodePort": 30080},
                {"name": "grpc", "port": 81, "targetPort": 9000, "protocol": "TCP"},
                {"name": "dns", "port": 53, "protocol": "UDP"},
            ],
        },
        "status": {"loadBalancer": {}},
    }))
    .unwrap();
    assert_eq!(
        read.metadata
            .annotations
            .unwrap()
            .into_keys()
            .collect::<Vec<_>>(),
        ["napwake.dev/doorman-ignore-ports"]
    );
    assert!(read.spec.is_headless());
    assert_eq!(read.spec.kind, ServiceType::NodePort);
    assert_eq!(read.spec.ip_families, [IpFamily::IPv4, IpFamily::IPv6]);
    assert_eq!(read.spec.internal_traffic_policy, TrafficPolicy::Local);
    assert_eq!(read.spec.external_traffic_policy, TrafficPolicy::Cluster);
    assert!(read.spec.publish_not_ready_addresses);
    let targets: Vec<_> = read
        .spec
        .ports
        .iter()
        .map(|port| port.target_port.clone())
        .collect();
    let web = TargetPort::Name("web".to_owned());
    assert_eq!(targets, [Some(web), Some(TargetPort::Number(9000)), None]);
    let protocols: Vec<_> = read.spec.ports.iter().map(|port| port.protocol).collect();
    assert_eq!(protocols, [Protocol::Tcp, Protocol::Tcp, Protocol::Udp]);
}

#[test]
fn a_service_without_selector_or_ports_is_read() {
    let read: Service = from_value(json!({
        "metadata": {"name": "outside"},
        "spec": {"type": "ExternalName", "externalName": "example.com"},
    }))
    .unwrap();
    assert_eq!(read.spec.kind, ServiceType::ExternalName);
    assert!(read.spec.selector.is_empty() && read.spec.ports.is_empty());
    assert!(!read.spec.is_headless());
}

fn pod(status: &Value) -> Pod {
    let metadata = json!({"name": "api-0", "annotations": {"a": "b"}});
    from_value(json!({"metadata": metadata, "spec": {"nodeName": "n1"}, "status": status})).unwrap()
}

#[test]
fn a_pod_has_addresses_and_readiness() {
    let read = pod(&json!({
        "phase": "Running",
        "podIP": "10.0.0.1",
        "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
        "conditions": [
            {"type": "Initialized", "status": "True"},
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-30T10:00:00Z"},
        ],
    }));
    assert_eq!(read.status.phase, PodPhase::Running);
    assert!(read.status.ready);
    assert_eq!(read.status.addresses, [ip("10.0.0.1"), ip("fd00::1")]);
    assert_eq!(read.spec.node_name.as_deref(), Some("n1"));
    assert_eq!(read.metadata.annotations, None);
}

#[rstest]
#[case::empty(&json!({}))]
#[case::null(&json!({"conditions": null, "podIPs": null, "phase": null}))]
#[case::not_ready(&json!({"conditions": [{"type": "Ready", "status": "False"}]}))]
#[case::unknown(&json!({"conditions": [{"type": "Ready", "status": "Unknown"}], "phase": "New"}))]
#[case::other(&json!({"conditions": [{"type": "ContainersReady", "status": "True"}]}))]
fn a_pod_that_is_not_ready(#[case] status: &Value) {
    let read = pod(status);
    assert!(!read.status.ready);
    assert!(read.status.addresses.is_empty());
    assert_eq!(read.status.phase, PodPhase::Unknown);
}

#[rstest]
#[case::active(&json!({"metadata": {"name": "a"}, "status": {"phase": "Active"}}), false)]
#[case::terminating(&json!({"metadata": {"name": "a"}, "status": {"phase": "Terminating"}}), true)]
#[case::no_status(&json!({"metadata": {"name": "a"}}), false)]
fn namespaces(#[case] object: &Value, #[case] terminating: bool) {
    let read: Namespace = from_value(object.clone()).unwrap();
    assert_eq!(read.is_terminating(), terminating);
}

fn backend(service: &str) -> Value {
    json!({"service": {"name": service, "port": {"number": 80}}})
}

/// T-92: each path's backend and the default one, and nothing that isn't a Service.
#[rstest]
#[case::nothing(&json!({}), &[])]
#[case::null(&json!({"rules": null, "defaultBackend": null}), &[])]
#[case::no_paths(&json!({"rules": [{"host": "a.example"}, {"http": {"paths": null}}]}), &[])]
#[case::default(&json!({"defaultBackend": backend("a")}), &["a"])]
#[case::resource(&json!({"defaultBackend": {"resource": {"kind": "Bucket", "name": "b"}}}), &[])]
#[case::both(
    &json!({
        "defaultBackend": backend("c"),
        "rules": [
            {"http": {"paths": [{"backend": backend("a")}, {"backend": backend("b")}]}},
            {"http": {"paths": [{"backend": backend("a")}]}},
        ],
    }),
    &["a", "b", "c"]
)]
fn an_ingress_uses_services(#[case] spec: &Value, #[case] expected: &[&str]) {
    let read: Ingress = from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap();
    let services: Vec<_> = read.spec.services().into_iter().collect();
    assert_eq!(services, expected);
}

#[test]
fn paths_are_the_apis() {
    assert_eq!(
        EndpointSlice::url_path(&(), Some("shop")),
        "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices"
    );
    assert_eq!(Service::url_path(&(), None), "/api/v1/services");
    assert_eq!(
        Ingress::url_path(&(), None),
        "/apis/networking.k8s.io/v1/ingresses"
    );
    assert_eq!(Pod::url_path(&(), None), "/api/v1/pods");
    assert_eq!(Namespace::url_path(&(), None), "/api/v1/namespaces");
}
