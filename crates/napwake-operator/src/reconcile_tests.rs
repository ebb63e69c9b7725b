//! What a reconciler does with a plan, call by call.

use napwake_api::names::signal;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;
use crate::{
    fixtures::{
        self, NAMESPACE, SYSTEM, Server, api, applier, deployment, doorman_pod, doorman_service,
        namespace, service, slice, slice_json, workload,
    },
    observe::{DoormanService, Index},
};

/// Calls that a wake makes, and not one before the scale write.
const SCALE: &str = "PATCH /apis/apps/v1/namespaces/ns/deployments/a/scale";
const STATUS: &str = "PUT /apis/napwake.dev/v1alpha1/namespaces/ns/managedworkloads/a/status";

fn asleep() -> Value {
    let hash = deployment("a", 1, json!({})).target.template.hash.clone();
    json!({
        "metadata": {"finalizers": ["napwake.dev/wake-first"]},
        "status": {
            "phase": "Paused",
            "clock": {
                "lastActivity": "2026-11-30T10:00:00.000000Z",
                "lastActivitySource": "started",
            },
            "pause": {
                "startedAt": "2026-11-30T11:00:00.000000Z",
                "scaledAt": "2026-11-30T11:00:30.000000Z",
                "pausedAt": "2026-11-30T11:00:35.000000Z",
                "reason": "Idle",
                "replicas": 3,
            },
            "target": {
                "uid": "deployment-a",
                "template": hash,
                "replicas": 0,
                "generation": 1,
            },
        },
    })
}

fn stamped(mut object: Value) -> Value {
    let stamp = "2026-11-30T11:59:59.000000Z request a";
    object["metadata"]["annotations"] = json!({signal::LAST_REQUEST: stamp});
    object
}

fn marked() -> Value {
    json!({
        "metadata": {"annotations": {signal::PAUSED_REPLICAS: "3"}},
        "spec": {"replicas": 0},
        "status": {"replicas": 0, "readyReplicas": 0},
    })
}

/// Runs the reconciler over `a`, asleep and stamped, while `script` plays the
/// API server.
async fn reconcile<F>(script: impl FnOnce(Server, Arc<Shared>) -> F)
where
    F: Future<Output = Server>,
{
    reconcile_from(stamped(asleep()), script).await;
}

/// The same over `a` as given.
async fn reconcile_from<F>(object: Value, script: impl FnOnce(Server, Arc<Shared>) -> F)
where
    F: Future<Output = Server>,
{
    let (client, server) = api();
    let now = Instant::now();
    let mut index = Index::new(
        DoormanService::Disabled,
        napwake_api::settings::Defaults::default(),
        napwake_decide::Ports::default(),
    );
    index.apply_namespace(namespace(1, json!({})), now);
    index.apply_target(deployment("a", 5, marked()), now);
    index.apply_workload(workload("a", 5, object), now);
    let reconciler = Reconciler::new(applier(&client, index));
    drop(client);
    let shared = Arc::clone(&reconciler.shared);
    let server = {
        let running = reconciler.run(Term::endless());
        tokio::select! {
            never = running => match never {},
            server = script(server, shared) => server,
        }
    };
    drop(reconciler);
    server.done().await;
}

fn scaled() -> Value {
    json!({
        "metadata": {"name": "a", "namespace": NAMESPACE, "resourceVersion": "9"},
        "spec": {"replicas": 3},
    })
}

/// A stamp leads straight to one scale write, with nothing
/// read before it, and then to Resuming.
#[tokio::test(start_paused = true)]
async fn a_stamp_leads_straight_to_one_scale_write() {
    reconcile(async |mut server, _| {
        let scale = server.answer(200, scaled()).await;
        assert_eq!(scale.line, SCALE);
        let patch = scale.body.as_array().unwrap();
        let expected = json!({"op": "add", "path": "/spec/replicas", "value": 3});
        assert_eq!(patch.last(), Some(&expected));
        let status = server.refuse(409, "Conflict").await;
        assert_eq!(status.line, STATUS);
        assert_eq!(status.body["status"]["phase"], "Resuming");
        server
    })
    .await;
}

/// ROUTE-39: a wake waits for no count of pods.
#[tokio::test(start_paused = true)]
async fn a_wake_passes_a_list_without_an_answer() {
    let mut stopping = asleep();
    stopping["status"]["phase"] = json!("Pausing");
    let pause = stopping["status"]["pause"].as_object_mut().unwrap();
    pause.remove("pausedAt");
    reconcile_from(stopping.clone(), async |mut server, shared| {
        // Conditions, that this one has none of yet.
        let status = server.refuse(409, "Conflict").await;
        assert_eq!(status.line, STATUS);
        stopping["status"] = status.body["status"].clone();
        let seen = workload("a", 6, stopping.clone());
        shared.change(|index, now| index.apply_workload(seen, now));
        let (list, _silence) = server.be_silent().await;
        assert_eq!(list.line, "GET /api/v1/namespaces/ns/pods");
        let seen = workload("a", 7, stamped(stopping));
        shared.change(|index, now| index.apply_workload(seen, now));
        assert_eq!(server.answer(200, scaled()).await.line, SCALE);
        assert_eq!(server.refuse(409, "Conflict").await.line, STATUS);
        server
    })
    .await;
}

