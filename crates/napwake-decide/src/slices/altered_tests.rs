use jiff::{SignedDuration, Timestamp};
use napwake_api::{
    condition::ConditionType,
    names::{event, signal},
    workload::{IpFamily, Phase},
};
use rstest::rstest;

use super::*;
use crate::{
    sim::{
        Cluster,
        objects::{self, running},
        questions::{pause_with, paused, reason},
    },
    timing,
    world::{SliceFailure, SliceProblem},
};

/// The times at which slices were written.
fn written(cluster: &Cluster) -> Vec<Timestamp> {
    let slices = cluster.log.iter();
    let slices = slices.filter(|(_, _, write)| objects::kind(write) == "slice");
    slices.map(|(at, ..)| *at).collect()
}

fn message(cluster: &Cluster) -> String {
    let conditions = &cluster.status("api").conditions;
    let known = napwake_api::condition::get(conditions, ConditionType::WakeOnRequest);
    known.expect("set").message.clone()
}

/// As a webhook does that knows better.
fn rename_protocol(spec: &mut SliceSpec) {
    for port in &mut spec.ports {
        port.app_protocol = Some("tcp".to_owned());
    }
}

fn empty(spec: &mut SliceSpec) {
    spec.endpoints.clear();
}

fn take_owner(spec: &mut SliceSpec) {
    spec.service_uid.clear();
}

fn change_owner(spec: &mut SliceSpec) {
    spec.service_uid = "another".to_owned();
}

fn change_service(spec: &mut SliceSpec) {
    spec.service = "another".to_owned();
}

/// ROUTE-38, ROUTE-70, ROUTE-74: a slice that admission alters isn't written in a
/// race with it, but again after 5 s, then longer, up to 5 min. The reason says what
/// is altered, and the pause goes on.
#[rstest]
#[case::ports(rename_protocol, "its ports")]
#[case::endpoints(empty, "its endpoints")]
#[case::no_owner(take_owner, "its owner")]
#[case::another_owner(change_owner, "its owner")]
#[case::label(change_service, "its label kubernetes.io/service-name")]
fn what_admission_alters_is_written_again_with_backoff(
    #[case] admission: fn(&mut SliceSpec),
    #[case] what: &str,
) {
    let mut cluster = running();
    cluster.admission = Some(admission);
    let begun = cluster.now;
    cluster.pause("api");
    let took = cluster.now.duration_since(begun);
    assert!(took < SignedDuration::from_secs(60), "paused after {took}");
    assert_eq!(
        reason(&cluster, ConditionType::WakeOnRequest),
        "RoutingFailed"
    );
    assert!(message(&cluster).ends_with(what), "{}", message(&cluster));
    cluster.pass_secs(3600);
    let times = written(&cluster);
    let waits: Vec<_> = times
        .windows(2)
        .map(|two| two[1].duration_since(two[0]).as_secs())
        .collect();
    assert_eq!(waits[..8], [5, 10, 20, 40, 80, 160, 300, 300]);
    assert!(!cluster.written("api").contains(&"unslice"));
    let events = cluster.events("api");
    let told = events.iter().filter(|one| **one == event::ROUTING_FAILED);
    assert_eq!(told.count(), 1);

    cluster.admission = None;
    cluster.pass_secs(330);
    assert_eq!(
        reason(&cluster, ConditionType::WakeOnRequest),
        "DoormanRouted"
    );
}

/// ROUTE-14, ROUTE-39: awake, it's taken away at once however often it was altered.
#[rstest]
#[case(rename_protocol)]
#[case(empty)]
#[case(take_owner)]
#[case(change_owner)]
fn what_is_altered_goes_once_it_is_awake(#[case] admission: fn(&mut SliceSpec)) {
    let mut cluster = running();
    cluster.admission = Some(admission);
    cluster.pause("api");
    cluster.pass_secs(3600);
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.until("api", Phase::Running);
    cluster.pass_secs(2);
    assert_eq!(cluster.slices.len(), 0);
    assert_eq!(reason(&cluster, ConditionType::WakeOnRequest), "NotPaused");
}

