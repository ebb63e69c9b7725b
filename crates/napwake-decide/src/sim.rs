//! A small cluster in memory for tests: it keeps the objects, holds every
//! write to its precondition, runs pods and doorman listeners, and moves its
//! own time. What it doesn't know is how anything is decided.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use napwake_api::{
    ManagedWorkloadSpec, ManagedWorkloadStatus, Span, names, stamp,
    workload::{Phase, TargetRef, WakeMode, WakeSpec},
};

use crate::{Plan, Ports, Seen, World, Write, behind::Behind, decide, ports::Caps, world::*};

mod behind;
mod changes;
mod handover_model;
mod invariants;
mod leaders;
pub(crate) mod objects;
mod properties;
pub(crate) mod questions;
mod writes;

use writes::fails_alone;

/// How long a pod takes from its start to Ready.
const STARTS: SignedDuration = SignedDuration::from_secs(4);
/// How long a pod takes to end.
const ENDS: SignedDuration = SignedDuration::from_secs(6);

/// One workload with its ManagedWorkload.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) workload: Option<Workload>,
    pub(crate) target: Option<Target>,
    /// When its pods, if any are asked for, become Ready.
    ready_at: Option<Timestamp>,
    /// When their Services' own slices name them.
    named_at: Option<Timestamp>,
    /// When its last pods end, after a scale-down.
    ended_at: Timestamp,
    /// What the operator's memory holds for it.
    pub(crate) checks: BTreeMap<Listener, Check>,
    pub(crate) failures: BTreeMap<String, SliceFailure>,
    pub(crate) never_idle: Option<String>,
    pub(crate) namespace: Namespace,
    /// Whether its pods never become Ready.
    pub(crate) is_broken: bool,
    /// The replicas that a wake may give back: what others gave it last, or
    /// while it was at 0.
    pub(crate) expected: BTreeSet<i32>,
    /// What is seen of the target, where that's out of date.
    pub(crate) outdated: Option<Target>,
}

/// The cluster.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) now: Timestamp,
    pub(crate) apps: BTreeMap<String, App>,
    pub(crate) services: Vec<Service>,
    pub(crate) ingresses: Vec<Ingress>,
    pub(crate) slices: BTreeMap<String, Slice>,
    pub(crate) doorman: Doorman,
    pub(crate) target_refs: TargetRefs,
    pub(crate) ports: Ports,
    /// Parts that can't be read for now.
    pub(crate) unknown: BTreeSet<Part>,
    /// A family in which no doorman pod answers checks.
    pub(crate) deaf_in: Option<IpFamily>,
    /// Whether slice writes are refused.
    pub(crate) refusal: Option<SliceProblem>,
    /// Whether slices can't be deleted.
    pub(crate) is_lasting: bool,
    /// What admission makes of slices that are written.
    pub(crate) admission: Option<fn(&mut SliceSpec)>,
    /// What stalled operators have yet to write, and whether one does so now.
    pub(crate) stalled: Vec<(String, Vec<Write>)>,
    pub(crate) is_overtaken: bool,
    pub(crate) tenure: Tenure,
    /// How long the Services' own slices lag behind pods that become Ready.
    pub(crate) endpoints_lag: SignedDuration,
    /// Services that pods serve which no Deployment or StatefulSet has.
    pub(crate) strangers: BTreeSet<String>,
    /// What the operator has read of those behind each Service.
    pub(crate) behind: BTreeMap<String, Behind>,
    /// Each such read: when, and of which Service.
    pub(crate) asked: Vec<(Timestamp, String)>,
    /// Whether the targets' controllers stand still.
    pub(crate) is_unattended: bool,
    /// Every write that was carried out, with its workload.
    pub(crate) log: Vec<(Timestamp, String, Write)>,
    /// Every write whose precondition didn't hold, likewise.
    pub(crate) conflicts: Vec<(String, Write)>,
    version: u64,
}

/// A part of the world that can be unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Target,
    Pods,
    Services,
    Slices,
    Served,
    Behind,
    Doorman,
    Peers,
}

/// A write whose precondition didn't hold.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Conflict;

