//! What was observed for one ManagedWorkload, as plain data.
//!
//! Holds no opinion: everything here was read from the API server's objects,
//! found by a connect check, or kept by whoever applies plans. What could not
//! be observed is [`Seen::Unknown`], which never counts as absent, idle or
//! empty.
//!
//! Two promises of the observer that `decide` builds on:
//!
//! - **Own writes are seen.** Each part is at least as new as this process's
//!   own last successful write to it: as the write's answer gave it, or as the
//!   watch has since; where neither is to be had, the part is `Unknown`.
//! - **Annotations are current.** The ManagedWorkload is the newest that the
//!   watch has delivered, so that a stamp leads to a wake without a read.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
};

use jiff::Timestamp;
pub use napwake_api::workload::{IpFamily, TargetKind};
use napwake_api::{
    ManagedWorkloadSpec, ManagedWorkloadStatus,
    workload::{Phase, Route, TargetRef},
};

use crate::behind::Behind;

mod doorman;
mod failures;
mod load_balancers;
mod selecting;

pub use doorman::{Check, CheckOutcome, Doorman, DoormanPod, DoormanState, Listener, TargetRefs};
pub use failures::{SliceFailure, SliceProblem};
pub use load_balancers::{Ingress, NegSign};

/// Labels or annotations, as Kubernetes keeps them.
pub type Map = BTreeMap<String, String>;

/// One observed part: known, absent, or unknown and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen<T> {
    /// It was read.
    Known(T),
    /// It was looked for and isn't there.
    Absent,
    /// It could not be read, or not yet; the text says why, for people.
    Unknown(String),
}

impl<T> Seen<T> {
    /// The value, where it's known.
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Absent | Self::Unknown(_) => None,
        }
    }
}

/// The name of a ManagedWorkload in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkloadKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for WorkloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Everything observed for one ManagedWorkload.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// The ManagedWorkload itself.
    pub workload: Workload,
    /// The Deployment or StatefulSet that it names.
    pub target: Seen<Target>,
    /// How many of the target's pods exist, terminating ones included.
    ///
    /// Only asked for from the scale-down to the phase Paused (see
    /// [`World::wants_pods`]); at other times `Unknown` will do.
    pub pods: Seen<u32>,
    /// The namespace.
    pub namespace: Seen<Namespace>,
    /// The Services of the namespace. Those that don't select the target's
    /// pods may be left out, and those that can't be read, but not those that a
    /// route in the status names: if one of those can't be read, all are `Unknown`.
    pub services: Seen<Vec<Service>>,
    /// The Ingresses of the namespace. Those that can't be read are passed over.
    pub ingresses: Vec<Ingress>,
    /// The EndpointSlices of those Services that Napwake manages, by label, and
    /// those of a name that Napwake would use, whatever they say and whoever manages
    /// them, where the observer knows of them.
    pub slices: Seen<Vec<Slice>>,
    /// By Service, the families in which the slices that the EndpointSlice
    /// controller writes for it name a Ready pod (T-72, T-73).
    ///
    /// Only asked for of the Services that a plan names
    /// ([`crate::plan::Plan::reads`]); at other times `Unknown` will do.
    pub served: Seen<BTreeMap<String, BTreeSet<IpFamily>>>,
    /// By Service, who stands behind it. What was read of one is from when a plan last
    /// asked for it ([`crate::plan::Plan::asks`]).
    pub behind: BTreeMap<String, Behind>,
    /// The doorman's pods.
    pub doorman: Doorman,
    /// Whether slices name them.
    pub target_refs: TargetRefs,
    /// The results of connect checks: see [`crate::plan::Write::CheckListeners`].
    /// Those of a pod are forgotten when it's no longer Ready.
    pub checks: BTreeMap<Listener, Check>,
    /// The last failure of a slice write for this ManagedWorkload, by the
    /// slice's name. A success takes it out, but for [`SliceProblem::Altered`]: of
    /// that one it renews the time. All are forgotten as a pause begins, and as one ends
    /// (ROUTE-40).
    pub slice_failures: BTreeMap<String, SliceFailure>,
    /// The other ManagedWorkloads of the namespace, but for those that are awake, have
    /// no route and another target; `Unknown` if any of them can't be read.
    pub peers: Seen<Vec<Peer>>,
    /// Why the workload isn't paused on its own, where a setting of it can't
    /// be read; people may still ask for a pause.
    pub never_idle: Option<String>,
    /// Whether Napwake stays.
    pub tenure: Tenure,
}

