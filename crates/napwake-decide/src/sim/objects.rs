//! Objects for the simulated cluster, as small as they can be.

use super::*;

pub(crate) const NAMESPACE: &str = "preview";

/// A cluster with two Ready doorman pods and nothing else.
pub(crate) fn empty() -> Cluster {
    Cluster {
        now: "2026-11-30T08:00:00Z".parse().expect("a time"),
        apps: BTreeMap::new(),
        services: Vec::new(),
        ingresses: Vec::new(),
        slices: BTreeMap::new(),
        doorman: Doorman::Enabled(Seen::Known(vec![doorman_pod(1), doorman_pod(2)])),
        target_refs: TargetRefs::Auto,
        ports: Ports::new(Caps::default()),
        unknown: BTreeSet::new(),
        deaf_in: None,
        refusal: None,
        is_lasting: false,
        admission: None,
        stalled: Vec::new(),
        is_overtaken: false,
        tenure: Tenure::Stays,
        endpoints_lag: SignedDuration::ZERO,
        strangers: BTreeSet::new(),
        behind: BTreeMap::new(),
        asked: Vec::new(),
        is_unattended: false,
        log: Vec::new(),
        conflicts: Vec::new(),
        version: 0,
    }
}

/// A cluster with a Running workload `api` of 3 replicas and its Service.
pub(crate) fn running() -> Cluster {
    let mut cluster = empty();
    cluster.add("api", 3);
    cluster.settle();
    cluster
}

/// A cluster with the Running workloads `api` of 3 replicas and `worker` of 2,
/// each with a Service, and the Service `front` that selects both.
pub(crate) fn shared() -> Cluster {
    let mut cluster = empty();
    let mut front = service("front", "service-front");
    front.selector = [("tier".to_owned(), "web".to_owned())].into();
    front.families = vec![IpFamily::IPv4, IpFamily::IPv6];
    for (name, replicas) in [("api", 3), ("worker", 2)] {
        cluster.add(name, replicas);
        let labels = &mut cluster.target(name).template.labels;
        labels.insert("tier".to_owned(), "web".to_owned());
    }
    cluster.services.push(front);
    cluster
}

impl Cluster {
    /// Adds a workload whose pods are Ready, its ManagedWorkload and its Service.
    pub(crate) fn add(&mut self, name: &str, replicas: i32) {
        let (now, uid) = (self.now, self.version());
        let app = App {
            workload: Some(workload(name, &uid, now)),
            target: Some(target(name, &format!("target-{uid}"), replicas)),
            ready_at: (replicas > 0).then_some(now),
            named_at: (replicas > 0).then_some(now),
            ended_at: now,
            checks: BTreeMap::new(),
            failures: BTreeMap::new(),
            never_idle: None,
            namespace: Namespace {
                deleted: None,
                is_ambient: false,
            },
            is_broken: false,
            expected: BTreeSet::from([replicas]),
            outdated: None,
        };
        self.apps.insert(name.to_owned(), app);
        self.services.push(service(name, &format!("service-{uid}")));
        self.run_pods();
    }

    /// The first Service.
    pub(crate) fn service(&mut self) -> &mut Service {
        self.services.first_mut().expect("a Service of the test")
    }

    /// The doorman's pods.
    pub(crate) fn doormen(&mut self) -> &mut Vec<DoormanPod> {
        match &mut self.doorman {
            Doorman::Enabled(Seen::Known(pods)) => pods,
            other => panic!("no doorman pods: {other:?}"),
        }
    }
}

