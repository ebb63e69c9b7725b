//! The World of one ManagedWorkload, and whatever else is asked of the index.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use napwake_api::{
    names::setting,
    settings::Defaults,
    workload::{Phase, TargetKind},
};
use napwake_decide::{
    Seen, World, optin,
    orphans::is_orphan,
    slices::slice_names,
    world::{Doorman, Namespace, Peer, Service, Slice, Workload, WorkloadKey},
};
use tokio::time::Instant;

use super::{
    convert::{
        Made, ObservedNamespace, ObservedService, ObservedSlice, ObservedTarget, ObservedWorkload,
    },
    index::{DoormanService, Index, routes, slice_key},
    layered::{Key, Layered, Look},
};

impl Index {
    /// What was observed for `key`; none where there is no such ManagedWorkload,
    /// or it can't be read. Who serves its Services isn't watched.
    pub(crate) fn world(&self, key: &WorkloadKey, pods: Seen<u32>, now: Instant) -> Option<World> {
        let observed = self.workload(key, now)?;
        let workload = &observed.workload;
        let target_ref = &workload.spec.target_ref;
        let target = self.look_target(
            target_ref.kind,
            &(key.namespace.clone(), target_ref.name.clone()),
            now,
        );
        let services = self.services_of(&observed, &target, now);
        let known = services.known().map_or(&[][..], Vec::as_slice);
        let slices = self.slices_of(&key.namespace, &observed, known, now);
        let ports: BTreeSet<u16> = routes(Some(&observed))
            .map(|route| route.doorman_port)
            .collect();
        let namespace = self.look_namespace(&key.namespace, now);
        let behind = self.behind(&observed, known, now);
        Some(World {
            workload: workload.clone(),
            never_idle: self.never_idle(&observed, &target, &namespace),
            tenure: self.tenure,
            target: seen(target, |observed| observed.target.clone()),
            pods,
            namespace: seen(namespace, |namespace| Namespace {
                deleted: namespace.deleted,
                is_ambient: namespace.is_ambient,
            }),
            services,
            ingresses: self.ingresses_within(&key.namespace, now),
            slices: Seen::Known(slices),
            served: Seen::Unknown("not read".to_owned()),
            behind,
            doorman: self.doorman(now),
            target_refs: self.target_refs,
            checks: ports
                .iter()
                .filter_map(|port| self.checks.get(port))
                .flatten()
                .map(|(listener, check)| (listener.clone(), *check))
                .collect(),
            slice_failures: self.slice_ledger.failures(key),
            peers: self.peers(&observed, now),
        })
    }

    pub(crate) fn workload(
        &self,
        key: &WorkloadKey,
        now: Instant,
    ) -> Option<Arc<ObservedWorkload>> {
        let key = (key.namespace.clone(), key.name.clone());
        self.workloads.look(&key, now).known()
    }

