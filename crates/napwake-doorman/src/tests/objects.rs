//! Objects that tests begin with: the ManagedWorkload `api` in `shop`, whose
//! Service `api` is routed on port 20001.

use jiff::Timestamp;
use napwake_api::ManagedWorkload;
use napwake_cluster::thin;
use napwake_gate::places::WorkloadKey;
use serde_json::{Value, json};

use crate::routes::{Claimant, Slice};

/// When the pause of [`managed`] began.
fn started() -> Timestamp {
    "2026-11-30T10:00:00.000000Z".parse().unwrap()
}

/// The time of day that tests begin at.
pub(crate) fn now() -> Timestamp {
    "2026-11-30T10:05:00.000000Z".parse().unwrap()
}

/// The ManagedWorkload in a phase, its one route in a state. `more` is merged
/// over it.
pub(crate) fn managed(phase: &str, state: &str, more: &Value) -> ManagedWorkload {
    let mut object = json!({
        "apiVersion": "napwake.dev/v1alpha1", "kind": "ManagedWorkload",
        "metadata": { "namespace": "shop", "name": "api", "uid": "u1" },
        "spec": { "targetRef": { "kind": "Deployment", "name": "api" } },
        "status": {
            "phase": phase,
            "pause": { "startedAt": started().to_string(), "reason": "Idle", "replicas": 1 },
            "doorman": { "routes": [{
                "service": "api", "port": { "name": "http", "number": 80 },
                "doormanPort": 20001, "families": ["IPv4"], "state": state,
            }] },
        },
    });
    merge(&mut object, more);
    serde_json::from_value(object).unwrap()
}

/// The same, read.
pub(crate) fn claimant(phase: &str, state: &str, more: &Value) -> (WorkloadKey, Claimant) {
    Claimant::read(&managed(phase, state, more)).unwrap()
}

/// A slice of the Service with these endpoints: pod, address and conditions.
pub(crate) fn slice(name: &str, endpoints: &[(&str, &str, Value)]) -> Slice {
    let endpoints: Vec<Value> = endpoints
        .iter()
        .map(|(pod, address, conditions)| {
            json!({
                "addresses": [address], "conditions": conditions,
                "targetRef": { "kind": "Pod", "namespace": "shop", "name": pod },
            })
        })
        .collect();
    let object: thin::EndpointSlice = serde_json::from_value(json!({
        "metadata": {
            "namespace": "shop", "name": name,
            "labels": {
                "kubernetes.io/service-name": "api",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
    }))
    .unwrap();
    Slice::read(&object).unwrap()
}

/// Puts `more` over an object, field by field.
pub(crate) fn merge(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more.clone(),
    }
}

/// One of many workloads, routed on 20100 and up.
pub(crate) fn numbered(number: u16) -> Value {
    let name = format!("api-{number}");
    json!({
        "metadata": { "name": name, "uid": name },
        "status": { "doorman": { "routes": [{
            "service": name, "port": { "name": "http", "number": 80 },
            "doormanPort": 20_100 + number, "families": ["IPv4"], "state": "Routed",
        }] } },
    })
}
