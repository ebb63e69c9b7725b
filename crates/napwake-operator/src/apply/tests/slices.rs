//! Writes of EndpointSlices.

use tokio::sync::SemaphorePermit;

use super::*;
use crate::apply::slices::Found;

fn spec() -> SliceSpec {
    SliceSpec {
        name: "a-o1".to_owned(),
        service: "a".to_owned(),
        service_uid: "service-a".to_owned(),
        family: IpFamily::IPv4,
        endpoints: vec![Endpoint {
            address: [10, 1, 0, 1].into(),
            node: Some("n1".to_owned()),
            zone: None,
            pod: Some(PodRef {
                namespace: "napwake-system".to_owned(),
                name: "d-1".to_owned(),
                uid: "pod-d-1".to_owned(),
            }),
        }],
        ports: vec![SlicePort {
            name: String::new(),
            port: 20_000,
            app_protocol: Some("http".to_owned()),
        }],
    }
}

pub(super) fn create() -> Write {
    Write::ApplySlice {
        slice: spec(),
        over: Over::Nothing,
    }
}

/// What a slice says: its Service owns it, and nothing optional is left out
/// that a reader could stumble over (F-08, F-14, F-17, F-110).
#[tokio::test(start_paused = true)]
async fn a_slice_is_created_not_applied() {
    let created = slice_json("a-o1", "a", 6, json!({}));
    let answers = |server| answer(server, 201, created);
    let (result, applied) = carry_out(vec![create()], answers).await;
    result.unwrap();
    let call = &applied.calls[0];
    assert_eq!(
        call.line,
        "POST /apis/discovery.k8s.io/v1/namespaces/ns/endpointslices"
    );
    let expected = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "a-o1",
            "labels": {
                "kubernetes.io/service-name": "a",
                "endpointslice.kubernetes.io/managed-by": "napwake.dev",
            },
            "ownerReferences": [{
                "apiVersion": "v1",
                "kind": "Service",
                "name": "a",
                "uid": "service-a",
                "controller": true,
            }],
        },
        "addressType": "IPv4",
        "endpoints": [{
            "addresses": ["10.1.0.1"],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": "n1",
            "targetRef": {
                "kind": "Pod",
                "namespace": "napwake-system",
                "name": "d-1",
                "uid": "pod-d-1",
            },
        }],
        "ports": [{"name": "", "port": 20_000, "protocol": "TCP", "appProtocol": "http"}],
    });
    assert_eq!(call.body, expected);
}

#[tokio::test(start_paused = true)]
async fn a_slice_is_written_over_at_its_version() {
    let write = Write::ApplySlice {
        slice: spec(),
        over: Over::Existing {
            uid: "slice-a-o1".to_owned(),
            resource_version: "5".to_owned(),
        },
    };
    let answers = |server| answer(server, 200, slice_json("a-o1", "a", 6, json!({})));
    let (result, applied) = carry_out(vec![write], answers).await;
    result.unwrap();
    let call = &applied.calls[0];
    assert_eq!(
        call.line,
        "PATCH /apis/discovery.k8s.io/v1/namespaces/ns/endpointslices/a-o1"
    );
    assert_eq!(call.content_type, "application/merge-patch+json");
    assert_eq!(call.body["metadata"]["resourceVersion"], "5");
    assert_eq!(call.body["metadata"]["uid"], "slice-a-o1");
}

/// ROUTE-72: a foreign slice of the name is a failure, and is read,
/// never written.
#[tokio::test(start_paused = true)]
async fn a_foreign_slice_is_left_alone() {
    let (result, applied) = carry_out(vec![create()], async |mut server| {
        let first = server.refuse(409, "AlreadyExists").await;
        let foreign = json!({"metadata": {
            "labels": {"endpointslice.kubernetes.io/managed-by": "somebody"},
        }});
        let second = server
            .answer(200, slice_json("a-o1", "a", 3, foreign))
            .await;
        (server, vec![first, second])
    })
    .await;
    result.unwrap();
    assert!(applied.calls[1].line.starts_with("GET "));
    let failure = &applied.world().slice_failures["a-o1"];
    assert_eq!((&failure.why, failure.count), (&SliceProblem::Foreign, 1));
}

