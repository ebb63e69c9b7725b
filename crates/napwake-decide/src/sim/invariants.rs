//! What must hold of the simulated cluster: after every write, at rest, and in
//! the end.

use napwake_api::{
    names::signal,
    workload::{RestingPort, Route, RouteState},
};

use super::*;
use crate::timing;

/// What must hold of every plan, and after every write.
impl Cluster {
    /// One that asks again at a time that is past would be made again and again.
    pub(super) fn check_again(&self, name: &str, plan: &Plan) {
        let again = plan.again;
        let is_ahead = again.is_none_or(|at| at > self.now);
        assert!(
            is_ahead,
            "{name} asks again at {again:?}, and it's {}",
            self.now
        );
    }

    pub(super) fn check_last_write(&self) {
        let Some((_, name, write)) = self.log.last() else {
            return;
        };
        match write {
            Write::ScaleTarget { to: 0, from, .. } => self.check_stop(name, *from),
            Write::ScaleTarget { to, .. } => {
                let expected = &self.apps[name].expected;
                assert!(
                    expected.contains(to),
                    "{name} wakes with {to}, not {expected:?}"
                );
            }
            Write::MarkTarget {
                paused_replicas: Some(replicas),
                ..
            } => {
                assert!(*replicas > 0, "{name} is marked with 0");
            }
            Write::WriteStatus { status, .. } => {
                if let Some(pause) = &status.pause {
                    assert!(pause.replicas > 0, "{name} has 0 replicas on record");
                }
                self.check_ports();
            }
            _ => {}
        }
    }

    /// Nothing is scaled down while anything is unknown, before its route has
    /// stood for long enough, or without its replicas on record twice.
    pub(super) fn check_stop(&self, name: &str, from: i32) {
        let spared = [Part::Pods, Part::Served, Part::Behind];
        let needed = self.unknown.iter().find(|part| !spared.contains(part));
        // One who has stalled since had seen it.
        let is_seen = self.is_overtaken || needed.is_none();
        assert!(is_seen, "{name} is stopped in the dark: {needed:?}");
        let app = &self.apps[name];
        // Whoever decided it, and whenever: it isn't called off.
        let status = self.status(name);
        assert_eq!(status.phase, Some(Phase::Pausing), "{name} is stopped");
        let pause = status.pause.as_ref().expect("a pause");
        assert!(
            pause.scaled_at.is_some(),
            "{name} is stopped off the record"
        );
        assert_eq!(pause.replicas, from, "{name} has other replicas on record");
        let target = app.target.as_ref().expect("its target");
        assert_eq!(
            target.annotations.get(signal::PAUSED_REPLICAS),
            Some(&from.to_string())
        );
        if let Some(routed) = &pause.routed_at {
            let stood = self.now.duration_since(routed.0);
            assert!(
                stood >= timing::SLICE_SETTLES,
                "{name} was routed for {stood} only"
            );
        }
    }

    /// A workload that has woken lets go of a Service only once the Service's own
    /// slices name a Ready pod: with neither its callers would be refused.
    pub(super) fn check_let_go(&self, name: &str, slice: &SliceSpec) {
        let app = &self.apps[name];
        let is_awake = self.phase(name) == Some(Phase::Running);
        let Some((target, ready_at)) = app.target.as_ref().zip(app.ready_at) else {
            return;
        };
        let is_selected = self
            .services
            .iter()
            .any(|service| service.uid == slice.service_uid && target.is_selected_by(service));
        // They are waited for, but not for ever.
        let is_new = self.now < ready_at + timing::HAND_OVER_BOUND;
        let is_seen = !self.is_overtaken && app.outdated.is_none();
        let is_manned = self.is_manned(slice);
        let is_needed = is_awake && is_selected && is_new && target.ready_replicas > 0;
        if is_needed && is_seen && is_manned {
            let served = self.served();
            let served = served.get(&slice.service);
            let is_served = served.is_some_and(|families| families.contains(&slice.family));
            assert!(
                is_served,
                "{name} lets go of {slice:?}, and nobody serves it"
            );
        }
    }

    fn routes(&self) -> Vec<(&str, &Route)> {
        self.apps
            .values()
            .filter_map(|app| app.workload.as_ref())
            .filter_map(|workload| Some((workload, workload.status.doorman.as_ref()?)))
            .flat_map(|(workload, doorman)| {
                doorman
                    .routes
                    .iter()
                    .map(|route| (workload.key.name.as_str(), route))
            })
            .collect()
    }

