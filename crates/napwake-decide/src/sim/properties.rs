//! Days of simulated time with random events and crashes between any two writes.

use std::ops::RangeInclusive;

use napwake_api::{
    names::signal,
    workload::{RestingPort, Route, RouteState},
};
use proptest::{collection::vec, prelude::*};

use super::{objects, *};
use crate::timing;

/// Something that happens.
#[derive(Clone, Debug)]
enum Act {
    Pass(i64),
    Stamp(&'static str, &'static str),
    /// A pause is asked for by a clock that runs ahead by so many seconds.
    Ahead(&'static str, i64),
    Scale(&'static str, i32),
    RollOut(&'static str),
    /// A doorman pod stops or comes back, as another pod.
    Doorman(u8),
    /// A port is added to a Service, or taken off.
    Port(usize),
    /// A Service is deleted and made anew.
    Remake(usize),
    /// A part can't be read, until the next time.
    Blind(Part),
    /// Slice writes are refused, until the next time.
    Refuse,
    Suspend(&'static str),
    Ignore(&'static str),
    /// The ManagedWorkload is deleted, or made anew.
    Delete(&'static str),
    /// The operator dies after so many writes, for each workload.
    Crash(usize),
    /// The operator stalls after so many writes, and another one takes over.
    Stall(&'static str, usize),
    /// Those that stalled go on with their plans.
    GoOn,
    /// What's seen of the workload stands still, until the next time.
    Lag(&'static str),
    /// Pods don't become Ready, until the next time.
    Break(&'static str),
}

const APPS: [&str; 2] = ["api", "worker"];

fn act() -> impl Strategy<Value = Act> {
    let app = || prop::sample::select(APPS.to_vec());
    let key = prop::sample::select(vec![
        signal::LAST_REQUEST,
        signal::ACTIVITY,
        signal::WAKE_REQUESTED,
        signal::PAUSE_REQUESTED,
        signal::PAUSE_REQUESTED,
        signal::PAUSE_REQUESTED,
    ]);
    prop_oneof![
        8 => span(0..=20).prop_map(Act::Pass),
        3 => span(20..=200).prop_map(Act::Pass),
        1 => span(200..=9000).prop_map(Act::Pass),
        12 => (app(), key).prop_map(|(app, key)| Act::Stamp(app, key)),
        2 => (app(), 1..60i64).prop_map(|(app, seconds)| Act::Ahead(app, seconds)),
        2 => (app(), 0..5i32).prop_map(|(app, replicas)| Act::Scale(app, replicas)),
        1 => app().prop_map(Act::RollOut),
        3 => (1..=2u8).prop_map(Act::Doorman),
        1 => (0..3usize).prop_map(Act::Port),
        1 => (0..3usize).prop_map(Act::Remake),
        2 => prop::sample::select(EVERY_PART.to_vec()).prop_map(Act::Blind),
        1 => Just(Act::Refuse),
        1 => app().prop_map(Act::Suspend),
        1 => app().prop_map(Act::Ignore),
        1 => app().prop_map(Act::Delete),
        12 => (0..6usize).prop_map(Act::Crash),
        4 => (app(), 0..4usize).prop_map(|(app, writes)| Act::Stall(app, writes)),
        3 => Just(Act::GoOn),
        2 => app().prop_map(Act::Lag),
        1 => app().prop_map(Act::Break),
    ]
}

fn span(seconds: RangeInclusive<i64>) -> impl Strategy<Value = i64> {
    seconds
}

fn carry_out(cluster: &mut Cluster, act: &Act) {
    match act {
        Act::Pass(seconds) => cluster.pass_secs(*seconds),
        Act::Stamp(app, key) => {
            if cluster.apps[*app].workload.is_some() {
                cluster.stamp(app, key);
            }
        }
        Act::Ahead(app, seconds) => {
            if cluster.apps[*app].workload.is_some() {
                let ahead = stamp::render(cluster.now + SignedDuration::from_secs(*seconds));
                cluster.annotate(app, signal::PAUSE_REQUESTED, ahead);
            }
        }
        Act::Doorman(n) => replace_doorman(cluster, *n),
        Act::Port(n) => {
            let ports = &mut cluster.services[*n].ports;
            if ports.pop_if(|port| port.number == 81).is_none() {
                ports.push(objects::port("more", 81));
            }
        }
        Act::Remake(n) => {
            let uid = cluster.version();
            cluster.services[*n].uid = format!("service-{uid}");
        }
        Act::Blind(part) => {
            if !cluster.unknown.remove(part) {
                cluster.unknown.insert(*part);
            }
        }
        Act::Refuse => {
            cluster.refusal = match cluster.refusal {
                None => Some(SliceProblem::Refused("no".to_owned())),
                Some(_) => None,
            }
        }
        Act::Delete(app) => delete_or_make(cluster, app),
        Act::Scale(..)
        | Act::RollOut(_)
        | Act::Suspend(_)
        | Act::Ignore(_)
        | Act::Lag(_)
        | Act::Break(_) => change_workload(cluster, act),
        Act::Crash(_) | Act::Stall(..) | Act::GoOn => disturb(cluster, act),
    }
}

/// What befalls a workload.
fn change_workload(cluster: &mut Cluster, act: &Act) {
    match act {
        Act::Scale(app, replicas) => cluster.scale(app, *replicas),
        Act::RollOut(app) => cluster.roll_out(app),
        Act::Suspend(app) => {
            if let Some(workload) = &mut cluster.app(app).workload {
                workload.spec.suspend = !workload.spec.suspend;
            }
        }
        Act::Ignore(app) => {
            let labels = &mut cluster.target(app).labels;
            if labels.remove(names::opt::IGNORE).is_none() {
                labels.insert(names::opt::IGNORE.to_owned(), names::TRUE.to_owned());
            }
        }
        Act::Lag(app) => {
            let app = cluster.app(app);
            app.outdated = match app.outdated {
                None => app.target.clone(),
                Some(_) => None,
            };
        }
        Act::Break(app) => {
            let now = cluster.now;
            let app = cluster.app(app);
            app.is_broken = !app.is_broken;
            let is_up = app
                .target
                .as_ref()
                .is_some_and(|target| target.replicas > 0);
            app.ready_at = (is_up && !app.is_broken).then(|| now + STARTS);
        }
        _ => {}
    }
}

/// What befalls operators.
fn disturb(cluster: &mut Cluster, act: &Act) {
    match act {
        Act::Crash(writes) => {
            for app in APPS {
                assert_eq!(cluster.plan(app), cluster.plan(app), "the same plan twice");
                cluster.step_up_to(app, *writes);
            }
            cluster.restart();
        }
        Act::Stall(app, writes) => {
            if let Some(plan) = cluster.plan(app) {
                let mut plan = plan.writes;
                let rest = plan.split_off(plan.len().min(*writes));
                cluster.carry_out(app, plan);
                cluster.stalled.push(((*app).to_owned(), rest));
                cluster.restart();
            }
        }
        Act::GoOn => {
            cluster.is_overtaken = true;
            for (app, writes) in std::mem::take(&mut cluster.stalled) {
                if cluster.apps[&app].workload.is_some() {
                    cluster.carry_out(&app, writes);
                }
            }
            cluster.is_overtaken = false;
        }
        _ => {}
    }
}

fn replace_doorman(cluster: &mut Cluster, n: u8) {
    let uid = cluster.version();
    let pods = cluster.doormen();
    let before = pods.len();
    pods.retain(|pod| pod.pod.name != format!("doorman-{n}"));
    if pods.len() == before {
        let mut pod = objects::doorman_pod(n);
        pod.pod.uid = format!("doorman-uid-{uid}");
        pods.push(pod);
    }
}

fn delete_or_make(cluster: &mut Cluster, name: &str) {
    let (now, uid) = (cluster.now, cluster.version());
    let app = cluster.app(name);
    match &mut app.workload {
        None => app.workload = Some(objects::workload(name, &uid, now)),
        Some(workload) if workload.finalizers.is_empty() => {
            let key = workload.key.clone();
            app.workload = None;
            cluster.ports.forget(&key);
        }
        Some(workload) => {
            workload.deleted.get_or_insert(now);
            workload.resource_version = uid;
        }
    }
}

/// What must hold after every write.
impl Cluster {
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
        let needed = self.unknown.iter().find(|part| **part != Part::Pods);
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
    fn check_at_rest(&self) {
        let is_lagging = self.apps.values().any(|app| app.outdated.is_some());
        if is_lagging || !self.unknown.is_empty() {
            return;
        }
        // A refused write is tried again in its time.
        if self.apps.values().all(|app| app.failures.is_empty()) {
            self.check_slices();
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
                let is_there = pods.iter().any(|pod| {
                    endpoint.pod.as_ref() == Some(&pod.pod)
                        && pod.addresses.get(&slice.spec.family) == Some(&endpoint.address)
                });
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

    /// Brings everything back to normal and asks everybody to wake.
    fn end_well(&mut self) {
        self.unknown.clear();
        self.refusal = None;
        for n in 1..=2 {
            let name = format!("doorman-{n}");
            if !self.doormen().iter().any(|pod| pod.pod.name == name) {
                replace_doorman(self, n);
            }
        }
        for app in APPS {
            self.app(app).outdated = None;
            if self.apps[app].is_broken {
                carry_out(self, &Act::Break(app));
            }
            self.target(app).labels.clear();
            if self.apps[app].workload.is_none() {
                delete_or_make(self, app);
            }
            self.workload(app).spec.suspend = false;
        }
        // A deleted one is gone by now, and another is made.
        self.pass_secs(400);
        for app in APPS {
            if self.apps[app].workload.is_none() {
                delete_or_make(self, app);
            }
        }
        self.pass_secs(1);
        for app in APPS {
            self.stamp(app, signal::WAKE_REQUESTED);
        }
        self.pass_secs(300);
    }

    /// Awake, with its own replicas, and nothing left over.
    pub(super) fn check_clean(&self) {
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

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens, and wherever the operator dies: no workload is left at
    /// zero, replicas come back as they were, no port is given twice, no slice
    /// points at nobody, nothing is stopped in the dark, and in the end nothing
    /// is left over.
    #[test]
    fn nobody_is_left_at_zero(acts in vec(act(), 1..60)) {
        let mut cluster = objects::shared();
        cluster.settle();
        for act in &acts {
            carry_out(&mut cluster, act);
            cluster.settle();
            cluster.check_at_rest();
        }
        cluster.end_well();
        cluster.check_clean();
    }
}

/// Of two that have one port for one Service port, one may give it back, and not
/// know of the other, while the other's drain goes on.
#[test]
fn a_shared_port_may_rest_before_its_last_drain_ends() {
    let mut cluster = objects::shared();
    cluster.settle();
    let acts = [
        Act::Pass(1),
        Act::Stamp("worker", signal::PAUSE_REQUESTED),
        Act::Lag("worker"),
        Act::Pass(10),
        Act::Stamp("api", signal::PAUSE_REQUESTED),
        Act::Stamp("worker", signal::LAST_REQUEST),
        Act::Lag("worker"),
        Act::Blind(Part::Peers),
        Act::Pass(4),
        Act::Suspend("api"),
    ];
    for act in &acts {
        carry_out(&mut cluster, act);
        cluster.settle();
        cluster.check_at_rest();
    }
    cluster.end_well();
    cluster.check_clean();
}
