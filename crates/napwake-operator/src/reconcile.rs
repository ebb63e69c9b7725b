//! One reconciler for a ManagedWorkload, whatever happened: observe, decide,
//! apply, and again until nothing is left to write.
//!
//! Holds no logic of its own: what to do is `decide`'s, how is `apply`'s. A
//! stamp leads to the same function, and from it straight to one scale write.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use napwake_api::names::{event, signal};
use napwake_cluster::plain;
use napwake_decide::{
    Plan, Seen, World, Write,
    behind::Owner,
    decide,
    plan::{Event, EventType},
    world::{Workload, WorkloadKey},
};
use napwake_kit::clock::Clock;
use tokio::time::Instant;

use crate::{
    apply::{Applier, ApplyError, Leave, is_wake},
    backoff::{Failures, Waits},
    holdups::Holdups,
    leader::Term,
    observe::{Look, Served, count_pods, read_behind, read_served},
    queue::{Hurry, Next, Room, Urgency},
    shared::Shared,
};

/// Workloads that are looked at at once.
const ROOM: Room = Room {
    usual: 32,
    wakes: 64,
};

/// Plans in a row for one workload before others get their turn. Where even so many
/// don't come to an end, somebody undoes what they write: the next ones come one by one.
const ROUNDS: usize = 12;

/// How soon a plan that failed is made anew.
const RETRIES: Waits = Waits {
    first: Duration::from_millis(250),
    last: Duration::from_mins(1),
};

/// Looks at ManagedWorkloads.
pub(crate) struct Reconciler {
    pub(crate) applier: Applier,
    shared: Arc<Shared>,
    clock: Clock,
    failures: Failures<WorkloadKey>,
    /// Of all plans in a row, that they came to no end.
    unsettled: Failures<WorkloadKey>,
    holdups: Holdups<WorkloadKey>,
}

/// What is read for a decision, rather than watched.
struct Read {
    pods: Seen<u32>,
    served: Seen<Served>,
}

impl Default for Read {
    fn default() -> Self {
        Self {
            pods: Seen::Unknown("not counted".to_owned()),
            served: Seen::Unknown("not read".to_owned()),
        }
    }
}

impl Reconciler {
    pub(crate) fn new(applier: Applier) -> Self {
        Self {
            shared: Arc::clone(&applier.shared),
            clock: applier.clock.clone(),
            failures: Failures::new(RETRIES),
            unsettled: Failures::new(RETRIES),
            holdups: Holdups::default(),
            applier,
        }
    }

    /// Looks at every workload, and again whenever anything concerns it, for as
    /// long as `term` lasts.
    pub(crate) async fn run(&self, term: Term) -> std::convert::Infallible {
        self.failures.forget_all();
        self.unsettled.forget_all();
        self.holdups.forget_all();
        let keys = self.shared.with(|index, now| {
            let workloads = index.all_workloads(now);
            workloads
                .map(|one| one.workload.key.clone())
                .collect::<Vec<_>>()
        });
        for key in keys {
            self.shared.workloads.add(key, Urgency::Usual);
        }
        let work = |key, hurry| self.reconcile(key, hurry, &term);
        self.shared.workloads.run(ROOM, work).await
    }

    async fn reconcile(&self, key: WorkloadKey, hurry: Hurry, term: &Term) -> Next {
        let begun = Instant::now();
        let leave = Leave {
            term,
            hurry: &hurry,
        };
        let next = self.settle(&key, leave).await;
        self.applier.metrics.observe_time(begun.elapsed());
        next
    }

    async fn settle(&self, key: &WorkloadKey, leave: Leave<'_>) -> Next {
        let rounds = if self.unsettled.is_on(key) { 1 } else { ROUNDS };
        let mut last = None;
        for _ in 0..rounds {
            let Some((world, plan)) = self.decide(key, leave).await else {
                self.over(key);
                self.holdups.over(key);
                return Next::WhenAsked;
            };
            let (again, unknown) = (plan.again, plan.unknown.join("; "));
            // Checks answer later, and ask for the next look then.
            let settled = plan.writes.iter().all(is_check);
            let wakes = plan.writes.iter().any(is_wake);
            let written = plan.writes.iter().find_map(what);
            if let Err(error) = self.applier.apply(leave, &world, plan).await {
                let wait = self.retry(&world.workload, &error);
                return match error {
                    _ if wakes => Next::WakeAfter(wait),
                    // The status may have been written before it.
                    ApplyError::Failed { .. } => Next::NotBefore(wait),
                    _ => Next::After(wait),
                };
            }
            if settled {
                self.over(key);
                if unknown.is_empty() {
                    self.holdups.over(key);
                } else {
                    self.held_up(&world.workload, &unknown);
                }
                return self.next(again);
            }
            last = written.map(|written| (world, written));
        }
        if let Some((world, written)) = last {
            let why = format!("{written} doesn't stay as it is written, over and over");
            self.held_up(&world.workload, &why);
        }
        Next::NotBefore(self.unsettled.another(key.clone()).1)
    }

    fn over(&self, key: &WorkloadKey) {
        self.failures.over(key);
        self.unsettled.over(key);
    }

    /// Says so once that has lasted: nobody who looks at the workload would know.
    fn held_up(&self, workload: &Workload, why: &str) {
        let key = &workload.key;
        if !self.holdups.met(key.clone()) {
            return;
        }
        let (namespace, name) = (&key.namespace, &key.name);
        tracing::warn!(namespace, workload = name, why, "held up");
        let note = format!("Napwake can't go on with it, and keeps trying: {why}");
        let (type_, reason) = (EventType::Warning, event::HELD_UP);
        let event = Event {
            type_,
            reason,
            note,
        };
        self.applier.tell(workload, event);
    }