    /// No two workloads have one port, nor one that rests, unless they share it
    /// for one Service port.
    fn check_ports(&self) {
        let routes = self.routes();
        for (one, route) in &routes {
            for (other, theirs) in &routes {
                let same = one != other && route.doorman_port == theirs.doorman_port;
                let shared = (&route.service, &route.port) == (&theirs.service, &theirs.port);
                assert!(
                    !same || shared,
                    "{one} and {other} share {}",
                    route.doorman_port
                );
            }
            for (name, app) in &self.apps {
                let rests = app
                    .workload
                    .iter()
                    .filter_map(|workload| workload.status.doorman.as_ref())
                    .flat_map(|doorman| &doorman.resting)
                    .filter(|rest| rest.port == route.doorman_port && rest.until.0 > self.now)
                    .any(|rest| !was_shared(route, rest));
                assert!(!rests || name == one, "{one} got {name}'s resting port");
            }
        }
    }

    /// What must hold once nothing is left to be done.
    pub(super) fn check_at_rest(&self) {
        let is_lagging = self.apps.values().any(|app| app.outdated.is_some());
        if is_lagging || !self.unknown.is_empty() {
            return;
        }
        // A refused write is tried again in its time.
        if self.apps.values().all(|app| app.failures.is_empty()) {
            self.check_slices();
            self.check_routed();
        }
        for (name, app) in &self.apps {
            check_awake_if_asked(name, app);
        }
    }

    /// Every slice points at Ready doorman pods that listen, for a route that
    /// isn't leaving.
    fn check_slices(&self) {
        let Doorman::Enabled(Seen::Known(pods)) = &self.doorman else {
            return;
        };
        for slice in self.slices.values() {
            assert!(!slice.spec.endpoints.is_empty(), "an empty slice");
            for endpoint in &slice.spec.endpoints {
                let is_there = pods
                    .iter()
                    .any(|pod| endpoint.is_of(pod, slice.spec.family));
                assert!(
                    is_there,
                    "a slice names a doorman pod that is gone: {slice:?}"
                );
            }
            for port in &slice.spec.ports {
                let is_served = self.routes().iter().any(|(_, route)| {
                    route.doorman_port == port.port
                        && route.service == slice.spec.service
                        && route.state != RouteState::Draining
                });
                assert!(is_served, "a slice without a listener: {slice:?}");
            }
        }
    }

    /// Awake, with its own replicas, and nothing left over.
    pub(crate) fn check_clean(&self) {
        assert_eq!(self.slices.len(), 0, "slices left over: {:?}", self.slices);
        for (name, app) in &self.apps {
            let target = app.target.as_ref().expect("its target");
            let workload = app.workload.as_ref().expect("its ManagedWorkload");
            let status = &workload.status;
            if target.replicas == 0 {
                let reason = status.conditions[1].reason.as_str();
                assert_eq!(reason, "TargetScaledToZero", "{name}: {status:#?}");
            } else {
                assert!(app.expected.contains(&target.replicas), "{name}");
            }
            assert_eq!(status.phase, Some(Phase::Running), "{name}");
            assert_eq!(status.doorman, None, "{name} has ports left over");
            assert!(
                workload.finalizers.is_empty(),
                "{name} has a finalizer left over"
            );
            assert!(
                !target.annotations.contains_key(signal::PAUSED_REPLICAS),
                "{name}"
            );
        }
    }
}

/// Whether two workloads had the port for one Service port, and one of them has
/// given it back before the other.
fn was_shared(route: &Route, rest: &RestingPort) -> bool {
    let began = timing::after(rest.until.0, -timing::REST);
    route
        .opened_at
        .as_ref()
        .is_some_and(|opened| opened.0 <= began)
}

/// Nobody is at 0 by Napwake's hand who was asked to wake, or whom nobody
/// would wake.
fn check_awake_if_asked(name: &str, app: &App) {
    let Some(target) = app.target.as_ref().filter(|target| target.replicas == 0) else {
        return;
    };
    if !target.annotations.contains_key(signal::PAUSED_REPLICAS) {
        return; // Somebody else's doing.
    }
    let Some(workload) = &app.workload else {
        return; // Deleted without its finalizer ever being on: see below.
    };
    if workload.spec.suspend {
        return;
    }
    assert!(
        matches!(workload.status.phase, Some(Phase::Pausing | Phase::Paused)),
        "{name} is left at 0: {:#?}",
        workload.status
    );
    let pause = workload.status.pause.as_ref().expect("a pause");
    for key in [
        signal::LAST_REQUEST,
        signal::ACTIVITY,
        signal::WAKE_REQUESTED,
    ] {
        if let Some(stamp) = workload.annotations.get(key) {
            let at: stamp::Stamp = stamp.parse().expect("a stamp");
            assert!(
                at.at() < pause.started_at.0,
                "{name} was asked to wake by {key}"
            );
        }
    }
}