    pub(crate) fn all_workloads(
        &self,
        now: Instant,
    ) -> impl Iterator<Item = Arc<ObservedWorkload>> + '_ {
        self.workloads.all(now)
    }

    pub(crate) fn workloads_within<'a>(
        &'a self,
        namespace: &'a str,
        now: Instant,
    ) -> impl Iterator<Item = Arc<ObservedWorkload>> + 'a {
        self.workloads.within(namespace, now)
    }

    pub(crate) fn look_target(
        &self,
        kind: TargetKind,
        key: &Key,
        now: Instant,
    ) -> Look<ObservedTarget> {
        self.targets(kind).look(key, now)
    }

    pub(crate) fn targets(&self, kind: TargetKind) -> &Layered<ObservedTarget> {
        match kind {
            TargetKind::Deployment => &self.deployments,
            TargetKind::StatefulSet => &self.stateful_sets,
        }
    }

    pub(super) fn look_service(&self, key: &Key, now: Instant) -> Look<ObservedService> {
        self.services.look(key, now)
    }

    pub(super) fn services_within<'a>(
        &'a self,
        namespace: &'a str,
        now: Instant,
    ) -> impl Iterator<Item = Arc<ObservedService>> + 'a {
        self.services.within(namespace, now)
    }

    /// The slice of that name, if no ManagedWorkload stands for it.
    pub(crate) fn orphan(&self, key: &Key, now: Instant) -> Option<Arc<ObservedSlice>> {
        let slice = self.slices.look(key, now).known()?;
        let workloads: Vec<_> = self.workloads.within(&key.0, now).collect();
        let routes = match self.workloads.unknown_within(&key.0, now) {
            Some(unknown) => Seen::Unknown(told(unknown)),
            None => Seen::Known(workloads.iter().flat_map(|one| routes(Some(one))).collect()),
        };
        is_orphan(&slice.slice, &routes).then_some(slice)
    }

    /// Every slice of Napwake's.
    pub(crate) fn all_slices(&self, now: Instant) -> impl Iterator<Item = Key> + '_ {
        self.slices.all(now).map(|one| slice_key(&one))
    }

    pub(crate) fn look_namespace(&self, name: &str, now: Instant) -> Look<ObservedNamespace> {
        self.namespaces.look(&(String::new(), name.to_owned()), now)
    }

    pub(crate) fn defaults(&self) -> Defaults {
        self.defaults
    }

    /// Those that select the target's pods, and those that a route names. Which pods
    /// one selects that can't be read isn't known, and it mustn't hold up every pause
    /// of its namespace: it's passed over, unless a route names it. That one isn't
    /// gone.
    fn services_of(
        &self,
        observed: &ObservedWorkload,
        target: &Look<ObservedTarget>,
        now: Instant,
    ) -> Seen<Vec<Service>> {
        let routed: BTreeSet<&str> = routes(Some(observed))
            .map(|route| route.service.as_str())
            .collect();
        let namespace = &observed.workload.key.namespace;
        for name in &routed {
            let key = (namespace.clone(), (*name).to_owned());
            if let Look::Unknown(why) = self.services.look(&key, now) {
                return Seen::Unknown(told((&key, why)));
            }
        }
        let target = match target {
            Look::Known(target) => Some(&target.target),
            Look::Absent | Look::Unknown(_) => None,
        };
        let services = self
            .services
            .within(namespace, now)
            .filter(|one| {
                routed.contains(one.service.name.as_str())
                    || target.is_some_and(|target| target.is_selected_by(&one.service))
            })
            .map(|one| one.service.clone());
        Seen::Known(services.collect())
    }

    fn slices_of(
        &self,
        namespace: &str,
        observed: &ObservedWorkload,
        services: &[Service],
        now: Instant,
    ) -> Vec<Slice> {
        let routed = routes(Some(observed)).map(|route| route.service.as_str());
        let services: BTreeSet<&str> = services
            .iter()
            .map(|service| service.name.as_str())
            .chain(routed)
            .collect();
        // Should somebody have changed its label, it's there by its name.
        let names: BTreeSet<String> = services
            .iter()
            .flat_map(|service| slice_names(service))
            .collect();
        self.slices
            .within(namespace, now)
            .filter(|one| {
                let spec = &one.slice.spec;
                services.contains(spec.service.as_str()) || names.contains(&spec.name)
            })
            .map(|one| one.slice.clone())
            .collect()
    }

    fn doorman(&self, now: Instant) -> Doorman {
        let DoormanService::Named { namespace, name } = &self.doorman else {
            return Doorman::Disabled;
        };
        let service = self.services.look(&(namespace.clone(), name.clone()), now);
        Doorman::Enabled(match service {
            Look::Absent => Seen::Absent,
            Look::Unknown(why) => Seen::Unknown(why),
            Look::Known(service) => Seen::Known(
                self.pods
                    .within(namespace, now)
                    .filter(|pod| service.service.selects(&pod.labels))
                    .map(|pod| pod.pod.clone())
                    .collect(),
            ),
        })
    }

    /// Those that matter to this one. One that can't be read may share any Service of
    /// the namespace.
    fn peers(&self, observed: &ObservedWorkload, now: Instant) -> Seen<Vec<Peer>> {
        let Workload { key, spec, .. } = &observed.workload;
        if let Some(unknown) = self.workloads.unknown_within(&key.namespace, now) {
            return Seen::Unknown(told(unknown));
        }
        let peers = self
            .workloads
            .within(&key.namespace, now)
            .filter(|one| one.workload.key != *key)
            .filter(|one| {
                let is_awake = matches!(one.workload.status.phase, Some(Phase::Running) | None);
                !is_awake
                    || one.workload.spec.target_ref == spec.target_ref
                    || routes(Some(one)).next().is_some()
            })
            .map(|one| Peer {
                name: one.workload.key.name.clone(),
                created: one.workload.created,
                deleted: one.workload.deleted,
                target: one.workload.spec.target_ref.clone(),
                phase: one.workload.status.phase,
                routes: routes(Some(&one)).cloned().collect(),
            });
        Seen::Known(peers.collect())
    }

    /// For one made for a label whose `idle-after` can't be read, or may stand where
    /// nothing can.
    fn never_idle(
        &self,
        observed: &ObservedWorkload,
        target: &Look<ObservedTarget>,
        namespace: &Look<ObservedNamespace>,
    ) -> Option<String> {
        let (Made::ByLabel(_), Look::Known(target)) = (&observed.made, target) else {
            return None;
        };
        let (none, own) = (BTreeMap::new(), &target.target.annotations);
        let annotations = match namespace {
            Look::Known(namespace) => &namespace.annotations,
            // It may say anything.
            Look::Unknown(why) if !own.contains_key(setting::IDLE_AFTER) => {
                return Some(format!("its namespace can't be read: {why}"));
            }
            Look::Absent | Look::Unknown(_) => &none,
        };
        optin::never_idle(own, annotations, self.defaults)
    }
}

/// What can't be read, and why.
fn told(((_, name), why): (&Key, String)) -> String {
    format!("{name}: {why}")
}

fn seen<T, U>(look: Look<T>, map: impl FnOnce(&T) -> U) -> Seen<U> {
    match look {
        Look::Known(object) => Seen::Known(map(&object)),
        Look::Absent => Seen::Absent,
        Look::Unknown(why) => Seen::Unknown(why),
    }
}
