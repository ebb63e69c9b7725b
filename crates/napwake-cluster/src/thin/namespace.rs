//! `Namespace` of v1.

use kube::core::ObjectMeta;
use serde::Deserialize;

use super::{
    deserialize::{metadata, or_default},
    resource,
};

/// A Namespace, its labels and annotations included.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Namespace {
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    #[serde(default, deserialize_with = "or_default")]
    pub status: NamespaceStatus,
}

resource!(
    Namespace,
    "Namespace",
    "namespaces",
    "" / "v1",
    ClusterResourceScope
);

impl Namespace {
    /// Whether it is going, and everything in it.
    pub fn is_terminating(&self) -> bool {
        self.status.phase == NamespacePhase::Terminating
            || self.metadata.deletion_timestamp.is_some()
    }
}

/// `status`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct NamespaceStatus {
    #[serde(default, deserialize_with = "or_default")]
    pub phase: NamespacePhase,
}

/// `phase`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum NamespacePhase {
    #[default]
    Active,
    Terminating,
    /// One from the future.
    #[serde(other)]
    Other,
}
