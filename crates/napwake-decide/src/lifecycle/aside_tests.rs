use jiff::SignedDuration;
use napwake_api::{
    condition::{self, ConditionType},
    names::{self, opt, signal},
    workload::{ActivitySource, PauseReason, Phase},
};
use rstest::rstest;

use crate::{
    sim::{
        objects::{self, empty, running},
        questions::{paused, reason, source},
    },
    world::Controller,
};

#[test]
fn a_lost_managed_workload_is_made_anew_and_still_paused() {
    let mut cluster = paused();
    let created = cluster.now + SignedDuration::from_secs(5);
    cluster.now = created;
    cluster.app("api").workload = Some(objects::workload("api", "anew", created));
    cluster.restart();
    cluster.until("api", Phase::Paused);
    let pause = cluster.status("api").pause.clone().expect("a pause");
    assert_eq!((pause.reason, pause.replicas), (PauseReason::Recovered, 3));
    assert_eq!(
        reason(&cluster, ConditionType::WakeOnRequest),
        "DoormanRouted"
    );
    cluster.pass_secs(1);
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.until("api", Phase::Running);
    assert_eq!(cluster.replicas("api"), 3);
}

#[rstest]
#[case("0")]
#[case("many")]
#[case("")]
fn a_spoilt_mark_never_means_nobody(#[case] mark: &str) {
    let mut cluster = empty();
    cluster.add("api", 0);
    let key = signal::PAUSED_REPLICAS.to_owned();
    cluster
        .target("api")
        .annotations
        .insert(key, mark.to_owned());
    cluster.app("api").expected.insert(1);
    cluster.until("api", Phase::Paused);
    cluster.pass_secs(1);
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.settle();
    assert_eq!(cluster.replicas("api"), 1);
}

#[test]
fn a_mark_taken_off_a_paused_workload_is_put_back() {
    let mut cluster = paused();
    cluster.target("api").annotations.clear();
    cluster.settle();
    // Which makes another generation of the workload, to be recorded.
    assert_eq!(cluster.written("api"), ["mark", "status"]);
}

/// What is to be ignored is left alone, awake.
#[test]
fn an_ignored_workload_is_woken_and_left_alone() {
    let mut cluster = paused();
    let labels = &mut cluster.target("api").labels;
    labels.insert(opt::IGNORE.to_owned(), names::TRUE.to_owned());
    cluster.pass_secs(200);
    assert_eq!(cluster.replicas("api"), 3);
    assert_eq!(reason(&cluster, ConditionType::TargetAvailable), "Ignored");
    assert_eq!(cluster.slices.len(), 0);
    cluster.pass_secs(10 * 3600);
    assert_eq!(cluster.replicas("api"), 3);
}

/// Its routes stand until a pod is Ready, and its callers go on being held: nobody
/// is refused because somebody has opted out.
#[rstest]
#[case::ignored(false)]
#[case::taken_over(true)]
fn one_left_alone_is_routed_until_it_is_up(#[case] is_taken_over: bool) {
    let mut cluster = paused();
    let version = cluster.version();
    let target = cluster.target("api");
    if is_taken_over {
        target.controller = Some(Controller {
            kind: "Postgresql".to_owned(),
            name: "main".to_owned(),
        });
    } else {
        let ignore = opt::IGNORE.to_owned();
        target.labels.insert(ignore, names::TRUE.to_owned());
    }
    target.resource_version = version;
    let slices = cluster.slices.clone();
    cluster.settle();
    assert_eq!(cluster.replicas("api"), 3);
    assert_eq!(cluster.slices, slices, "no pod is Ready yet");
    cluster.pass_secs(10);
    assert_eq!(cluster.slices.len(), 0, "it's up");
    assert_eq!(cluster.phase("api"), Some(Phase::Running));
}

/// A suspension in the middle of a wake leaves nobody without an endpoint.
#[test]
fn one_suspended_while_it_wakes_is_routed_until_it_is_up() {
    let mut cluster = paused();
    cluster.pass_secs(1);
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.settle();
    let slices = cluster.slices.clone();
    let version = cluster.version();
    cluster.workload("api").spec.suspend = true;
    cluster.workload("api").resource_version = version;
    cluster.settle();
    assert_eq!(cluster.slices, slices, "no pod is Ready yet");
    cluster.pass_secs(10);
    assert_eq!((cluster.replicas("api"), cluster.slices.len()), (3, 0));
    assert_eq!(reason(&cluster, ConditionType::Ready), "Suspended");
}

