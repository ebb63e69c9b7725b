//! Controller-managed EndpointSlices, as much of them as is kept.
//!
//! Owns which slices count at all: those of the EndpointSlice controller, with
//! addresses and TCP ports (NET-25, T-72). What they say of readiness is read by
//! `napwake_gate::ready`.

use std::sync::Arc;

use napwake_api::names::slice as names;
use napwake_cluster::thin::{self, AddressType, Protocol};
use napwake_gate::ready::{self, Conditions, PodKey, SliceEndpoint, SlicePort};

use super::model::ServiceKey;

/// One slice of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Whose it is.
    pub service: ServiceKey,
    /// Its name.
    pub name: Arc<str>,
    /// What it says.
    pub content: ready::Slice,
}

impl Slice {
    /// Reads a slice; `None` if it isn't one that counts.
    pub fn read(object: &thin::EndpointSlice) -> Option<Self> {
        let namespace = object.metadata.namespace.as_deref()?;
        let service = object.label(names::SERVICE_NAME);
        let managed = object.label(names::MANAGED_BY) == names::MANAGED_BY_CONTROLLER;
        if service.is_empty() || !managed || object.address_type == AddressType::Other {
            return None;
        }
        let endpoints = object.endpoints.iter();
        let content = ready::Slice {
            ports: object.ports.iter().filter_map(port).collect(),
            endpoints: endpoints
                .filter_map(|one| endpoint(one, namespace))
                .collect(),
        };
        Some(Self {
            service: ServiceKey::new(namespace, service),
            name: object.metadata.name.as_deref()?.into(),
            content,
        })
    }
}

/// A TCP port with a number (F-15).
fn port(port: &thin::SlicePort) -> Option<SlicePort> {
    (port.protocol == Protocol::Tcp).then_some(())?;
    Some(SlicePort {
        name: port.name.clone(),
        number: port.port?,
    })
}

/// An endpoint that may be connected to once it is Ready: Pod-backed, in the
/// Service's own namespace (NET-24). Others aren't kept.
fn endpoint(endpoint: &thin::Endpoint, namespace: &str) -> Option<SliceEndpoint> {
    let target = endpoint.target_ref.as_ref()?;
    let is_pod = target.kind == "Pod" && !target.name.is_empty();
    let is_near = target.namespace.is_empty() || target.namespace == namespace;
    if !is_pod || !is_near || endpoint.conditions.terminating == Some(true) {
        return None;
    }
    Some(SliceEndpoint {
        // Only the first address counts (F-11).
        address: endpoint.addresses.first()?.to_canonical(),
        conditions: Conditions {
            ready: endpoint.conditions.ready,
            serving: endpoint.conditions.serving,
            terminating: endpoint.conditions.terminating,
        },
        pod: Some(PodKey {
            namespace: namespace.to_owned(),
            name: target.name.clone(),
        }),
    })
}
