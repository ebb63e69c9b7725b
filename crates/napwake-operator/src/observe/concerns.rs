//! Whom a change concerns: the ManagedWorkloads to be decided again, the
//! Deployments and StatefulSets whose opting in has to be looked at again, and the
//! slices that perhaps nobody stands for any more.
//!
//! Says too many rather than too few: deciding again from the same World plans
//! nothing.

use std::collections::{BTreeMap, BTreeSet};

use napwake_api::{ManagedWorkloadSpec, names::signal, workload::TargetKind};
use napwake_decide::world::{Map, WorkloadKey};
use tokio::time::Instant;

use super::{
    convert::{Made, ObservedService, ObservedTarget, ObservedWorkload},
    index::{Index, is_routed, routes, slice_key},
    layered::{Key, Look},
};
use crate::queue::Urgency;

/// A Deployment or StatefulSet by kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TargetKey {
    pub(crate) kind: TargetKind,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// Whom a change concerns.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Concerns {
    pub(crate) workloads: BTreeMap<WorkloadKey, Urgency>,
    pub(crate) targets: BTreeSet<TargetKey>,
    /// Slices that perhaps no ManagedWorkload stands for.
    pub(crate) slices: BTreeSet<Key>,
}

/// Annotations that may wake a workload.
const WAKES: [&str; 3] = [
    signal::LAST_REQUEST,
    signal::WAKE_REQUESTED,
    signal::ACTIVITY,
];

impl Concerns {
    pub(crate) fn nobody() -> Self {
        Self::default()
    }

    pub(crate) fn extend(&mut self, other: Self) {
        for (key, urgency) in other.workloads {
            self.add(key, urgency);
        }
        self.targets.extend(other.targets);
        self.slices.extend(other.slices);
    }

    fn add(&mut self, key: WorkloadKey, urgency: Urgency) {
        let known = self.workloads.entry(key).or_insert(urgency);
        *known = (*known).max(urgency);
    }

    pub(super) fn add_all(&mut self, workloads: impl Iterator<Item = WorkloadKey>) {
        for key in workloads {
            self.add(key, Urgency::Usual);
        }
    }

    /// Every ManagedWorkload of a namespace, as where one of them has turned
    /// unreadable or is so no more.
    pub(super) fn of_peers(index: &Index, namespace: &str, now: Instant) -> Self {
        let mut concerns = Self::default();
        let workloads = index.workloads.within(namespace, now);
        concerns.add_all(workloads.map(|one| one.workload.key.clone()));
        concerns
    }

    /// Itself, and its target's opting in. If its phase or routes change, also the
    /// others behind its Services (T-75, T-76); and once it's gone, the slices that
    /// it may have left behind.
    pub(super) fn of_workload(
        index: &Index,
        key: &WorkloadKey,
        old: Option<&ObservedWorkload>,
        new: Option<&ObservedWorkload>,
        now: Instant,
    ) -> Self {
        let mut concerns = Self::default();
        let stamps =
            |one: Option<&ObservedWorkload>| one.map(|one| stamps(&one.workload.annotations));
        let urgency = urgency(stamps(old), stamps(new));
        concerns.add(key.clone(), urgency);
        if as_opted(old) != as_opted(new) {
            for observed in [old, new].into_iter().flatten() {
                let target = &observed.workload.spec.target_ref;
                concerns.targets.insert(TargetKey {
                    kind: target.kind,
                    namespace: key.namespace.clone(),
                    name: target.name.clone(),
                });
            }
        }
        let as_peer = |one: Option<&ObservedWorkload>| {
            one.map(|one| {
                let workload = &one.workload;
                let routes: Vec<_> = routes(Some(one)).cloned().collect();
                (
                    workload.status.phase,
                    workload.deleted,
                    workload.spec.target_ref.clone(),
                    routes,
                )
            })
        };
        if new.is_none() {
            let slices = index.slices.within(&key.namespace, now);
            concerns.slices.extend(slices.map(|one| slice_key(&one)));
        }
        if as_peer(old) != as_peer(new) {
            for observed in [old, new].into_iter().flatten() {
                concerns.add_all(index.neighbors(observed, now).into_iter());
            }
        }
        concerns
    }

