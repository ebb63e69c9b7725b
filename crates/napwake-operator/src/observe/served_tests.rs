use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{NAMESPACE, api, slice_json};

/// A slice of the Service `a` with one endpoint.
fn slice(conditions: &Value, patch: &Value) -> Value {
    let base = json!({
        "endpoints": [{"addresses": ["10.1.0.7"], "conditions": conditions}],
        "ports": [{"name": "http", "port": 8080}],
    });
    let mut slice = slice_json("a-x7k2p", "a", 1, base);
    let fields = patch.as_object().unwrap().clone();
    slice.as_object_mut().unwrap().extend(fields);
    slice
}

fn ready() -> Value {
    json!({"ready": true, "serving": true, "terminating": false})
}

async fn read(slices: &[Value]) -> Seen<Served> {
    let (client, mut server) = api();
    let services = ["a".to_owned(), "b".to_owned()].into();
    let list = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSliceList",
        "metadata": {},
        "items": slices,
    });
    let reading = read_served(&client, NAMESPACE, &services);
    let (read, call) = tokio::join!(reading, server.answer(200, list));
    let path = "GET /apis/discovery.k8s.io/v1/namespaces/ns/endpointslices";
    assert_eq!(call.line, path);
    let theirs = "endpointslice.kubernetes.io%2Fmanaged-by%3Dendpointslice-controller.k8s.io\
                  %2Ckubernetes.io%2Fservice-name+in+%28a%2Cb%29";
    assert_eq!(call.query["labelSelector"], theirs);
    read
}

/// T-73: who is Ready.
#[rstest]
#[case::ready(ready(), true)]
#[case::older(json!({"ready": true}), true)]
#[case::published_unready(json!({"ready": true, "serving": false}), false)]
#[case::terminating(json!({"ready": false, "serving": true, "terminating": true}), false)]
#[case::unready(json!({"ready": false, "serving": false, "terminating": false}), false)]
#[case::nothing_said(json!({}), false)]
#[tokio::test]
async fn a_ready_pod_serves(#[case] conditions: Value, #[case] serves: bool) {
    let expected = if serves {
        Served::from([("a".to_owned(), [IpFamily::IPv4].into())])
    } else {
        Served::new()
    };
    let read = read(&[slice(&conditions, &json!({}))]).await;
    assert_eq!(read, Seen::Known(expected));
}

/// One slice for each family, and more where there are many pods.
#[tokio::test]
async fn each_family_counts_by_itself() {
    let b = json!({"kubernetes.io/service-name": "b"});
    let read = read(&[
        slice(&json!({}), &json!({})),
        slice(&ready(), &json!({"addressType": "IPv6"})),
        slice(&ready(), &json!({"addressType": "FQDN"})),
        slice(&ready(), &json!({"ports": null})),
        slice(&ready(), &json!({"metadata": {"labels": b}})),
    ])
    .await;
    let a = ("a".to_owned(), [IpFamily::IPv6].into());
    let b = ("b".to_owned(), [IpFamily::IPv4].into());
    assert_eq!(read, Seen::Known(Served::from([a, b])));
}

/// What can't be read is unknown, and holds nothing up for long.
#[tokio::test(start_paused = true)]
async fn without_an_answer_it_is_unknown() {
    let (client, mut server) = api();
    let services = ["a".to_owned()].into();
    let reading = read_served(&client, NAMESPACE, &services);
    let (read, _) = tokio::join!(reading, server.refuse(403, "Forbidden"));
    assert!(matches!(read, Seen::Unknown(why) if why.contains("Forbidden")));
    let reading = read_served(&client, NAMESPACE, &services);
    let (read, _silence) = tokio::join!(reading, server.be_silent());
    assert_eq!(read, Seen::Unknown("no answer in 5 s".to_owned()));
}
