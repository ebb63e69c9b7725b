use napwake_decide::Seen;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::{
    fixtures::{NAMESPACE, deployment, index, key, namespace, service, workload},
    queue::Urgency,
};

/// `a` in that phase and `b`, awake and unmanaged, behind the Service `both`; `c` is
/// behind one of its own.
fn neighbors(phase: &str) -> Index {
    let now = Instant::now();
    let mut index = index();
    index.apply_namespace(namespace(1, json!({})), now);
    let stopped = json!({"spec": {"replicas": 0}, "status": {"readyReplicas": 0}});
    for name in ["a", "c"] {
        index.apply_target(labeled(name, 1, stopped.clone()), now);
        index.apply_workload(workload(name, 1, json!({"status": {"phase": phase}})), now);
    }
    index.apply_target(labeled("b", 1, json!({})), now);
    index.apply_service(service("both", "web", 1, json!({})), now);
    index.apply_service(service("c", "c", 1, json!({})), now);
    index
}

/// A Deployment; the pods of `a` and `b` carry the label `app: web`.
fn labeled(name: &str, version: u32, mut patch: Value) -> std::sync::Arc<ObservedTarget> {
    let app = if name == "c" { "c" } else { "web" };
    patch["spec"]["template"]["metadata"]["labels"]["app"] = json!(app);
    deployment(name, version, patch)
}

fn behind(index: &Index) -> BTreeMap<String, Behind> {
    let pods = Seen::Unknown("not counted".to_owned());
    let world = index.world(&key("a"), pods, Instant::now());
    world.expect("there").behind
}

fn b() -> BTreeSet<Owner> {
    [Owner::Target(TargetKind::Deployment, "b".to_owned())].into()
}

/// Only of one that sleeps, or is about to, it's asked who else is there.
#[rstest]
#[case("Pausing", true)]
#[case("Paused", true)]
#[case("Resuming", true)]
#[case("Running", false)]
fn a_sleeper_has_neighbors(#[case] phase: &str, #[case] expected: bool) {
    let index = neighbors(phase);
    let awake = |behind: BTreeMap<String, Behind>| {
        let awake = behind.into_iter().map(|(name, one)| (name, one.awake));
        awake.collect::<BTreeMap<_, _>>()
    };
    let all = [("both".to_owned(), b())].into();
    let expected = if expected { all } else { BTreeMap::new() };
    assert_eq!(awake(behind(&index)), expected);
}

/// What was read is kept with the Service: failures beside what was found before,
/// and none of it once the Service or the term is gone.
#[test]
fn what_was_read_is_kept() {
    let (mut index, now) = (neighbors("Paused"), Instant::now());
    let at: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
    let found = || Ok([("both".to_owned(), [Owner::Other].into())].into());
    index.read_behind(NAMESPACE, behind(&index), found(), at);
    index.read_behind(NAMESPACE, behind(&index), Err("no".to_owned()), at);
    index.read_behind(NAMESPACE, behind(&index), Err("no".to_owned()), at);
    let both = behind(&index).remove("both").expect("it");
    let read = both.read.expect("read");
    assert_eq!((read.at, read.awake), (at, b()));
    assert_eq!(read.serving, [Owner::Other].into());
    assert_eq!(both.failure.expect("failed").count, 2);
    index.read_behind(NAMESPACE, behind(&index), found(), at);
    assert_eq!(behind(&index)["both"].failure, None);

    let mut other = neighbors("Paused");
    other.read_behind(NAMESPACE, behind(&index), found(), at);
    other.begin_term(napwake_decide::Ports::default(), now);
    assert_eq!(behind(&other)["both"].read, None);
    let name = (NAMESPACE.to_owned(), "both".to_owned());
    index.delete_service(&name, "service-both", now);
    assert_eq!(index.behind, BTreeMap::new());
}

/// What was read of a Service counts no longer once it selects other pods, or another
/// one has its name.
#[rstest]
#[case::annotated(json!({"metadata": {"annotations": {"napwake.dev/doorman-ignore-ports": "9"}}}), 1)]
#[case::other_pods(json!({"spec": {"selector": {"app": "web", "tier": "front"}}}), 0)]
#[case::another_one(json!({"metadata": {"uid": "another"}}), 0)]
fn what_was_read_is_of_one_selector(#[case] patch: Value, #[case] known: usize) {
    let (mut index, now) = (neighbors("Paused"), Instant::now());
    let at: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
    let found = Ok([("both".to_owned(), BTreeSet::new())].into());
    index.read_behind(NAMESPACE, behind(&index), found, at);
    index.behind.retain(|(_, service), _| service == "both");
    index.apply_service(service("both", "web", 2, patch), now);
    assert_eq!(index.behind.len(), known);
}

/// ROUTE-33: when one wakes or goes, whoever sleeps behind its Services is looked at.
#[rstest]
#[case::gone(json!({"status": {"readyReplicas": 0}}), "Paused", true)]
#[case::more(json!({"spec": {"replicas": 2}, "status": {"readyReplicas": 2}}), "Paused", false)]
#[case::nobody_sleeps(json!({"status": {"readyReplicas": 0}}), "Running", false)]
fn sleepers_are_told(#[case] patch: Value, #[case] phase: &str, #[case] expected: bool) {
    let mut index = neighbors(phase);
    let concerns = index.apply_target(labeled("b", 2, patch), Instant::now());
    let told: Vec<_> = concerns.workloads.into_iter().collect();
    let a = (key("a"), Urgency::Usual);
    assert_eq!(told, if expected { vec![a] } else { Vec::new() });
}
