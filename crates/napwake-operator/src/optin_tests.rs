//! What opting in writes, call by call.

use rstest::rstest;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::*;
use crate::fixtures::{
    Server, api, applier, deployment, events, index, made_by_label, namespace, workload,
    workload_json,
};

const WORKLOADS: &str = "/apis/napwake.dev/v1alpha1/namespaces/ns/managedworkloads";

/// Runs over a Deployment `a` of those metadata, and the ManagedWorkload `a` of
/// that patch, if any, while `script` plays the API server.
async fn opt<F>(metadata: Value, there: Option<Value>, script: impl FnOnce(Server) -> F)
where
    F: Future<Output = Server>,
{
    let (client, server) = api();
    let (mut index, now) = (index(), Instant::now());
    index.apply_namespace(namespace(1, json!({})), now);
    index.apply_target(deployment("a", 5, json!({"metadata": metadata})), now);
    if let Some(patch) = there {
        index.apply_workload(workload("a", 5, patch), now);
    }
    let applier = applier(&client, index);
    let events = Arc::new(events(&client));
    let opt_ins = OptIns::new(client, Arc::clone(&applier.shared), events);
    let server = {
        let running = opt_ins.run(Term::endless());
        tokio::select! {
            never = running => match never {},
            server = script(server) => server,
        }
    };
    drop((applier, opt_ins));
    server.done().await;
}

/// Checks that nothing is called for a while.
async fn quiet(server: &mut Server) {
    let call = timeout(Duration::from_millis(900), server.answer(200, json!({}))).await;
    assert!(call.is_err(), "{call:?}");
}

