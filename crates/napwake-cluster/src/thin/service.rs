//! `Service` of v1.

use std::collections::BTreeMap;

use kube::core::ObjectMeta;
use serde::Deserialize;

use super::{
    Protocol,
    deserialize::{metadata, or_default},
    resource,
};

/// A Service, its annotations included.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Service {
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    #[serde(default, deserialize_with = "or_default")]
    pub spec: ServiceSpec,
}

resource!(
    Service,
    "Service",
    "services",
    "" / "v1",
    NamespaceResourceScope
);

/// `spec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSpec {
    /// Empty: the Service selects no pods.
    #[serde(default, deserialize_with = "or_default")]
    pub selector: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "or_default")]
    pub ports: Vec<ServicePort>,
    #[serde(default, deserialize_with = "or_default")]
    pub ip_families: Vec<IpFamily>,
    /// `None` twice over for a headless Service: the text is `"None"`.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Option<String>,
    #[serde(rename = "clusterIPs", default, deserialize_with = "or_default")]
    pub cluster_ips: Vec<String>,
    #[serde(rename = "type", default, deserialize_with = "or_default")]
    pub kind: ServiceType,
    #[serde(default, deserialize_with = "or_default")]
    pub internal_traffic_policy: TrafficPolicy,
    #[serde(default, deserialize_with = "or_default")]
    pub external_traffic_policy: TrafficPolicy,
    #[serde(default, deserialize_with = "or_default")]
    pub publish_not_ready_addresses: bool,
}

impl ServiceSpec {
    /// Whether it has no address of its own.
    pub fn is_headless(&self) -> bool {
        self.cluster_ip.as_deref() == Some("None")
    }
}

/// A port that callers use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// `""` if it has none, which only a Service's single port may.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    pub port: u16,
    #[serde(default, deserialize_with = "or_default")]
    pub protocol: Protocol,
    /// Absent means the same as `port`.
    pub target_port: Option<TargetPort>,
    pub node_port: Option<u16>,
    pub app_protocol: Option<String>,
}

/// The pods' port: a number, or the name of a container's port.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum TargetPort {
    Number(u16),
    Name(String),
}

/// `ipFamilies`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub enum IpFamily {
    IPv4,
    IPv6,
}

/// `type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum ServiceType {
    #[default]
    ClusterIP,
    NodePort,
    LoadBalancer,
    ExternalName,
    /// One from the future.
    #[serde(other)]
    Other,
}

/// `internalTrafficPolicy` and `externalTrafficPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum TrafficPolicy {
    #[default]
    Cluster,
    Local,
    /// One from the future.
    #[serde(other)]
    Other,
}
