use jiff::SignedDuration;
use napwake_api::workload::Phase;
use rstest::rstest;

use super::*;
use crate::sim::{objects, questions};

fn time(text: &str) -> Timestamp {
    text.parse().expect("a test's own time")
}

fn signals(annotations: &[(&str, &str)], now: &str) -> Signals {
    let mut cluster = objects::running();
    for (key, value) in annotations {
        cluster.annotate("api", key, (*value).to_owned());
    }
    read(&cluster.world("api").expect("there"), time(now))
}

#[rstest]
#[case(
    signal::LAST_REQUEST,
    "2026-11-30T08:00:00.000001Z click api",
    ActivitySource::Request
)]
#[case(
    signal::LAST_REQUEST,
    "2026-11-30T08:00:00.000001Z",
    ActivitySource::Request
)]
#[case(signal::ACTIVITY, "2026-11-30T08:00:00Z", ActivitySource::Annotation)]
#[case(
    signal::WAKE_REQUESTED,
    "2026-11-30T09:00:00.5+01:00",
    ActivitySource::Command
)]
fn stamps_are_read_with_their_source(
    #[case] key: &str,
    #[case] value: &str,
    #[case] source: ActivitySource,
) {
    let newest = signals(&[(key, value)], "2026-11-30T08:30:00Z")
        .newer_than(time("2026-11-30T08:00:00Z"))
        .expect("newer");
    assert_eq!(newest.source, source);
}

#[test]
fn the_newest_of_several_counts() {
    let signals = signals(
        &[
            (signal::ACTIVITY, "2026-11-30T08:00:05Z"),
            (
                signal::LAST_REQUEST,
                "2026-11-30T08:00:06.000000Z request api",
            ),
            (signal::WAKE_REQUESTED, "2026-11-30T08:00:01Z"),
        ],
        "2026-11-30T09:00:00Z",
    );
    let newest = signals.newer_than(time("2026-11-30T08:00:00Z"));
    assert_eq!(
        newest.map(|newest| newest.source),
        Some(ActivitySource::Request)
    );
    assert_eq!(signals.newer_than(time("2026-11-30T08:00:07Z")), None);
}

#[test]
fn the_activity_annotation_counts_on_the_workload_too() {
    let mut cluster = objects::running();
    cluster.target("api").annotations.insert(
        signal::ACTIVITY.to_owned(),
        "2026-11-30T08:00:05Z".to_owned(),
    );
    let world = cluster.world("api").expect("there");
    let signals = read(&world, time("2026-11-30T08:01:00Z"));
    assert!(signals.newer_than(time("2026-11-30T08:00:00Z")).is_some());
}

#[test]
fn a_stamp_too_far_ahead_counts_in_its_time() {
    let ahead = [(signal::WAKE_REQUESTED, "2026-11-30T08:01:00.000001Z")];
    let since = time("2026-11-30T07:00:00Z");
    let now = signals(&ahead, "2026-11-30T08:00:00Z");
    assert_eq!(now.newer_than(since), None);
    assert_eq!(now.due, Some(time("2026-11-30T08:00:00.000001Z")));
    let later = signals(&ahead, "2026-11-30T08:00:00.000001Z");
    assert!(later.newer_than(since).is_some());
    assert_eq!(later.due, None);
}

#[test]
fn what_cannot_be_read_is_told_and_passed_over() {
    let signals = signals(&[(signal::ACTIVITY, "yesterday")], "2026-11-30T08:00:00Z");
    assert_eq!(signals.newer_than(Timestamp::MIN), None);
    assert_eq!(
        signals.unreadable,
        [
            "napwake.dev/activity=\"yesterday\" must be an RFC 3339 time such as 2026-10-23T18:04:12Z"
        ]
    );
}

#[rstest]
#[case::newer("08:00:05.000001Z", "08:00:05.000000Z", true)]
#[case::older("08:00:05.000000Z", "08:00:05.000001Z", false)]
#[case::equal("08:00:05.000000Z", "08:00:05.000000Z", false)]
#[case::in_one_second_by_whole_pause("08:00:05Z", "08:00:05.100000Z", false)]
#[case::in_one_second_by_whole_activity("08:00:05.900000Z", "08:00:05Z", false)]
#[case::both_whole("08:00:05Z", "08:00:05Z", false)]
#[case::next_second("08:00:06Z", "08:00:05.900000Z", true)]
fn a_pause_is_asked_for_unless_activity_overtook_it(
    #[case] pause: &str,
    #[case] activity: &str,
    #[case] asked: bool,
) {
    let (pause, activity) = (
        format!("2026-11-30T{pause}"),
        format!("2026-11-30T{activity}"),
    );
    let both = signals(
        &[
            (signal::PAUSE_REQUESTED, &pause),
            (signal::ACTIVITY, &activity),
        ],
        "2026-11-30T08:01:00Z",
    );
    assert_eq!(both.pause_asked(Timestamp::MIN), asked);
    if !activity.ends_with("05Z") {
        let alone = signals(&[(signal::PAUSE_REQUESTED, &pause)], "2026-11-30T08:01:00Z");
        assert_eq!(alone.pause_asked(time(&activity)), asked, "as recorded");
    }
}

/// A pause written by a clock far ahead, which was set back since, or was another
/// leader's. T-12: it is woken all the same, by a doorman, which stamps right
/// behind the pause's start, and by anybody whose clock is right.
#[rstest]
#[case::by_a_doorman(signal::LAST_REQUEST, true)]
#[case::by_people(signal::WAKE_REQUESTED, false)]
fn a_pause_from_the_future_is_woken(#[case] key: &str, #[case] is_behind_start: bool) {
    let mut cluster = questions::paused();
    let started = cluster.status("api").pause.as_ref().expect("a pause");
    let behind_start = after(started.started_at.0, SignedDuration::from_micros(1));
    cluster.now -= SignedDuration::from_mins(10);
    cluster.pass_secs(5);
    assert_eq!(cluster.phase("api"), Some(Phase::Paused));
    let stamp = if is_behind_start {
        behind_start
    } else {
        cluster.now
    };
    cluster.annotate("api", key, stamp.to_string());
    cluster.settle();
    assert_eq!(cluster.phase("api"), Some(Phase::Resuming));
    assert_eq!(cluster.replicas("api"), 3);
}

#[rstest]
#[case::of_a_clock_that_is_right("08:00:00", "08:00:00")]
#[case::as_clocks_may_differ("08:01:00", "08:01:00")]
#[case::further_ahead("08:01:00.000001", "07:59:00")]
fn a_pause_ends_by_what_came_since(#[case] started: &str, #[case] expected: &str) {
    let day = |clock: &str| time(&format!("2026-11-30T{clock}Z"));
    assert_eq!(since(day(started), day("08:00:00")), day(expected));
}
