//! Where a route stands: what its workloads make of a caller, whoever it is.
//!
//! Owns how several workloads behind one Service, whose modes and phases may
//! differ, come to one standing (T-75).

use std::time::Duration;

use jiff::Timestamp;
use napwake_api::{
    stamp::Stamp,
    workload::{Phase, WakeMode, WakePage},
};

use crate::{places::WorkloadKey, serving::Serving};

/// One workload behind a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleeper<'a> {
    /// Its ManagedWorkload.
    pub workload: &'a WorkloadKey,
    /// Who wakes it.
    pub mode: WakeMode,
    /// Whether browsers get the waking-up page, where requests wake it.
    pub page: WakePage,
    /// How long its callers are held.
    pub max_wait: Duration,
    /// Where it stands.
    pub phase: Phase,
    /// When its pause began, which names it.
    pub pause_started: Timestamp,
    /// The newest wake request: the later of `napwake.dev/last-request` and
    /// `napwake.dev/wake-requested` (T-11).
    pub last_wake: Option<Stamp>,
    /// Whether this pod was asked to wake it and couldn't write that yet: it tries
    /// on, so it's as good as written (T-63, T-112).
    pub is_pending: bool,
    /// When it changed to Resuming, the same for every pod (T-121).
    pub resuming_since: Option<Timestamp>,
}

impl Sleeper<'_> {
    /// Whether a request that wakes wakes this one: not if it asks first, and
    /// not if there is nothing to wake (T-75, T-124). While it pauses, waking it
    /// calls the pause off (HOLD-11, T-04, T-74).
    pub fn is_woken_by_requests(&self) -> bool {
        self.mode == WakeMode::Request && self.is_asleep()
    }

    /// Pausing without a Ready pod is as good as paused (T-05).
    fn is_asleep(&self) -> bool {
        matches!(self.phase, Phase::Paused | Phase::Pausing)
    }
}

/// Whether any pod of the Service is Ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pods {
    /// At least one, whichever workload it belongs to (HOLD-10).
    Ready,
    /// At least one, but as many are passed as may be (T-61).
    Crowded,
    /// None.
    NoneReady,
}

/// Where a route stands, which decides what its callers get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A pod is Ready: everything passes (CLASS-23, T-35).
    Served,
    /// A pod is Ready, and everything waits to be passed (T-61).
    Crowded,
    /// A request is held, and wakes.
    Wakes,
    /// A request is held; there is nothing to wake.
    Waits,
    /// Every workload behind it is asleep and asks.
    Asks,
}

impl Standing {
    /// Where a route with these workloads stands.
    ///
    /// While it drains, or its ManagedWorkloads are gone, strays are passed or held,
    /// and nothing is woken or counted (DRAIN-19, T-79, T-111). Else a request wakes
    /// all those in Request. Otherwise, once any of them is waking, it is held for that
    /// one (ASK-45). Only if all are asleep and ask does the doorman ask (T-75).
    pub fn of<I>(serving: &Serving<I>, pods: Pods, workloads: &[Sleeper<'_>]) -> Self {
        let wakes_nothing = matches!(serving, Serving::Draining(_)) || workloads.is_empty();
        match pods {
            Pods::Ready => Self::Served,
            Pods::Crowded => Self::Crowded,
            Pods::NoneReady if wakes_nothing => Self::Waits,
            Pods::NoneReady if workloads.iter().any(Sleeper::is_woken_by_requests) => Self::Wakes,
            Pods::NoneReady if workloads.iter().all(Sleeper::is_asleep) => Self::Asks,
            Pods::NoneReady => Self::Waits,
        }
    }
}