pub(crate) const EVERY_PART: [Part; 8] = [
    Part::Target,
    Part::Pods,
    Part::Services,
    Part::Slices,
    Part::Served,
    Part::Behind,
    Part::Doorman,
    Part::Peers,
];

impl Cluster {
    pub(crate) fn version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    pub(crate) fn app(&mut self, name: &str) -> &mut App {
        self.apps.get_mut(name).expect("a workload of the test")
    }

    pub(crate) fn target(&mut self, name: &str) -> &mut Target {
        self.app(name).target.as_mut().expect("its target")
    }

    pub(crate) fn workload(&mut self, name: &str) -> &mut Workload {
        self.app(name)
            .workload
            .as_mut()
            .expect("its ManagedWorkload")
    }

    pub(crate) fn status(&self, name: &str) -> &ManagedWorkloadStatus {
        let app = self.apps.get(name).expect("a workload of the test");
        &app.workload.as_ref().expect("its ManagedWorkload").status
    }

    pub(crate) fn phase(&self, name: &str) -> Option<Phase> {
        self.status(name).phase
    }

    pub(crate) fn replicas(&self, name: &str) -> i32 {
        self.apps[name]
            .target
            .as_ref()
            .map_or(0, |target| target.replicas)
    }

    /// Sets an annotation of the ManagedWorkload.
    pub(crate) fn annotate(&mut self, name: &str, key: &str, value: String) {
        let version = self.version();
        let workload = self.workload(name);
        workload.annotations.insert(key.to_owned(), value);
        workload.resource_version = version;
    }

    /// Sets an annotation of the ManagedWorkload to the present.
    pub(crate) fn stamp(&mut self, name: &str, key: &str) {
        let now = stamp::render(self.now);
        self.annotate(name, key, now);
    }

    /// Scales the target as somebody else.
    pub(crate) fn scale(&mut self, name: &str, replicas: i32) {
        if replicas > 0 {
            let is_up = self.replicas(name) > 0;
            let is_blind = self.unknown.contains(&Part::Target);
            let app = self.app(name);
            // What the operator didn't see it can't give back.
            let is_seen = is_up && !is_blind && app.outdated.is_none();
            app.expected.retain(|_| !is_seen);
            app.expected.insert(replicas);
        }
        self.set_replicas(name, replicas);
    }

    fn set_replicas(&mut self, name: &str, replicas: i32) {
        let version = self.version();
        let now = self.now;
        let app = self.app(name);
        let Some(target) = &mut app.target else {
            return;
        };
        if target.replicas == replicas {
            return;
        }
        target.resource_version = version;
        target.generation += 1;
        let starts = target.replicas == 0;
        target.replicas = replicas;
        if replicas == 0 {
            app.ended_at = now + ENDS;
            target.ready_replicas = 0;
        }
        if starts || replicas == 0 {
            self.start_pods(name);
        }
        self.run_pods();
    }

    /// Changes the pod template.
    pub(crate) fn roll_out(&mut self, name: &str) {
        let version = self.version();
        let target = self.target(name);
        target.template.hash = format!("template-{version}");
        target.generation += 1;
        target.resource_version = version;
    }

    /// Its pods start now, where any are asked for.
    fn start_pods(&mut self, name: &str) {
        let (now, lag) = (self.now, self.endpoints_lag);
        let app = self.app(name);
        let target = app.target.as_ref();
        let is_up = target.is_some_and(|target| target.replicas > 0);
        app.ready_at = (is_up && !app.is_broken).then(|| now + STARTS);
        app.named_at = app.ready_at.map(|at| at + lag);
    }

    fn run_pods(&mut self) {
        let now = self.now;
        for app in self.apps.values_mut() {
            let Some(target) = &mut app.target else {
                continue;
            };
            let is_up = app.ready_at.is_some_and(|at| at <= now);
            target.ready_replicas = if is_up { target.replicas } else { 0 };
        }
    }

    /// Whether a doorman pod listens on a port: it follows every status at once.
    pub(crate) fn listens(&self, port: u16) -> bool {
        self.apps
            .values()
            .filter_map(|app| app.workload.as_ref()?.status.doorman.as_ref())
            .flat_map(|doorman| &doorman.routes)
            .any(|route| route.doorman_port == port)
    }

