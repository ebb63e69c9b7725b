//! `EndpointSlice` of discovery.k8s.io/v1.

use std::net::IpAddr;

use kube::core::ObjectMeta;
use serde::{Deserialize, Deserializer};

use super::{
    Protocol,
    deserialize::{bare_metadata, or_default},
    resource,
};

/// Some of the endpoints of one Service, of one address family. Annotations
/// aren't read.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSlice {
    #[serde(deserialize_with = "bare_metadata")]
    pub metadata: ObjectMeta,
    pub address_type: AddressType,
    #[serde(default, deserialize_with = "or_default")]
    pub endpoints: Vec<Endpoint>,
    #[serde(default, deserialize_with = "or_default")]
    pub ports: Vec<SlicePort>,
}

resource!(
    EndpointSlice,
    "EndpointSlice",
    "endpointslices",
    "discovery.k8s.io" / "v1",
    NamespaceResourceScope
);

impl EndpointSlice {
    /// The value of a label, `""` if it isn't set.
    pub fn label(&self, name: &str) -> &str {
        self.metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(name))
            .map_or("", String::as_str)
    }
}

/// `addressType`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
pub enum AddressType {
    #[default]
    IPv4,
    IPv6,
    /// Names instead of addresses, or a type from the future: not dialed.
    #[serde(other)]
    Other,
}

/// One backend.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// `addresses`, without those that are no IP addresses (names). All are of
    /// one backend; consumers may use the first alone.
    #[serde(default, deserialize_with = "ip_addresses")]
    pub addresses: Vec<IpAddr>,
    #[serde(default, deserialize_with = "or_default")]
    pub conditions: Conditions,
    pub target_ref: Option<TargetRef>,
    pub node_name: Option<String>,
}

/// `conditions`, as they are written. What an absent one means depends on who
/// asks: the API takes an endpoint that says nothing for ready, and whoever
/// connects to it must not (T-73).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Conditions {
    pub ready: Option<bool>,
    pub serving: Option<bool>,
    pub terminating: Option<bool>,
}

/// The object behind an endpoint, a Pod as a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct TargetRef {
    #[serde(default, deserialize_with = "or_default")]
    pub kind: String,
    #[serde(default, deserialize_with = "or_default")]
    pub namespace: String,
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    #[serde(default, deserialize_with = "or_default")]
    pub uid: String,
}

/// A port of every endpoint in the slice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlicePort {
    /// The Service port's name, `""` if it has none.
    #[serde(default, deserialize_with = "or_default")]
    pub name: String,
    /// `None` means every port, and only where no Service selects pods.
    pub port: Option<u16>,
    #[serde(default, deserialize_with = "or_default")]
    pub protocol: Protocol,
    pub app_protocol: Option<String>,
}

fn ip_addresses<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IpAddr>, D::Error> {
    let addresses: Vec<String> = or_default(from)?;
    Ok(addresses
        .iter()
        .filter_map(|address| address.parse().ok())
        .collect())
}
