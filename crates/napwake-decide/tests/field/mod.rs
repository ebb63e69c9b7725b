//! A workload with as many ports as it may have, and a cluster full of other
//! workloads' routes around it.

#![expect(clippy::panic, reason = "it's for tests, and no test itself")]

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use napwake_api::{
    ManagedWorkloadSpec, ManagedWorkloadStatus, Span,
    names::{self, signal},
    stamp,
    workload::{DoormanStatus, Phase, Route, RoutePort, RouteState, TargetRef, WakeMode, WakeSpec},
};
use napwake_decide::{
    Plan, Ports, Seen, World, Write,
    behind::Owner,
    decide,
    ports::Caps,
    world::{
        Check, CheckOutcome, Doorman, DoormanPod, DoormanState, IpFamily, Map, Namespace, Peer,
        PodRef, Protocol, Publishes, Readiness, Service, ServiceKind, ServicePort, Slice, Target,
        TargetId, TargetKind, TargetRefs, Template, Tenure, TrafficPolicy, Workload, WorkloadKey,
    },
};

/// How many ports a workload may have (ROUTE-67).
pub(crate) const PORTS: u16 = 32;
/// How many workloads with so many ports a namespace may have (ROUTE-68).
const IN_A_NAMESPACE: u16 = 8;

/// What is to be decided.
pub(crate) struct Field {
    pub(crate) world: World,
    pub(crate) ports: Ports,
    pub(crate) now: Timestamp,
}

impl Field {
    /// Where so many other workloads have [`PORTS`] routes each, seven of them in the
    /// namespace of this one, which runs.
    pub(crate) fn among(others: u16) -> Self {
        let mut ports = Ports::new(Caps::default());
        let mut peers = Vec::new();
        let now = "2026-11-30T08:00:00Z".parse().expect("a time");
        for n in 1..=others {
            let key = key(n);
            let status = paused(n);
            ports.observe(&key, &status);
            if n < IN_A_NAMESPACE {
                peers.push(peer(n, status, now));
            }
        }
        let services = (0..IN_A_NAMESPACE).map(service).collect();
        let world = World {
            workload: workload(now),
            target: Seen::Known(target()),
            pods: Seen::Known(0),
            namespace: Seen::Known(Namespace {
                deleted: None,
                is_ambient: false,
            }),
            services: Seen::Known(services),
            ingresses: Vec::new(),
            slices: Seen::Known(Vec::new()),
            served: Seen::Known(BTreeMap::new()),
            behind: BTreeMap::new(),
            doorman: Doorman::Enabled(Seen::Known(vec![doorman_pod(1), doorman_pod(2)])),
            target_refs: TargetRefs::Auto,
            checks: BTreeMap::new(),
            slice_failures: BTreeMap::new(),
            peers: Seen::Known(peers),
            never_idle: None,
            tenure: Tenure::Stays,
        };
        let mut field = Self { world, ports, now };
        field.settle();
        assert_eq!(field.phase(), Some(Phase::Running), "{:#?}", field.world);
        field
    }

    /// The same, just asked to pause.
    pub(crate) fn asked_to_pause(mut self) -> Self {
        self.now += SignedDuration::from_secs(1);
        self.stamp(signal::PAUSE_REQUESTED);
        self
    }

    /// The same, where the doorman's pods listen on the ports it was given, and no
    /// slice says so yet.
    pub(crate) fn listened_for(mut self) -> Self {
        self = self.asked_to_pause();
        for _ in 0..20 {
            let plan = self.decide();
            let writes_slices = |write: &Write| matches!(write, Write::ApplySlice { .. });
            if plan.writes.iter().any(writes_slices) {
                return self;
            }
            self.carry_out(plan);
        }
        panic!("no slice is written: {:#?}", self.world);
    }

    /// The same, paused and routed.
    pub(crate) fn paused(mut self) -> Self {
        self = self.asked_to_pause();
        for _ in 0..20 {
            self.settle();
            if self.phase() == Some(Phase::Paused) {
                return self;
            }
            self.now += SignedDuration::from_secs(15);
        }
        panic!("never paused: {:#?}", self.world);
    }

