use jiff::SignedDuration;
use napwake_api::{
    Span,
    condition::ConditionType,
    names::{event, signal},
    workload::{ActivitySource, PauseReason, Phase, RouteState, WakeMode},
};
use rstest::rstest;

use crate::{
    Write,
    sim::{
        Cluster, EVERY_PART, Part,
        objects::{empty, running},
        questions::{paused, reason, source},
    },
    world::Readiness,
};

/// LIFE-01: phase Pausing, route added, pods stopped, Paused.
/// ROUTE-12: the slice is there before the pods stop.
#[test]
fn a_pause_and_a_wake_write_in_order() {
    let mut cluster = running();
    cluster.log.clear();
    cluster.pause("api");
    assert_eq!(
        cluster.written("api"),
        [
            "finalizer",
            "status",
            "event",
            "mark",
            "status", // nobody else serves its Service: a route opens
            "check",
            "slice",
            "status",
            "status",
            "stop",
            "status",
            "event"
        ]
    );
    cluster.log.clear();
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.until("api", Phase::Running);
    cluster.pass_secs(100);
    assert_eq!(
        cluster.written("api"),
        [
            "wake",
            "status",
            "event",
            "unmark", // asked for: Resuming
            "status",
            "event",   // a pod is Ready: Running
            "unslice", // the Service's own slices name it
            "status",
            "status",
            "status", // draining, resting, done
            "unfinalizer"
        ]
    );
}

#[test]
fn a_wake_is_one_scale_write_before_anything_else() {
    let mut cluster = paused();
    cluster.stamp("api", signal::LAST_REQUEST);
    // Nothing of the routes is needed for it.
    cluster.unknown = EVERY_PART
        .into_iter()
        .filter(|part| *part != Part::Target)
        .collect();
    let plan = cluster.plan("api").expect("there");
    let scales = |write: &&Write| matches!(write, Write::ScaleTarget { from: 0, to: 3, .. });
    assert!(plan.writes.first().as_ref().is_some_and(scales));
    assert_eq!(plan.writes.iter().filter(scales).count(), 1);
}

/// LIFE-03: a request wakes just as an activity annotation does.
/// LIFE-04: and is activity, with its time and source.
/// In Ask too, whatever the stamp.
#[rstest]
#[case(signal::LAST_REQUEST, WakeMode::Request, ActivitySource::Request)]
#[case(signal::ACTIVITY, WakeMode::Request, ActivitySource::Annotation)]
#[case(signal::WAKE_REQUESTED, WakeMode::Request, ActivitySource::Command)]
#[case(signal::LAST_REQUEST, WakeMode::Ask, ActivitySource::Request)]
#[case(signal::ACTIVITY, WakeMode::Ask, ActivitySource::Annotation)]
#[case(signal::WAKE_REQUESTED, WakeMode::Ask, ActivitySource::Command)]
fn a_stamp_wakes(#[case] key: &str, #[case] mode: WakeMode, #[case] woken_by: ActivitySource) {
    let mut cluster = paused();
    cluster.workload("api").spec.wake.mode = mode;
    cluster.pass_secs(50);
    let asked = cluster.now;
    cluster.stamp("api", key);
    cluster.settle();
    assert_eq!(cluster.phase("api"), Some(Phase::Resuming));
    assert_eq!(cluster.replicas("api"), 3);
    cluster.until("api", Phase::Running);
    // OBS-03: the source stays once it's Running.
    assert_eq!(source(&cluster), woken_by);
    let clock = cluster.status("api").clock.clone().expect("a clock");
    assert_eq!(clock.last_activity.0, asked);
    let idle_at = clock.idle_at.expect("counts").0;
    assert_eq!(idle_at, cluster.now + SignedDuration::from_mins(30));
}

/// Replicas raised by anyone else wake it, in Ask too.
#[rstest]
#[case(1)]
#[case(5)]
fn replicas_raised_wake(#[case] replicas: i32) {
    let mut cluster = paused();
    cluster.workload("api").spec.wake.mode = WakeMode::Ask;
    cluster.pass_secs(5);
    cluster.scale("api", replicas);
    cluster.until("api", Phase::Running);
    assert_eq!(cluster.replicas("api"), replicas);
    assert_eq!(source(&cluster), ActivitySource::Scale);
    assert!(!cluster.written("api").contains(&"wake"));
}

