//! Two operators that both take themselves for the leader, each with a view of
//! its own that lags behind, write by write in any order.
//!
//! No lease keeps them apart here: what a write may do when it comes too late is
//! settled by its precondition alone.

use std::collections::VecDeque;

use napwake_api::{names::signal, workload::PauseReason};
use proptest::{collection::vec, prelude::*};
use rstest::rstest;

use super::{objects, *};

/// One that believes it leads.
struct Operator {
    ports: Ports,
    workload: Workload,
    target: Seen<Target>,
    /// How often the pods had been stopped when it last saw the target.
    stops: usize,
    /// What it has yet to write.
    plan: VecDeque<Write>,
}

impl Operator {
    fn new(cluster: &mut Cluster) -> Self {
        let workload = cluster.workload("api").clone();
        let mut ports = Ports::new(Caps::default());
        ports.observe(&workload.key, &workload.status);
        Self {
            target: Seen::Known(cluster.target("api").clone()),
            workload,
            stops: stops(cluster),
            ports,
            plan: VecDeque::new(),
        }
    }

    fn see_workload(&mut self, cluster: &mut Cluster) {
        self.workload = cluster.workload("api").clone();
        self.ports
            .observe(&self.workload.key, &self.workload.status);
    }

    fn see_target(&mut self, cluster: &mut Cluster) {
        self.target = Seen::Known(cluster.target("api").clone());
        self.stops = stops(cluster);
    }

    /// Decides, and reads who serves a Service where the plan asks for it.
    fn decide(&mut self, cluster: &mut Cluster) {
        let mut plan = self.plan(cluster);
        if plan.is_empty() && !plan.asks.is_empty() {
            cluster.read_behind(&plan.asks);
            plan = self.plan(cluster);
        }
        self.plan = plan.writes.into();
    }

    fn plan(&mut self, cluster: &Cluster) -> Plan {
        let world = World {
            workload: self.workload.clone(),
            target: self.target.clone(),
            ..cluster.world("api").expect("it's there")
        };
        decide(&world, &mut self.ports, cluster.now)
    }

    /// Carries out the next write of its plan; what it wrote itself it has seen.
    fn write(&mut self, cluster: &mut Cluster) {
        let Some(write) = self.plan.pop_front() else {
            return;
        };
        let (alone, copy) = (fails_alone(&write), write.clone());
        match cluster.write("api", write) {
            Err(Conflict) if alone => {}
            Err(Conflict) => self.plan.clear(),
            Ok(()) => match copy {
                Write::WriteStatus { .. }
                | Write::AddFinalizer { .. }
                | Write::RemoveFinalizer { .. } => self.see_workload(cluster),
                Write::MarkTarget { .. } => self.see_target(cluster),
                Write::ScaleTarget { to, .. } => {
                    self.target = Seen::Unknown("it isn't shown yet".to_owned());
                    let is_later = stops(cluster) != self.stops;
                    assert!(to == 0 || !is_later, "it was woken from a later sleep");
                }
                _ => {}
            },
        }
    }
}

/// How often the pods have been stopped: a sleep lasts from one to the next.
///
/// Not told by `status.pause.startedAt`: a suspension that ends takes up the
/// same sleep under a new one, and a request from before it may end that sleep.
fn stops(cluster: &Cluster) -> usize {
    let written = cluster.written("api");
    written.iter().filter(|kind| **kind == "stop").count()
}