    /// The same, paused and just called.
    pub(crate) fn called(mut self) -> Self {
        self = self.paused();
        self.now += SignedDuration::from_mins(5);
        self.stamp(signal::LAST_REQUEST);
        self
    }

    /// What is to be done next.
    pub(crate) fn decide(&mut self) -> Plan {
        decide(&self.world, &mut self.ports, self.now)
    }

    fn phase(&self) -> Option<Phase> {
        self.world.workload.status.phase
    }

    fn stamp(&mut self, signal: &str) {
        let annotations = &mut self.world.workload.annotations;
        annotations.insert(signal.to_owned(), stamp::render(self.now));
    }

    /// Until nothing is left to be done at this time.
    fn settle(&mut self) {
        for _ in 0..20 {
            let before = self.world.clone();
            let plan = self.decide();
            self.carry_out(plan);
            if self.world == before {
                return;
            }
        }
        panic!("it never comes to rest: {:#?}", self.world);
    }

    fn carry_out(&mut self, plan: Plan) {
        for write in plan.writes {
            self.write(write);
        }
        let ready: BTreeSet<Owner> = self.is_ready().then(own).into_iter().collect();
        for service in plan.asks {
            let behind = self.world.behind.entry(service).or_default();
            behind.found(ready.clone(), ready.clone(), self.now);
        }
        for behind in self.world.behind.values_mut() {
            behind.awake.clone_from(&ready);
        }
    }

    fn is_ready(&self) -> bool {
        let target = self.world.target.known();
        target.is_some_and(|target| target.ready_replicas > 0)
    }

    /// Makes the world what it is after the write. Nothing else is at work, so
    /// preconditions hold.
    fn write(&mut self, write: Write) {
        let Seen::Known(target) = &mut self.world.target else {
            return;
        };
        match write {
            Write::ScaleTarget { to, .. } => {
                target.replicas = to;
                target.ready_replicas = to;
            }
            Write::MarkTarget {
                paused_replicas, ..
            } => {
                let mark = signal::PAUSED_REPLICAS;
                target.annotations.remove(mark);
                if let Some(replicas) = paused_replicas {
                    target
                        .annotations
                        .insert(mark.to_owned(), replicas.to_string());
                }
            }
            Write::ApplySlice { slice: spec, .. } => {
                if let Seen::Known(slices) = &mut self.world.slices {
                    slices.retain(|slice| slice.spec.name != spec.name);
                    slices.push(Slice {
                        uid: spec.name.clone(),
                        resource_version: "1".to_owned(),
                        managed_by: Some(names::slice::MANAGED_BY_NAPWAKE.to_owned()),
                        spec,
                    });
                }
            }
            Write::DeleteSlice { name, .. } => {
                if let Seen::Known(slices) = &mut self.world.slices {
                    slices.retain(|slice| slice.spec.name != name);
                }
            }
            Write::CheckListeners(listeners) => {
                let (at, outcome) = (self.now, CheckOutcome::Listening);
                let checks = listeners
                    .into_iter()
                    .map(|one| (one, Check { at, outcome }));
                self.world.checks.extend(checks);
            }
            Write::WriteStatus { status, .. } => {
                self.ports.observe(&self.world.workload.key, &status);
                self.world.workload.status = *status;
            }
            Write::AddFinalizer { .. } => {
                let finalizers = &mut self.world.workload.finalizers;
                finalizers.insert(names::FINALIZER.to_owned());
            }
            Write::RemoveFinalizer { .. } => {
                self.world.workload.finalizers.remove(names::FINALIZER);
            }
            Write::Event(_) => {}
        }
    }
}

/// Nobody else stands behind its Service.
fn own() -> Owner {
    Owner::Target(TargetKind::Deployment, name(0))
}