    /// The families in which each Service's own slices name a Ready pod.
    pub(crate) fn served(&self) -> BTreeMap<String, BTreeSet<IpFamily>> {
        let has_pod = |app: &App, service: &Service| {
            app.named_at.is_some_and(|at| at <= self.now)
                && app.target.as_ref().is_some_and(|target| {
                    target.ready_replicas > 0 && target.is_selected_by(service)
                })
        };
        let mut served = BTreeMap::new();
        for service in &self.services {
            if self.apps.values().any(|app| has_pod(app, service)) {
                served.insert(
                    service.name.clone(),
                    service.families.iter().copied().collect(),
                );
            }
        }
        served
    }

    fn seen<T>(&self, part: Part, value: T) -> Seen<T> {
        if self.unknown.contains(&part) {
            Seen::Unknown("the test says so".to_owned())
        } else {
            Seen::Known(value)
        }
    }

    /// What the operator observes for one ManagedWorkload.
    pub(crate) fn world(&self, name: &str) -> Option<World> {
        let app = self.apps.get(name)?;
        let workload = app.workload.clone()?;
        let peers = self
            .apps
            .values()
            .filter_map(|app| app.workload.as_ref())
            .filter(|peer| peer.uid != workload.uid)
            .map(objects::peer)
            .collect();
        let pods = match &app.target {
            Some(target) if target.replicas > 0 => u32::try_from(target.replicas).unwrap_or(0),
            _ => u32::from(self.now < app.ended_at),
        };
        let doorman = match &self.doorman {
            Doorman::Enabled(_) if self.unknown.contains(&Part::Doorman) => {
                Doorman::Enabled(Seen::Unknown("the test says so".to_owned()))
            }
            doorman => doorman.clone(),
        };
        Some(World {
            workload,
            target: match app.outdated.as_ref().or(app.target.as_ref()) {
                Some(target) => self.seen(Part::Target, target.clone()),
                None => Seen::Absent,
            },
            pods: self.seen(Part::Pods, pods),
            namespace: Seen::Known(app.namespace.clone()),
            services: self.seen(Part::Services, self.services.clone()),
            ingresses: self.ingresses.clone(),
            slices: self.seen(Part::Slices, self.slices.values().cloned().collect()),
            served: self.seen(Part::Served, self.served()),
            behind: self.behind(),
            doorman,
            target_refs: self.target_refs,
            checks: app.checks.clone(),
            slice_failures: app.failures.clone(),
            peers: self.seen(Part::Peers, peers),
            never_idle: app.never_idle.clone(),
            tenure: self.tenure,
        })
    }

    /// Decides for one workload, without carrying anything out. Who serves its
    /// Services is read only where a plan asks for it and writes nothing.
    pub(crate) fn plan(&mut self, name: &str) -> Option<Plan> {
        let mut world = self.world(name)?;
        let not_read = Seen::Unknown("not read".to_owned());
        let served = std::mem::replace(&mut world.served, not_read.clone());
        let plan = decide(&world, &mut self.ports, self.now);
        self.check_again(name, &plan);
        if !plan.is_empty() || (plan.reads.is_empty() && plan.asks.is_empty()) {
            return Some(plan);
        }
        self.read_behind(&plan.asks);
        world.behind = self.behind();
        world.served = if plan.reads.is_empty() {
            not_read
        } else {
            served
        };
        let plan = decide(&world, &mut self.ports, self.now);
        self.check_again(name, &plan);
        Some(plan)
    }

    /// Decides for one workload and carries out the first `writes` writes; says
    /// whether any had an effect.
    pub(crate) fn step_up_to(&mut self, name: &str, writes: usize) -> bool {
        let Some(plan) = self.plan(name) else {
            return false;
        };
        self.carry_out(name, plan.writes.into_iter().take(writes))
    }

