//! What a route is: plain values that conversations read.
//!
//! Owns the types and the questions that can be asked of them. Nothing here
//! watches, waits or reads a clock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use napwake_api::settings::DEFAULT_MAX_WAIT;
use napwake_api::stamp::{LastRequest, Stamp};
use napwake_api::workload::{Phase, WakeMode, WakePage};
use napwake_gate::click::Asked;
use napwake_gate::places::WorkloadKey;
use napwake_gate::ready::Candidate;
use napwake_gate::serving;
use napwake_gate::verdict::{Pods, Sleeper, Standing};
use napwake_gate::wake::newest;
use tokio::time::Instant;

use crate::wake::Slot;

/// A Service. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServiceKey {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl ServiceKey {
    /// The key of the Service `name` in `namespace`.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What tells one route from another. A route that gets another port, or whose
/// port goes to another Service, is another route.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouteKey {
    /// The port on which the doorman listens for it.
    pub doorman_port: u16,
    /// Whose connections come to it.
    pub service: ServiceKey,
    /// The name of the Service's port, empty where it has none (F-14).
    pub port: Arc<str>,
}

/// One Service port that the doorman serves, as it stands now.
#[derive(Debug, Clone)]
pub struct Route {
    /// Which one it is.
    pub key: RouteKey,
    /// How it is served.
    pub serving: Serving,
    /// Every workload behind it, in the order of their names. Once nobody lists it any
    /// more, those that last did, as they were last seen (T-110, T-111).
    pub workloads: Vec<Arc<Workload>>,
    /// Their keys: a caller's place counts for each of them (T-114).
    pub keys: Arc<[WorkloadKey]>,
    /// The endpoints that may be Ready, each once (T-135).
    pub candidates: Arc<[Candidate]>,
    /// Whether pods serve, and none of them on this port (F-21).
    pub lacks_port: bool,
}

/// How a route is served.
pub type Serving = serving::Serving<Instant>;

/// A workload behind a route.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Its ManagedWorkload.
    pub key: WorkloadKey,
    /// The ManagedWorkload's uid.
    pub uid: Arc<str>,
    /// Who wakes it.
    pub mode: WakeMode,
    /// Whether browsers get the waking-up page, where requests wake it.
    pub page: WakePage,
    /// How long its callers are held at most (HOLD-26).
    pub max_wait: Duration,
    /// Where it stands.
    pub state: State,
    /// The newest request that a doorman stamped, where it can be read.
    pub last_request: Option<LastRequest>,
    /// The newest wake that people's tooling asked for, where it can be read.
    pub wake_requested: Option<Stamp>,
    /// When it changed to Resuming, if that is where it stands (T-121).
    pub resuming_since: Option<Timestamp>,
    /// Whether its Deployment or StatefulSet is gone (T-110).
    pub target_gone: bool,
    /// What the doorman's pending wake of it is kept in.
    pub slot: Arc<Slot>,
}

/// Where a workload stands, as far as the doorman cares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// There is nothing to wake (T-124).
    Running,
    /// Somebody woke it, and no pod is Ready yet.
    Resuming,
    /// Its pods still run, and a request calls the pause off.
    Pausing(Pause),
    /// It has no pods.
    Paused(Pause),
}

/// A pause, named by when it began (OBS-15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// `status.pause.startedAt`.
    pub started_at: Timestamp,
}

impl State {
    /// From the status. A phase without its pause can't be stamped against, so
    /// it counts from the beginning of time: any stamp is newer.
    pub fn new(phase: Option<Phase>, started_at: Option<Timestamp>) -> Self {
        let pause = Pause {
            started_at: started_at.unwrap_or(Timestamp::UNIX_EPOCH),
        };
        match phase {
            Some(Phase::Pausing) => Self::Pausing(pause),
            Some(Phase::Paused) => Self::Paused(pause),
            Some(Phase::Resuming) => Self::Resuming,
            Some(Phase::Running) | None => Self::Running,
        }
    }

    /// The phase it stands for.
    pub fn phase(self) -> Phase {
        match self {
            Self::Running => Phase::Running,
            Self::Resuming => Phase::Resuming,
            Self::Pausing(_) => Phase::Pausing,
            Self::Paused(_) => Phase::Paused,
        }
    }

    /// The pause under way.
    pub fn pause(self) -> Option<Pause> {
        match self {
            Self::Pausing(pause) | Self::Paused(pause) => Some(pause),
            Self::Running | Self::Resuming => None,
        }
    }
}

impl Workload {
    /// Whether it takes of the allowance to wake it: calling off a pause whose pods
    /// still run starts none (LIMIT-15).
    pub fn is_paused(&self) -> bool {
        matches!(self.state, State::Paused(_))
    }

    /// The newest wake request that counts at `now`, whoever made it (T-11, T-12).
    fn last_wake(&self, now: Timestamp) -> Option<Stamp> {
        let seen = self.last_request.as_ref().map(|request| request.stamp);
        let stamps = [seen, self.slot.stamped(), self.wake_requested];
        newest(stamps, Some(self.pause_started()), now)
    }

    fn pause_started(&self) -> Timestamp {
        let pause = self.state.pause();
        pause.map_or(Timestamp::UNIX_EPOCH, |pause| pause.started_at)
    }

    /// What a click must know of it.
    pub fn asked(&self, now: Timestamp) -> Asked {
        Asked {
            phase: self.state.phase(),
            pause_started: self.pause_started(),
            last_wake: self.last_wake(now),
        }
    }

    /// What the gate wants to know of it, when it was last asked to wake included,
    /// but not whether that's still to be written.
    fn sleeper(&self, last_wake: Option<Stamp>) -> Sleeper<'_> {
        Sleeper {
            workload: &self.key,
            mode: self.mode,
            page: self.page,
            max_wait: self.max_wait,
            phase: self.state.phase(),
            pause_started: self.pause_started(),
            last_wake,
            is_pending: false,
            resuming_since: self.resuming_since,
        }
    }
}

impl Route {
    /// The workloads that a request on this route wakes: those in Request whose
    /// pause is on (T-75). None while the route drains (DRAIN-19).
    pub fn wakes(&self) -> impl Iterator<Item = &Arc<Workload>> {
        let live = self.serving == Serving::Live;
        let workloads = self.workloads.iter();
        workloads.filter(move |one| live && one.sleeper(None).is_woken_by_requests())
    }

    /// Where the route stands for a caller that no pod can be found for.
    pub fn standing(&self) -> Standing {
        let workloads = self.workloads.iter();
        let sleepers: Vec<_> = workloads.map(|one| one.sleeper(None)).collect();
        Standing::of(&self.serving, Pods::NoneReady, &sleepers)
    }

    /// Its workloads, as their callers meet them at `now`.
    pub fn sleepers(&self, now: Timestamp) -> Vec<Sleeper<'_>> {
        let workloads = self.workloads.iter();
        workloads
            .map(|one| Sleeper {
                is_pending: (one.state.pause()).is_some_and(|pause| one.slot.is_pending(pause)),
                ..one.sleeper(one.last_wake(now))
            })
            .collect()
    }

    /// How long callers are held: the longest of the workloads behind the route
    /// (HOLD-26).
    pub fn max_wait(&self) -> Duration {
        self.workloads
            .iter()
            .map(|workload| workload.max_wait)
            .max()
            .unwrap_or(DEFAULT_MAX_WAIT.get())
    }

    /// Whether any of its workloads is pausing, so that a request that is passed
    /// on must be looked at (T-02).
    pub fn is_pausing(&self) -> bool {
        self.wakes()
            .any(|workload| matches!(workload.state, State::Pausing(_)))
    }
}
