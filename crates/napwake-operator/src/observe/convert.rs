//! From objects as Kubernetes sends them to what a World is made of.
//!
//! Total: nothing here fails, and nothing decides. What Napwake never reads is
//! dropped, for these are kept for every object of the cluster.

use std::{collections::BTreeMap, net::IpAddr};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference, Time};
use kube::core::{ObjectMeta, Selector};
use napwake_api::{
    ManagedWorkload,
    names::{self, TRUE, opt, slice as slice_label},
    workload::{DoormanStatus, IpFamily, TargetKind},
};
use napwake_cluster::thin as shared;
use napwake_decide::world::{
    Controller, DoormanPod, DoormanState, Endpoint, Map, PodRef, Protocol, Publishes, Service,
    ServiceKind, ServicePort, Slice, SlicePort, SliceSpec, Target, TargetId, TrafficPolicy,
    Workload, WorkloadKey,
};
use serde::Deserialize;
use serde_json::Value;

use super::{layered::Versioned, negs, thin};

/// The label by which newer clusters say in which zone a pod runs.
const ZONE: &str = "topology.kubernetes.io/zone";

/// The label by which Istio takes a Namespace, or one Service, into its mesh.
const DATAPLANE_MODE: &str = "istio.io/dataplane-mode";
const AMBIENT: &str = "ambient";

/// A ManagedWorkload.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ObservedWorkload {
    pub(crate) workload: Workload,
    pub(crate) made: Made,
}

/// Who made a ManagedWorkload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    ByHand,
    /// Napwake, for a label; the uid of the workload that owns it.
    ByLabel(Option<String>),
}

/// A Deployment or StatefulSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedTarget {
    pub(crate) namespace: String,
    pub(crate) target: Target,
    /// Its selector, as a list of pods takes it; none where it can't be put so.
    pub(crate) selector: Option<String>,
}

/// A Namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedNamespace {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) version: String,
    pub(crate) deleted: Option<Timestamp>,
    pub(crate) labels: Map,
    pub(crate) annotations: Map,
    pub(crate) is_ambient: bool,
}

/// A Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedService {
    pub(crate) namespace: String,
    pub(crate) version: String,
    /// Annotations that can't be read, and why.
    pub(crate) unreadable: BTreeMap<&'static str, String>,
    pub(crate) service: Service,
}

/// An EndpointSlice of Napwake's, by label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedSlice {
    pub(crate) namespace: String,
    pub(crate) slice: Slice,
}

/// A pod of Napwake's own namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedPod {
    pub(crate) version: String,
    pub(crate) labels: Map,
    pub(crate) pod: DoormanPod,
}

macro_rules! versioned {
    ($type:ty, $($uid:ident).+, $($version:ident).+) => {
        impl Versioned for $type {
            fn uid(&self) -> &str {
                &self.$($uid).+
            }

            fn version(&self) -> &str {
                &self.$($version).+
            }
        }
    };
}
versioned!(ObservedWorkload, workload.uid, workload.resource_version);
versioned!(ObservedTarget, target.id.uid, target.resource_version);
versioned!(ObservedNamespace, uid, version);
versioned!(ObservedService, service.uid, version);
versioned!(ObservedSlice, slice.uid, slice.resource_version);
versioned!(ObservedPod, pod.pod.uid, version);

pub(crate) fn workload(object: ManagedWorkload) -> ObservedWorkload {
    let ManagedWorkload {
        metadata: meta,
        spec,
        status,
    } = object;
    let by_label = labeled(&meta, opt::OPTED_IN);
    let owner = owner(&meta, spec.target_ref.kind, &spec.target_ref.name);
    let made = if by_label {
        Made::ByLabel(owner.map(|owner| owner.uid.clone()))
    } else {
        Made::ByHand
    };
    let workload = Workload {
        key: WorkloadKey {
            namespace: meta.namespace.unwrap_or_default(),
            name: meta.name.unwrap_or_default(),
        },
        uid: meta.uid.unwrap_or_default(),
        generation: meta.generation.unwrap_or_default(),
        resource_version: meta.resource_version.unwrap_or_default(),
        created: time(meta.creation_timestamp).unwrap_or(Timestamp::UNIX_EPOCH),
        deleted: time(meta.deletion_timestamp),
        finalizers: meta.finalizers.unwrap_or_default().into_iter().collect(),
        annotations: ours(meta.annotations),
        spec,
        status: status.unwrap_or_default(),
    };
    ObservedWorkload { workload, made }
}