/// A wake demands the version that was seen: one that its controller has just
/// written over is tried again as soon as the watch shows that.
#[tokio::test(start_paused = true)]
async fn a_wake_that_comes_too_late_is_tried_again_at_once() {
    reconcile(async |mut server, shared| {
        let begun = Instant::now();
        let version = |scale: &Value| scale[1]["value"].clone();
        let scale = server.refuse(422, "Invalid").await;
        assert_eq!(
            (scale.line.as_str(), version(&scale.body)),
            (SCALE, json!("5"))
        );
        shared.change(|index, now| index.apply_target(deployment("a", 6, marked()), now));
        let scale = server.answer(200, scaled()).await;
        assert_eq!(
            (scale.line.as_str(), version(&scale.body)),
            (SCALE, json!("6"))
        );
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert_eq!(server.refuse(409, "Conflict").await.line, STATUS);
        server
    })
    .await;
}

/// What can't be written is tried again, later and later.
#[tokio::test(start_paused = true)]
async fn failures_back_off() {
    reconcile(async |mut server, _| {
        let mut server = {
            server.refuse(500, "InternalError").await;
            server.patient(Duration::from_mins(2))
        };
        let mut waits = Vec::new();
        for _ in 0..10 {
            let begun = Instant::now();
            let call = server.refuse(500, "InternalError").await;
            assert_eq!(call.line, SCALE);
            waits.push(begun.elapsed());
        }
        assert!(waits.is_sorted(), "{waits:?}");
        assert!(waits[0] < Duration::from_secs(1), "{waits:?}");
        assert!(waits.last().unwrap() >= &RETRIES.last, "{waits:?}");
        server
    })
    .await;
}

/// A write that succeeded isn't repeated while the watch lags behind: how the
/// target stands isn't known until then, so nothing more is decided.
#[tokio::test(start_paused = true)]
async fn nothing_is_written_twice() {
    reconcile(async |mut server, _| {
        assert_eq!(server.answer(200, scaled()).await.line, SCALE);
        assert_eq!(server.refuse(409, "Conflict").await.line, STATUS);
        let mut server = server.patient(Duration::from_mins(1));
        let more = timeout(Duration::from_secs(20), server.answer(200, json!({}))).await;
        assert!(more.is_err(), "{more:?}");
        server
    })
    .await;
}

/// `a` Running for a second, with a Ready pod and a slice still.
fn awake() -> Value {
    let hash = deployment("a", 1, json!({})).target.template.hash.clone();
    json!({
        "metadata": {"finalizers": ["napwake.dev/wake-first"]},
        "status": {
            "phase": "Running",
            "clock": {
                "lastActivity": "2026-11-30T11:59:50.000000Z",
                "lastActivitySource": "request",
                "runningSince": "2026-11-30T11:59:59.000000Z",
                "idleAt": "2026-11-30T12:29:59.000000Z",
            },
            "target": {
                "uid": "deployment-a",
                "template": hash,
                "replicas": 1,
                "generation": 1,
            },
            "doorman": {"routes": [{
                "service": "a",
                "port": {"name": "http", "number": 80},
                "doormanPort": 20_000,
                "families": ["IPv4"],
                "state": "Routed",
            }], "resting": []},
        },
    })
}

/// The slice of Napwake's goes once the Service's own name a Ready pod: that's
/// read, again and again, and nothing is asked for before all else is written.
#[tokio::test(start_paused = true)]
async fn a_slice_goes_once_the_pods_own_is_there() {
    const LIST: &str = "GET /apis/discovery.k8s.io/v1/namespaces/ns/endpointslices";
    const SLICE: &str = "DELETE /apis/discovery.k8s.io/v1/namespaces/ns/endpointslices/a-o1";
    let (client, server) = api();
    let mut server = server.patient(Duration::from_secs(2));
    let now = Instant::now();
    let mut index = fixtures::index();
    index.apply_service(doorman_service(), now);
    index.apply_pod(doorman_pod("d1", 1, json!({})), now);
    index.apply_namespace(namespace(1, json!({})), now);
    index.apply_target(deployment("a", 5, json!({})), now);
    index.apply_service(service("a", "a", 1, json!({})), now);
    let mut of_d1 = slice_json("a-o1", "a", 1, json!({}));
    of_d1["endpoints"][0]["targetRef"] =
        json!({"kind": "Pod", "namespace": SYSTEM, "name": "d1", "uid": "pod-d1"});
    index.apply_slice(slice("a-o1", "a", 1, of_d1), now);
    index.apply_workload(workload("a", 5, awake()), now);
    let reconciler = Reconciler::new(applier(&client, index));
    drop(client);
    let shared = Arc::clone(&reconciler.shared);
    let script = async {
        let status = server.refuse(409, "Conflict").await;
        assert_eq!(status.line, STATUS);
        let mut object = awake();
        object["status"] = status.body["status"].clone();
        let route = &object["status"]["doorman"]["routes"][0];
        assert_eq!(route["state"], "Routed", "{object:#}");
        let seen = workload("a", 6, object);
        shared.change(|index, now| index.apply_workload(seen, now));
        let mut list = json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSliceList",
            "metadata": {},
            "items": [],
        });
        assert_eq!(server.answer(200, list.clone()).await.line, LIST);
        assert_eq!(server.refuse(500, "InternalError").await.line, LIST);
        list["items"] = json!([slice_json("a-x7k2p", "a", 1, json!({}))]);
        assert_eq!(server.answer(200, list).await.line, LIST);
        assert_eq!(server.refuse(409, "Conflict").await.line, SLICE);
    };
    let running = reconciler.run(Term::endless());
    tokio::select! {
        never = running => match never {},
        () = script => {}
    }
}

