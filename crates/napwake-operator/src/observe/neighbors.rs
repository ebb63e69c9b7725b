//! Those behind one Service: what is known of them, and whom it concerns when one of
//! them wakes or goes.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use napwake_api::workload::{Phase, TargetKind};
use napwake_decide::{
    behind::{Behind, Owner},
    world::Service,
};
use tokio::time::Instant;

use super::{
    behind::Serving,
    concerns::Concerns,
    convert::{ObservedTarget, ObservedWorkload},
    index::{Index, routes},
};

impl Index {
    /// Who stands behind these Services of a workload. Of one that is awake it isn't
    /// asked.
    pub(super) fn behind(
        &self,
        observed: &ObservedWorkload,
        services: &[Service],
        now: Instant,
    ) -> BTreeMap<String, Behind> {
        if !sleeps(observed) {
            return BTreeMap::new();
        }
        let namespace = &observed.workload.key.namespace;
        let behind = services.iter().map(|service| {
            let key = (namespace.clone(), service.name.clone());
            let read = self.behind.get(&key).cloned();
            let behind = Behind {
                awake: self.awake(namespace, service, now),
                ..read.unwrap_or_default()
            };
            (key.1, behind)
        });
        behind.collect()
    }

    /// The Deployments and StatefulSets that a Service selects and that have a Ready
    /// pod.
    fn awake(&self, namespace: &str, service: &Service, now: Instant) -> BTreeSet<Owner> {
        let kinds = [TargetKind::Deployment, TargetKind::StatefulSet];
        let targets = kinds
            .into_iter()
            .flat_map(|kind| self.targets(kind).within(namespace, now));
        targets
            .filter(|one| is_awake(one) && one.target.is_selected_by(service))
            .map(|one| Owner::Target(one.target.id.kind, one.target.id.name.clone()))
            .collect()
    }

    /// Whether that Service still selects what it did, and wasn't made again.
    pub(crate) fn is_still(&self, namespace: &str, service: &Service, now: Instant) -> bool {
        let key = (namespace.to_owned(), service.name.clone());
        let found = self.look_service(&key, now).known();
        found.is_some_and(|found| has_the_same_pods(&found.service, service))
    }

    /// It was read, from `at` on, who serves these Services.
    pub(crate) fn read_behind(
        &mut self,
        namespace: &str,
        asked: BTreeMap<String, Behind>,
        serving: Serving,
        at: Timestamp,
    ) {
        let mut serving = serving;
        for (service, seen) in asked {
            let key = (namespace.to_owned(), service);
            let found = match &mut serving {
                Ok(found) => Ok(found.remove(&key.1).unwrap_or_default()),
                Err(why) => Err(why.clone()),
            };
            let behind = self.behind.entry(key).or_default();
            match found {
                Ok(serving) => behind.found(serving, seen.awake, at),
                Err(why) => behind.failed(why, at),
            }
        }
    }
}

impl Concerns {
    /// Those that sleep behind a Service with this one, if it has woken or gone.
    pub(super) fn of_neighbors(
        index: &Index,
        namespace: &str,
        either: [Option<&ObservedTarget>; 2],
        now: Instant,
    ) -> Self {
        let mut concerns = Self::nobody();
        let [before, after] = either.map(|one| one.is_some_and(is_awake));
        let workloads = index.workloads_within(namespace, now);
        let sleepers: Vec<_> = workloads.filter(|one| sleeps(one)).collect();
        if before == after || sleepers.is_empty() {
            return concerns;
        }
        let services: Vec<_> = index
            .services_within(namespace, now)
            .filter(|one| {
                let mut either = either.iter().flatten();
                either.any(|target| target.target.is_selected_by(&one.service))
            })
            .collect();
        let names: BTreeSet<&str> = services.iter().map(|one| &*one.service.name).collect();
        let services: Vec<_> = services.iter().map(|one| Some(&**one)).collect();
        let sleepers = sleepers.iter().filter(|one| {
            routes(Some(one)).any(|route| names.contains(&*route.service))
                || index.is_selected(one, &services, now)
        });
        concerns.add_all(sleepers.map(|one| one.workload.key.clone()));
        concerns
    }
}

/// Whether what is read of those behind the one counts for the other.
pub(super) fn has_the_same_pods(one: &Service, other: &Service) -> bool {
    (&one.uid, &one.selector) == (&other.uid, &other.selector)
}

fn is_awake(target: &ObservedTarget) -> bool {
    target.target.ready_replicas > 0
}

/// Whether its Services are sent to the doorman, or are about to be.
fn sleeps(observed: &ObservedWorkload) -> bool {
    let phase = observed.workload.status.phase;
    matches!(
        phase,
        Some(Phase::Pausing | Phase::Paused | Phase::Resuming)
    )
}

#[cfg(test)]
#[path = "neighbors_tests.rs"]
mod tests;
