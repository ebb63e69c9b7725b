//! Waking: `napwake.dev/last-request` on a ManagedWorkload.
//!
//! Owns the writes that wake. Many callers ask, and one stamp is written: each
//! workload has one pending wake at a time, apart from the connections that asked
//! for it and from the one route that the first of them came by (T-62). It is tried
//! again every two seconds until it is allowed and written, or nobody who asked would
//! still be there. Changes that annotation and `napwake.dev/last-request-from`, and nothing else.

mod click;
mod pursuit;
mod slot;
mod stamp;
mod warmth;

use std::sync::Arc;
use std::time::Duration;

use napwake_api::stamp::RequestKind;
use napwake_gate::allowance::Allowance;
use napwake_gate::click::{Press, press};
use napwake_gate::places::Source;
use napwake_gate::wake::Need;
use napwake_kit::clock::Clock;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use self::click::Click;
use self::pursuit::Pursuit;
use self::slot::{Joiner, Wanted};
pub use self::slot::{Obstacle, Slot};
pub use self::stamp::{ApiStamper, AsRead, StampError, StampValue, Stamper};
pub use self::warmth::{keep_warm, warm};
use crate::report::Reporter;
use crate::routes::{Route, RouteHandle, ServiceKey, Workload};
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
    /// Once it is awake: it is held until then, or its browser reloads the
    /// waking-up page. So the workload is woken.
    Waits,
    /// It was passed to a pod, so that a pause is called off (HOLD-11). Others who
    /// sleep behind the same Service aren't needed for it.
    Passed,
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
    /// (T-75), trying until `until`; one that was passed to a pod wakes nobody who
    /// sleeps, and calls off the pauses under way. Returns at once; asking again costs
    /// nothing where it was done or is pending (T-65).
    pub fn ask(&self, route: &RouteHandle, asker: Asker, until: Instant) {
        let now = route.now();
        let is_served = asker.how == How::Passed;
        for workload in now.wakes() {
            if !(is_served && workload.is_paused()) {
                self.ask_one(route, workload, asker, until);
            }
        }
    }

    fn ask_one(&self, route: &RouteHandle, workload: &Workload, asker: Asker, until: Instant) {
        let Some(pause) = workload.state.pause() else {
            return;
        };
        let mut state = workload.slot.state.lock();
        if state.need(workload, self.shared.clock.now()) == Need::Nothing {
            return;
        }
        let joined = state.join_or_begin(Wanted {
            workload: &workload.key,
            pause,
            asker,
            route,
            until,
        });
        drop(state);
        if let Some(joined) = joined {
            let pursuit = Pursuit {
                shared: Arc::clone(&self.shared),
                workload: workload.key.clone(),
                slot: Arc::clone(&workload.slot),
                pause,
                joined,
                charged: false,
            };
            self.shared.tasks.spawn(pursuit.run());
        }
    }
}

impl<S: Stamper> Wakes<S> {
    /// Presses the button for every workload behind `judged`, the route as it was
    /// when the click was judged good, and says what came of each (T-75). What
    /// can't be written yet is tried until `until`, and counts as written (T-63).
    pub async fn click(
        &self,
        route: &RouteHandle,
        judged: &Route,
        asker: Asker,
        until: Instant,
    ) -> Vec<Press> {
        let presses = judged.workloads.iter().filter_map(|workload| {
            let pause = workload.state.pause()?;
            let wanted = Wanted {
                workload: &workload.key,
                pause,
                asker,
                route,
                until,
            };
            Some(self.click_one(workload, wanted))
        });
        let presses = futures::future::join_all(presses).await;
        presses.into_iter().flatten().collect()
    }

    /// Waits for its turn, so that however many click, one at a time asks the API server
    /// for them. Whoever leaves before that has asked for nothing that the one before
    /// doesn't do; from then on it goes on though nobody waits for its end.
    async fn click_one(&self, workload: &Arc<Workload>, wanted: Wanted<'_>) -> Option<Press> {
        let turn = workload.slot.turn().await;
        if workload.slot.join(wanted) {
            return Some(Press::Stamp);
        }
        let now = self.shared.clock.now();
        let known = press(workload.asked(now), wanted.pause.started_at, now);
        if known != Press::Stamp {
            return Some(known);
        }
        let joiner = Joiner::new(wanted);
        let subject = (Arc::clone(workload), wanted.pause);
        let click = Click::new(Arc::clone(&self.shared), joiner, subject, wanted.until);
        let (tell, pressed) = oneshot::channel();
        self.shared.tasks.spawn(click.run(turn, tell));
        pressed.await.ok()
    }
}

fn log_stamp(workload: &Workload, service: &ServiceKey, asker: Asker) {
    tracing::info!(
        namespace = workload.key.namespace(),
        workload = workload.key.name(),
        service = &*service.name,
        kind = asker.kind.word(),
        "request stamped"
    );
}

/// The least step between two stamps: they are written in microseconds (T-127).
const STEP: Duration = Duration::from_micros(1);

#[cfg(test)]
mod tests;
