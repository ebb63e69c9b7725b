//! `Pod` of v1.

use std::net::IpAddr;

use kube::core::ObjectMeta;
use serde::{Deserialize, Deserializer};

use super::{
    deserialize::{bare_metadata, or_default},
    resource,
};

/// A Pod: where it is and whether it is Ready. Annotations aren't read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Pod {
    #[serde(deserialize_with = "bare_metadata")]
    pub metadata: ObjectMeta,
    #[serde(default, deserialize_with = "or_default")]
    pub spec: PodSpec,
    #[serde(default, deserialize_with = "or_default")]
    pub status: PodStatus,
}

resource!(Pod, "Pod", "pods", "" / "v1", NamespaceResourceScope);

impl Pod {
    /// Whether it is being deleted.
    pub fn is_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

/// `spec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpec {
    pub node_name: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub host_network: bool,
}

/// `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "RawStatus")]
pub struct PodStatus {
    pub phase: PodPhase,
    /// Whether the condition `Ready` is `True`.
    pub ready: bool,
    /// `podIPs` and `podIP`, each address once.
    pub addresses: Vec<IpAddr>,
}

/// `phase`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum PodPhase {
    Pending,
    Running,
    Succeeded,
    Failed,
    /// The node can't say, or nothing is written yet.
    #[default]
    #[serde(other)]
    Unknown,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawStatus {
    #[serde(default, deserialize_with = "or_default")]
    phase: PodPhase,
    #[serde(default, deserialize_with = "is_ready")]
    conditions: bool,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(rename = "podIPs", default, deserialize_with = "or_default")]
    pod_ips: Vec<PodIp>,
}

#[derive(Deserialize)]
struct PodIp {
    ip: Option<String>,
}

impl From<RawStatus> for PodStatus {
    fn from(raw: RawStatus) -> Self {
        let listed = raw.pod_ips.into_iter().filter_map(|pod_ip| pod_ip.ip);
        let mut addresses = Vec::new();
        for text in listed.chain(raw.pod_ip) {
            match text.parse() {
                Ok(address) if !addresses.contains(&address) => addresses.push(address),
                _ => {}
            }
        }
        Self {
            phase: raw.phase,
            ready: raw.conditions,
            addresses,
        }
    }
}

fn is_ready<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    struct Condition {
        #[serde(rename = "type")]
        kind: String,
        status: String,
    }
    let conditions: Vec<Condition> = or_default(from)?;
    Ok(conditions
        .iter()
        .any(|condition| condition.kind == "Ready" && condition.status == "True"))
}