pub(crate) fn workload(name: &str, uid: &str, created: Timestamp) -> Workload {
    Workload {
        key: WorkloadKey {
            namespace: NAMESPACE.to_owned(),
            name: name.to_owned(),
        },
        uid: format!("workload-{uid}"),
        generation: 1,
        resource_version: uid.to_owned(),
        created,
        deleted: None,
        finalizers: BTreeSet::new(),
        annotations: Map::new(),
        spec: ManagedWorkloadSpec {
            target_ref: TargetRef {
                kind: TargetKind::Deployment,
                name: name.to_owned(),
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

fn target(name: &str, uid: &str, replicas: i32) -> Target {
    Target {
        id: TargetId {
            kind: TargetKind::Deployment,
            name: name.to_owned(),
            uid: uid.to_owned(),
        },
        resource_version: "1".to_owned(),
        generation: 1,
        observed_generation: 1,
        deleted: None,
        labels: Map::new(),
        annotations: Map::new(),
        replicas,
        first_ordinal: 0,
        ready_replicas: 0,
        template: Template {
            hash: "template".to_owned(),
            labels: [("app".to_owned(), name.to_owned())].into(),
            readiness: Readiness::Probed,
        },
        controller: None,
    }
}

/// A Service of one unnamed port 80, IPv4, that selects the workload's pods.
pub(crate) fn service(name: &str, uid: &str) -> Service {
    Service {
        name: name.to_owned(),
        uid: uid.to_owned(),
        deleted: None,
        annotations: Map::new(),
        selector: [("app".to_owned(), name.to_owned())].into(),
        kind: ServiceKind::Proxied,
        families: vec![IpFamily::IPv4],
        ports: vec![port("", 80)],
        internal_traffic: TrafficPolicy::Cluster,
        publishes: Publishes::ReadyPods,
        negs: BTreeSet::new(),
        is_ambient: false,
    }
}

pub(crate) fn port(name: &str, number: u16) -> ServicePort {
    ServicePort {
        name: name.to_owned(),
        number,
        protocol: Protocol::Tcp,
        app_protocol: None,
    }
}

/// A Ready doorman pod with an address in both families.
pub(crate) fn doorman_pod(n: u8) -> DoormanPod {
    let v6 = std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 9, n.into());
    DoormanPod {
        pod: PodRef {
            namespace: "napwake-system".to_owned(),
            name: format!("doorman-{n}"),
            uid: format!("doorman-uid-{n}"),
        },
        node: Some(format!("node-{n}")),
        zone: None,
        addresses: [
            (IpFamily::IPv4, [10, 0, 9, n].into()),
            (IpFamily::IPv6, v6.into()),
        ]
        .into(),
        state: DoormanState::Ready,
    }
}

/// A Ready doorman pod that answers no check.
pub(crate) fn deaf_doorman_pod(n: u8) -> DoormanPod {
    let mut pod = doorman_pod(n);
    pod.pod.uid.push_str(DEAF);
    pod
}

/// How the uid of a doorman pod ends that answers no check.
pub(crate) const DEAF: &str = "-deaf";

pub(crate) fn peer(workload: &Workload) -> Peer {
    Peer {
        name: workload.key.name.clone(),
        created: workload.created,
        deleted: workload.deleted,
        target: workload.spec.target_ref.clone(),
        phase: workload.status.phase,
        routes: workload
            .status
            .doorman
            .as_ref()
            .map(|doorman| doorman.routes.clone())
            .unwrap_or_default(),
    }
}

/// A write's name, with what tells it from others of its kind.
pub(crate) fn kind(write: &Write) -> &'static str {
    match write {
        Write::ScaleTarget { to: 0, .. } => "stop",
        Write::ScaleTarget { .. } => "wake",
        Write::MarkTarget {
            paused_replicas: Some(_),
            ..
        } => "mark",
        Write::MarkTarget { .. } => "unmark",
        Write::ApplySlice { .. } => "slice",
        Write::DeleteSlice { .. } => "unslice",
        Write::CheckListeners(_) => "check",
        Write::WriteStatus { .. } => "status",
        Write::AddFinalizer { .. } => "finalizer",
        Write::RemoveFinalizer { .. } => "unfinalizer",
        Write::Event(_) => "event",
    }
}