/// Something that happens.
#[derive(Clone, Debug)]
enum Act {
    Pass(i64),
    Stamp(&'static str),
    Raise(i32),
    RollOut,
    Suspend,
    /// One decides, by what it sees now or saw before.
    Decide(usize, Shown),
    /// One carries out the next write of its plan.
    Write(usize),
    /// One sees all, decides, and carries everything out.
    Work(usize),
}

/// What is seen anew.
#[derive(Clone, Copy, Debug)]
enum Shown {
    Nothing,
    Workload,
    Target,
    Both,
}

fn act() -> impl Strategy<Value = Act> {
    let key = prop::sample::select(vec![
        signal::LAST_REQUEST,
        signal::WAKE_REQUESTED,
        signal::PAUSE_REQUESTED,
    ]);
    let sight = prop::sample::select(vec![
        Shown::Nothing,
        Shown::Workload,
        Shown::Target,
        Shown::Both,
        Shown::Both,
        Shown::Both,
    ]);
    let one = || 0..2usize;
    prop_oneof![
        3 => (0..12i64).prop_map(Act::Pass),
        3 => key.prop_map(Act::Stamp),
        1 => (1..5i32).prop_map(Act::Raise),
        1 => Just(Act::RollOut),
        2 => Just(Act::Suspend),
        6 => (one(), sight).prop_map(|(who, sight)| Act::Decide(who, sight)),
        16 => one().prop_map(Act::Write),
        6 => one().prop_map(Act::Work),
    ]
}

fn carry_out(cluster: &mut Cluster, operators: &mut [Operator; 2], act: &Act) {
    match act {
        Act::Pass(seconds) => {
            cluster.now += SignedDuration::from_secs(*seconds);
            cluster.run_pods();
        }
        Act::Stamp(key) => {
            cluster.now += SignedDuration::from_millis(1);
            cluster.stamp("api", key);
        }
        Act::Raise(replicas) if *replicas > cluster.replicas("api") => {
            cluster.scale("api", *replicas);
        }
        Act::Raise(_) => {}
        Act::RollOut => cluster.roll_out("api"),
        Act::Suspend => {
            let version = cluster.version();
            let workload = cluster.workload("api");
            workload.spec.suspend = !workload.spec.suspend;
            workload.resource_version = version;
        }
        Act::Decide(who, sight) => {
            let operator = &mut operators[*who];
            if matches!(sight, Shown::Workload | Shown::Both) {
                operator.see_workload(cluster);
            }
            if matches!(sight, Shown::Target | Shown::Both) {
                operator.see_target(cluster);
            }
            operator.decide(cluster);
        }
        Act::Write(who) => operators[*who].write(cluster),
        Act::Work(who) => {
            let operator = &mut operators[*who];
            operator.see_workload(cluster);
            operator.see_target(cluster);
            operator.decide(cluster);
            while !operator.plan.is_empty() {
                operator.write(cluster);
            }
        }
    }
}

/// Where it begins: so many seconds after a pause was asked for.
fn start() -> impl Strategy<Value = Cluster> {
    prop_oneof![
        1 => (0..30i64).prop_map(pausing_for),
        2 => Just(()).prop_map(|()| due()),
    ]
}

/// `api` in a pause whose lookout is over.
fn due() -> Cluster {
    let mut cluster = pausing_for(9);
    cluster.now += SignedDuration::from_secs(10);
    cluster
}

/// `api` so many seconds after a pause was asked for.
fn pausing_for(seconds: i64) -> Cluster {
    let mut cluster = objects::running();
    cluster.pass_secs(1);
    cluster.stamp("api", signal::PAUSE_REQUESTED);
    cluster.pass_secs(seconds);
    cluster
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]

    /// Whatever two leaders have seen and however their writes fall: pods are
    /// stopped only in a pause that isn't called off, a wake ends no sleep that
    /// began after it was decided, and whoever leads in the end wakes it.
    #[test]
    fn two_leaders_do_no_harm(mut cluster in start(), acts in vec(act(), 1..60)) {
        let mut operators = [Operator::new(&mut cluster), Operator::new(&mut cluster)];
        cluster.is_overtaken = true;
        for act in &acts {
            carry_out(&mut cluster, &mut operators, act);
        }
        cluster.is_overtaken = false;
        cluster.workload("api").spec.suspend = false;
        cluster.restart();
        cluster.pass_secs(30);
        cluster.stamp("api", signal::WAKE_REQUESTED);
        cluster.pass_secs(300);
        cluster.check_clean();
    }
}

/// A wake that was decided before a suspension, and written after it, ends the
/// sleep that the request asked to end, though its status was begun anew.
#[test]
fn a_suspension_between_begins_no_later_sleep() {
    let mut cluster = due();
    let mut operators = [Operator::new(&mut cluster), Operator::new(&mut cluster)];
    let acts = [
        Act::Work(0),
        Act::Stamp(signal::LAST_REQUEST),
        Act::Decide(0, Shown::Both),
        Act::Suspend,
        Act::Work(1),
        Act::Suspend,
        Act::Pass(0),
        Act::Work(1),
    ];
    for act in &acts {
        carry_out(&mut cluster, &mut operators, act);
    }
    assert_eq!(cluster.replicas("api"), 0);
    let reason = cluster.status("api").pause.as_ref().map(|it| it.reason);
    assert_eq!(reason, Some(PauseReason::Recovered));
    carry_out(&mut cluster, &mut operators, &Act::Write(0));
    assert_eq!(cluster.replicas("api"), 3, "it was asked for");
}

