//! Days of simulated time with random events and crashes between any two writes.

use std::ops::RangeInclusive;

use napwake_api::names::signal;
use proptest::{collection::vec, prelude::*};

use super::{objects, *};

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
    /// The Services' own slices lag by so many milliseconds behind pods that
    /// start from now on.
    Slow(i64),
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
        2 => prop_oneof![4 => 0..2_000i64, 1 => 0..60_000i64].prop_map(Act::Slow),
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
        Act::Slow(lag) => cluster.endpoints_lag = SignedDuration::from_millis(*lag),
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
            let broken = &mut cluster.app(app).is_broken;
            *broken = !*broken;
            cluster.start_pods(app);
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

impl Cluster {
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
}

/// Lives through all of this, and checks what must hold in between and in the end.
fn live_through(acts: &[Act]) {
    let mut cluster = objects::shared();
    cluster.settle();
    for act in acts {
        carry_out(&mut cluster, act);
        cluster.settle();
        cluster.check_at_rest();
    }
    cluster.end_well();
    cluster.check_clean();
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens, and wherever the operator dies: no workload is left at
    /// zero, replicas come back as they were, no port is given twice, no slice
    /// points at nobody, nothing is stopped in the dark, and in the end nothing
    /// is left over.
    #[test]
    fn nobody_is_left_at_zero(acts in vec(act(), 1..60)) {
        live_through(&acts);
    }
}

/// Of two that have one port for one Service port, one may give it back, and not
/// know of the other, while the other's drain goes on.
#[test]
fn a_shared_port_may_rest_before_its_last_drain_ends() {
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
    live_through(&acts);
}

/// A workload that isn't routed leaves the slices of a Service to another one that
/// has woken and still hands it over.
#[test]
fn what_another_hands_over_is_left_to_it() {
    let acts = [
        Act::Slow(1),
        Act::Ignore("api"),
        Act::Scale("api", 0),
        Act::Pass(1810),
        Act::Scale("api", 1),
        Act::Stamp("worker", signal::LAST_REQUEST),
        Act::Pass(4),
    ];
    live_through(&acts);
}

/// A doorman pod that goes while a Service is handed over leaves its slices.
#[test]
fn a_doorman_pod_may_go_during_a_hand_over() {
    let acts = [
        Act::Pass(1),
        Act::Stamp("worker", signal::PAUSE_REQUESTED),
        Act::Refuse,
        Act::Slow(9001),
        Act::Lag("worker"),
        Act::Ignore("worker"),
        Act::Pass(1),
        Act::Scale("api", 0),
        Act::Lag("api"),
        Act::Pass(9),
        Act::Doorman(1),
        Act::Lag("api"),
        Act::Lag("worker"),
        Act::Pass(4),
        Act::Crash(0),
    ];
    live_through(&acts);
}

/// Two that took a port each for one Service port, as one was about to leave, come to
/// share one: they don't write their slices over each other's without end.
#[test]
fn two_ports_for_one_service_port_become_one() {
    let acts = [
        Act::Pass(1),
        Act::Stamp("worker", signal::PAUSE_REQUESTED),
        Act::Stamp("api", signal::PAUSE_REQUESTED),
        Act::Lag("worker"),
        Act::Pass(10),
        Act::Stamp("worker", signal::LAST_REQUEST),
        Act::Doorman(2),
        Act::Doorman(1),
        Act::Suspend("api"),
        Act::Pass(0),
        Act::Pass(0),
    ];
    live_through(&acts);
}

/// What was scaled up and down again unseen can't be given back.
#[test]
fn replicas_that_nobody_saw_are_forgotten() {
    let acts = [
        Act::Pass(1),
        Act::Stamp("worker", signal::PAUSE_REQUESTED),
        Act::Blind(Part::Target),
        Act::Scale("worker", 1),
        Act::Scale("worker", 0),
    ];
    live_through(&acts);
}

/// A plan to leave that is refused over and over, as it goes by an old view, doesn't
/// make another workload take over the port and give it back again each time.
#[test]
fn a_plan_that_is_refused_moves_no_port() {
    let acts = [
        Act::Pass(1),
        Act::Stamp("api", signal::PAUSE_REQUESTED),
        Act::Lag("api"),
        Act::Pass(10),
        Act::Pass(1789),
        Act::Stamp("api", signal::LAST_REQUEST),
    ];
    live_through(&acts);
}

/// Two that wake in one moment hand their Service over: while its slices stand, one of
/// them has the port on record.
#[test]
fn two_may_hand_over_one_service_at_once() {
    let acts = [
        Act::Scale("api", 1),
        Act::Slow(1),
        Act::Pass(1810),
        Act::Scale("worker", 1),
        Act::Ignore("api"),
        Act::Pass(4),
    ];
    live_through(&acts);
}

/// One takes another port for a Service that another workload has routed by an older
/// one: its slices stand until the doorman listens on the new one (DRAIN-06).
#[test]
fn a_service_may_change_its_port_while_it_is_routed() {
    let acts = [
        Act::Pass(1800),
        Act::Blind(Part::Services),
        Act::Scale("api", 4),
        Act::Pass(20),
        Act::Ahead("api", 1),
        Act::Doorman(1),
        Act::Scale("api", 0),
    ];
    live_through(&acts);
}

/// A plan to take a port back that is refused over and over, as it goes by an old view,
/// lends it to no other workload while it rests.
#[test]
fn a_port_that_rests_is_lent_to_nobody() {
    let acts = [
        Act::Pass(1810),
        Act::Lag("worker"),
        Act::Scale("api", 1),
        Act::Pass(17),
        Act::Pass(17),
        Act::Scale("worker", 1),
        Act::Pass(10),
        Act::Stamp("worker", signal::LAST_REQUEST),
        Act::Stamp("api", signal::PAUSE_REQUESTED),
    ];
    live_through(&acts);
}

/// A ManagedWorkload that goes right after its workload was marked takes the mark off, for
/// an operator has seen what it wrote itself.
#[test]
fn a_mark_goes_with_its_pause() {
    let acts = [
        Act::Scale("api", 0),
        Act::Pass(1),
        Act::Lag("worker"),
        Act::Pass(1799),
        Act::Delete("worker"),
        Act::Lag("worker"),
        Act::Scale("worker", 1),
        Act::Scale("worker", 0),
    ];
    live_through(&acts);
}
