use jiff::SignedDuration;
use napwake_api::{
    Span,
    names::signal,
    workload::{MaxWait, Phase},
};
use rstest::rstest;

use crate::{
    sim::{Cluster, objects::running, questions::paused},
    world::Tenure,
};

fn delete(cluster: &mut Cluster) {
    let now = cluster.now;
    let version = cluster.version();
    let workload = cluster.workload("api");
    workload.deleted = Some(now);
    workload.resource_version = version;
}

fn is_gone(cluster: &Cluster) -> bool {
    cluster.apps["api"].workload.is_none()
}

/// DRAIN-24: it stays until the minute after the drain is over.
#[test]
fn a_deleted_one_is_woken_drains_and_rests_before_it_goes() {
    let mut cluster = paused();
    delete(&mut cluster);
    cluster.settle();
    assert_eq!(cluster.replicas("api"), 3);
    assert_eq!(cluster.phase("api"), Some(Phase::Resuming));
    assert_eq!(cluster.slices.len(), 1, "a held caller is still held");
    cluster.until("api", Phase::Running);
    assert_eq!(cluster.slices.len(), 0);
    cluster.pass_secs(89);
    assert!(!is_gone(&cluster));
    cluster.pass_secs(1);
    assert!(is_gone(&cluster));
    assert_eq!(cluster.replicas("api"), 3);
}

#[test]
fn a_deleted_one_in_mid_pause_keeps_its_pods() {
    let mut cluster = running();
    cluster.pass_secs(1);
    cluster.stamp("api", signal::PAUSE_REQUESTED);
    cluster.pass_secs(5);
    delete(&mut cluster);
    cluster.pass_secs(100);
    assert!(is_gone(&cluster));
    assert!(!cluster.written("api").contains(&"stop"));
}

#[rstest]
#[case::before_any_pause(false)]
#[case::paused_without_a_route(true)]
fn one_that_was_never_routed_goes_at_once(#[case] is_paused: bool) {
    let mut cluster = running();
    cluster.services.clear();
    cluster.settle();
    if is_paused {
        cluster.pause("api");
        delete(&mut cluster);
        cluster.settle();
        assert!(is_gone(&cluster));
    } else {
        assert!(cluster.workload("api").finalizers.is_empty());
    }
    assert_eq!(cluster.replicas("api"), 3);
}

#[test]
fn a_broken_workload_holds_its_deletion_no_longer_than_a_caller() {
    let mut cluster = paused();
    cluster.app("api").is_broken = true;
    delete(&mut cluster);
    cluster.pass_secs(119);
    assert_eq!(cluster.phase("api"), Some(Phase::Resuming));
    cluster.pass_secs(1 + 90);
    assert!(is_gone(&cluster));
    assert_eq!(cluster.replicas("api"), 3);
}

/// An uninstall gives every workload its replicas back and lets go of it, however
/// long its own callers would wait and whether it ever becomes Ready: its routes
/// leave as ever, and its ports rest.
#[rstest]
#[case::starts(false, 4)]
#[case::never_ready(true, 60)]
fn an_uninstall_waits_a_minute_for_readiness(#[case] is_broken: bool, #[case] ready: i64) {
    let mut cluster = paused();
    cluster.tenure = Tenure::Ends;
    cluster.app("api").is_broken = is_broken;
    cluster.workload("api").spec.wake.max_wait = MaxWait(Span::from_mins(60));
    delete(&mut cluster);
    cluster.settle();
    assert_eq!(cluster.replicas("api"), 3);
    cluster.pass_secs(ready - 1);
    assert_eq!(cluster.slices.len(), 1, "a held caller is still held");
    cluster.pass_secs(1);
    assert_eq!(cluster.slices.len(), 0);
    cluster.pass_secs(90);
    assert!(is_gone(&cluster));
    assert_eq!(cluster.replicas("api"), 3);
}

#[rstest]
#[case::target_gone(true)]
#[case::namespace_terminating(false)]
fn where_nothing_can_be_woken_routes_go_at_once_and_ports_rest(#[case] target_gone: bool) {
    let mut cluster = paused();
    delete(&mut cluster);
    if target_gone {
        cluster.app("api").target = None;
    } else {
        cluster.app("api").namespace.deleted = Some(cluster.now);
    }
    cluster.settle();
    assert_eq!(cluster.slices.len(), 0);
    let doorman = cluster.status("api").doorman.clone().expect("a rest");
    assert_eq!((doorman.routes.len(), doorman.resting.len()), (0, 1));
    let until = doorman.resting[0].until.0;
    assert_eq!(until, cluster.now + SignedDuration::from_secs(60));
    cluster.pass_secs(59);
    assert!(!is_gone(&cluster));
    cluster.pass_secs(1);
    assert!(is_gone(&cluster));
}

/// T-130, DRAIN-21: but not while a slice stands that can't be taken away: whoever got
/// its port would get its callers.
#[test]
fn a_slice_that_cannot_be_deleted_keeps_its_port() {
    let mut cluster = paused();
    cluster.is_lasting = true;
    delete(&mut cluster);
    cluster.app("api").target = None;
    cluster.pass_secs(600);
    assert_eq!(cluster.slices.len(), 1);
    assert!(!is_gone(&cluster), "whose port is it?");
    cluster.is_lasting = false;
    cluster.pass_secs(300 + 60);
    assert!(is_gone(&cluster));
}
