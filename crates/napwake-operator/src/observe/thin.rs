//! Deployments, StatefulSets and Napwake's own EndpointSlices with only what a
//! World needs.
//!
//! Apart from the shared thin types for two reasons: the hash of the whole pod
//! template is worked out while it's read, so that the template isn't kept; and
//! a slice of ours that somebody else has spoiled must still be read, so that
//! it's written anew. For reading only.

use std::{borrow::Cow, net::IpAddr};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{NamespaceResourceScope, ObjectMeta};
use napwake_decide::world::{Map, Readiness, Template};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A Deployment.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct Deployment(pub(crate) Scalable);

/// A StatefulSet.
#[derive(Clone, Debug, Deserialize)]
#[serde(transparent)]
pub(crate) struct StatefulSet(pub(crate) Scalable);

/// What Deployments and StatefulSets have in common.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Scalable {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: ScalableSpec,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) status: ScalableStatus,
}

/// `spec`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ScalableSpec {
    /// 1 where it isn't set.
    #[serde(default = "one")]
    pub(crate) replicas: i32,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) selector: LabelSelector,
    #[serde(deserialize_with = "template")]
    pub(crate) template: Template,
    /// A StatefulSet's.
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) ordinals: Ordinals,
}

/// `spec.ordinals`.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Ordinals {
    #[serde(deserialize_with = "or_default")]
    pub(crate) start: i32,
}

/// `status`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScalableStatus {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) ready_replicas: i32,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) observed_generation: i64,
}

/// An EndpointSlice; whatever is odd about it leaves it with fewer endpoints
/// and ports rather than unread.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndpointSlice {
    pub(crate) metadata: ObjectMeta,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) address_type: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) endpoints: Vec<Endpoint>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) ports: Vec<Port>,
}

/// One backend.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Endpoint {
    #[serde(deserialize_with = "or_default")]
    pub(crate) addresses: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) conditions: Conditions,
    pub(crate) node_name: Option<String>,
    pub(crate) zone: Option<String>,
    pub(crate) target_ref: Option<TargetRef>,
}

impl Endpoint {
    /// Its address, if it has exactly one.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self.addresses.as_slice() {
            [only] => only.parse().ok(),
            _ => None,
        }
    }
}

/// `conditions`, none of which may be left out in a slice of ours (F-17).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Conditions {
    pub(crate) ready: Option<bool>,
    pub(crate) serving: Option<bool>,
    pub(crate) terminating: Option<bool>,
}

/// `targetRef`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct TargetRef {
    pub(crate) kind: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) uid: Option<String>,
}

/// One port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_field_names, reason = "the API's own names")]
pub(crate) struct Port {
    pub(crate) name: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) protocol: Option<String>,
    pub(crate) app_protocol: Option<String>,
}

/// Makes a thin type, whose metadata is at that path, a kube resource.
macro_rules! resource {
    ($type:ty, $kind:literal, $plural:literal, $group:literal, $($meta:tt).+) => {
        impl kube::Resource for $type {
            type DynamicType = ();
            type Scope = NamespaceResourceScope;

            fn kind((): &()) -> Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                "v1".into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.$($meta).+
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.$($meta).+
            }
        }
    };
}
resource!(Deployment, "Deployment", "deployments", "apps", 0.metadata);
resource!(
    StatefulSet,
    "StatefulSet",
    "statefulsets",
    "apps",
    0.metadata
);
resource!(
    EndpointSlice,
    "EndpointSlice",
    "endpointslices",
    "discovery.k8s.io",
    metadata
);

const fn one() -> i32 {
    1
}

/// A field that may be absent, or `null` as Go writes an empty list.
fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

fn template<'de, D: Deserializer<'de>>(from: D) -> Result<Template, D::Error> {
    Ok(read_template(&Value::deserialize(from)?))
}

