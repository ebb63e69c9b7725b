//! Everything observed, and the World of one ManagedWorkload from it.
//!
//! A plain object: the watches and this process's own writes call it, and so do
//! tests. It yields a [`World`] for a key, and each change says which keys it
//! concerns. It decides nothing, waits for nothing and reads no clock.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use napwake_api::{
    ManagedWorkloadStatus,
    settings::Defaults,
    workload::{DoormanStatus, Phase, Route, TargetKind},
};
use napwake_decide::{
    Ports,
    behind::Behind,
    world::{Check, DoormanState, Listener, SliceSpec, TargetRefs, Tenure, WorkloadKey},
};
use tokio::time::Instant;

use super::{
    concerns::Concerns,
    convert::{
        ObservedNamespace, ObservedPod, ObservedService, ObservedSlice, ObservedTarget,
        ObservedWorkload,
    },
    ingresses::ObservedIngress,
    layered::{Key, Layered, Look},
    neighbors::has_the_same_pods,
    slice_ledger::SliceLedger,
};

/// Where the doorman is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DoormanService {
    /// Turned off for the cluster (SET-20).
    Disabled,
    /// Behind the selector of this Service.
    Named { namespace: String, name: String },
}

/// Everything observed.
#[derive(Debug)]
pub(crate) struct Index {
    pub(super) workloads: Layered<ObservedWorkload>,
    /// What ManagedWorkloads that can't be read record of the doorman: their ports
    /// are theirs all the same.
    pub(super) salvaged: BTreeMap<WorkloadKey, ManagedWorkloadStatus>,
    pub(super) deployments: Layered<ObservedTarget>,
    pub(super) stateful_sets: Layered<ObservedTarget>,
    pub(super) namespaces: Layered<ObservedNamespace>,
    pub(super) services: Layered<ObservedService>,
    pub(super) ingresses: Layered<ObservedIngress>,
    pub(super) slices: Layered<ObservedSlice>,
    pub(super) pods: Layered<ObservedPod>,
    /// By port: a decision asks for those of few among thousands.
    pub(super) checks: BTreeMap<u16, BTreeMap<Listener, Check>>,
    /// By Service, who was read to serve it.
    pub(super) behind: BTreeMap<Key, Behind>,
    pub(crate) slice_ledger: SliceLedger,
    pub(super) doorman: DoormanService,
    pub(super) target_refs: TargetRefs,
    pub(super) defaults: Defaults,
    pub(super) tenure: Tenure,
    /// The ledger of doorman ports: behind the same lock, so that what a
    /// decision takes is taken before the next one is made.
    pub(crate) ports: Ports,
}

impl Index {
    pub(crate) fn new(doorman: DoormanService, defaults: Defaults, ports: Ports) -> Self {
        Self {
            workloads: Layered::default(),
            salvaged: BTreeMap::new(),
            deployments: Layered::default(),
            stateful_sets: Layered::default(),
            namespaces: Layered::default(),
            services: Layered::default(),
            ingresses: Layered::default(),
            slices: Layered::default(),
            pods: Layered::default(),
            checks: BTreeMap::new(),
            behind: BTreeMap::new(),
            slice_ledger: SliceLedger::default(),
            doorman,
            target_refs: TargetRefs::default(),
            defaults,
            tenure: Tenure::Stays,
            ports,
        }
    }

    /// The same, where the doorman's endpoints name their pods so.
    pub(crate) fn naming_pods(self, target_refs: TargetRefs) -> Self {
        Self {
            target_refs,
            ..self
        }
    }

    /// The same, for the operator's work before an uninstall.
    pub(crate) fn before_the_end(self) -> Self {
        Self {
            tenure: Tenure::Ends,
            ..self
        }
    }

    /// Begins a term as the leader: what earlier plans of this process reserved
    /// and perhaps never wrote is forgotten (DRAIN-23). Ports of those that are gone
    /// rest by this process's own memory alone.
    pub(crate) fn begin_term(&mut self, mut ports: Ports, now: Instant) {
        ports.inherit(&self.ports);
        for observed in self.workloads.all(now) {
            let workload = &observed.workload;
            ports.observe(&workload.key, &workload.status);
        }
        for (key, status) in &self.salvaged {
            ports.observe(key, status);
        }
        self.ports = ports;
        self.slice_ledger.clear();
        self.checks.clear();
        self.behind.clear();
    }

