//! Waking: `napwake.dev/last-request` on a ManagedWorkload.
//!
//! Owns the only writes that a caller leads to. Many callers ask, and one stamp
//! is written: each workload has one pending wake at a time, apart from the
//! connections that asked for it (T-62), which is tried again every two seconds
//! until it is allowed and written, or nobody who asked would still be there.
//! Never changes anything but the two annotations.

mod pursuit;
mod stamp;
mod warmth;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use napwake_api::stamp::{RequestKind, Stamp};
use napwake_gate::allowance::{Allowance, OverRate};
use napwake_gate::places::Source;
use napwake_gate::wake::{self as rule, Need};
use napwake_kit::clock::Clock;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use self::pursuit::Pursuit;
pub use self::stamp::{ApiStamper, StampError, StampValue, Stamper};
pub use self::warmth::{keep_warm, warm};
use crate::report::Reporter;
use crate::routes::{RouteHandle, Workload};
use crate::steady::Steady;

/// Somebody who wants a workload awake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// Where it comes from.
    pub source: Source,
    /// What kind of caller it is.
    pub kind: RequestKind,
    /// Whether it waits for a pod.
    pub how: How,
}

/// How the request that wakes is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It is held, so the workload is woken.
    Held,
    /// It was passed to a pod, so a pause is called off (HOLD-11).
    Passed,
}

/// Why a pending wake isn't written yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// LIMIT-11 to LIMIT-14.
    OverRate(OverRate),
    /// The API server refused it, or couldn't be reached (T-112).
    Unwritten(Arc<str>),
}

/// What a workload's pending wake, and the last one, are kept in. It lives as
/// long as the workload is known.
#[derive(Debug, Default)]
pub struct Slot {
    state: Mutex<SlotState>,
    /// Told when somebody joins who may be allowed what others weren't.
    joined: Notify,
}

#[derive(Debug, Default)]
struct SlotState {
    /// The newest stamp written here: the watch shows it a little later.
    stamped: Option<Stamp>,
    pending: Option<Pending>,
}

#[derive(Debug)]
struct Pending {
    asker: Asker,
    /// When the last of those who asked stops waiting.
    until: Instant,
    obstacle: Option<Obstacle>,
}

impl Slot {
    /// What keeps the pending wake from being written, if anything does.
    pub fn obstacle(&self) -> Option<Obstacle> {
        let state = self.state.lock();
        state.pending.as_ref()?.obstacle.clone()
    }
}

/// Wakes workloads. Clones share everything.
#[derive(Debug)]
pub struct Wakes<S> {
    shared: Arc<Shared<S>>,
}

#[derive(Debug)]
struct Shared<S> {
    stamper: S,
    allowance: Allowance,
    clock: Clock,
    steady: Steady,
    reporter: Reporter,
    tasks: TaskTracker,
}

/// What [`Wakes`] lives with.
#[derive(Debug)]
pub struct WakesParts<S> {
    /// Writes the stamps.
    pub stamper: S,
    /// Says how many may be written.
    pub allowance: Allowance,
    /// The time of day that is written.
    pub clock: Clock,
    /// The clock of the allowance.
    pub steady: Steady,
    /// Tells of each wake.
    pub reporter: Reporter,
    /// Where pending wakes run.
    pub tasks: TaskTracker,
}

impl<S> Clone for Wakes<S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<S: Stamper> Wakes<S> {
    /// Wakes that are made of these.
    pub fn new(parts: WakesParts<S>) -> Self {
        let WakesParts {
            stamper,
            allowance,
            clock,
            steady,
            reporter,
            tasks,
        } = parts;
        Self {
            shared: Arc::new(Shared {
                stamper,
                allowance,
                clock,
                steady,
                reporter,
                tasks,
            }),
        }
    }

    /// Sees to it that every workload that a request on `route` wakes is woken
    /// (T-75), trying until `until`. Returns at once; asking again costs nothing
    /// where it was done or is pending (T-65).
    pub fn ask(&self, route: &RouteHandle, asker: Asker, until: Instant) {
        let now = route.now();
        for workload in now.wakes() {
            self.ask_one(route, workload, asker, until);
        }
    }

    fn ask_one(&self, route: &RouteHandle, workload: &Workload, asker: Asker, until: Instant) {
        let slot = &workload.slot;
        let mut state = slot.state.lock();
        if state.need(workload, self.shared.clock.now()) == Need::Nothing {
            return;
        }
        if let Some(pending) = &mut state.pending {
            pending.join(asker, until, &slot.joined);
            return;
        }
        state.pending = Some(Pending {
            asker,
            until,
            obstacle: None,
        });
        drop(state);
        let pursuit = Pursuit::new(Arc::clone(&self.shared), route.clone(), workload);
        self.shared.tasks.spawn(pursuit.run());
    }
}

impl Pending {
    /// One more wants the same. Where the first one's source is over its rate,
    /// the newcomer's may not be.
    fn join(&mut self, asker: Asker, until: Instant, joined: &Notify) {
        self.until = self.until.max(until);
        let over = matches!(self.obstacle, Some(Obstacle::OverRate(OverRate::Source)));
        if over && asker.source != self.asker.source {
            self.asker = asker;
            joined.notify_one();
        }
    }
}

impl SlotState {
    /// The newest stamp of this workload, whoever wrote it.
    fn newest(&self, workload: &Workload) -> Option<Stamp> {
        let seen = workload.last_request.as_ref().map(|request| request.stamp);
        match (seen, self.stamped) {
            (Some(seen), Some(own)) if own.at() > seen.at() => Some(own),
            (seen, own) => seen.or(own),
        }
    }

    fn need(&self, workload: &Workload, now: Timestamp) -> Need {
        let seen = rule::Seen {
            phase: workload.state.phase(),
            pause_started: workload.state.pause().map(|pause| pause.started_at),
            last_request: self.newest(workload),
        };
        rule::need(seen, now)
    }

    /// Whether the pause under way was stamped, so that another stamp refreshes
    /// it and wakes nothing.
    fn is_stamped(&self, workload: &Workload) -> bool {
        let pause = workload.state.pause();
        self.newest(workload)
            .zip(pause)
            .is_some_and(|(stamp, pause)| stamp.is_newer_than(pause.started_at))
    }
}

/// The least step between two stamps: they are written in microseconds (T-127).
const STEP: Duration = Duration::from_micros(1);

#[cfg(test)]
mod tests;
