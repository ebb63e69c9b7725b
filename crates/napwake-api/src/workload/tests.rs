use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::*;

fn schema() -> Value {
    let crd = serde_json::to_value(ManagedWorkload::crd()).expect("serializable");
    crd["spec"]["versions"][0].clone()
}

#[test]
fn every_duration_has_a_rule_whose_message_names_its_bound() {
    let spec = &schema()["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    for (field, bound) in [
        (&spec["idleAfter"], "at least 1m"),
        (&spec["lookout"], "at most 10m"),
        (&spec["wake"]["properties"]["maxWait"], "at most 1h"),
    ] {
        let rule = &field["x-kubernetes-validations"][0];
        let message = rule["message"].as_str();
        assert!(message.is_some_and(|text| text.contains(bound)), "{field}");
        let form = "self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') && ";
        let rule = rule["rule"].as_str();
        assert!(rule.is_some_and(|text| text.starts_with(form)), "{field}");
    }
}

#[test]
fn defaults_are_in_the_schema() {
    let spec = &schema()["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    assert_eq!(spec["idleAfter"]["default"], "30m");
    assert_eq!(spec["lookout"]["default"], "30s");
    assert_eq!(spec["wake"]["properties"]["maxWait"]["default"], "2m");
    assert_eq!(spec["wake"]["properties"]["mode"]["default"], "Request");
    assert_eq!(spec["wake"]["properties"]["page"]["default"], true);
    assert_eq!(spec["suspend"]["default"], false);
}

/// SET-22: no field turns waking off, and `mode` has two values.
#[test]
fn nothing_turns_waking_off() {
    let wake = schema()["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["wake"]
        ["properties"]
        .clone();
    let fields: Vec<_> = wake
        .as_object()
        .expect("an object")
        .keys()
        .cloned()
        .collect();
    assert_eq!(fields, ["maxWait", "mode", "page"]);
    let values = wake["mode"]["enum"].clone();
    assert_eq!(values, json!(["Request", "Ask"]));
}

#[test]
fn status_is_a_subresource() {
    assert_eq!(schema()["subresources"]["status"], json!({}));
}

#[test]
fn a_minimal_object_reads_with_its_defaults() {
    let spec: ManagedWorkloadSpec =
        serde_json::from_value(json!({"targetRef": {"kind": "Deployment", "name": "api"}}))
            .expect("readable");
    assert_eq!(spec.idle_after, Span::from_mins(30));
    assert_eq!(spec.wake.max_wait.0, Span::from_mins(2));
    assert_eq!(spec.wake.page, WakePage(true));
}