    /// Whoever names it, and its opting in; and its neighbors.
    pub(super) fn of_target(
        index: &Index,
        kind: TargetKind,
        key: &Key,
        old: Option<&ObservedTarget>,
        new: Option<&ObservedTarget>,
        now: Instant,
    ) -> Self {
        let mut concerns = Self::of_neighbors(index, &key.0, [old, new], now);
        let stamps = |one: Option<&ObservedTarget>| one.map(|one| stamps(&one.target.annotations));
        let urgency = urgency(stamps(old), stamps(new));
        for observed in index.workloads.within(&key.0, now) {
            let target = &observed.workload.spec.target_ref;
            if (target.kind, &target.name) == (kind, &key.1) {
                concerns.add(observed.workload.key.clone(), urgency);
            }
        }
        let marks = |one: Option<&ObservedTarget>| {
            one.map(|one| {
                let target = &one.target;
                (
                    target.id.uid.clone(),
                    target.deleted,
                    target.labels.clone(),
                    target.annotations.clone(),
                )
            })
        };
        if marks(old) != marks(new) {
            concerns.targets.insert(TargetKey {
                kind,
                namespace: key.0.clone(),
                name: key.1.clone(),
            });
        }
        concerns
    }

    /// Everybody in it.
    pub(super) fn of_namespace(index: &Index, name: &str, now: Instant) -> Self {
        let mut concerns = Self::of_peers(index, name, now);
        for kind in [TargetKind::Deployment, TargetKind::StatefulSet] {
            let targets = index.targets(kind).within(name, now);
            concerns.targets.extend(targets.map(|one| TargetKey {
                kind,
                namespace: name.to_owned(),
                name: one.target.id.name.clone(),
            }));
        }
        concerns
    }

    /// Those whose target the Service selects or selected, and those that have
    /// routes for it.
    pub(super) fn of_service(
        index: &Index,
        key: &Key,
        either: &[Option<&ObservedService>],
        now: Instant,
    ) -> Self {
        let mut concerns = Self::default();
        let workloads = index.workloads.within(&key.0, now);
        let concerned = workloads.filter(|observed| {
            routes(Some(observed)).any(|route| route.service == key.1)
                || index.is_selected(observed, either, now)
        });
        concerns.add_all(concerned.map(|one| one.workload.key.clone()));
        concerns
    }

    /// Those that are routed, or are about to be.
    pub(super) fn of_doorman(index: &Index, now: Instant) -> Self {
        let mut concerns = Self::default();
        let routed = index.workloads.all(now).filter(|one| is_routed(one));
        concerns.add_all(routed.map(|one| one.workload.key.clone()));
        concerns
    }
}

impl Index {
    /// Whether any of the Services selects the workload's pods.
    pub(super) fn is_selected(
        &self,
        observed: &ObservedWorkload,
        services: &[Option<&ObservedService>],
        now: Instant,
    ) -> bool {
        let workload = &observed.workload;
        let target = &workload.spec.target_ref;
        let key = (workload.key.namespace.clone(), target.name.clone());
        let Look::Known(target) = self.look_target(target.kind, &key, now) else {
            return false;
        };
        let mut services = services.iter().flatten();
        services.any(|one| target.target.is_selected_by(&one.service))
    }

    /// The other ManagedWorkloads of the namespace that have the same target, or
    /// share a Service with it.
    fn neighbors(&self, observed: &ObservedWorkload, now: Instant) -> Vec<WorkloadKey> {
        let key = &observed.workload.key;
        let routed: BTreeSet<&str> = routes(Some(observed))
            .map(|route| route.service.as_str())
            .collect();
        let services: Vec<_> = self
            .services_within(&key.namespace, now)
            .filter(|one| {
                routed.contains(one.service.name.as_str())
                    || self.is_selected(observed, &[Some(one)], now)
            })
            .collect();
        let services: Vec<_> = services.iter().map(|one| Some(&**one)).collect();
        self.workloads
            .within(&key.namespace, now)
            .filter(|one| one.workload.key != *key)
            .filter(|one| {
                one.workload.spec.target_ref == observed.workload.spec.target_ref
                    || routes(Some(one)).any(|route| routed.contains(route.service.as_str()))
                    || self.is_selected(one, &services, now)
            })
            .map(|one| one.workload.key.clone())
            .collect()
    }
}

/// What opting in goes by.
fn as_opted(
    observed: Option<&ObservedWorkload>,
) -> Option<(&str, bool, &ManagedWorkloadSpec, &Made)> {
    observed.map(|observed| {
        let workload = &observed.workload;
        let is_going = workload.deleted.is_some();
        (
            workload.uid.as_str(),
            is_going,
            &workload.spec,
            &observed.made,
        )
    })
}

/// What is seen for the first time doesn't hurry.
fn urgency(old: Option<Stamps>, new: Option<Stamps>) -> Urgency {
    match (old, new) {
        (Some(old), Some(new)) if old != new => Urgency::Wake,
        _ => Urgency::Usual,
    }
}

type Stamps = [Option<String>; 3];

fn stamps(annotations: &Map) -> Stamps {
    WAKES.map(|name| annotations.get(name).cloned())
}