    /// Decides from what is known. The rest is read only where nothing else is
    /// to be done, and only until a wake comes up, so that none waits for it.
    async fn decide(&self, key: &WorkloadKey, leave: Leave<'_>) -> Option<(World, Plan)> {
        let (world, plan) = self.decide_with(key, Read::default())?;
        let is_complete = plan.reads.is_empty()
            && plan.asks.is_empty()
            && !World::wants_pods(&world.workload.status);
        if is_complete || !plan.is_empty() {
            return Some((world, plan));
        }
        let reading = self.read(&world, &plan);
        let read = leave.unless_a_wake_comes(reading).await;
        self.decide_with(key, read.unwrap_or_default())
    }

    fn decide_with(&self, key: &WorkloadKey, read: Read) -> Option<(World, Plan)> {
        let at = self.clock.now();
        // Under one lock: what is taken of the ledger here is seen by the next.
        self.shared.with(|index, now| {
            let world = World {
                served: read.served,
                ..index.world(key, read.pods, now)?
            };
            let plan = decide(&world, &mut index.ports, at);
            Some((world, plan))
        })
    }

    async fn read(&self, world: &World, plan: &Plan) -> Read {
        let (client, key) = (&self.applier.client, &world.workload.key);
        let mut read = Read::default();
        if World::wants_pods(&world.workload.status) {
            read.pods = self.count_pods(world).await;
        }
        if !plan.reads.is_empty() {
            read.served = read_served(client, &key.namespace, &plan.reads).await;
        }
        if !plan.asks.is_empty() {
            self.read_behind(world, &plan.asks).await;
        }
        read
    }

    /// Reads who serves these Services. It's kept, for others behind them too.
    async fn read_behind(&self, world: &World, asks: &BTreeSet<String>) {
        let namespace = &world.workload.key.namespace;
        let services = world.services.known().into_iter().flatten();
        let services: Vec<_> = services
            .filter(|service| asks.contains(&service.name))
            .cloned()
            .collect();
        let mut asked = world.behind.clone();
        asked.retain(|service, _| asks.contains(service));
        let at = self.clock.now();
        let serving = read_behind(&self.applier.client, namespace, &services).await;
        self.shared.with(|index, now| {
            // Of one that was changed meanwhile the answer says nothing.
            let services = services.iter();
            let changed = services.filter(|one| !index.is_still(namespace, one, now));
            for service in changed {
                asked.remove(&service.name);
            }
            index.read_behind(namespace, asked, serving, at);
        });
    }

    async fn count_pods(&self, world: &World) -> Seen<u32> {
        let namespace = &world.workload.key.namespace;
        let target = &world.workload.spec.target_ref;
        let key = (namespace.clone(), target.name.clone());
        let known = self
            .shared
            .with(|index, now| index.look_target(target.kind, &key, now));
        let selector = match known {
            Look::Known(target) => target.selector.clone(),
            Look::Absent => return Seen::Absent,
            Look::Unknown(why) => return Seen::Unknown(why),
        };
        let own = Owner::Target(target.kind, target.name.clone());
        match selector {
            Some(selector) => count_pods(&self.applier.client, namespace, &own, &selector).await,
            None => Seen::Unknown("the target's selector can't be read".to_owned()),
        }
    }

    fn next(&self, again: Option<Timestamp>) -> Next {
        let Some(again) = again else {
            return Next::WhenAsked;
        };
        let wait = again.duration_since(self.clock.now());
        // A moment later, so that the time is surely past.
        let wait = Duration::try_from(wait).unwrap_or_default();
        Next::After(wait + Duration::from_millis(1))
    }

    /// When to decide anew after a failure, unless something changes before.
    fn retry(&self, workload: &Workload, error: &ApplyError) -> Duration {
        let key = &workload.key;
        if matches!(error, ApplyError::WakeFirst) {
            return RETRIES.first; // The wake is in the queue, and comes sooner.
        }
        let (count, wait) = self.failures.another(key.clone());
        let (namespace, name) = (&key.namespace, &key.name);
        let told = plain(error);
        match error {
            // Most often a watch is a moment behind, and tells soon.
            ApplyError::Stale { .. } if count <= 3 => {
                tracing::debug!(namespace, workload = name, error = told, "decided anew");
            }
            ApplyError::Stale { write, .. } | ApplyError::Failed { write, .. } => {
                self.applier.metrics.count_error(write);
                tracing::warn!(namespace, workload = name, error = told, "a write failed");
            }
            ApplyError::NotLeader | ApplyError::WakeFirst => return wait,
        }
        self.held_up(workload, &told);
        wait
    }
}

/// What a write is of, for people; none where nothing would stay of it.
fn what(write: &Write) -> Option<String> {
    Some(match write {
        Write::ScaleTarget { .. } => "its number of replicas".to_owned(),
        Write::MarkTarget { .. } => format!("its annotation {}", signal::PAUSED_REPLICAS),
        Write::ApplySlice { slice, .. } => format!("the EndpointSlice {}", slice.name),
        Write::DeleteSlice { name, .. } => format!("the EndpointSlice {name}"),
        Write::WriteStatus { .. } => "the ManagedWorkload's status".to_owned(),
        Write::AddFinalizer { .. } | Write::RemoveFinalizer { .. } => {
            "the ManagedWorkload's finalizer".to_owned()
        }
        Write::CheckListeners(_) | Write::Event(_) => return None,
    })
}

const fn is_check(write: &Write) -> bool {
    matches!(write, Write::CheckListeners(_))
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "reconcile_held_up_tests.rs"]
mod held_up_tests;