/// What ends a pause.
#[derive(Clone, Copy, Debug)]
enum End {
    Stamp,
    Suspend,
    Ignore,
    Delete,
    RollOut,
}

impl End {
    fn come(self, cluster: &mut Cluster) {
        cluster.now += SignedDuration::from_millis(1);
        let (now, version) = (cluster.now, cluster.version());
        match self {
            Self::Stamp => cluster.stamp("api", signal::LAST_REQUEST),
            Self::RollOut => cluster.roll_out("api"),
            Self::Suspend => {
                cluster.workload("api").spec.suspend = true;
                cluster.workload("api").resource_version = version;
            }
            Self::Delete => {
                cluster.workload("api").deleted = Some(now);
                cluster.workload("api").resource_version = version;
            }
            Self::Ignore => {
                let target = cluster.target("api");
                let ignore = names::opt::IGNORE.to_owned();
                target.labels.insert(ignore, names::TRUE.to_owned());
                target.resource_version = version;
            }
        }
    }
}

/// A leader that stalls before the scale-down, and goes on once another one has
/// ended the pause, stops nobody: whatever ended it, and though the other one
/// never saw the mark.
#[rstest]
fn a_stalled_scale_down_never_comes_true(
    #[values(End::Stamp, End::Suspend, End::Ignore, End::Delete, End::RollOut)] end: End,
    #[values(Some(0), Some(1), None)] writes: Option<usize>,
    #[values(true, false)] mark_is_seen: bool,
) {
    let mut cluster = due();
    let unmarked = {
        let mut target = cluster.target("api").clone();
        target.annotations.clear();
        target.resource_version = "0".to_owned();
        target
    };
    let mut first = Operator::new(&mut cluster);
    first.decide(&mut cluster);
    let stops = |write: &Write| matches!(write, Write::ScaleTarget { to: 0, .. });
    let at = first.plan.iter().position(stops).expect("it's due");
    for _ in 0..writes.unwrap_or(at) {
        first.write(&mut cluster);
    }
    end.come(&mut cluster);
    let mut second = Operator::new(&mut cluster);
    if !mark_is_seen {
        second.target = Seen::Known(Target {
            labels: cluster.target("api").labels.clone(),
            template: cluster.target("api").template.clone(),
            ..unmarked
        });
    }
    for _ in 0..4 {
        second.decide(&mut cluster);
        while !second.plan.is_empty() {
            second.write(&mut cluster);
        }
        // The watch delivers in the end.
        second.see_target(&mut cluster);
    }
    assert_ne!(cluster.phase("api"), Some(Phase::Pausing), "it's ended");
    while !first.plan.is_empty() {
        first.write(&mut cluster);
    }
    assert_eq!(cluster.replicas("api"), 3);
    assert!(!cluster.written("api").contains(&"stop"));
}

/// A pause meets no conflict, though the target's controller writes to the
/// target as soon as it's marked.
#[rstest]
#[case::routed(false)]
#[case::without_a_route(true)]
fn a_pause_meets_no_conflict(#[case] is_unrouted: bool) {
    let mut cluster = objects::running();
    if is_unrouted {
        cluster.services.clear();
        cluster.settle();
    }
    cluster.pause("api");
    assert_eq!(cluster.conflicts, []);
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.until("api", Phase::Running);
    cluster.pass_secs(100);
    assert_eq!(cluster.conflicts, []);
}

/// Nor does it wait for a controller that isn't there.
#[test]
fn a_controller_that_takes_no_note_holds_up_no_pause() {
    let mut cluster = objects::running();
    cluster.services.clear();
    cluster.is_unattended = true;
    let begun = cluster.now;
    cluster.pass_secs(1);
    cluster.stamp("api", signal::PAUSE_REQUESTED);
    cluster.pass_secs(6);
    assert_eq!(cluster.replicas("api"), 0);
    let scaled = cluster.status("api").pause.clone().expect("a pause");
    let scaled = scaled.scaled_at.expect("scaled").0;
    assert_eq!(scaled.duration_since(begun).as_secs(), 6);
}
