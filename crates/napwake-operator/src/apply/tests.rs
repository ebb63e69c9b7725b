//! Each write on the wire: made exactly once, with its precondition.

use jiff::Timestamp;
use napwake_api::{
    names::{FINALIZER, event},
    workload::{IpFamily, Phase, TargetKind},
};
use napwake_decide::{
    Seen,
    plan::{Event, EventType, Over},
    world::{Endpoint, PodRef, SlicePort, SliceProblem, SliceSpec, TargetId},
};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{
    Call, Server, api, applier, deployment, deployment_json, index, key, slice, slice_json,
    workload, workload_json,
};

/// Carries out `writes` while `answers` plays the API server, and checks that
/// no call was made but those that it answered.
async fn carry_out<F>(
    writes: Vec<Write>,
    answers: impl FnOnce(Server) -> F,
) -> (Result<(), ApplyError>, Applied)
where
    F: Future<Output = (Server, Vec<Call>)>,
{
    let (client, server) = api();
    let mut index = index();
    let now = tokio::time::Instant::now();
    index.apply_workload(workload("a", 5, json!({})), now);
    index.apply_target(deployment("a", 5, json!({})), now);
    let world = index
        .world(&key("a"), Seen::Unknown(String::new()), now)
        .unwrap();
    let applier = applier(&client, index);
    drop(client);
    let mut plan = Plan::nothing(Timestamp::UNIX_EPOCH);
    plan.writes = writes;
    let term = Term::endless();
    let (result, (server, calls)) =
        tokio::join!(applier.apply(&term, &world, plan), answers(server));
    let shared = Arc::clone(&applier.shared);
    drop(applier);
    server.done().await;
    (result, Applied { shared, calls })
}

struct Applied {
    shared: Arc<Shared>,
    calls: Vec<Call>,
}

impl Applied {
    fn world(&self) -> World {
        let world = |index: &mut crate::observe::Index, now| {
            index.world(&key("a"), Seen::Unknown(String::new()), now)
        };
        self.shared.with(world).unwrap()
    }
}

async fn answer(mut server: Server, code: u16, body: Value) -> (Server, Vec<Call>) {
    let call = server.answer(code, body).await;
    (server, vec![call])
}

async fn refuse(mut server: Server, code: u16, reason: &str) -> (Server, Vec<Call>) {
    let call = server.refuse(code, reason).await;
    (server, vec![call])
}

fn target() -> TargetId {
    TargetId {
        kind: TargetKind::Deployment,
        name: "a".to_owned(),
        uid: "deployment-a".to_owned(),
    }
}

fn scale(from: i32, to: i32, unchanged_since: Option<&str>) -> Write {
    Write::ScaleTarget {
        target: target(),
        from,
        to,
        unchanged_since: unchanged_since.map(str::to_owned),
    }
}

fn mark(paused_replicas: Option<i32>, unchanged_since: Option<&str>) -> Write {
    Write::MarkTarget {
        target: target(),
        paused_replicas,
        unchanged_since: unchanged_since.map(str::to_owned),
    }
}

fn scale_json(version: u32, replicas: i32) -> Value {
    json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": "a", "namespace": "ns", "resourceVersion": version.to_string()},
        "spec": {"replicas": replicas},
    })
}

#[tokio::test(start_paused = true)]
async fn a_wake_tests_uid_and_replicas_alone() {
    let answers = |server| answer(server, 200, scale_json(9, 3));
    let (result, applied) = carry_out(vec![scale(0, 3, None)], answers).await;
    result.unwrap();
    let call = &applied.calls[0];
    assert_eq!(
        call.line,
        "PATCH /apis/apps/v1/namespaces/ns/deployments/a/scale"
    );
    assert_eq!(call.content_type, "application/json-patch+json");
    assert_eq!(call.query["fieldManager"], "napwake-operator");
    let expected = json!([
        {"op": "test", "path": "/metadata/uid", "value": "deployment-a"},
        {"op": "test", "path": "/spec", "value": {}},
        {"op": "add", "path": "/spec/replicas", "value": 3},
    ]);
    assert_eq!(call.body, expected);
    // Until the watch shows it, how it stands isn't known.
    assert!(matches!(applied.world().target, Seen::Unknown(_)));
}

#[tokio::test(start_paused = true)]
async fn a_pause_marks_and_then_stops_what_it_marked() {
    let writes = vec![mark(Some(1), Some("5")), scale(1, 0, Some("5"))];
    let (result, applied) = carry_out(writes, async |mut server| {
        let marked = deployment_json(
            "a",
            7,
            json!({"metadata": {"annotations": {"napwake.dev/paused-replicas": "1"}}}),
        );
        let first = server.answer(200, marked).await;
        let second = server.answer(200, scale_json(8, 0)).await;
        (server, vec![first, second])
    })
    .await;
    result.unwrap();
    let [marked, scaled] = &applied.calls[..] else {
        panic!("two calls");
    };
    assert_eq!(
        marked.line,
        "PATCH /apis/apps/v1/namespaces/ns/deployments/a"
    );
    assert_eq!(marked.content_type, "application/merge-patch+json");
    let expected = json!({"metadata": {
        "uid": "deployment-a",
        "resourceVersion": "5",
        "annotations": {"napwake.dev/paused-replicas": "1"},
    }});
    assert_eq!(marked.body, expected);
    let expected = json!([
        {"op": "test", "path": "/metadata/uid", "value": "deployment-a"},
        {"op": "test", "path": "/spec", "value": {"replicas": 1}},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/spec/replicas", "value": 0},
    ]);
    assert_eq!(scaled.body, expected);
}

