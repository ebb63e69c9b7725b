//! Each write on the wire: made exactly once, with its precondition.

mod altered;
mod slices;

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
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    fixtures::{
        Call, Server, api, applier, applier_telling, deployment, deployment_json, index, key,
        slice, slice_json, workload, workload_json,
    },
    queue::{Queue, Urgency},
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
    carry_out_in_a_hurry(writes, &Hurry::default(), answers).await
}

/// The same until a wake comes up.
async fn carry_out_in_a_hurry<F>(
    writes: Vec<Write>,
    hurry: &Hurry,
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
    let mut plan = Plan::nothing();
    plan.writes = writes;
    let term = Term::endless();
    let leave = Leave { term: &term, hurry };
    let (result, (server, calls)) =
        tokio::join!(applier.apply(leave, &world, plan), answers(server));
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

fn scale(from: i32, to: i32) -> Write {
    Write::ScaleTarget {
        target: target(),
        from,
        to,
        unchanged_since: "5".to_owned(),
    }
}

fn mark(paused_replicas: Option<i32>) -> Write {
    Write::MarkTarget {
        target: target(),
        paused_replicas,
        unchanged_since: "5".to_owned(),
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

/// A wake and a stop alike: of the uid, the version and the replicas that were
/// seen, or not at all.
#[rstest]
#[case::wake(0, 3, json!({}))]
#[case::stop(1, 0, json!({"replicas": 1}))]
#[tokio::test(start_paused = true)]
async fn replicas_are_written_only_over_what_was_seen(
    #[case] from: i32,
    #[case] to: i32,
    #[case] seen: Value,
) {
    let answers = |server| answer(server, 200, scale_json(9, to));
    let (result, applied) = carry_out(vec![scale(from, to)], answers).await;
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
        {"op": "test", "path": "/metadata/resourceVersion", "value": "5"},
        {"op": "test", "path": "/spec", "value": seen},
        {"op": "add", "path": "/spec/replicas", "value": to},
    ]);
    assert_eq!(call.body, expected);
    // Until the watch shows it, how it stands isn't known.
    assert!(matches!(applied.world().target, Seen::Unknown(_)));
}

/// A mark goes on and comes off, whoever put it there, over what was seen alone.
#[rstest]
#[case::on(Some(3), json!("3"))]
#[case::off(None, Value::Null)]
#[tokio::test(start_paused = true)]
async fn a_mark_is_written_only_over_what_was_seen(
    #[case] replicas: Option<i32>,
    #[case] value: Value,
) {
    let answers = |server| answer(server, 200, deployment_json("a", 7, json!({})));
    let (result, applied) = carry_out(vec![mark(replicas)], answers).await;
    result.unwrap();
    let call = &applied.calls[0];
    assert_eq!(call.line, "PATCH /apis/apps/v1/namespaces/ns/deployments/a");
    assert_eq!(call.content_type, "application/merge-patch+json");
    let expected = json!({"metadata": {
        "uid": "deployment-a",
        "resourceVersion": "5",
        "annotations": {"napwake.dev/paused-replicas": value},
    }});
    assert_eq!(call.body, expected);
    // The next decision goes by the answer.
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
    let writes = vec![scale(0, 1), mark(None)];
    let answers = |server| refuse(server, code, "Nope");
    let (result, _) = carry_out(writes, answers).await;
    let word = match result.unwrap_err() {
        ApplyError::Stale { .. } => "stale",
        ApplyError::Failed { .. } => "failed",
        ApplyError::NotLeader | ApplyError::WakeFirst => "told to stop",
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

fn event(note: &str) -> Write {
    Write::Event(Event {
        type_: EventType::Warning,
        reason: event::NO_READINESS_PROBE,
        note: note.to_owned(),
    })
}

/// Carries out `writes` while `answers` plays the API server, and then says the
/// events that were told.
async fn carry_out_and_tell<F>(
    writes: Vec<Write>,
    hurry: &Hurry,
    answers: impl FnOnce(Server) -> F,
) -> (Result<(), ApplyError>, Vec<Value>)
where
    F: Future<Output = Server>,
{
    let (client, server) = api();
    let (mut index, now) = (index(), tokio::time::Instant::now());
    index.apply_workload(workload("a", 5, json!({})), now);
    let seen = Seen::Unknown(String::new());
    let world = index.world(&key("a"), seen, now).unwrap();
    let (applier, telling) = applier_telling(&client, index);
    drop(client);
    let mut plan = Plan::nothing();
    plan.writes = writes;
    let term = Term::endless();
    let leave = Leave { term: &term, hurry };
    let (result, mut server) = tokio::join!(applier.apply(leave, &world, plan), answers(server));
    // Nobody is left who could tell more.
    drop(applier);
    let said = async {
        let mut said = Vec::new();
        for _ in 0..2 {
            said.push(server.answer(201, json!({})).await);
        }
        (server, said)
    };
    let (Ok(()), (server, said)) = tokio::join!(telling.until(CancellationToken::new()), said);
    server.done().await;
    let bodies = said.into_iter().map(|call| {
        let events = "POST /apis/events.k8s.io/v1/namespaces/ns/events";
        assert_eq!(call.line, events);
        call.body
    });
    (result, bodies.collect())
}

/// ROUTE-39: a plan waits for no event.
#[tokio::test(start_paused = true)]
async fn events_hold_nothing_up() {
    let writes = vec![event("one"), event("two")];
    let (result, said) = carry_out_and_tell(writes, &Hurry::default(), async |server| server).await;
    result.unwrap();
    for (event, note) in said.iter().zip(["one", "two"]) {
        assert_eq!(event["regarding"]["kind"], "ManagedWorkload");
        assert_eq!(event["regarding"]["uid"], "mw-a");
        let told = (&event["type"], &event["note"]);
        assert_eq!(told, (&json!("Warning"), &json!(note)));
    }
}

/// What a status says that is written is told, though a wake ends the plan before its
/// slices are.
#[tokio::test(start_paused = true)]
async fn what_is_recorded_is_told() {
    let status = Write::WriteStatus {
        resource_version: "5".to_owned(),
        status: Box::default(),
    };
    let queue = Queue::new();
    let hurry = queue.begin(key("a"));
    let writes = vec![status, slices::create(), event("one"), event("two")];
    let (result, said) = carry_out_and_tell(writes, &hurry, async |mut server| {
        server.answer(200, workload_json("a", 6, json!({}))).await;
        let (_call, silence) = server.be_silent().await;
        queue.add(key("a"), Urgency::Wake);
        tokio::task::yield_now().await;
        drop(silence);
        server
    })
    .await;
    assert!(matches!(result, Err(ApplyError::WakeFirst)), "{result:?}");
    assert_eq!(said.len(), 2);
}

/// ROUTE-39: once a wake has come up nothing is written but that wake, least of all
/// a stop.
#[rstest]
#[case::wake(scale(0, 3), true)]
#[case::stop(scale(1, 0), false)]
#[case::mark(mark(Some(1)), false)]
#[case::slice(slices::create(), false)]
#[case::finalizer(Write::AddFinalizer { resource_version: "5".to_owned() }, false)]
#[tokio::test(start_paused = true)]
async fn only_a_wake_is_written_once_one_has_come_up(#[case] write: Write, #[case] passes: bool) {
    let queue = Queue::new();
    let hurry = queue.begin(key("a"));
    queue.add(key("a"), Urgency::Wake);
    let answers = async |mut server: Server| {
        let mut calls = Vec::new();
        if passes {
            calls.push(server.answer(200, scale_json(9, 3)).await);
        }
        (server, calls)
    };
    let (result, _) = carry_out_in_a_hurry(vec![write], &hurry, answers).await;
    match result {
        Ok(()) => assert!(passes),
        Err(error) => assert!(
            !passes && matches!(error, ApplyError::WakeFirst),
            "{error:?}"
        ),
    }
}