/// Whether Napwake stays in the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Tenure {
    /// It does.
    #[default]
    Stays,
    /// It's about to be uninstalled, which waits for every ManagedWorkload to go.
    Ends,
}

impl World {
    /// Whether `pods` is asked for: from the scale-down to the phase Paused.
    pub fn wants_pods(status: &ManagedWorkloadStatus) -> bool {
        status.phase == Some(Phase::Pausing)
            && status
                .pause
                .as_ref()
                .is_some_and(|pause| pause.scaled_at.is_some())
    }
}

/// The ManagedWorkload.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// `metadata.namespace` and `metadata.name`.
    pub key: WorkloadKey,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `metadata.resourceVersion`: the precondition of every write to it.
    pub resource_version: String,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// `metadata.deletionTimestamp`.
    pub deleted: Option<Timestamp>,
    /// `metadata.finalizers`.
    pub finalizers: BTreeSet<String>,
    /// `metadata.annotations`.
    pub annotations: Map,
    /// `spec`, with its defaults.
    pub spec: ManagedWorkloadSpec,
    /// `status`, empty where there's none yet.
    pub status: ManagedWorkloadStatus,
}

/// A Deployment or StatefulSet, named by kind, name and uid.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TargetId {
    /// Its kind.
    pub kind: TargetKind,
    /// Its name.
    pub name: String,
    /// Its uid: another one under the same name is another workload.
    pub uid: String,
}

/// The Deployment or StatefulSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Kind, name and uid.
    pub id: TargetId,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// `status.observedGeneration`.
    pub observed_generation: i64,
    /// `metadata.deletionTimestamp`.
    pub deleted: Option<Timestamp>,
    /// `metadata.labels`.
    pub labels: Map,
    /// `metadata.annotations`.
    pub annotations: Map,
    /// `spec.replicas`, 1 where it isn't set.
    pub replicas: i32,
    /// `spec.ordinals.start` of a StatefulSet: the number of its first pod.
    pub first_ordinal: i32,
    /// `status.readyReplicas`.
    pub ready_replicas: i32,
    /// The pod template.
    pub template: Template,
    /// The owner reference with `controller: true`, if any.
    pub controller: Option<Controller>,
}

/// What counts of a pod template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// A hash of the whole template: another one is a rollout.
    pub hash: String,
    /// `metadata.labels`, which Services select by.
    pub labels: Map,
    /// Whether anything tells when a pod can serve.
    pub readiness: Readiness,
}

/// Whether anything tells when a pod can serve (ROUTE-17).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Readiness {
    /// Some container, restartable init containers included, has a readiness
    /// probe, or the pod has a readiness gate (ROUTE-21).
    Probed,
    /// Neither: a pod is Ready as soon as its containers run.
    Unprobed,
}

/// Another controller that owns a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// What counts of a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// `metadata.deletionTimestamp`.
    pub deleted: Option<Timestamp>,
    /// Whether its label puts it in Istio's ambient mesh (T-132).
    pub is_ambient: bool,
}

/// A Service, as far as routing goes by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.deletionTimestamp`.
    pub deleted: Option<Timestamp>,
    /// `metadata.annotations`.
    pub annotations: Map,
    /// `spec.selector`, empty where there's none.
    pub selector: Map,
    /// How callers reach it.
    pub kind: ServiceKind,
    /// `spec.ipFamilies`, the primary first.
    pub families: Vec<IpFamily>,
    /// `spec.ports`.
    pub ports: Vec<ServicePort>,
    /// `spec.internalTrafficPolicy`.
    pub internal_traffic: TrafficPolicy,
    /// `spec.publishNotReadyAddresses`.
    pub publishes: Publishes,
    /// What its annotations say of GKE's network endpoint groups; what can't be read
    /// says nothing (T-90).
    pub negs: BTreeSet<NegSign>,
    /// Whether its label puts it in Istio's ambient mesh (T-132).
    pub is_ambient: bool,
}

