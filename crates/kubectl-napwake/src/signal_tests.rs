//! What a wait sees, and how it ends.

use futures::{FutureExt, stream};
use serde_json::Value;

use super::*;

type Seen = watcher::Result<Event<ManagedWorkload>>;

fn in_phase(phase: &str) -> ManagedWorkload {
    let object = json!({
        "apiVersion": "napwake.dev/v1alpha1",
        "kind": "ManagedWorkload",
        "metadata": {"name": "db", "namespace": "preview-42"},
        "spec": {"targetRef": {"kind": "Deployment", "name": "db"}},
        "status": {"phase": phase},
    });
    serde_json::from_value(object).expect("readable")
}

fn refused(code: u16, reason: &str) -> Seen {
    let status: Value = json!({"code": code, "reason": reason, "message": "said no"});
    let status = serde_json::from_value(status).expect("readable");
    Err(watcher::Error::WatchStartFailed(kube::Error::Api(status)))
}

/// How a wait for a wake ends once these events have come: `None`, it goes
/// on; and what it would say if it took too long now.
fn waited(events: Vec<Seen>) -> (Option<Result<(), String>>, String) {
    waited_for(Signal::Wake, events)
}

const ASKED: &str = "2026-11-30T08:00:00.000001Z";

fn waited_for(signal: Signal, events: Vec<Seen>) -> (Option<Result<(), String>>, String) {
    let mut last = Last::Nothing;
    let events = stream::iter(events).chain(stream::pending());
    let stamp = ASKED.parse().expect("a stamp");
    let sent = Sent { signal, stamp };
    let ended = until(events, sent, "db", &mut last).now_or_never();
    let ended = ended.map(|ended| ended.map_err(|error| one_line(&error)));
    (ended, last.to_string())
}

#[test]
fn waits_until_the_phase_is_reached() {
    let begun = || vec![Ok(Event::Init), Ok(Event::InitApply(in_phase("Paused")))];
    assert_eq!(waited(vec![]), (None, "wasn't heard of".to_owned()));
    assert_eq!(waited(begun()), (None, "is still Paused".to_owned()));

    let mut events = begun();
    events.push(Ok(Event::InitDone));
    events.push(Ok(Event::Apply(in_phase("Resuming"))));
    assert_eq!(waited(events), (None, "is still Resuming".to_owned()));

    let mut events = begun();
    events.push(Ok(Event::Apply(in_phase("Running"))));
    assert_eq!(waited(events).0, Some(Ok(())));
}

#[test]
fn a_watch_that_breaks_off_is_no_end() {
    let events = vec![refused(500, "InternalError")];
    let told = "can't be seen (can't watch managedworkload/db: said no)";
    assert_eq!(waited(events), (None, told.to_owned()));

    let events = vec![
        refused(500, "InternalError"),
        Ok(Event::Init),
        Ok(Event::InitApply(in_phase("Running"))),
    ];
    assert_eq!(waited(events).0, Some(Ok(())));
}

/// A deletion wakes, so nobody waits for a pause that will never be.
#[test]
fn what_is_being_deleted_is_woken_and_not_paused() {
    let mut going = in_phase("Resuming");
    let now = serde_json::from_value(json!(ASKED)).expect("a time");
    going.metadata.deletion_timestamp = Some(now);
    let events = || vec![Ok(Event::Init), Ok(Event::InitApply(going.clone()))];
    let told = "managedworkload/db is being deleted, so it isn't paused any more";
    assert_eq!(
        waited_for(Signal::Pause, events()).0,
        Some(Err(told.to_owned()))
    );
    assert_eq!(waited_for(Signal::Wake, events()).0, None);
}

#[test]
fn a_pause_that_was_overtaken_is_not_waited_for() {
    let answered = |at: &str, answer: &str| {
        let mut workload = in_phase("Running");
        let status = json!({
            "phase": "Running",
            "clock": {
                "lastActivity": "2026-11-30T08:00:01.000000Z",
                "lastActivitySource": "rollout",
            },
            "pauseAsked": {"at": at, "answer": answer},
        });
        workload.status = serde_json::from_value(status).expect("readable");
        waited_for(Signal::Pause, vec![Ok(Event::Apply(workload))]).0
    };
    let told = "managedworkload/db isn't paused: it was used at \
                2026-11-30T08:00:01.000000Z, which counts as later; to pause it all the \
                same, ask again";
    assert_eq!(answered(ASKED, "Overtaken"), Some(Err(told.to_owned())));
    assert_eq!(answered(ASKED, "Taken"), None);
    let before = "2026-11-30T07:00:00.000000Z";
    assert_eq!(answered(before, "Overtaken"), None, "that was another");
}

#[test]
fn what_will_never_be_is_not_waited_for() {
    let deleted = "managedworkload/db was deleted".to_owned();
    let events = vec![Ok(Event::Delete(in_phase("Paused")))];
    assert_eq!(waited(events).0, Some(Err(deleted.clone())));
    let events = vec![Ok(Event::Init), Ok(Event::InitDone)];
    assert_eq!(waited(events).0, Some(Err(deleted)));

    let told = "can't watch managedworkload/db; ask for rights on \
                managedworkloads.napwake.dev: said no";
    assert_eq!(
        waited(vec![refused(403, "Forbidden")]).0,
        Some(Err(told.to_owned()))
    );
}

/// T-12: whose clock lags behind the cluster's wakes a pause that has just begun
/// all the same.
#[test]
fn a_wake_is_stamped_behind_the_pause() {
    const STARTED: &str = "2026-11-30T08:00:00.000000Z";
    let mut workload = in_phase("Paused");
    let stamped = |workload: &ManagedWorkload, at: &str| {
        let stamp = at.parse().expect("a stamp");
        behind_pause(stamp, workload).map(|later| later.to_string())
    };
    assert_eq!(stamped(&workload, STARTED), None, "it isn't known to pause");
    let pause = json!({"startedAt": STARTED, "reason": "Requested", "replicas": 1});
    let status = workload.status.as_mut().expect("a status");
    status.pause = serde_json::from_value(pause).expect("readable");
    assert_eq!(stamped(&workload, ASKED), None);
    for lagging in [STARTED, "2026-11-30T07:58:00.000000Z"] {
        assert_eq!(stamped(&workload, lagging), Some(ASKED.to_owned()));
    }
}
