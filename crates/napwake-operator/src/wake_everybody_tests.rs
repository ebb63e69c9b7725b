//! What the errand asks for, call by call.

use napwake_api::{names::signal, workload::IpFamily};
use napwake_decide::{ports::Caps, slices::slice_name};
use rstest::rstest;
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::{
    fixtures::{Server, api, applier, deployment, deployment_json, index, slice, workload},
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
    whole_errand(index, async |errand| run(&errand).await, script).await
}

/// The same, from its beginning to its end.
async fn whole_errand<T, F>(
    index: Index,
    run: impl AsyncFnOnce(Errand) -> T,
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
    let (result, server) = tokio::join!(run(errand), script(server));
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

fn operator(replicas: i32) -> serde_json::Value {
    let deployment = deployment_json("operator", 1, json!({"spec": {"replicas": replicas}}));
    json!({"metadata": {"resourceVersion": "9"}, "items": [deployment]})
}

/// Answers how many replicas the operator has, and stops it.
async fn stopped(server: &mut Server, replicas: i32) {
    let seen = server.answer(200, operator(replicas)).await;
    let all = "GET /apis/apps/v1/namespaces/napwake-system/deployments";
    assert_eq!(seen.line, all);
    assert_eq!(
        seen.query["fieldSelector"],
        "metadata.name%3Dnapwake-operator"
    );
    let stopped = server
        .answer(200, json!({"metadata": {}, "spec": {}}))
        .await;
    assert_eq!(stopped.line, SCALE);
    assert_eq!(stopped.body, json!({"spec": {"replicas": 0}}));
}

const SCALE: &str =
    "PATCH /apis/apps/v1/namespaces/napwake-system/deployments/napwake-operator/scale";

/// What starts the operator again, unless somebody has.
fn started(replicas: i32) -> serde_json::Value {
    json!([
        {"op": "test", "path": "/spec", "value": {}},
        {"op": "add", "path": "/spec/replicas", "value": replicas},
    ])
}

/// What is left is named, so that somebody can look. And the operator runs again:
/// nothing has been uninstalled, and doormen still hold callers. Where an earlier
/// try was killed and left it at 0, one replica is started.
#[rstest]
#[case::as_before(3, 3, 200)]
#[case::after_one_that_was_killed(0, 1, 200)]
#[case::started_by_somebody(3, 3, 422)]
#[tokio::test(start_paused = true)]
async fn one_in_vain_starts_the_operator_again(
    #[case] before: i32,
    #[case] after: i32,
    #[case] answer: u16,
) {
    let (mut index, now) = (index(), Instant::now());
    index.apply_workload(workload("a", 1, json!({})), now);
    index.apply_target(deployment("lost", 1, marked()), now);
    // This process never leads, so the errand can't do anything.
    let run = async |errand: Errand| errand.run(CancellationToken::new()).await;
    let result = whole_errand(index, run, async |mut server| {
        stopped(&mut server, before).await;
        let mut server = server.patient(2 * PATIENCE);
        let restarted = if answer == 200 {
            server
                .answer(200, json!({"metadata": {}, "spec": {"replicas": after}}))
                .await
        } else {
            server.refuse(answer, "Invalid").await
        };
        assert_eq!(
            (restarted.line.as_str(), restarted.body),
            (SCALE, started(after))
        );
        server
    })
    .await;
    let error = result.unwrap_err().to_string();
    let expected = "not everybody is awake: 2 are left: ns/a, Deployment ns/lost";
    assert_eq!(error, expected);
}

/// The same if the process is told to stop, as at the Job's deadline: also if that
/// comes before it's known whether the operator has been stopped.
#[rstest]
#[case::while_it_is_being_stopped(false)]
#[case::later(true)]
#[tokio::test(start_paused = true)]
async fn one_that_is_cut_short_starts_the_operator_again(#[case] is_stopped: bool) {
    let (mut index, now) = (index(), Instant::now());
    index.apply_workload(workload("a", 1, json!({})), now);
    let token = CancellationToken::new();
    let run = async |errand: Errand| errand.run(token.clone()).await;
    let result = whole_errand(index, run, async |mut server| {
        let mut silence = None;
        if is_stopped {
            stopped(&mut server, 2).await;
        } else {
            server.answer(200, operator(2)).await;
            silence = Some(server.be_silent().await);
        }
        token.cancel();
        let restarted = server
            .answer(200, json!({"metadata": {}, "spec": {"replicas": 2}}))
            .await;
        assert_eq!(
            (restarted.line.as_str(), restarted.body),
            (SCALE, started(2))
        );
        drop(silence);
        server
    })
    .await;
    assert!(result.is_err());
}

/// The end of the process doesn't wait for an API server that says nothing.
#[tokio::test(start_paused = true)]
async fn starting_the_operator_again_takes_its_time_at_most() {
    let (mut index, now) = (index(), Instant::now());
    index.apply_workload(workload("a", 1, json!({})), now);
    let (token, over) = (CancellationToken::new(), CancellationToken::new());
    let run = async |errand: Errand| {
        let result = errand.run(token.clone()).await;
        over.cancel();
        (result, Instant::now())
    };
    let (result, ended) = whole_errand(index, run, async |mut server| {
        stopped(&mut server, 2).await;
        token.cancel();
        let _silence = server.be_silent().await;
        over.cancelled().await;
        server
    })
    .await;
    assert!(result.is_err());
    assert_eq!(ended.duration_since(now), RESTART);
}