/// LIFE-13: it pauses when idleAfter runs out.
#[rstest]
#[case(WakeMode::Request)]
#[case(WakeMode::Ask)]
fn it_pauses_when_idle(#[case] mode: WakeMode) {
    let mut cluster = running();
    cluster.workload("api").spec.wake.mode = mode;
    cluster.pass_secs(30 * 60 - 1);
    assert_eq!(cluster.phase("api"), Some(Phase::Running));
    cluster.pass_secs(1);
    assert_eq!(cluster.phase("api"), Some(Phase::Pausing));
    let pause = cluster.status("api").pause.clone().expect("a pause");
    assert_eq!(pause.reason, PauseReason::Idle);
    // OBS-15: set as the pause begins, and stable through it.
    assert_eq!(pause.started_at.0, cluster.now);
    cluster.until("api", Phase::Paused);
    let later = cluster.status("api").pause.clone().expect("a pause");
    assert_eq!(later.started_at, pause.started_at);
}

#[test]
fn what_is_never_idle_pauses_only_when_asked() {
    let mut cluster = running();
    cluster.app("api").never_idle = Some("idle-after can't be read".to_owned());
    cluster.pass_secs(10 * 3600);
    assert_eq!(cluster.phase("api"), Some(Phase::Running));
    assert_eq!(reason(&cluster, ConditionType::Ready), "InvalidSetting");
    assert_eq!(
        cluster
            .status("api")
            .clock
            .clone()
            .expect("a clock")
            .idle_at,
        None
    );
    cluster.pause("api");
}

/// A stamp calls the pause off at each stage of it: the workload returns to
/// Running and its pods stay.
#[rstest]
#[case::at_once(0)]
#[case::looking_out(5)]
#[case::last_moment(9)]
fn activity_calls_a_pause_off(#[case] seconds: i64) {
    let mut cluster = running();
    cluster.pass_secs(1);
    cluster.stamp("api", signal::PAUSE_REQUESTED);
    cluster.pass_secs(seconds);
    assert_eq!(cluster.phase("api"), Some(Phase::Pausing));
    cluster.now += SignedDuration::from_millis(1);
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.settle();
    assert_eq!(cluster.phase("api"), Some(Phase::Running));
    assert!(!cluster.written("api").contains(&"stop"));
    assert!(cluster.events("api").contains(&event::PAUSE_CALLED_OFF));
    cluster.pass_secs(200);
    assert_eq!(cluster.phase("api"), Some(Phase::Running), "asked for once");
}

/// What somebody else lowered in a pause that is still looking out comes back as
/// they left it, though they then stop the pods before we do.
#[test]
fn the_last_replicas_of_somebody_else_come_back() {
    let mut cluster = running();
    cluster.pass_secs(1);
    cluster.stamp("api", signal::PAUSE_REQUESTED);
    cluster.settle();
    for replicas in [2, 0] {
        cluster.scale("api", replicas);
        cluster.settle();
    }
    cluster.until("api", Phase::Paused);
    cluster.stamp("api", signal::WAKE_REQUESTED);
    cluster.until("api", Phase::Running);
    assert_eq!(cluster.replicas("api"), 2);
}

#[test]
fn a_pause_called_off_once_the_pods_stop_is_a_wake() {
    let mut cluster = running();
    cluster.pass_secs(1);
    cluster.stamp("api", signal::PAUSE_REQUESTED);
    cluster.pass_secs(12);
    assert_eq!(cluster.replicas("api"), 0);
    assert_eq!(cluster.phase("api"), Some(Phase::Pausing));
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.settle();
    assert_eq!(cluster.phase("api"), Some(Phase::Resuming));
    assert_eq!(cluster.replicas("api"), 3);
}

#[test]
fn a_rollout_or_a_raise_calls_a_pause_off() {
    let acts: [fn(&mut Cluster); 2] = [|c| c.roll_out("api"), |c| c.scale("api", 4)];
    for act in acts {
        let mut cluster = running();
        cluster.pass_secs(1);
        cluster.stamp("api", signal::PAUSE_REQUESTED);
        cluster.pass_secs(5);
        act(&mut cluster);
        cluster.settle();
        assert_eq!(cluster.phase("api"), Some(Phase::Running));
    }
}