    // --- what watches show, and what this process wrote ---

    pub(crate) fn apply_workload(&mut self, new: Arc<ObservedWorkload>, now: Instant) -> Concerns {
        self.change_workload(&new.workload.key.clone(), now, |workloads, key| {
            workloads.apply(key, new);
        })
    }

    pub(crate) fn wrote_workload(&mut self, new: Arc<ObservedWorkload>, now: Instant) -> Concerns {
        self.change_workload(&new.workload.key.clone(), now, |workloads, key| {
            workloads.wrote(key, new, now);
        })
    }

    pub(crate) fn delete_workload(
        &mut self,
        key: &WorkloadKey,
        uid: &str,
        now: Instant,
    ) -> Concerns {
        self.change_workload(key, now, |workloads, key| workloads.delete(&key, uid))
    }

    /// This process took its last finalizer off.
    pub(crate) fn deleted_workload(
        &mut self,
        key: &WorkloadKey,
        uid: &str,
        now: Instant,
    ) -> Concerns {
        self.change_workload(key, now, |workloads, key| workloads.deleted(key, uid, now))
    }

    pub(crate) fn spoil_workload(
        &mut self,
        key: &WorkloadKey,
        why: String,
        doorman: Option<DoormanStatus>,
        now: Instant,
    ) -> Concerns {
        if doorman.is_some() {
            let status = ManagedWorkloadStatus {
                doorman,
                ..ManagedWorkloadStatus::default()
            };
            self.ports.observe(key, &status);
            self.salvaged.insert(key.clone(), status);
        }
        self.change_workload(key, now, |workloads, key| workloads.spoil(key, why))
    }

    fn change_workload(
        &mut self,
        key: &WorkloadKey,
        now: Instant,
        change: impl FnOnce(&mut Layered<ObservedWorkload>, Key),
    ) -> Concerns {
        let layer_key = (key.namespace.clone(), key.name.clone());
        let old = self.workloads.look(&layer_key, now);
        change(&mut self.workloads, layer_key.clone());
        let new = self.workloads.look(&layer_key, now);
        if let (Look::Known(old), Look::Known(new)) = (&old, &new)
            && old.workload.uid != new.workload.uid
        {
            self.forget_workload(key);
        }
        match &new {
            Look::Known(new) => self.ports.observe(key, &new.workload.status),
            Look::Absent => self.forget_workload(key),
            Look::Unknown(_) => {}
        }
        let is_unknown = |look: &Look<_>| matches!(look, Look::Unknown(_));
        if !is_unknown(&new) {
            self.salvaged.remove(key);
        }
        if old == new {
            return Concerns::nobody(); // As where a watch shows what was just written.
        }
        let turned = is_unknown(&old) != is_unknown(&new);
        let (old, new) = (old.known(), new.known());
        self.forget_outlived(key, old.as_deref(), new.as_deref());
        let mut concerns = Concerns::of_workload(self, key, old.as_deref(), new.as_deref(), now);
        if turned {
            concerns.extend(Concerns::of_peers(self, &key.namespace, now));
        }
        concerns
    }

    fn forget_workload(&mut self, key: &WorkloadKey) {
        self.ports.forget(key);
        self.slice_ledger.forget(key);
    }

    pub(crate) fn apply_target(&mut self, new: Arc<ObservedTarget>, now: Instant) -> Concerns {
        let (kind, key) = (new.target.id.kind, target_key(&new));
        self.change_target(kind, &key, now, |targets, key| targets.apply(key, new))
    }

    pub(crate) fn wrote_target(&mut self, new: Arc<ObservedTarget>, now: Instant) -> Concerns {
        let (kind, key) = (new.target.id.kind, target_key(&new));
        self.change_target(kind, &key, now, |targets, key| targets.wrote(key, new, now))
    }

    /// A scale was written, of which the API server answers no more than the
    /// version.
    pub(crate) fn wrote_scale(
        &mut self,
        kind: TargetKind,
        key: &Key,
        version: String,
        now: Instant,
    ) -> Concerns {
        self.change_target(kind, key, now, |targets, key| {
            targets.wrote_unseen(key, version, now);
        })
    }

