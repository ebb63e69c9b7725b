use napwake_decide::world::{IpFamily, Publishes, ServiceKind, TrafficPolicy};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{NAMESPACE, Server, api, slice_json};

fn service(name: &str) -> Service {
    Service {
        name: name.to_owned(),
        uid: format!("service-{name}"),
        deleted: None,
        annotations: Map::new(),
        selector: [
            ("app".to_owned(), "x".to_owned()),
            ("tier".to_owned(), "web".to_owned()),
        ]
        .into(),
        kind: ServiceKind::Proxied,
        families: vec![IpFamily::IPv4],
        ports: Vec::new(),
        internal_traffic: TrafficPolicy::Cluster,
        publishes: Publishes::ReadyPods,
        negs: BTreeSet::new(),
        is_ambient: false,
    }
}

/// A slice of that Service that names these.
fn slice(service: &str, endpoints: &Value) -> Value {
    let mut slice = slice_json(&format!("{service}-x7k2p"), service, 1, json!({}));
    slice["endpoints"] = endpoints.clone();
    slice
}

/// A Ready endpoint of that Pod.
fn ready(pod: &str) -> Value {
    endpoint(pod, true)
}

fn endpoint(pod: &str, serving: bool) -> Value {
    json!({
        "addresses": ["10.1.0.7"],
        "conditions": {"ready": serving, "serving": serving, "terminating": false},
        "targetRef": {"kind": "Pod", "namespace": NAMESPACE, "name": pod, "uid": pod},
    })
}

/// A Pod of a Deployment.
fn pod(name: &str, deployment: &str) -> Value {
    let replica_set = format!("{deployment}-7c9f4");
    json!({"metadata": {
        "name": name,
        "labels": {"pod-template-hash": "7c9f4"},
        "ownerReferences": [owner("apps/v1", "ReplicaSet", &replica_set)],
    }})
}

fn owner(version: &str, kind: &str, name: &str) -> Value {
    json!({"apiVersion": version, "kind": kind, "name": name, "uid": "u", "controller": true})
}

fn list(kind: &str, items: &[Value], next: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": kind, "metadata": {"continue": next}, "items": items,
    })
}

async fn slices(server: &mut Server, items: &[Value]) {
    let call = server
        .answer(200, list("EndpointSliceList", items, ""))
        .await;
    let path = "GET /apis/discovery.k8s.io/v1/namespaces/ns/endpointslices";
    assert_eq!(call.line, path);
    let its = "endpointslice.kubernetes.io%2Fmanaged-by%3Dendpointslice-controller.k8s.io\
               %2Ckubernetes.io%2Fservice-name+in+%28a%2Cb%29";
    assert_eq!(call.query["labelSelector"], its);
}

async fn pods(server: &mut Server, items: &[Value], next: &str) -> String {
    let page = list("PartialObjectMetadataList", items, next);
    let call = server.answer(200, page).await;
    assert_eq!(call.line, "GET /api/v1/namespaces/ns/pods");
    assert_eq!(call.query["labelSelector"], "app%3Dx%2Ctier%3Dweb");
    call.query.get("continue").cloned().unwrap_or_default()
}

fn deployment(name: &str) -> Owner {
    Owner::Target(TargetKind::Deployment, name.to_owned())
}

/// Whose each Service's Ready pods are: two selectors alike are asked for once, and
/// page by page.
#[tokio::test]
async fn ready_pods_are_told_by_their_owners() {
    let (client, mut server) = api();
    let services = [service("a"), service("b")];
    let script = async {
        let b = json!([
            ready("w-1"),
            ready("s-1"),
            ready("gone"),
            endpoint("w-2", false)
        ]);
        slices(
            &mut server,
            &[slice("a", &json!([ready("w-1")])), slice("b", &b)],
        )
        .await;
        let first = [pod("w-1", "web"), pod("w-2", "other")];
        assert_eq!(pods(&mut server, &first, "more").await, "");
        let second = [pod("s-1", "stable"), pod("not-named", "third")];
        assert_eq!(pods(&mut server, &second, "").await, "more");
    };
    let (read, ()) = tokio::join!(read_behind(&client, NAMESPACE, &services), script);
    let expected = BTreeMap::from([
        ("a".to_owned(), [deployment("web")].into()),
        (
            "b".to_owned(),
            [deployment("stable"), deployment("web")].into(),
        ),
    ]);
    assert_eq!(read, Ok(expected));
}

/// Where the slices name no Pod, none is read.
#[tokio::test]
async fn without_a_ready_pod_none_is_read() {
    let (client, mut server) = api();
    let services = [service("a"), service("b")];
    let script = async {
        let a = json!([endpoint("w-1", false)]);
        let b = json!([{"addresses": ["10.1.0.9"], "conditions": {"ready": true}}]);
        slices(&mut server, &[slice("a", &a), slice("b", &b)]).await;
    };
    let (read, ()) = tokio::join!(read_behind(&client, NAMESPACE, &services), script);
    let expected = BTreeMap::from([
        ("a".to_owned(), BTreeSet::new()),
        ("b".to_owned(), [Owner::Other].into()),
    ]);
    assert_eq!(read, Ok(expected));
    drop(client);
    server.done().await;
}

#[rstest]
#[case::deployment(json!([owner("apps/v1", "ReplicaSet", "web-canary-7c9f4")]), deployment("web-canary"))]
#[case::stateful_set(
    json!([owner("apps/v1", "StatefulSet", "db")]),
    Owner::Target(TargetKind::StatefulSet, "db".to_owned())
)]
#[case::another_hash(json!([owner("apps/v1", "ReplicaSet", "web-zzzzz")]), Owner::Other)]
#[case::a_part_of_the_name(json!([owner("apps/v1", "ReplicaSet", "web7c9f4")]), Owner::Other)]
#[case::job(json!([owner("batch/v1", "Job", "web-7c9f4")]), Owner::Other)]
#[case::rollout(json!([owner("argoproj.io/v1alpha1", "StatefulSet", "web")]), Owner::Other)]
#[case::nobody(json!([]), Owner::Other)]
#[case::no_controller(
    json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u"}]),
    Owner::Other
)]
fn a_pod_is_its_controllers(#[case] owners: Value, #[case] expected: Owner) {
    let meta = json!({"labels": {"pod-template-hash": "7c9f4"}, "ownerReferences": owners});
    let meta: ObjectMeta = serde_json::from_value(meta).unwrap();
    assert_eq!(super::owner(&meta), expected);
}

/// What can't be read says why, and holds nothing up for long.
#[tokio::test(start_paused = true)]
async fn without_an_answer_it_says_why() {
    let (client, mut server) = api();
    let services = [service("a"), service("b")];
    let reading = read_behind(&client, NAMESPACE, &services);
    let (read, _) = tokio::join!(reading, server.refuse(403, "Forbidden"));
    assert!(matches!(read, Err(why) if why.contains("Forbidden")));
    let reading = read_behind(&client, NAMESPACE, &services);
    let (read, _silence) = tokio::join!(reading, server.be_silent());
    assert_eq!(read, Err("no answer in 5 s".to_owned()));
}
