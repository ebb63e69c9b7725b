//! Who stands behind each Service, and the operator's reads of that.

use super::*;
use crate::{
    behind::Owner,
    routing::{self, Verdict},
    timing,
};

impl Cluster {
    /// What is known of those behind each Service.
    pub(super) fn behind(&self) -> BTreeMap<String, Behind> {
        let behind = self.services.iter().map(|service| {
            let read = self.behind.get(&service.name).cloned();
            let behind = Behind {
                awake: self.awake(service),
                ..read.unwrap_or_default()
            };
            (service.name.clone(), behind)
        });
        behind.collect()
    }

    /// Reads who serves these Services.
    pub(super) fn read_behind(&mut self, services: &BTreeSet<String>) {
        let now = self.now;
        for name in services {
            let Some(service) = self.services.iter().find(|one| one.name == *name) else {
                continue;
            };
            let (awake, serving) = (self.awake(service), self.serving(service));
            self.asked.push((now, name.clone()));
            let is_refused = self.unknown.contains(&Part::Behind);
            let behind = self.behind.entry(name.clone()).or_default();
            if is_refused {
                behind.failed("the test says so".to_owned(), now);
            } else {
                behind.found(serving, awake, now);
            }
        }
    }

    /// Those that it selects and that have a Ready pod.
    fn awake(&self, service: &Service) -> BTreeSet<Owner> {
        self.owners(service, |_| true)
    }

    /// Those of them that its own slices name.
    pub(super) fn serving(&self, service: &Service) -> BTreeSet<Owner> {
        let is_named = |app: &App| app.named_at.is_some_and(|at| at <= self.now);
        let mut serving = self.owners(service, is_named);
        if self.strangers.contains(&service.name) {
            serving.insert(Owner::Other);
        }
        serving
    }

    fn owners(&self, service: &Service, counts: impl Fn(&App) -> bool) -> BTreeSet<Owner> {
        let apps = self.apps.values().filter(|app| counts(app));
        let targets = apps.filter_map(|app| app.target.as_ref());
        targets
            .filter(|target| target.ready_replicas > 0 && target.is_selected_by(service))
            .map(|target| Owner::Target(target.id.kind, target.id.name.clone()))
            .collect()
    }

    /// Whether any workload but this one has a Ready pod in the Service's own slices.
    fn others_serve(&self, service: &Service, name: &str) -> bool {
        let kinds = [TargetKind::Deployment, TargetKind::StatefulSet];
        let own = kinds.map(|kind| Owner::Target(kind, name.to_owned()));
        self.serving(service).iter().any(|one| !own.contains(one))
    }

    /// One that sleeps lets go of a Service that is routed only if other workloads'
    /// pods serve it now: with neither its callers would be refused.
    pub(super) fn check_left_to_others(&self, name: &str, slice: &SliceSpec) {
        let app = &self.apps[name];
        let its = |service: &&Service| {
            let target = app.target.as_ref();
            service.uid == slice.service_uid
                && target.is_some_and(|target| target.is_selected_by(service))
        };
        let Some(service) = self.services.iter().find(its) else {
            return;
        };
        // One that can't be routed any more is nobody's to keep.
        if !self.can_be_routed(service, slice.family) {
            return;
        }
        let is_seen = !self.is_overtaken && app.outdated.is_none();
        // One that has no pause on record starts, and doesn't wake from a sleep.
        let status = self.status(name);
        let sleeps = sleeps(status.phase) && status.pause.is_some();
        // One of a ManagedWorkload that was lost points at a port that nobody serves.
        let is_served = slice.ports.iter().any(|port| self.listens(port.port));
        let is_manned = is_served && self.is_manned(slice);
        if is_seen && sleeps && is_manned && self.unknown.is_empty() {
            let is_served = self.others_serve(service, name);
            assert!(
                is_served,
                "{name} lets go of {slice:?}, and nobody serves it"
            );
        }
    }

    fn can_be_routed(&self, service: &Service, family: IpFamily) -> bool {
        let doormen = match &self.doorman {
            Doorman::Enabled(Seen::Known(doormen)) => doormen.as_slice(),
            _ => &[],
        };
        let addresses = doormen.iter().flat_map(|pod| pod.addresses.keys());
        match routing::judge(service, &addresses.copied().collect(), &self.ingresses) {
            Verdict::Route { families, .. } => families.contains(&family),
            Verdict::Wait | Verdict::Leave { .. } => false,
        }
    }

    /// Whether a doorman pod that it names is Ready and answers.
    pub(super) fn is_manned(&self, slice: &SliceSpec) -> bool {
        let Doorman::Enabled(Seen::Known(doormen)) = &self.doorman else {
            return false;
        };
        let is_there = |endpoint: &Endpoint| {
            let mut ready = doormen.iter().filter(|pod| {
                pod.state == DoormanState::Ready && !pod.pod.uid.ends_with(objects::DEAF)
            });
            ready.any(|pod| endpoint.is_of(pod, slice.family))
        };
        slice.endpoints.iter().any(is_there)
    }

    /// A Service whose workloads are all asleep is routed, and one that another
    /// workload has served for a while isn't (ROUTE-28, ROUTE-31).
    pub(super) fn check_routed(&self) {
        let is_up =
            matches!(&self.doorman, Doorman::Enabled(Seen::Known(pods)) if !pods.is_empty());
        if !is_up || self.refusal.is_some() {
            return;
        }
        let asleep = self.apps.keys().filter(|name| {
            let workload = self.apps[*name].workload.as_ref();
            workload.is_some_and(|one| one.status.phase == Some(Phase::Paused))
        });
        for name in asleep {
            let Some(target) = &self.apps[name].target else {
                continue;
            };
            let services = self.services.iter();
            for service in services.filter(|one| target.is_selected_by(one)) {
                self.check_service(name, service);
            }
        }
    }

    fn check_service(&self, name: &str, service: &Service) {
        let mut families = service.families.iter();
        if !families.any(|family| self.can_be_routed(service, *family)) {
            return;
        }
        let known = self.behind.get(&service.name);
        if known.is_some_and(|behind| behind.failure.is_some()) {
            return; // It's read again in its time.
        }
        let mut slices = self.slices.values();
        let is_routed = slices.any(|slice| slice.spec.service_uid == service.uid);
        if !self.others_serve(service, name) {
            let awake = self.awake(service);
            assert!(
                is_routed || !awake.is_empty(),
                "{name}: {} isn't routed",
                service.name
            );
            return;
        }
        let long = timing::OTHERS_AGAIN + timing::HAND_OVER_BOUND;
        let serves = |app: &App| {
            let target = app.target.as_ref();
            let phase = app.workload.as_ref().and_then(|one| one.status.phase);
            !sleeps(phase)
                && app.named_at.is_some_and(|at| at + long < self.now)
                && target.is_some_and(|target| {
                    target.ready_replicas > 0 && target.is_selected_by(service)
                })
        };
        let is_left = self.apps.values().any(serves);
        assert!(
            !(is_left && is_routed),
            "{name}: {} is routed still",
            service.name
        );
    }
}

fn sleeps(phase: Option<Phase>) -> bool {
    matches!(
        phase,
        Some(Phase::Pausing | Phase::Paused | Phase::Resuming)
    )
}