impl Service {
    /// Whether its selector matches these labels of a pod (F-137); an empty one
    /// matches none.
    pub fn selects(&self, labels: &Map) -> bool {
        let mut wanted = self.selector.iter();
        !self.selector.is_empty() && wanted.all(|(key, value)| labels.get(key) == Some(value))
    }
}

/// How callers reach a Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServiceKind {
    /// It has cluster IPs, whether ClusterIP, NodePort or LoadBalancer.
    Proxied,
    /// `clusterIP: None`.
    Headless,
    /// `type: ExternalName`.
    ExternalName,
}

/// `internalTrafficPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrafficPolicy {
    /// To endpoints on any node: the default.
    Cluster,
    /// Only to endpoints on the caller's own node.
    Local,
}

/// Which pods a Service's endpoints call ready (T-73).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Publishes {
    /// Ready ones only: the default.
    ReadyPods,
    /// All of them: `publishNotReadyAddresses`.
    AllPods,
}

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// Its name, empty where there's none.
    pub name: String,
    /// Its number.
    pub number: u16,
    /// Its protocol.
    pub protocol: Protocol,
    /// `appProtocol`.
    pub app_protocol: Option<String>,
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// TCP: the only one that is routed.
    Tcp,
    /// UDP, SCTP and whatever else there may be (ROUTE-47, ROUTE-48).
    Other,
}

/// An EndpointSlice as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// The label `endpointslice.kubernetes.io/managed-by`.
    pub managed_by: Option<String>,
    /// What it says.
    pub spec: SliceSpec,
}

/// What an EndpointSlice says, found or wanted.
///
/// Every endpoint has exactly one address (F-11) and the conditions ready and
/// serving true, terminating false, all written out (F-17); every port has the
/// protocol TCP. One that was found otherwise is given with no endpoints, so
/// that it's written anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceSpec {
    /// `metadata.name`.
    pub name: String,
    /// The label `kubernetes.io/service-name`.
    pub service: String,
    /// The uid of the owning Service, the slice's controller owner, with
    /// `blockOwnerDeletion` unset (F-08, F-110).
    pub service_uid: String,
    /// `addressType`.
    pub family: IpFamily,
    /// `endpoints`, by address.
    pub endpoints: Vec<Endpoint>,
    /// `ports`, in the Service's order.
    pub ports: Vec<SlicePort>,
}

/// One endpoint of a slice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Its only address.
    pub address: IpAddr,
    /// `nodeName`.
    pub node: Option<String>,
    /// `zone`.
    pub zone: Option<String>,
    /// `targetRef`, of kind Pod (T-132).
    pub pod: Option<PodRef>,
}

impl Endpoint {
    /// Whether it's that of this doorman pod: by its address, and where it names a pod
    /// by that, too.
    pub fn is_of(&self, pod: &DoormanPod, family: IpFamily) -> bool {
        pod.addresses.get(&family) == Some(&self.address)
            && self.pod.as_ref().is_none_or(|named| *named == pod.pod)
    }
}

/// A reference to a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// One port of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicePort {
    /// The Service port's name, written even where it's empty (F-14).
    pub name: String,
    /// The doorman port.
    pub port: u16,
    /// `appProtocol`, copied from the Service's port.
    pub app_protocol: Option<String>,
}

/// Another ManagedWorkload of the namespace.
#[derive(Clone, Debug, PartialEq)]
pub struct Peer {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// `metadata.deletionTimestamp`.
    pub deleted: Option<Timestamp>,
    /// `spec.targetRef`.
    pub target: TargetRef,
    /// `status.phase`.
    pub phase: Option<Phase>,
    /// `status.doorman.routes`.
    pub routes: Vec<Route>,
}