fn read_template(template: &Value) -> Template {
    let labels: Map = template["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect();
    Template {
        hash: hash(template),
        labels,
        readiness: readiness(&template["spec"]),
    }
}

/// Whether anything tells when a pod can serve (ROUTE-17, ROUTE-21).
fn readiness(spec: &Value) -> Readiness {
    let list = |name: &str| spec[name].as_array().into_iter().flatten();
    // A restartable init container stays, so its readiness is the pod's too.
    let sidecars = list("initContainers").filter(|one| one["restartPolicy"] == "Always");
    let probed = list("containers")
        .chain(sidecars)
        .any(|container| container["readinessProbe"].is_object());
    if probed || list("readinessGates").next().is_some() {
        Readiness::Probed
    } else {
        Readiness::Unprobed
    }
}

/// A hash of any JSON value that doesn't depend on the order of its fields.
fn hash(value: &Value) -> String {
    let mut hasher = Sha256::new();
    feed(value, &mut hasher);
    let digest = hasher.finalize();
    let first = digest.iter().take(8);
    let number = first.fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    format!("{number:016x}")
}

/// Each value is fed with its kind and length before it, so that no two
/// different values feed the same bytes.
fn feed(value: &Value, hasher: &mut Sha256) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            hasher.update(format!("{{{}:", fields.len()));
            for (name, value) in fields {
                hasher.update(format!("{}:{name}", name.len()));
                feed(value, hasher);
            }
        }
        Value::Array(values) => {
            hasher.update(format!("[{}:", values.len()));
            for value in values {
                feed(value, hasher);
            }
        }
        Value::String(text) => hasher.update(format!("\"{}:{text}", text.len())),
        Value::Null | Value::Bool(_) | Value::Number(_) => hasher.update(format!("={value};")),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    /// ROUTE-21: one container with a probe, or one readiness gate, is enough.
    #[rstest]
    #[case::none(json!({"containers": [{"name": "a"}]}), Readiness::Unprobed)]
    #[case::one_of_two(
        json!({"containers": [{"name": "a"}, {"name": "b", "readinessProbe": {}}]}),
        Readiness::Probed
    )]
    #[case::gate(
        json!({"containers": [{"name": "a"}], "readinessGates": [{"conditionType": "x"}]}),
        Readiness::Probed
    )]
    #[case::sidecar(
        json!({"initContainers": [{"restartPolicy": "Always", "readinessProbe": {}}]}),
        Readiness::Probed
    )]
    #[case::init(json!({"initContainers": [{"readinessProbe": {}}]}), Readiness::Unprobed)]
    #[case::startup_only(
        json!({"containers": [{"name": "a", "startupProbe": {}}]}),
        Readiness::Unprobed
    )]
    fn readiness_of_a_template(#[case] spec: Value, #[case] expected: Readiness) {
        assert_eq!(read_template(&json!({"spec": spec})).readiness, expected);
    }

    #[test]
    fn the_hash_is_of_the_whole_template_in_any_order() {
        let one: Value = serde_json::from_str(r#"{"a": {"x": 1, "y": [2]}, "b": "c"}"#).unwrap();
        let same: Value = serde_json::from_str(r#"{"b": "c", "a": {"y": [2], "x": 1}}"#).unwrap();
        assert_eq!(hash(&one), hash(&same));
        for other in [
            json!({"a": {"x": 1, "y": [3]}, "b": "c"}),
            json!({"a": {"x": 1, "y": []}, "b": "c"}),
            json!({"a": {"x": 1}, "y": [2], "b": "c"}),
            json!({"a": {"x": "1", "y": [2]}, "b": "c"}),
        ] {
            assert_ne!(hash(&one), hash(&other), "{other}");
        }
    }

    #[test]
    fn absent_fields_have_kubernetes_defaults() {
        let read: Deployment = serde_json::from_value(json!({
            "metadata": {"name": "a"},
            "spec": {"template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": []}}},
            "status": null,
        }))
        .unwrap();
        assert_eq!((read.0.spec.replicas, read.0.status.ready_replicas), (1, 0));
        assert_eq!(read.0.spec.template.labels["app"], "a");
    }
}