/// LIFE-18: the label makes a ManagedWorkload, owned by the workload.
#[tokio::test(start_paused = true)]
async fn a_label_makes_one() {
    opt(
        json!({"labels": {"napwake.dev/managed": "true"}}),
        None,
        async |mut server| {
            let call = server
                .answer(201, workload_json("a", 6, made_by_label("a")))
                .await;
            assert_eq!(call.line, format!("POST {WORKLOADS}"));
            let expected = json!({
                "name": "a",
                "labels": {"napwake.dev/opted-in": "true"},
                "ownerReferences": [{
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "name": "a",
                    "uid": "deployment-a",
                }],
            });
            assert_eq!(call.body["metadata"], expected);
            let target = json!({"kind": "Deployment", "name": "a"});
            assert_eq!(call.body["spec"]["targetRef"], target);
            quiet(&mut server).await;
            server
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_label_taken_off_deletes_it_as_it_was_seen() {
    opt(json!({}), Some(made_by_label("a")), async |server| {
        let mut server = server.patient(Duration::from_secs(30));
        // It has changed since: that is looked at, too.
        server.refuse(409, "Conflict").await;
        let success = json!({"kind": "Status", "status": "Success"});
        let call = server.answer(200, success).await;
        assert_eq!(call.line, format!("DELETE {WORKLOADS}/a"));
        let expected = json!({"uid": "mw-a", "resourceVersion": "5"});
        assert_eq!(call.body["preconditions"], expected);
        server
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_changed_annotation_changes_the_spec_at_its_version() {
    let metadata = json!({
        "labels": {"napwake.dev/managed": "true"},
        "annotations": {"napwake.dev/lookout": "10s"},
    });
    opt(metadata, Some(made_by_label("a")), async |mut server| {
        let mut changed = workload_json("a", 6, made_by_label("a"));
        changed["spec"]["lookout"] = json!("10s");
        let call = server.answer(200, changed).await;
        assert_eq!(call.line, format!("PATCH {WORKLOADS}/a"));
        let expected = json!({"uid": "mw-a", "resourceVersion": "5"});
        assert_eq!(call.body["metadata"], expected);
        assert_eq!(call.body["spec"]["lookout"], "10s");
        quiet(&mut server).await;
        server
    })
    .await;
}

/// One written by hand is never touched, whatever labels say.
#[tokio::test(start_paused = true)]
async fn one_by_hand_is_left_alone() {
    let metadata = json!({
        "labels": {"napwake.dev/managed": "true"},
        "annotations": {"napwake.dev/lookout": "10s"},
    });
    opt(metadata, Some(json!({})), async |mut server| {
        quiet(&mut server).await;
        server
    })
    .await;
}

/// SET-10, OBS-05: a Warning event on the workload says what can't be read.
#[tokio::test(start_paused = true)]
async fn an_unreadable_setting_is_told_on_the_workload() {
    let metadata = json!({
        "labels": {"napwake.dev/managed": "true"},
        "annotations": {"napwake.dev/wake": "Ask"},
    });
    opt(metadata, None, async |mut server| {
        let event = server.answer(201, json!({})).await;
        assert_eq!(
            event.line,
            "POST /apis/events.k8s.io/v1/namespaces/ns/events"
        );
        let told = (&event.body["type"], &event.body["reason"]);
        assert_eq!(told, (&json!("Warning"), &json!("InvalidSetting")));
        assert_eq!(event.body["regarding"]["kind"], "Deployment");
        let note = event.body["note"].as_str().unwrap();
        assert!(note.contains("napwake.dev/wake=\"Ask\""), "{note}");
        let made = server
            .answer(201, workload_json("a", 6, made_by_label("a")))
            .await;
        assert_eq!(made.body["spec"]["wake"]["mode"], "Ask");
        server
    })
    .await;
}

/// SET-10: an event that can't be written is tried again, later and later, until it is.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_told_is_tried_again() {
    let metadata = json!({
        "labels": {"napwake.dev/managed": "true"},
        "annotations": {"napwake.dev/wake": "Ask"},
    });
    let mut there = made_by_label("a");
    there["spec"] = json!({"wake": {"mode": "Ask"}});
    opt(metadata, Some(there), async |server| {
        let mut server = server.patient(Duration::from_secs(30));
        let begun = Instant::now();
        for secs in [0, 5, 15] {
            let event = server.refuse(403, "Forbidden").await;
            assert_eq!(event.body["reason"], "InvalidSetting");
            assert_eq!(begun.elapsed().as_secs(), secs);
        }
        let event = server.answer(201, json!({})).await;
        assert_eq!(event.body["reason"], "InvalidSetting");
        quiet(&mut server).await;
        server
    })
    .await;
}

/// Somebody was quicker: it's looked at again, and no other name is taken.
#[tokio::test(start_paused = true)]
async fn a_name_taken_meanwhile_is_waited_for() {
    let labels = json!({"labels": {"napwake.dev/managed": "true"}});
    opt(labels, None, async |server| {
        let mut server = server.patient(Duration::from_secs(30));
        server.refuse(409, "AlreadyExists").await;
        let begun = Instant::now();
        let again = server
            .answer(201, workload_json("a", 6, made_by_label("a")))
            .await;
        assert_eq!(again.body["metadata"]["name"], "a");
        assert_eq!(begun.elapsed().as_secs(), RETRIES.first.as_secs());
        server
    })
    .await;
}

/// What is refused again and again is tried later and later.
#[tokio::test(start_paused = true)]
async fn failures_back_off() {
    let labels = json!({"labels": {"napwake.dev/managed": "true"}});
    opt(labels, None, async |server| {
        let mut server = server.patient(2 * RETRIES.last);
        server.refuse(403, "Forbidden").await;
        let mut waits = Vec::new();
        for refusal in 1..=8 {
            let begun = Instant::now();
            server.refuse(403, "Forbidden").await;
            waits.push(begun.elapsed().as_secs());
            if refusal == 2 {
                server.answer(201, json!({})).await; // It's told.
            }
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300]);
        server
    })
    .await;
}

/// What keeps a workload from being opted in is told on it once that has lasted,
/// whatever the API server calls it.
#[rstest]
#[case::forbidden(403, "Forbidden")]
#[case::invalid(422, "Invalid")]
#[case::not_installed(404, "NotFound")]
#[case::taken_without_end(409, "AlreadyExists")]
#[case::full(507, "InsufficientStorage")]
#[tokio::test(start_paused = true)]
async fn what_holds_it_up_is_told_once(#[case] code: u16, #[case] reason: &str) {
    let labels = json!({"labels": {"napwake.dev/managed": "true"}});
    opt(labels, None, async |server| {
        let mut server = server.patient(2 * RETRIES.last);
        for _ in 0..3 {
            let call = server.refuse(code, reason).await;
            assert_eq!(call.line, format!("POST {WORKLOADS}"));
        }
        let event = server.answer(201, json!({})).await;
        let told = (&event.body["type"], &event.body["reason"]);
        assert_eq!(told, (&json!("Warning"), &json!("HeldUp")));
        let note = event.body["note"].as_str().unwrap();
        assert!(note.contains(&format!("because of {reason}")), "{note}");
        for _ in 0..3 {
            let call = server.refuse(code, reason).await;
            assert_eq!(call.line, format!("POST {WORKLOADS}"));
        }
        server
    })
    .await;
}