/// One of our own that the watch hasn't shown yet is no failure.
#[tokio::test(start_paused = true)]
async fn an_own_slice_of_the_name_is_taken_in() {
    let (result, applied) = carry_out(vec![create()], async |mut server| {
        let first = server.refuse(409, "AlreadyExists").await;
        let ours = slice_json("a-o1", "a", 3, json!({}));
        let second = server.answer(200, ours).await;
        (server, vec![first, second])
    })
    .await;
    result.unwrap();
    assert!(applied.world().slice_failures.is_empty());
}

/// A refused slice write is noted and holds nothing up.
#[tokio::test(start_paused = true)]
async fn a_refused_slice_is_noted_and_the_plan_goes_on() {
    let writes = vec![create(), scale(1, 0)];
    let (result, applied) = carry_out(writes, async |mut server| {
        let first = server.refuse(403, "Forbidden").await;
        let second = server.answer(200, scale_json(8, 0)).await;
        (server, vec![first, second])
    })
    .await;
    result.unwrap();
    let failure = &applied.world().slice_failures["a-o1"];
    let why = SliceProblem::Refused("because of Forbidden".to_owned());
    assert_eq!(failure.why, why);
}

fn delete() -> Write {
    Write::DeleteSlice {
        name: "a-o1".to_owned(),
        uid: "slice-a-o1".to_owned(),
        resource_version: "5".to_owned(),
    }
}

/// A slice is deleted as it was seen, or not at all; that it's gone or another
/// one is no failure.
#[rstest]
#[case::deleted(200)]
#[case::gone_already(404)]
#[case::has_changed(409)]
#[tokio::test(start_paused = true)]
async fn a_slice_is_deleted_only_as_it_was_seen(#[case] code: u16) {
    let answers = |server| async move {
        if code == 200 {
            answer(server, 200, json!({"kind": "Status", "status": "Success"})).await
        } else {
            refuse(server, code, "Gone").await
        }
    };
    let (result, applied) = carry_out(vec![delete()], answers).await;
    result.unwrap();
    let call = &applied.calls[0];
    assert_eq!(
        call.line,
        "DELETE /apis/discovery.k8s.io/v1/namespaces/ns/endpointslices/a-o1"
    );
    let expected = json!({"uid": "slice-a-o1", "resourceVersion": "5"});
    assert_eq!(call.body["preconditions"], expected);
    assert!(applied.world().slice_failures.is_empty());
}

/// DRAIN-21: one that a finalizer of somebody's keeps isn't gone: it sends callers to the
/// doorman on, and its port may be nobody else's. That's said, and tried with backoff.
#[tokio::test(start_paused = true)]
async fn a_slice_that_a_finalizer_keeps_is_there() {
    let kept = json!({"metadata": {
        "deletionTimestamp": "2026-11-30T10:00:00Z", "finalizers": ["example.org/mirror"],
    }});
    let answers = |server| answer(server, 200, slice_json("a-o1", "a", 6, kept));
    let (result, applied) = carry_out(vec![delete()], answers).await;
    result.unwrap();
    let slices = applied
        .shared
        .with(|index, now| index.all_slices(now).count());
    assert_eq!(slices, 1);
    let world = applied.world();
    let why = "it is kept by its finalizer example.org/mirror".to_owned();
    assert_eq!(world.slice_failures["a-o1"].why, SliceProblem::Refused(why));
}