    pub(crate) fn delete_target(
        &mut self,
        kind: TargetKind,
        key: &Key,
        uid: &str,
        now: Instant,
    ) -> Concerns {
        self.change_target(kind, key, now, |targets, key| targets.delete(&key, uid))
    }

    pub(crate) fn spoil_target(
        &mut self,
        kind: TargetKind,
        key: &Key,
        why: String,
        now: Instant,
    ) -> Concerns {
        self.change_target(kind, key, now, |targets, key| targets.spoil(key, why))
    }

    fn change_target(
        &mut self,
        kind: TargetKind,
        key: &Key,
        now: Instant,
        change: impl FnOnce(&mut Layered<ObservedTarget>, Key),
    ) -> Concerns {
        let targets = match kind {
            TargetKind::Deployment => &mut self.deployments,
            TargetKind::StatefulSet => &mut self.stateful_sets,
        };
        let old = targets.look(key, now);
        change(targets, key.clone());
        let new = targets.look(key, now);
        if old == new {
            return Concerns::nobody();
        }
        let (old, new) = (old.known(), new.known());
        Concerns::of_target(self, kind, key, old.as_deref(), new.as_deref(), now)
    }

    pub(crate) fn apply_service(&mut self, new: Arc<ObservedService>, now: Instant) -> Concerns {
        let key = (new.namespace.clone(), new.service.name.clone());
        self.change_service(&key, now, |services, key| services.apply(key, new))
    }

    pub(crate) fn delete_service(&mut self, key: &Key, uid: &str, now: Instant) -> Concerns {
        self.change_service(key, now, |services, key| services.delete(&key, uid))
    }

    /// A Service that can't be read is passed over, but by whoever has a route for it.
    pub(crate) fn spoil_service(&mut self, key: &Key, why: String, now: Instant) -> Concerns {
        self.change_service(key, now, |services, key| services.spoil(key, why))
    }

    fn change_service(
        &mut self,
        key: &Key,
        now: Instant,
        change: impl FnOnce(&mut Layered<ObservedService>, Key),
    ) -> Concerns {
        let old = self.services.look(key, now).known();
        change(&mut self.services, key.clone());
        let new = self.services.look(key, now).known();
        // Who served it says nothing of another one, nor of one that selects other pods.
        let stays = old.as_ref().zip(new.as_ref());
        if !stays.is_some_and(|(old, new)| has_the_same_pods(&old.service, &new.service)) {
            self.behind.remove(key);
        }
        let is_same = |old: &ObservedService, new: &ObservedService| old.service == new.service;
        if let (Some(old), Some(new)) = (&old, &new)
            && is_same(old, new)
        {
            return Concerns::nobody();
        }
        let either = [old.as_deref(), new.as_deref()];
        let mut concerns = Concerns::of_service(self, key, &either, now);
        let is_doormans = matches!(&self.doorman, DoormanService::Named { namespace, name }
            if (namespace, name) == (&key.0, &key.1));
        if is_doormans {
            concerns.extend(Concerns::of_doorman(self, now));
        }
        concerns
    }

    pub(crate) fn apply_slice(&mut self, new: Arc<ObservedSlice>, now: Instant) -> Concerns {
        let key = slice_key(&new);
        self.slice_ledger.saw(&key, &new.slice, now);
        self.change_slice(&key, now, |slices, key| slices.apply(key, new))
    }

    pub(crate) fn wrote_slice(&mut self, new: Arc<ObservedSlice>, now: Instant) -> Concerns {
        let key = slice_key(&new);
        self.change_slice(&key, now, |slices, key| slices.wrote(key, new, now))
    }

    /// This process wrote a slice as `written`, and the answer says the same. What
    /// the watch has shown since may not.
    pub(crate) fn slice_stands(
        &mut self,
        workload: &WorkloadKey,
        written: SliceSpec,
        answer: Arc<ObservedSlice>,
        (at, now): (Timestamp, Instant),
    ) -> Concerns {
        let key = slice_key(&answer);
        let slice = &answer.slice;
        self.slice_ledger
            .written(workload, written, slice, (at, now));
        let concerns = self.wrote_slice(answer, now);
        if let Look::Known(newest) = self.slices.look(&key, now) {
            self.slice_ledger.saw(&key, &newest.slice, now);
        }
        concerns
    }

