//! One reconciler for a ManagedWorkload, whatever happened: observe, decide,
//! apply, and again until nothing is left to write.
//!
//! Holds no logic of its own: what to do is `decide`'s, how is `apply`'s. A
//! stamp leads to the same function, and from it straight to one scale write.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use napwake_cluster::plain;
use napwake_decide::{Plan, Seen, World, Write, behind::Owner, decide, world::WorkloadKey};
use napwake_kit::clock::Clock;
use tokio::time::Instant;

use crate::{
    apply::{Applier, ApplyError, Leave, is_wake},
    backoff::{Failures, Waits},
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

/// Plans in a row for one workload before others get their turn.
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
            applier,
        }
    }

    /// Looks at every workload, and again whenever anything concerns it, for as
    /// long as `term` lasts.
    pub(crate) async fn run(&self, term: Term) -> std::convert::Infallible {
        self.failures.forget_all();
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
        for _ in 0..ROUNDS {
            let Some((world, plan)) = self.decide(key, leave).await else {
                self.failures.over(key);
                return Next::WhenAsked;
            };
            let again = plan.again;
            // Checks answer later, and ask for the next look then.
            let settled = plan.writes.iter().all(is_check);
            let wakes = plan.writes.iter().any(is_wake);
            if let Err(error) = self.applier.apply(leave, &world, plan).await {
                let wait = self.retry(key, &error);
                return if wakes {
                    Next::WakeAfter(wait)
                } else {
                    Next::After(wait)
                };
            }
            if settled {
                self.failures.over(key);
                return self.next(again);
            }
        }
        tracing::debug!(
            namespace = key.namespace,
            workload = key.name,
            rounds = ROUNDS,
            "not settled yet"
        );
        Next::After(RETRIES.first)
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
        self.shared
            .with(|index, _| index.read_behind(namespace, asked, serving, at));
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
    fn retry(&self, key: &WorkloadKey, error: &ApplyError) -> Duration {
        if matches!(error, ApplyError::WakeFirst) {
            return RETRIES.first; // The wake is in the queue, and comes sooner.
        }
        let (count, wait) = self.failures.another(key.clone());
        let (namespace, workload) = (&key.namespace, &key.name);
        let told = plain(error);
        match error {
            // Most often a watch is a moment behind, and tells soon.
            ApplyError::Stale { .. } if count <= 3 => {
                tracing::debug!(namespace, workload, error = told, "decided anew");
            }
            ApplyError::Stale { write, .. } | ApplyError::Failed { write, .. } => {
                self.applier.metrics.count_error(write);
                tracing::warn!(namespace, workload, error = told, "a write failed");
            }
            ApplyError::NotLeader | ApplyError::WakeFirst => {}
        }
        wait
    }
}

const fn is_check(write: &Write) -> bool {
    matches!(write, Write::CheckListeners(_))
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