fn key(n: u16) -> WorkloadKey {
    WorkloadKey {
        namespace: format!("preview-{}", n / IN_A_NAMESPACE),
        name: name(n),
    }
}

fn name(n: u16) -> String {
    format!("app-{n}")
}

/// The status of another one, routed.
fn paused(n: u16) -> ManagedWorkloadStatus {
    let first = names::DOORMAN_PORTS.start() + n * PORTS;
    let routes = (0..PORTS).map(|port| Route {
        service: name(n),
        port: route_port(port),
        doorman_port: first + port,
        families: vec![IpFamily::IPv4],
        forwarded: false,
        state: RouteState::Routed,
        opened_at: None,
        draining_until: None,
        taken_by: None,
    });
    let doorman = DoormanStatus {
        routes: routes.collect(),
        resting: Vec::new(),
    };
    ManagedWorkloadStatus {
        phase: Some(Phase::Paused),
        doorman: Some(doorman),
        ..ManagedWorkloadStatus::default()
    }
}

fn route_port(n: u16) -> RoutePort {
    RoutePort {
        name: format!("port-{n}"),
        number: 8000 + n,
    }
}

fn peer(n: u16, status: ManagedWorkloadStatus, created: Timestamp) -> Peer {
    Peer {
        name: name(n),
        created,
        deleted: None,
        target: TargetRef {
            kind: TargetKind::Deployment,
            name: name(n),
        },
        phase: status.phase,
        routes: status
            .doorman
            .map(|doorman| doorman.routes)
            .unwrap_or_default(),
    }
}

fn workload(created: Timestamp) -> Workload {
    Workload {
        key: key(0),
        uid: "workload".to_owned(),
        generation: 1,
        resource_version: "1".to_owned(),
        created,
        deleted: None,
        finalizers: BTreeSet::new(),
        annotations: Map::new(),
        spec: ManagedWorkloadSpec {
            target_ref: TargetRef {
                kind: TargetKind::Deployment,
                name: name(0),
            },
            idle_after: Span::from_mins(30),
            lookout: Span::from_secs(10),
            wake: WakeSpec {
                mode: WakeMode::Request,
                ..WakeSpec::default()
            },
            suspend: false,
        },
        status: ManagedWorkloadStatus::default(),
    }
}

fn target() -> Target {
    Target {
        id: TargetId {
            kind: TargetKind::Deployment,
            name: name(0),
            uid: "target".to_owned(),
        },
        resource_version: "1".to_owned(),
        generation: 1,
        observed_generation: 1,
        deleted: None,
        labels: Map::new(),
        annotations: Map::new(),
        replicas: 1,
        first_ordinal: 0,
        ready_replicas: 1,
        template: Template {
            hash: "template".to_owned(),
            labels: [("app".to_owned(), name(0))].into(),
            readiness: Readiness::Probed,
        },
        controller: None,
    }
}

fn service(n: u16) -> Service {
    let port = |n: u16| ServicePort {
        name: route_port(n).name,
        number: route_port(n).number,
        protocol: Protocol::Tcp,
        app_protocol: None,
    };
    Service {
        name: name(n),
        uid: format!("service-{n}"),
        deleted: None,
        annotations: Map::new(),
        selector: [("app".to_owned(), name(n))].into(),
        kind: ServiceKind::Proxied,
        families: vec![IpFamily::IPv4],
        ports: (0..PORTS).map(port).collect(),
        internal_traffic: TrafficPolicy::Cluster,
        publishes: Publishes::ReadyPods,
        negs: BTreeSet::new(),
        is_ambient: false,
    }
}

fn doorman_pod(n: u8) -> DoormanPod {
    DoormanPod {
        pod: PodRef {
            namespace: "napwake-system".to_owned(),
            name: format!("doorman-{n}"),
            uid: format!("doorman-{n}"),
        },
        node: Some(format!("node-{n}")),
        zone: None,
        addresses: [(IpFamily::IPv4, [10, 0, 9, n].into())].into(),
        state: DoormanState::Ready,
    }
}