    pub(crate) fn delete_slice(&mut self, key: &Key, uid: &str, now: Instant) -> Concerns {
        self.slice_ledger.saw_gone(key, uid, now);
        self.change_slice(key, now, |slices, key| slices.delete(&key, uid))
    }

    pub(crate) fn deleted_slice(&mut self, key: &Key, uid: &str, now: Instant) -> Concerns {
        self.change_slice(key, now, |slices, key| slices.deleted(key, uid, now))
    }

    fn change_slice(
        &mut self,
        key: &Key,
        now: Instant,
        change: impl FnOnce(&mut Layered<ObservedSlice>, Key),
    ) -> Concerns {
        let old = self.slices.look(key, now).known();
        change(&mut self.slices, key.clone());
        let new = self.slices.look(key, now).known();
        let services: BTreeSet<String> = [&old, &new]
            .into_iter()
            .flatten()
            .map(|observed| observed.slice.spec.service.clone())
            .collect();
        let mut concerns = Concerns::nobody();
        concerns.slices.extend(new.is_some().then(|| key.clone()));
        for service in services {
            let service_key = (key.0.clone(), service);
            let service = self.services.look(&service_key, now).known();
            concerns.extend(Concerns::of_service(
                self,
                &service_key,
                &[service.as_deref()],
                now,
            ));
        }
        concerns
    }

    pub(crate) fn apply_pod(&mut self, new: Arc<ObservedPod>, now: Instant) -> Concerns {
        let key = (new.pod.pod.namespace.clone(), new.pod.pod.name.clone());
        self.change_pod(&key, now, |pods, key| pods.apply(key, new))
    }

    pub(crate) fn delete_pod(&mut self, key: &Key, uid: &str, now: Instant) -> Concerns {
        self.change_pod(key, now, |pods, key| pods.delete(&key, uid))
    }

    fn change_pod(
        &mut self,
        key: &Key,
        now: Instant,
        change: impl FnOnce(&mut Layered<ObservedPod>, Key),
    ) -> Concerns {
        let old = self.pods.look(key, now).known();
        change(&mut self.pods, key.clone());
        let new = self.pods.look(key, now).known();
        let told = |pod: &Option<Arc<ObservedPod>>| {
            pod.as_ref()
                .map(|one| (one.pod.clone(), one.labels.clone()))
        };
        if told(&old) == told(&new) {
            return Concerns::nobody();
        }
        if let Some(old) = old {
            let stays_ready = new.is_some_and(|new| {
                new.pod.state == DoormanState::Ready && new.pod.pod.uid == old.pod.pod.uid
            });
            if !stays_ready {
                for checks in self.checks.values_mut() {
                    checks.retain(|listener, _| listener.pod != old.pod.pod.uid);
                }
            }
        }
        Concerns::of_doorman(self, now)
    }

    /// A connect check ended. What came of one to a pod that has gone or isn't Ready
    /// any more says nothing of it once it's Ready again.
    pub(crate) fn checked(&mut self, listener: Listener, check: Check, now: Instant) {
        let DoormanService::Named { namespace, .. } = &self.doorman else {
            return;
        };
        let is_ready = self
            .pods
            .within(namespace, now)
            .any(|pod| pod.pod.pod.uid == listener.pod && pod.pod.state == DoormanState::Ready);
        if !is_ready {
            return;
        }
        self.checks
            .entry(listener.port)
            .or_default()
            .insert(listener, check);
    }
}

/// The routes that a status records.
pub(super) fn routes(observed: Option<&ObservedWorkload>) -> impl Iterator<Item = &Route> {
    observed
        .and_then(|observed| observed.workload.status.doorman.as_ref())
        .into_iter()
        .flat_map(|doorman| &doorman.routes)
}

/// Whether the doorman's pods matter to it.
pub(super) fn is_routed(observed: &ObservedWorkload) -> bool {
    routes(Some(observed)).next().is_some()
        || matches!(
            observed.workload.status.phase,
            Some(Phase::Pausing | Phase::Paused | Phase::Resuming)
        )
}

fn target_key(observed: &ObservedTarget) -> Key {
    (observed.namespace.clone(), observed.target.id.name.clone())
}

pub(super) fn slice_key(observed: &ObservedSlice) -> Key {
    (observed.namespace.clone(), observed.slice.spec.name.clone())
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