/// One with its turn taken by others, and what ends its wait.
async fn wait_for_a_turn(
    write: Write,
    end: impl FnOnce(SemaphorePermit<'_>),
    term: &Term,
    hurry: &Hurry,
) -> Result<(), ApplyError> {
    let (client, server) = api();
    let (mut index, now) = (index(), tokio::time::Instant::now());
    index.apply_workload(workload("a", 5, json!({})), now);
    let seen = Seen::Unknown(String::new());
    let world = index.world(&key("a"), seen, now).unwrap();
    let applier = applier(&client, index);
    drop(client);
    let mut plan = Plan::nothing();
    plan.writes = vec![write];
    let turns = applier.slices.take_all().unwrap();
    let ending = async {
        tokio::task::yield_now().await;
        end(turns);
    };
    let leave = Leave { term, hurry };
    let (result, ()) = tokio::join!(applier.apply(leave, &world, plan), ending);
    drop(applier);
    server.done().await;
    result
}

/// Whether this process leads is asked right before each call, not only before
/// the plan: one that had to wait for its turn finds that its time is over.
#[rstest]
#[case::applied(create())]
#[case::deleted(delete())]
#[tokio::test(start_paused = true)]
async fn no_slice_is_written_after_the_term(#[case] write: Write) {
    let (term, over) = Term::until_ended();
    let end = |turns: SemaphorePermit<'_>| {
        over();
        drop(turns);
    };
    let result = wait_for_a_turn(write, end, &term, &Hurry::default()).await;
    assert!(matches!(result, Err(ApplyError::NotLeader)), "{result:?}");
}

/// A wake doesn't wait for the slices of a thousand others (DRAIN-07).
#[rstest]
#[case::applied(create())]
#[case::deleted(delete())]
#[tokio::test(start_paused = true)]
async fn a_slice_in_the_queue_gives_way_to_a_wake(#[case] write: Write) {
    let queue = Queue::new();
    let hurry = queue.begin(key("a"));
    let end = |turns: SemaphorePermit<'_>| {
        turns.forget(); // None becomes free.
        queue.add(key("a"), Urgency::Wake);
    };
    let result = wait_for_a_turn(write, end, &Term::endless(), &hurry).await;
    assert!(matches!(result, Err(ApplyError::WakeFirst)), "{result:?}");
}

/// ROUTE-39: nor for the answer about a slice of its own. That none came is no
/// failure of the slice, and nothing more of the plan is written.
#[rstest]
#[case::applied(create())]
#[case::deleted(delete())]
#[tokio::test(start_paused = true)]
async fn a_slice_under_way_gives_way_to_a_wake(#[case] write: Write) {
    let queue = Queue::new();
    let hurry = queue.begin(key("a"));
    let more = vec![write, create(), scale(1, 0)];
    let (result, applied) = carry_out_in_a_hurry(more, &hurry, async |mut server| {
        let (call, silence) = server.be_silent().await;
        queue.add(key("a"), Urgency::Wake);
        tokio::task::yield_now().await;
        drop(silence);
        (server, vec![call])
    })
    .await;
    assert!(matches!(result, Err(ApplyError::WakeFirst)), "{result:?}");
    assert!(applied.world().slice_failures.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_slice_is_not_seen_again() {
    let (client, mut server) = api();
    let mut index = index();
    index.apply_slice(
        slice("a-o1", "a", 5, json!({})),
        tokio::time::Instant::now(),
    );
    let applier = applier(&client, index);
    let success = json!({"kind": "Status", "status": "Success"});
    let key = key("a");
    let seen = Found {
        name: "a-o1".to_owned(),
        uid: "slice-a-o1".to_owned(),
        version: "5".to_owned(),
    };
    let term = Term::endless();
    let deleting = applier.delete_slice(&term, &key, &seen);
    let (deleted, _) = tokio::join!(deleting, server.answer(200, success));
    deleted.unwrap();
    // The watch shows it once more before its deletion.
    applier
        .shared
        .change(|index, now| index.apply_slice(slice("a-o1", "a", 6, json!({})), now));
    applier.shared.change(|index, now| {
        index.apply_target(deployment("a", 1, json!({})), now);
        index.apply_workload(
            workload("a", 1, crate::fixtures::routed("Paused", "a", 20_000)),
            now,
        )
    });
    let world = |index: &mut crate::observe::Index, now| index.world(&key, Seen::Absent, now);
    let world = applier.shared.with(world).unwrap();
    assert_eq!(world.slices, Seen::Known(Vec::new()));
}