#[rstest]
#[case(3, "OwnedByController")]
#[case(0, "OwnedByController")]
fn a_workload_with_a_controller_is_not_scaled(#[case] replicas: i32, #[case] expected: &str) {
    let mut cluster = empty();
    cluster.add("api", replicas);
    cluster.target("api").controller = Some(Controller {
        kind: "Postgresql".to_owned(),
        name: "main".to_owned(),
    });
    cluster.pass_secs(3600);
    cluster.stamp("api", signal::WAKE_REQUESTED);
    cluster.settle();
    assert_eq!(cluster.replicas("api"), replicas);
    assert_eq!(reason(&cluster, ConditionType::TargetAvailable), expected);
    assert_eq!(reason(&cluster, ConditionType::WakeOnRequest), "NotPaused");
    let status = cluster.status("api");
    let target = condition::get(&status.conditions, ConditionType::TargetAvailable);
    assert!(target.expect("set").message.contains("Postgresql main"));
}

#[test]
fn what_somebody_else_scaled_to_zero_is_left_alone() {
    let mut cluster = running();
    cluster.scale("api", 0);
    cluster.pass_secs(3600);
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.settle();
    assert_eq!(cluster.replicas("api"), 0);
    assert_eq!(cluster.phase("api"), Some(Phase::Running));
    assert_eq!(
        reason(&cluster, ConditionType::TargetAvailable),
        "TargetScaledToZero"
    );
    cluster.scale("api", 2);
    cluster.until("api", Phase::Running);
    assert_eq!(source(&cluster), ActivitySource::Scale);
    assert_eq!(
        reason(&cluster, ConditionType::TargetAvailable),
        "TargetFound"
    );
}

#[test]
fn a_suspended_one_stays_as_it_is_and_is_paused_again_after() {
    let mut cluster = paused();
    cluster.workload("api").spec.suspend = true;
    cluster.pass_secs(5);
    cluster.stamp("api", signal::WAKE_REQUESTED);
    cluster.pass_secs(300);
    assert_eq!(cluster.replicas("api"), 0);
    assert_eq!(reason(&cluster, ConditionType::Ready), "Suspended");
    assert_eq!(reason(&cluster, ConditionType::WakeOnRequest), "NotPaused");
    assert_eq!(cluster.slices.len(), 0);
    cluster.workload("api").spec.suspend = false;
    cluster.until("api", Phase::Paused);
    cluster.pass_secs(1);
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.until("api", Phase::Running);
    assert_eq!(cluster.replicas("api"), 3);
}

#[test]
fn of_two_managed_workloads_with_one_target_the_older_has_it() {
    let mut cluster = running();
    cluster.now += SignedDuration::from_secs(1);
    let mut second = cluster.apps["api"].clone();
    let mut workload = objects::workload("second", "second", cluster.now);
    workload.spec.target_ref = cluster.workload("api").spec.target_ref.clone();
    second.workload = Some(workload);
    cluster.apps.insert("second".to_owned(), second);
    cluster.settle();
    let status = cluster.status("second");
    let target = condition::get(&status.conditions, ConditionType::TargetAvailable);
    assert_eq!(target.expect("set").reason, "AlreadyManaged");
    assert_eq!(
        reason(&cluster, ConditionType::TargetAvailable),
        "TargetFound"
    );
}

/// ROUTE-61: a target that is deleted while paused loses its routes.
/// ROUTE-62, OBS-14: and TargetAvailable says so.
#[test]
fn a_missing_target_loses_its_routes() {
    let mut cluster = paused();
    cluster.app("api").target = None;
    cluster.settle();
    assert_eq!(cluster.slices.len(), 0);
    assert_eq!(
        reason(&cluster, ConditionType::TargetAvailable),
        "TargetNotFound"
    );
    assert_eq!(reason(&cluster, ConditionType::WakeOnRequest), "NotPaused");
    assert_eq!(cluster.phase("api"), Some(Phase::Running));
    cluster.pass_secs(100);
    assert_eq!(cluster.status("api").doorman, None);
}