#[test]
fn a_rollout_restarts_the_clock_and_wakes_nobody() {
    let mut cluster = running();
    cluster.pass_secs(29 * 60);
    cluster.roll_out("api");
    cluster.settle();
    assert_eq!(source(&cluster), ActivitySource::Rollout);
    cluster.pass_secs(29 * 60);
    assert_eq!(cluster.phase("api"), Some(Phase::Running));
    cluster.until("api", Phase::Paused);
    cluster.roll_out("api");
    cluster.pass_secs(60);
    assert_eq!(cluster.phase("api"), Some(Phase::Paused));
}

#[rstest]
#[case::default(10, 10)]
#[case::none(0, 3)]
fn the_route_stands_for_the_lookout_and_never_for_less_than_it_takes(
    #[case] lookout: u64,
    #[case] seconds: i64,
) {
    let mut cluster = running();
    cluster.workload("api").spec.lookout = Span::from_secs(lookout);
    cluster.pause("api");
    let pause = cluster.status("api").pause.clone().expect("a pause");
    let routed = pause.routed_at.expect("routed").0;
    let stood = pause.scaled_at.expect("scaled").0.duration_since(routed);
    assert_eq!(stood.as_secs(), seconds);
}

/// ROUTE-38: routing that is refused, or that nobody answers, holds up no pause.
#[rstest]
#[case::refused(true, 8)]
#[case::no_doorman(false, 22)]
fn routing_holds_up_no_pause(#[case] refused: bool, #[case] at_most: i64) {
    let mut cluster = running();
    if refused {
        cluster.refusal = Some(crate::world::SliceProblem::Refused("no".to_owned()));
    } else {
        cluster.doormen().clear();
    }
    let begun = cluster.now;
    cluster.pause("api");
    let took = cluster.now.duration_since(begun).as_secs();
    assert!(took <= at_most, "{took} s");
    // ROUTE-39: nor a wake.
    cluster.stamp("api", signal::ACTIVITY);
    cluster.settle();
    assert_eq!(cluster.replicas("api"), 3);
}

#[rstest]
#[case(Part::Target)]
#[case(Part::Services)]
#[case(Part::Slices)]
#[case(Part::Doorman)]
#[case(Part::Peers)]
fn nothing_is_stopped_while_anything_is_unknown(#[case] part: Part) {
    let mut cluster = running();
    cluster.pass_secs(1);
    cluster.stamp("api", signal::PAUSE_REQUESTED);
    cluster.pass_secs(5);
    cluster.unknown.insert(part);
    cluster.pass_secs(600);
    assert_eq!(cluster.replicas("api"), 3);
    cluster.unknown.clear();
    cluster.until("api", Phase::Paused);
}

#[test]
fn it_is_paused_only_once_its_pods_are_gone() {
    let mut cluster = running();
    cluster.pass_secs(1);
    cluster.stamp("api", signal::PAUSE_REQUESTED);
    cluster.unknown.insert(Part::Pods);
    cluster.pass_secs(600);
    assert_eq!(cluster.replicas("api"), 0);
    assert_eq!(cluster.phase("api"), Some(Phase::Pausing));
    cluster.unknown.clear();
    cluster.pass_secs(2);
    assert_eq!(cluster.phase("api"), Some(Phase::Paused));
}

/// What isn't Ready when first seen is Resuming, and Running once a pod is; one
/// that never is pauses after idleAfter.
#[rstest]
#[case::ready(false, Phase::Running)]
#[case::never_ready(true, Phase::Paused)]
fn a_new_one_without_ready_pods_is_resuming(#[case] is_broken: bool, #[case] end: Phase) {
    let mut cluster = empty();
    cluster.add("api", 0);
    cluster.app("api").is_broken = is_broken;
    cluster.scale("api", 2);
    cluster.settle();
    assert_eq!(cluster.phase("api"), Some(Phase::Resuming));
    assert_eq!(source(&cluster), ActivitySource::Started);
    cluster.pass_secs(10);
    let soon = if is_broken {
        Phase::Resuming
    } else {
        Phase::Running
    };
    assert_eq!(cluster.phase("api"), Some(soon));
    cluster.pass_secs(if is_broken { 31 * 60 } else { 0 });
    assert_eq!(cluster.phase("api"), Some(end));
}