#[tokio::test(start_paused = true)]
async fn a_mark_comes_off_whoever_put_it_on() {
    let answers = |server| answer(server, 200, deployment_json("a", 7, json!({})));
    let (result, applied) = carry_out(vec![mark(None, None)], answers).await;
    result.unwrap();
    let expected = json!({"metadata": {
        "uid": "deployment-a",
        "annotations": {"napwake.dev/paused-replicas": null},
    }});
    assert_eq!(applied.calls[0].body, expected);
    let target = applied.world().target;
    assert_eq!(target.known().unwrap().resource_version, "7");
}

/// What fails ends the plan, and says whether it's worth a complaint.
#[rstest]
#[case::gone(404, "stale")]
#[case::newer(409, "stale")]
#[case::test_failed(422, "stale")]
#[case::forbidden(403, "failed")]
#[case::broken(500, "failed")]
#[tokio::test(start_paused = true)]
async fn a_failure_ends_the_plan(#[case] code: u16, #[case] expected: &str) {
    let writes = vec![scale(0, 1, None), mark(None, None)];
    let answers = |server| refuse(server, code, "Nope");
    let (result, _) = carry_out(writes, answers).await;
    let word = match result.unwrap_err() {
        ApplyError::Stale { .. } => "stale",
        ApplyError::Failed { .. } => "failed",
        ApplyError::NotLeader => "not leader",
    };
    assert_eq!(word, expected);
}

#[tokio::test(start_paused = true)]
async fn a_status_is_replaced_at_its_version() {
    let status = napwake_api::ManagedWorkloadStatus {
        phase: Some(Phase::Running),
        ..Default::default()
    };
    let write = Write::WriteStatus {
        resource_version: "5".to_owned(),
        status: Box::new(status),
    };
    let written = workload_json("a", 6, json!({"status": {"phase": "Running"}}));
    let answers = |server| answer(server, 200, written);
    let (result, applied) = carry_out(vec![write], answers).await;
    result.unwrap();
    let call = &applied.calls[0];
    assert_eq!(
        call.line,
        "PUT /apis/napwake.dev/v1alpha1/namespaces/ns/managedworkloads/a/status"
    );
    assert_eq!(call.body["metadata"]["resourceVersion"], "5");
    assert_eq!(call.body["metadata"]["uid"], "mw-a");
    assert_eq!(call.body["status"], json!({"phase": "Running"}));
    // The next decision goes by the answer.
    let workload = applied.world().workload;
    assert_eq!(workload.resource_version, "6");
    assert_eq!(workload.status.phase, Some(Phase::Running));
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_is_put_on_at_its_version() {
    let write = Write::AddFinalizer {
        resource_version: "5".to_owned(),
    };
    let written = workload_json("a", 6, json!({"metadata": {"finalizers": [FINALIZER]}}));
    let answers = |server| answer(server, 200, written);
    let (result, applied) = carry_out(vec![write], answers).await;
    result.unwrap();
    let expected = json!({"metadata": {"resourceVersion": "5", "finalizers": [FINALIZER]}});
    assert_eq!(applied.calls[0].body, expected);
    assert!(applied.world().workload.finalizers.contains(FINALIZER));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_one_is_gone_once_its_last_finalizer_is_off() {
    let write = Write::RemoveFinalizer {
        resource_version: "5".to_owned(),
    };
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-11-30T11:00:00Z"}});
    let answers = |server| answer(server, 200, workload_json("a", 6, deleted));
    let (result, applied) = carry_out(vec![write], answers).await;
    result.unwrap();
    let expected = json!({"metadata": {"resourceVersion": "5", "finalizers": []}});
    assert_eq!(applied.calls[0].body, expected);
    let known = applied
        .shared
        .with(|index, now| index.workload(&key("a"), now));
    assert!(known.is_none());
}

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

fn create() -> Write {
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
    let writes = vec![create(), scale(1, 0, Some("5"))];
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

#[rstest]
#[case::deleted(200)]
#[case::gone_already(404)]
#[case::another_under_its_name(409)]
#[tokio::test(start_paused = true)]
async fn a_slice_is_deleted_by_its_uid(#[case] code: u16) {
    let write = Write::DeleteSlice {
        name: "a-o1".to_owned(),
        uid: "slice-a-o1".to_owned(),
    };
    let answers = |server| async move {
        if code == 200 {
            answer(server, 200, json!({"kind": "Status", "status": "Success"})).await
        } else {
            refuse(server, code, "Gone").await
        }
    };
    let (result, applied) = carry_out(vec![write], answers).await;
    result.unwrap();
    let call = &applied.calls[0];
    assert_eq!(
        call.line,
        "DELETE /apis/discovery.k8s.io/v1/namespaces/ns/endpointslices/a-o1"
    );
    assert_eq!(call.body["preconditions"], json!({"uid": "slice-a-o1"}));
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
    let deleting = applier.delete_slice(&key, "a-o1", "slice-a-o1");
    tokio::join!(deleting, server.answer(200, success));
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

/// An event that can't be said is lost, and the plan goes on.
#[tokio::test(start_paused = true)]
async fn events_hold_nothing_up() {
    let event = |note: &str| {
        Write::Event(Event {
            type_: EventType::Warning,
            reason: event::NO_READINESS_PROBE,
            note: note.to_owned(),
        })
    };
    let (result, applied) = carry_out(vec![event("one"), event("two")], async |mut server| {
        let first = server.refuse(403, "Forbidden").await;
        let second = server.answer(201, json!({})).await;
        (server, vec![first, second])
    })
    .await;
    result.unwrap();
    let second = &applied.calls[1].body;
    assert_eq!(second["regarding"]["kind"], "ManagedWorkload");
    assert_eq!(second["regarding"]["uid"], "mw-a");
    assert_eq!(
        (&second["type"], &second["note"]),
        (&json!("Warning"), &json!("two"))
    );
}
