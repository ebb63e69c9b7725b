use napwake_decide::Seen;
use serde_json::{Value, json};

use super::*;
use crate::{
    fixtures::{deployment, index, key, service, workload},
    queue::Urgency,
};

fn observed(version: u32, patch: &Value) -> Arc<ObservedIngress> {
    let mut object = json!({
        "metadata": {
            "namespace": "ns", "name": "web", "uid": "ingress-web",
            "resourceVersion": version.to_string(),
        },
        "spec": {},
    });
    for (field, value) in patch.as_object().unwrap() {
        for (name, value) in value.as_object().unwrap() {
            object[field][name] = value.clone();
        }
    }
    Arc::new(ingress(serde_json::from_value(object).unwrap()))
}

fn leading_to(service: &str) -> Value {
    json!({"spec": {"defaultBackend": {"service": {"name": service, "port": {"number": 80}}}}})
}

/// Two workloads with a Service each.
fn filled(now: Instant) -> Index {
    let mut index = index();
    for name in ["a", "b"] {
        index.apply_target(deployment(name, 1, json!({})), now);
        index.apply_workload(workload(name, 1, json!({})), now);
        index.apply_service(service(name, name, 1, json!({})), now);
    }
    index
}

fn concerned(concerns: &Concerns) -> Vec<&str> {
    let workloads = concerns.workloads.iter();
    workloads
        .inspect(|(_, urgency)| assert_eq!(**urgency, Urgency::Usual))
        .map(|(key, _)| key.name.as_str())
        .collect()
}

/// NEG-05: whoever is behind a Service that it uses, or used.
#[tokio::test(start_paused = true)]
async fn a_change_concerns_those_behind_its_services() {
    let now = Instant::now();
    let mut index = filled(now);
    let made = index.apply_ingress(observed(1, &leading_to("a")), now);
    assert_eq!(concerned(&made), ["a"]);
    let same = index.apply_ingress(observed(2, &leading_to("a")), now);
    assert_eq!(concerned(&same), [""; 0]);
    let moved = index.apply_ingress(observed(3, &leading_to("b")), now);
    assert_eq!(concerned(&moved), ["a", "b"]);
    let class = json!({"annotations": {CLASS: "nginx"}});
    let mut patch = leading_to("b");
    patch["metadata"] = class;
    let another = index.apply_ingress(observed(4, &patch), now);
    assert_eq!(concerned(&another), ["b"]);
    let web = ("ns".to_owned(), "web".to_owned());
    let gone = index.delete_ingress(&web, "ingress-web", now);
    assert_eq!(concerned(&gone), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn a_world_has_the_ingresses_of_its_namespace() {
    let now = Instant::now();
    let mut index = filled(now);
    let mut patch = leading_to("a");
    patch["metadata"] = json!({"annotations": {CLASS: "gce", "a": "b"}});
    patch["spec"]["ingressClassName"] = json!("other");
    index.apply_ingress(observed(1, &patch), now);
    let seen = Seen::Unknown(String::new());
    let world = index.world(&key("a"), seen, now).unwrap();
    let expected = Ingress {
        name: "web".to_owned(),
        class_annotation: Some("gce".to_owned()),
        class_name: Some("other".to_owned()),
        services: ["a".to_owned()].into(),
    };
    assert_eq!(world.ingresses, [expected]);
}