#[test]
fn a_pause_may_be_asked_for_while_resuming() {
    let mut cluster = paused();
    cluster.app("api").is_broken = true;
    cluster.stamp("api", signal::WAKE_REQUESTED);
    cluster.pass_secs(60);
    assert_eq!(cluster.phase("api"), Some(Phase::Resuming));
    cluster.pause("api");
    assert_eq!(
        cluster
            .status("api")
            .pause
            .clone()
            .expect("a pause")
            .replicas,
        3
    );
}

/// A wake that the operator finds hours later isn't idle at once.
#[test]
fn an_old_wake_is_given_its_time() {
    let mut cluster = paused();
    cluster.stamp("api", signal::WAKE_REQUESTED);
    cluster.now += SignedDuration::from_hours(3);
    cluster.settle();
    assert_eq!(cluster.phase("api"), Some(Phase::Resuming));
    cluster.pass_secs(20 * 60);
    assert_eq!(cluster.phase("api"), Some(Phase::Running));
}

/// A wake whose pods don't come goes on.
#[test]
fn a_wake_goes_on_until_a_pod_is_ready() {
    let mut cluster = paused();
    cluster.app("api").is_broken = true;
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.pass_secs(600);
    assert_eq!(cluster.phase("api"), Some(Phase::Resuming));
    assert_eq!(cluster.replicas("api"), 3);
    let routes = &cluster
        .status("api")
        .doorman
        .as_ref()
        .expect("routes")
        .routes;
    assert_eq!(routes[0].state, RouteState::Routed, "callers are held");
}

/// ROUTE-20: once each pause, over many decisions.
/// ROUTE-19: a warning.
#[rstest]
#[case(Readiness::Unprobed, 1)]
#[case(Readiness::Probed, 0)]
fn a_missing_readiness_probe_is_told_once_each_pause(
    #[case] readiness: Readiness,
    #[case] expected: usize,
) {
    let mut cluster = running();
    cluster.target("api").template.readiness = readiness;
    let told = |cluster: &Cluster| {
        let events = cluster.events("api");
        events
            .iter()
            .filter(|reason| **reason == event::NO_READINESS_PROBE)
            .count()
    };
    cluster.pause("api");
    cluster.pass_secs(3600);
    assert_eq!(told(&cluster), expected);
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.until("api", Phase::Running);
    cluster.pass_secs(1);
    cluster.pause("api");
    assert_eq!(told(&cluster), 2 * expected);
}

#[test]
fn an_unreadable_stamp_is_told_once() {
    let mut cluster = running();
    cluster.annotate("api", signal::ACTIVITY, "yesterday".to_owned());
    cluster.pass_secs(3600);
    let events = cluster.events("api");
    assert_eq!(
        events
            .iter()
            .filter(|reason| **reason == event::INVALID_SETTING)
            .count(),
        1
    );
}

/// A view of the workload from before our own last write to it changes nothing.
#[rstest]
#[case::before_the_wake(true, Phase::Resuming)]
#[case::before_the_pause(false, Phase::Paused)]
fn an_outdated_view_is_waited_out(#[case] wakes: bool, #[case] expected: Phase) {
    let mut cluster = running();
    let awake = cluster.apps["api"].target.clone();
    cluster.pause("api");
    let mut asleep = cluster.apps["api"].target.clone();
    // Without its mark it looks as if somebody else had scaled it to 0.
    asleep.as_mut().expect("there").annotations.clear();
    if wakes {
        cluster.stamp("api", signal::WAKE_REQUESTED);
        cluster.step_up_to("api", usize::MAX);
    }
    cluster.app("api").outdated = if wakes { asleep } else { awake };
    cluster.log.clear();
    cluster.pass_secs(60);
    assert_eq!(cluster.phase("api"), Some(expected));
    assert_eq!(cluster.written("api"), [] as [&str; 0]);
}