/// DRAIN-06: what is new is written at once, whatever became of what was written
/// before.
#[test]
fn a_slice_that_is_altered_follows_the_doorman_pods() {
    let mut cluster = pause_with(|cluster| cluster.admission = Some(rename_protocol));
    cluster.pass_secs(3600);
    cluster.doormen().push(objects::doorman_pod(3));
    cluster.settle();
    let slice = cluster.slices.values().next().expect("one");
    assert_eq!(slice.spec.endpoints.len(), 3);
}

/// What the operator keeps of an alteration right after the write.
fn failed_now(cluster: &mut Cluster, count: u32) {
    let (name, slice) = cluster.slices.iter().next().expect("a slice");
    let name = name.clone();
    let failure = SliceFailure {
        at: cluster.now,
        count,
        why: SliceProblem::Altered {
            written: Box::new(slice.spec.clone()),
            what: "its endpoints".to_owned(),
        },
    };
    cluster.app("api").failures.insert(name, failure);
}

fn only_slice(cluster: &mut Cluster) -> &mut SliceSpec {
    let slice = cluster.slices.values_mut().next();
    &mut slice.expect("one").spec
}

/// Somebody's slip is mended at once, and no warning is given of it.
#[test]
fn a_slip_is_mended_at_once() {
    let mut cluster = paused();
    only_slice(&mut cluster).endpoints.clear();
    cluster.settle();
    assert_eq!(written(&cluster), [cluster.now]);
    assert_eq!(
        reason(&cluster, ConditionType::WakeOnRequest),
        "DoormanRouted"
    );
    let events = cluster.events("api");
    assert!(!events.contains(&event::ROUTING_FAILED), "{events:?}");
}

/// ROUTE-70, ROUTE-74: one that is altered right after it was written is written
/// again after a while.
#[test]
fn what_was_altered_right_away_waits() {
    let mut cluster = paused();
    let begun = cluster.now;
    failed_now(&mut cluster, 2);
    only_slice(&mut cluster).endpoints.clear();
    cluster.settle();
    assert_eq!(
        reason(&cluster, ConditionType::WakeOnRequest),
        "RoutingFailed"
    );
    cluster.pass(timing::retry_after(2));
    assert_eq!(written(&cluster), [begun + timing::retry_after(2)]);
}

/// And has to stand for a while before that is over.
#[test]
fn what_was_altered_has_to_hold_first() {
    let mut cluster = paused();
    failed_now(&mut cluster, 1);
    cluster.settle();
    assert_eq!(
        reason(&cluster, ConditionType::WakeOnRequest),
        "RoutingFailed"
    );
    cluster.pass(timing::SLICE_HOLDS);
    assert_eq!(
        reason(&cluster, ConditionType::WakeOnRequest),
        "DoormanRouted"
    );
    assert_eq!(written(&cluster), []);
}

/// ROUTE-70: a slice that can't be taken away is told of, too.
#[test]
fn a_slice_that_cannot_be_deleted_is_told_of() {
    let mut cluster = paused();
    let name = cluster.slices.keys().next().expect("a slice").clone();
    let failure = SliceFailure {
        at: cluster.now,
        count: 1,
        why: SliceProblem::Refused("forbidden".to_owned()),
    };
    cluster.app("api").failures.insert(name, failure);
    cluster.service().internal_traffic = crate::world::TrafficPolicy::Local;
    cluster.settle();
    assert_eq!(
        reason(&cluster, ConditionType::WakeOnRequest),
        "RoutingFailed"
    );
    assert!(message(&cluster).contains("forbidden"));
    cluster.pass_secs(5);
    assert_eq!(cluster.slices.len(), 0);
    assert_eq!(
        reason(&cluster, ConditionType::WakeOnRequest),
        "NodeLocalTraffic"
    );
}

/// What nobody writes is nobody's business; what is written is told part by part.
#[test]
fn what_matters_is_what_was_written() {
    let cluster = paused();
    let slice = cluster.slices.values().next().expect("one");
    assert_eq!(altered(&slice.spec, slice), None);
    let mut found = slice.clone();
    found.managed_by = None;
    found.spec.family = IpFamily::IPv6;
    let what = altered(&slice.spec, &found).expect("altered");
    let expected = "its label endpointslice.kubernetes.io/managed-by and its addressType";
    assert_eq!(what, expected);
    assert!(!is_known_again(&slice.spec, &found));
    assert!(is_known_again(&slice.spec, slice));
}
