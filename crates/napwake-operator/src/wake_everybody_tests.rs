//! What the errand asks for, call by call.

use napwake_api::{names::signal, workload::IpFamily};
use napwake_decide::{ports::Caps, slices::slice_name};
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::{
    fixtures::{Server, api, applier, deployment, index, slice, workload},
    observe::Index,
    reconcile::Reconciler,
};

/// The errand over that index, while `script` plays the API server.
async fn errand<T, F>(
    index: Index,
    run: impl AsyncFnOnce(&Errand) -> T,
    script: impl FnOnce(Server) -> F,
) -> T
where
    F: Future<Output = Server>,
{
    let (client, server) = api();
    let reconciler = Reconciler::new(applier(&client, index));
    let work = Arc::new(Work::new(reconciler, None, Caps::default()));
    drop(client);
    let errand = Errand {
        work,
        namespace: "napwake-system".to_owned(),
        operator: Some("napwake-operator".to_owned()),
    };
    let (result, server) = tokio::join!(run(&errand), script(server));
    drop(errand);
    server.done().await;
    result
}

fn marked() -> serde_json::Value {
    json!({
        "metadata": {"annotations": {signal::PAUSED_REPLICAS: "3"}},
        "spec": {"replicas": 0},
    })
}

async fn round(errand: &Errand) -> bool {
    errand.round(&Term::endless()).await
}

/// ManagedWorkloads are deleted, and wake their own targets; only a marked one
/// that nobody else would wake is scaled here, and one that is awake loses its
/// mark: both over what was seen alone.
#[tokio::test(start_paused = true)]
async fn lets_workloads_go_and_wakes_what_has_none() {
    let (mut index, now) = (index(), Instant::now());
    index.apply_workload(workload("a", 1, json!({})), now);
    let going = json!({"metadata": {"deletionTimestamp": "2026-11-30T11:00:00Z"}});
    index.apply_workload(workload("b", 1, going), now);
    index.apply_target(deployment("a", 1, marked()), now);
    index.apply_target(deployment("lost", 3, marked()), now);
    let mut awake = marked();
    awake["spec"]["replicas"] = json!(2);
    index.apply_target(deployment("old", 4, awake), now);
    let script = async |mut server: Server| {
        let deleted = server
            .answer(200, json!({"kind": "Status", "status": "Success"}))
            .await;
        assert!(deleted.line.starts_with("DELETE ") && deleted.line.ends_with("/a"));
        assert_eq!(deleted.body["preconditions"], json!({"uid": "mw-a"}));
        let scaled = json!({"metadata": {"resourceVersion": "8"}, "spec": {"replicas": 3}});
        let scaled = server.answer(200, scaled).await;
        assert!(
            scaled.line.ends_with("/deployments/lost/scale"),
            "{scaled:?}"
        );
        let version = json!({"op": "test", "path": "/metadata/resourceVersion", "value": "3"});
        assert!(scaled.body.as_array().unwrap().contains(&version));
        let unmarked = server.refuse(409, "Conflict").await;
        assert!(unmarked.line.ends_with("/deployments/old"), "{unmarked:?}");
        assert_eq!(unmarked.body["metadata"]["resourceVersion"], "4");
        server
    };
    assert!(!errand(index, round, script).await);
}

#[tokio::test(start_paused = true)]
async fn is_done_when_nobody_is_left() {
    let (mut index, now) = (index(), Instant::now());
    index.apply_target(deployment("a", 1, json!({})), now);
    assert!(errand(index, round, async |server| server).await);
}

/// A slice that nobody stands for would send callers to a doorman that is gone.
#[tokio::test(start_paused = true)]
async fn is_not_done_while_a_slice_is_left() {
    let (mut index, now) = (index(), Instant::now());
    let name = slice_name("a", IpFamily::IPv4);
    index.apply_slice(slice(&name, "a", 1, json!({})), now);
    let say = async |errand: &Errand| (round(errand).await, errand.left());
    let (done, left) = errand(index, say, async |server| server).await;
    assert!(!done);
    assert_eq!(left, [format!("EndpointSlice ns/{name}")]);
}

/// One that doesn't lead any more asks nobody to go: somebody else may have been
/// installed since.
#[tokio::test(start_paused = true)]
async fn nobody_is_sent_away_after_the_term() {
    let (mut index, now) = (index(), Instant::now());
    index.apply_workload(workload("a", 1, json!({})), now);
    index.apply_target(deployment("lost", 3, marked()), now);
    let after = async |errand: &Errand| {
        let (term, end) = Term::until_ended();
        end();
        errand.round(&term).await
    };
    assert!(!errand(index, after, async |server| server).await);
}

/// What is left is named, so that somebody can look.
#[tokio::test(start_paused = true)]
async fn says_who_is_left() {
    let (mut index, now) = (index(), Instant::now());
    index.apply_workload(workload("a", 1, json!({})), now);
    index.apply_target(deployment("lost", 1, marked()), now);
    // This process never leads, so the errand can't do anything.
    let result = errand(index, Errand::wake_everybody, async |mut server| {
        let stopped = server
            .answer(200, json!({"metadata": {}, "spec": {"replicas": 0}}))
            .await;
        let expected = "PATCH /apis/apps/v1/namespaces/napwake-system/deployments/\
                        napwake-operator/scale";
        assert_eq!(stopped.line, expected);
        server
    })
    .await;
    let error = result.unwrap_err().to_string();
    assert_eq!(error, "after 270 s, 2 are left: ns/a, Deployment ns/lost");
}