/// What the status of a ManagedWorkload that can't be read records of the doorman,
/// as an older operator sees what a newer one wrote; none if not even that can be
/// read.
pub(crate) fn doorman(status: &Value) -> Option<DoormanStatus> {
    DoormanStatus::deserialize(status.get("doorman")?).ok()
}

pub(crate) fn target(kind: TargetKind, object: thin::Scalable) -> ObservedTarget {
    let thin::Scalable {
        metadata: meta,
        spec,
        status,
    } = object;
    let controller = meta
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true))
        .map(|owner| Controller {
            kind: owner.kind.clone(),
            name: owner.name.clone(),
        });
    let target = Target {
        id: TargetId {
            kind,
            name: meta.name.unwrap_or_default(),
            uid: meta.uid.unwrap_or_default(),
        },
        resource_version: meta.resource_version.unwrap_or_default(),
        generation: meta.generation.unwrap_or_default(),
        observed_generation: status.observed_generation,
        deleted: time(meta.deletion_timestamp),
        labels: ours(meta.labels),
        annotations: ours(meta.annotations),
        replicas: spec.replicas,
        first_ordinal: spec.ordinals.start,
        ready_replicas: status.ready_replicas,
        template: spec.template,
        controller,
    };
    ObservedTarget {
        namespace: meta.namespace.unwrap_or_default(),
        target,
        selector: selector(&spec.selector),
    }
}

pub(crate) fn namespace(object: shared::Namespace) -> ObservedNamespace {
    let going = object.is_terminating();
    let meta = object.metadata;
    let deleted = time(meta.deletion_timestamp);
    ObservedNamespace {
        name: meta.name.unwrap_or_default(),
        uid: meta.uid.unwrap_or_default(),
        version: meta.resource_version.unwrap_or_default(),
        // Terminating without a time would be odd; it's going all the same.
        deleted: deleted.or_else(|| going.then_some(Timestamp::UNIX_EPOCH)),
        is_ambient: is_ambient(meta.labels.as_ref()),
        labels: ours(meta.labels),
        annotations: ours(meta.annotations),
    }
}

pub(crate) fn service(object: shared::Service) -> ObservedService {
    let headless = object.spec.is_headless();
    let shared::Service {
        metadata: meta,
        spec,
    } = object;
    let kind = match spec.kind {
        shared::ServiceType::ExternalName => ServiceKind::ExternalName,
        _ if headless => ServiceKind::Headless,
        _ => ServiceKind::Proxied,
    };
    let negs = meta
        .annotations
        .as_ref()
        .map(negs::read)
        .unwrap_or_default();
    let service = Service {
        name: meta.name.unwrap_or_default(),
        uid: meta.uid.unwrap_or_default(),
        deleted: time(meta.deletion_timestamp),
        annotations: ours(meta.annotations),
        selector: spec.selector,
        kind,
        families: spec.ip_families.into_iter().map(family).collect(),
        ports: spec.ports.into_iter().map(service_port).collect(),
        internal_traffic: match spec.internal_traffic_policy {
            shared::TrafficPolicy::Local => TrafficPolicy::Local,
            _ => TrafficPolicy::Cluster,
        },
        publishes: if spec.publish_not_ready_addresses {
            Publishes::AllPods
        } else {
            Publishes::ReadyPods
        },
        negs: negs.signs,
        is_ambient: is_ambient(meta.labels.as_ref()),
    };
    ObservedService {
        namespace: meta.namespace.unwrap_or_default(),
        version: meta.resource_version.unwrap_or_default(),
        unreadable: negs.unreadable,
        service,
    }
}

fn service_port(port: shared::ServicePort) -> ServicePort {
    ServicePort {
        name: port.name,
        number: port.port,
        protocol: match port.protocol {
            shared::Protocol::Tcp => Protocol::Tcp,
            _ => Protocol::Other,
        },
        app_protocol: port.app_protocol,
    }
}

const fn family(family: shared::IpFamily) -> IpFamily {
    match family {
        shared::IpFamily::IPv4 => IpFamily::IPv4,
        shared::IpFamily::IPv6 => IpFamily::IPv6,
    }
}