const SLICES: &str = "GET /apis/discovery.k8s.io/v1/namespaces/ns/endpointslices";

/// Runs the reconciler over `a`, asleep behind the Service `a`, while `script` plays
/// the API server from when nothing is left to write but what it has to read for.
async fn asleep_behind<F>(script: impl FnOnce(Server, Arc<Shared>, Value) -> F)
where
    F: Future<Output = ()>,
{
    let (client, mut server) = api();
    let now = Instant::now();
    let mut index = fixtures::index();
    index.apply_service(doorman_service(), now);
    index.apply_pod(doorman_pod("d1", 1, json!({})), now);
    index.apply_namespace(namespace(1, json!({})), now);
    index.apply_target(deployment("a", 5, marked()), now);
    index.apply_service(service("a", "a", 1, json!({})), now);
    index.apply_workload(workload("a", 5, asleep()), now);
    let reconciler = Reconciler::new(applier(&client, index));
    drop(client);
    let shared = Arc::clone(&reconciler.shared);
    let script = async {
        // Conditions, that this one has none of yet.
        let status = server.refuse(409, "Conflict").await;
        assert_eq!(status.line, STATUS);
        let mut object = asleep();
        object["status"] = status.body["status"].clone();
        let seen = workload("a", 6, object.clone());
        shared.change(|index, now| index.apply_workload(seen, now));
        script(server, Arc::clone(&shared), object).await;
    };
    let running = reconciler.run(Term::endless());
    tokio::select! {
        never = running => match never {},
        () = script => {}
    }
}

/// ROUTE-28, ROUTE-35: whose Ready pods serve the Service is read before a route is
/// begun, and what others serve gets none.
#[tokio::test(start_paused = true)]
async fn what_others_serve_is_read_first() {
    asleep_behind(async |mut server, _, _| {
        let mut slice = slice_json("a-x7k2p", "a", 1, json!({}));
        slice["endpoints"][0]["targetRef"] = json!({"kind": "Pod", "name": "canary-1"});
        let slices = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSliceList",
            "metadata": {}, "items": [slice],
        });
        assert_eq!(server.answer(200, slices).await.line, SLICES);
        let pods = json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
            "metadata": {}, "items": [{"metadata": {"name": "canary-1"}}],
        });
        let call = server.answer(200, pods).await;
        assert_eq!(call.line, "GET /api/v1/namespaces/ns/pods");
        let status = server.refuse(409, "Conflict").await;
        assert_eq!(status.line, STATUS);
        let status = &status.body["status"];
        assert_eq!(status["doorman"], Value::Null);
        let conditions = status["conditions"].as_array().unwrap();
        let reasons: Vec<_> = conditions.iter().map(|one| &one["reason"]).collect();
        assert!(
            reasons.contains(&&json!("ServedByOtherPods")),
            "{reasons:?}"
        );
    })
    .await;
}

/// What was asked of one Service says nothing of another that was made under its name
/// meanwhile: that's read anew.
#[tokio::test(start_paused = true)]
async fn what_is_read_of_a_service_made_again_does_not_count() {
    asleep_behind(async |mut server, shared, _| {
        let list = server.take().await;
        assert_eq!(list.line, SLICES);
        let another = service("a", "a", 9, json!({"metadata": {"uid": "another"}}));
        shared.change(|index, now| index.apply_service(another, now));
        let nobody = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSliceList",
            "metadata": {}, "items": [],
        });
        server.reply(200, &nobody);
        assert_eq!(server.answer(200, nobody).await.line, SLICES);
        assert_eq!(server.refuse(409, "Conflict").await.line, STATUS);
    })
    .await;
}

/// ROUTE-39: a wake waits for no such read, and leads straight to one scale write.
#[tokio::test(start_paused = true)]
async fn a_wake_passes_a_read_of_who_serves() {
    asleep_behind(async |mut server, shared, object| {
        let (list, _silence) = server.be_silent().await;
        assert_eq!(list.line, SLICES);
        let seen = workload("a", 7, stamped(object));
        shared.change(|index, now| index.apply_workload(seen, now));
        assert_eq!(server.answer(200, scaled()).await.line, SCALE);
        assert_eq!(server.refuse(409, "Conflict").await.line, STATUS);
    })
    .await;
}