    /// Carries writes out in order; says whether any had an effect.
    pub(crate) fn carry_out(
        &mut self,
        name: &str,
        writes: impl IntoIterator<Item = Write>,
    ) -> bool {
        let mut has_effect = false;
        for write in writes {
            let alone = fails_alone(&write);
            // Written all the same, and perhaps nothing new.
            let proves = matches!(write, Write::WriteStatus { .. } | Write::MarkTarget { .. });
            let before = self.version;
            match self.write(name, write) {
                Ok(()) => has_effect |= !proves || self.version != before,
                Err(Conflict) if alone => {}
                Err(Conflict) => break,
            }
        }
        has_effect
    }

    /// Decides and carries out until nothing is left to be done at this time.
    pub(crate) fn settle(&mut self) {
        for _ in 0..60 {
            self.run_pods();
            let names: Vec<String> = self.apps.keys().cloned().collect();
            let mut is_busy = false;
            for name in names {
                is_busy |= self.step_up_to(&name, usize::MAX);
            }
            if !is_busy {
                return;
            }
        }
        let plans: Vec<_> = self
            .apps
            .clone()
            .keys()
            .map(|name| self.plan(name))
            .collect();
        panic!("it never comes to rest: {plans:#?}");
    }

    /// Lets time pass. Decides whenever a plan asked to be asked again, pods
    /// became Ready or ended, and at no other time.
    pub(crate) fn pass(&mut self, span: SignedDuration) {
        let end = self.now + span;
        self.settle();
        for _ in 0..100_000 {
            let next = self.next_event().unwrap_or(end).min(end);
            if self.now >= end {
                return;
            }
            self.now = next.max(self.now + SignedDuration::from_millis(1));
            self.settle();
        }
        panic!("time stands still at {}", self.now);
    }

    fn next_event(&mut self) -> Option<Timestamp> {
        let names: Vec<String> = self.apps.keys().cloned().collect();
        let asked: Vec<Timestamp> = names
            .iter()
            .filter_map(|name| self.plan(name)?.again)
            .collect();
        let pods = self
            .apps
            .values()
            .flat_map(|app| [app.ready_at, Some(app.ended_at)])
            .flatten();
        asked
            .into_iter()
            .chain(pods)
            .filter(|at| *at > self.now)
            .min()
    }

    pub(crate) fn pass_secs(&mut self, seconds: i64) {
        self.pass(SignedDuration::from_secs(seconds));
    }

    /// Lets time pass until the workload is in that phase.
    pub(crate) fn until(&mut self, name: &str, phase: Phase) {
        self.settle();
        let end = self.now + SignedDuration::from_mins(10);
        while self.now < end {
            if self.phase(name) == Some(phase) {
                return;
            }
            let next = self.next_event().unwrap_or(end).min(end);
            self.pass(next.duration_since(self.now));
        }
        if self.phase(name) == Some(phase) {
            return;
        }
        panic!("never {phase:?}: {:#?}", self.status(name));
    }

    /// Asks for a pause and lets it come about.
    pub(crate) fn pause(&mut self, name: &str) {
        self.now += SignedDuration::from_secs(1);
        self.stamp(name, names::signal::PAUSE_REQUESTED);
        self.until(name, Phase::Paused);
    }

    /// The operator is killed and another one starts: what was in memory is gone.
    pub(crate) fn restart(&mut self) {
        self.ports = Ports::new(Caps::default());
        self.behind.clear();
        for app in self.apps.values_mut() {
            app.checks.clear();
            app.failures.clear();
            if let Some(workload) = &app.workload {
                self.ports.observe(&workload.key, &workload.status);
            }
        }
    }

    /// The names of the writes that were carried out for a workload.
    pub(crate) fn written(&self, name: &str) -> Vec<&'static str> {
        self.log
            .iter()
            .filter(|(_, app, _)| app == name)
            .map(|(_, _, write)| objects::kind(write))
            .collect()
    }

    /// The events of a workload, by reason.
    pub(crate) fn events(&self, name: &str) -> Vec<&'static str> {
        self.log
            .iter()
            .filter(|(_, app, _)| app == name)
            .filter_map(|(_, _, write)| match write {
                Write::Event(event) => Some(event.reason),
                _ => None,
            })
            .collect()
    }
}