pub(crate) fn slice(object: thin::EndpointSlice) -> ObservedSlice {
    let meta = object.metadata;
    let label = |name: &str| meta.labels.as_ref().and_then(|labels| labels.get(name));
    let service_uid = meta
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.controller == Some(true) && owner.kind == "Service")
        .map_or_else(String::new, |owner| owner.uid.clone());
    // Where one isn't as Napwake writes it, the slice counts as one without
    // endpoints, and so is written anew.
    let endpoints: Option<Vec<_>> = object.endpoints.into_iter().map(endpoint).collect();
    let ports: Option<Vec<_>> = object.ports.into_iter().map(port).collect();
    let (mut endpoints, ports) = match (endpoints, ports) {
        (Some(endpoints), Some(ports)) => (endpoints, ports),
        (_, ports) => (Vec::new(), ports.unwrap_or_default()),
    };
    endpoints.sort_unstable();
    let spec = SliceSpec {
        service: label(slice_label::SERVICE_NAME)
            .cloned()
            .unwrap_or_default(),
        service_uid,
        family: if object.address_type == "IPv6" {
            IpFamily::IPv6
        } else {
            IpFamily::IPv4
        },
        endpoints,
        ports,
        name: meta.name.clone().unwrap_or_default(),
    };
    let slice = Slice {
        managed_by: label(slice_label::MANAGED_BY).cloned(),
        uid: meta.uid.clone().unwrap_or_default(),
        resource_version: meta.resource_version.clone().unwrap_or_default(),
        spec,
    };
    ObservedSlice {
        namespace: meta.namespace.unwrap_or_default(),
        slice,
    }
}

/// None where it isn't as Napwake writes endpoints (F-11, F-17).
fn endpoint(endpoint: thin::Endpoint) -> Option<Endpoint> {
    let address = endpoint.address()?;
    let as_written = thin::Conditions {
        ready: Some(true),
        serving: Some(true),
        terminating: Some(false),
    };
    if endpoint.conditions != as_written {
        return None;
    }
    let pod = match endpoint.target_ref {
        None => None,
        Some(target) => Some(PodRef {
            namespace: target.namespace?,
            name: target.name?,
            uid: target.uid?,
        }),
    };
    Some(Endpoint {
        address,
        node: endpoint.node_name,
        zone: endpoint.zone,
        pod,
    })
}

/// None where it isn't as Napwake writes ports (F-15).
fn port(port: thin::Port) -> Option<SlicePort> {
    if port.protocol.as_deref() != Some("TCP") {
        return None;
    }
    Some(SlicePort {
        name: port.name?,
        port: port.port?,
        app_protocol: port.app_protocol,
    })
}

pub(crate) fn pod(object: shared::Pod) -> ObservedPod {
    let ready = object.status.ready && !object.is_deleted();
    let meta = object.metadata;
    let labels = meta.labels.unwrap_or_default();
    let mut addresses = BTreeMap::new();
    for address in object.status.addresses {
        let address = address.to_canonical();
        let family = match address {
            IpAddr::V4(_) => IpFamily::IPv4,
            IpAddr::V6(_) => IpFamily::IPv6,
        };
        addresses.entry(family).or_insert(address);
    }
    let pod = DoormanPod {
        pod: PodRef {
            namespace: meta.namespace.unwrap_or_default(),
            name: meta.name.unwrap_or_default(),
            uid: meta.uid.unwrap_or_default(),
        },
        node: object.spec.node_name,
        zone: labels.get(ZONE).cloned(),
        addresses,
        // T-83: being deleted is as good as not Ready.
        state: if ready {
            DoormanState::Ready
        } else {
            DoormanState::NotReady
        },
    };
    ObservedPod {
        version: meta.resource_version.unwrap_or_default(),
        labels,
        pod,
    }
}

fn labeled(meta: &ObjectMeta, name: &str) -> bool {
    let labels = meta.labels.as_ref();
    labels.is_some_and(|labels| labels.get(name).is_some_and(|value| value == TRUE))
}

fn owner<'a>(meta: &'a ObjectMeta, kind: TargetKind, name: &str) -> Option<&'a OwnerReference> {
    let owners = meta.owner_references.as_ref()?;
    owners
        .iter()
        .find(|owner| owner.kind == kind.as_str() && owner.name == name)
}

fn time(time: Option<Time>) -> Option<Timestamp> {
    time.map(|Time(at)| at)
}

/// What Napwake may read of labels or annotations.
/// Whether its labels put it in Istio's ambient mesh.
fn is_ambient(labels: Option<&Map>) -> bool {
    labels
        .and_then(|labels| labels.get(DATAPLANE_MODE))
        .is_some_and(|mode| mode == AMBIENT)
}

fn ours(map: Option<Map>) -> Map {
    map.into_iter()
        .flatten()
        .filter(|(key, _)| is_ours(key))
        .collect()
}

fn is_ours(key: &str) -> bool {
    key.strip_prefix(names::GROUP)
        .is_some_and(|rest| rest.starts_with('/'))
}

fn selector(selector: &LabelSelector) -> Option<String> {
    let selector: Selector = selector.clone().try_into().ok()?;
    // An empty one matches every pod, which no workload means.
    (!selector.selects_all()).then(|| selector.to_string())
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
