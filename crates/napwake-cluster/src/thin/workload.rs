//! `Deployment` and `StatefulSet` of apps/v1: what is paused and woken.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::ObjectMeta;
use serde::Deserialize;

use super::{
    deserialize::{metadata, or_default},
    resource,
};

/// A Deployment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Deployment {
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    pub spec: ScalableSpec,
    #[serde(default, deserialize_with = "or_default")]
    pub status: ScalableStatus,
}

resource!(
    Deployment,
    "Deployment",
    "deployments",
    "apps" / "v1",
    NamespaceResourceScope
);

/// A StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct StatefulSet {
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    pub spec: ScalableSpec,
    #[serde(default, deserialize_with = "or_default")]
    pub status: ScalableStatus,
}

resource!(
    StatefulSet,
    "StatefulSet",
    "statefulsets",
    "apps" / "v1",
    NamespaceResourceScope
);

/// What both kinds have in common, so that one piece of code serves both.
pub trait Scalable:
    kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
{
    fn spec(&self) -> &ScalableSpec;
    fn status(&self) -> &ScalableStatus;

    /// Names the present pod template; another text means a rollout. A
    /// Deployment's is its annotation `deployment.kubernetes.io/revision`, a
    /// StatefulSet's is `status.updateRevision`. `None` until the controller
    /// has written it. (`metadata.generation` won't do: it counts scaling too.)
    fn revision(&self) -> Option<&str>;
}

impl Scalable for Deployment {
    fn spec(&self) -> &ScalableSpec {
        &self.spec
    }

    fn status(&self) -> &ScalableStatus {
        &self.status
    }

    fn revision(&self) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations
            .get("deployment.kubernetes.io/revision")
            .map(String::as_str)
    }
}

impl Scalable for StatefulSet {
    fn spec(&self) -> &ScalableSpec {
        &self.spec
    }

    fn status(&self) -> &ScalableStatus {
        &self.status
    }

    fn revision(&self) -> Option<&str> {
        self.status.update_revision.as_deref()
    }
}

/// `spec`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct ScalableSpec {
    /// Absent means one.
    #[serde(default = "one")]
    pub replicas: i32,
    #[serde(default, deserialize_with = "or_default")]
    pub selector: LabelSelector,
    #[serde(default, deserialize_with = "or_default")]
    pub template: Template,
}

fn one() -> i32 {
    1
}

/// `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScalableStatus {
    #[serde(default, deserialize_with = "or_default")]
    pub replicas: i32,
    #[serde(default, deserialize_with = "or_default")]
    pub ready_replicas: i32,
    #[serde(default, deserialize_with = "or_default")]
    pub updated_replicas: i32,
    /// The generation that the numbers speak of.
    #[serde(default, deserialize_with = "or_default")]
    pub observed_generation: i64,
    /// Of StatefulSets alone.
    pub update_revision: Option<String>,
}

/// What is read of `spec.template`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawTemplate")]
pub struct Template {
    pub labels: BTreeMap<String, String>,
    pub gating: Gating,
}

/// What makes a pod wait before it is Ready (ROUTE-17).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gating {
    /// A container has a readiness or a startup probe. Sidecars count, since
    /// their readiness is the pod's too.
    Probe,
    /// No probe, but a readiness gate.
    ReadinessGate,
    /// Nothing: a pod is Ready when its containers start (ROUTE-18).
    #[default]
    Nothing,
}

#[derive(Deserialize)]
struct RawTemplate {
    #[serde(default, deserialize_with = "or_default")]
    metadata: RawTemplateMeta,
    #[serde(default, deserialize_with = "or_default")]
    spec: RawPodSpec,
}

#[derive(Default, Deserialize)]
struct RawTemplateMeta {
    #[serde(default, deserialize_with = "or_default")]
    labels: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawPodSpec {
    #[serde(default, deserialize_with = "or_default")]
    containers: Vec<RawContainer>,
    #[serde(default, deserialize_with = "or_default")]
    init_containers: Vec<RawContainer>,
    #[serde(default, deserialize_with = "or_default")]
    readiness_gates: Vec<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawContainer {
    readiness_probe: Option<serde::de::IgnoredAny>,
    startup_probe: Option<serde::de::IgnoredAny>,
    restart_policy: Option<String>,
}

impl RawContainer {
    fn is_probed(&self) -> bool {
        self.readiness_probe.is_some() || self.startup_probe.is_some()
    }

    /// An init container that stays and so counts for the pod's readiness.
    fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

impl From<RawTemplate> for Template {
    fn from(RawTemplate { metadata, spec }: RawTemplate) -> Self {
        let sidecars = spec
            .init_containers
            .iter()
            .filter(|container| container.is_sidecar());
        let probed = spec
            .containers
            .iter()
            .chain(sidecars)
            .any(RawContainer::is_probed);
        let gating = if probed {
            Gating::Probe
        } else if spec.readiness_gates.is_empty() {
            Gating::Nothing
        } else {
            Gating::ReadinessGate
        };
        Self {
            labels: metadata.labels,
            gating,
        }
    }
}
