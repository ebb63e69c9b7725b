//! What is known of the doorman: its pods, and who listens there.

use std::{collections::BTreeMap, net::IpAddr};

use jiff::Timestamp;
use napwake_api::workload::IpFamily;

use super::{PodRef, Seen};

/// The doorman.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doorman {
    /// Turned off for the cluster (SET-20).
    Disabled,
    /// Its pods, Ready or not.
    Enabled(Seen<Vec<DoormanPod>>),
}

/// Whether the endpoints of slices name the doorman's pods as their `targetRef` (T-132).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TargetRefs {
    /// They do, but for Services in Istio's ambient mesh: that leaves out endpoints that
    /// name a pod of another Service (F-58).
    #[default]
    Auto,
    /// They all do: cloud load balancers that go to pods need it (F-63).
    Always,
    /// None does.
    Never,
}

/// A doorman pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoormanPod {
    /// Namespace, name and uid.
    pub pod: PodRef,
    /// `spec.nodeName`.
    pub node: Option<String>,
    /// The node's zone, where known.
    pub zone: Option<String>,
    /// Its address in each family that it has one in.
    pub addresses: BTreeMap<IpFamily, IpAddr>,
    /// Whether it takes connections.
    pub state: DoormanState,
}

/// Whether a doorman pod takes connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DoormanState {
    /// Its condition Ready is True and it isn't being deleted.
    Ready,
    /// It's starting, failing, or has a deletion timestamp (T-83).
    NotReady,
}

/// A listener that a connect check connects to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Listener {
    /// The doorman pod's uid.
    pub pod: String,
    /// The pod's address.
    pub address: IpAddr,
    /// The doorman port.
    pub port: u16,
}

/// The result of a connect check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// When the connection was begun.
    pub at: Timestamp,
    /// What came of it.
    pub outcome: CheckOutcome,
}

/// What came of a connect check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CheckOutcome {
    /// Somebody listens there.
    Listening,
    /// Refused, or no answer in time.
    Silent,
}
