//! What is deleted and what is left alone, call by call.

use std::sync::Arc;

use napwake_api::workload::IpFamily;
use napwake_decide::slices::slice_name;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::{
    fixtures::{Server, api, applier, index, key, routed, slice, workload},
    observe::{Index, convert::ObservedSlice},
    shared::Shared,
};

fn ours(service: &str) -> Arc<ObservedSlice> {
    let name = slice_name(service, IpFamily::IPv4);
    slice(&name, service, 5, json!({}))
}

/// Collects over that index while `script` changes it and plays the API server.
async fn collecting<F>(index: Index, script: impl FnOnce(Server, Arc<Shared>) -> F)
where
    F: Future<Output = Server>,
{
    let (client, server) = api();
    let applier = applier(&client, index);
    drop(client);
    let (shared, term) = (Arc::clone(&applier.shared), Term::endless());
    let server = tokio::select! {
        never = collect(&applier, &term) => match never {},
        server = script(server, shared) => server,
    };
    drop(applier);
    server.done().await;
}

fn deleted() -> Value {
    json!({"kind": "Status", "status": "Success"})
}

/// What a leader finds at its start: the slice of a Service that no route is
/// for goes, as it was seen; others' stay.
#[tokio::test(start_paused = true)]
async fn a_leader_begins_with_what_was_left_behind() {
    let (mut index, now) = (index(), Instant::now());
    index.apply_workload(workload("a", 1, routed("Paused", "a", 20_000)), now);
    index.apply_slice(ours("a"), now);
    index.apply_slice(ours("left"), now);
    index.apply_slice(slice("by-hand", "left", 5, json!({})), now);
    collecting(index, async |mut server, _| {
        let call = server.answer(200, deleted()).await;
        let name = slice_name("left", IpFamily::IPv4);
        assert_eq!(
            call.line,
            format!("DELETE /apis/discovery.k8s.io/v1/namespaces/ns/endpointslices/{name}")
        );
        let expected = json!({"uid": format!("slice-{name}"), "resourceVersion": "5"});
        assert_eq!(call.body["preconditions"], expected);
        server
    })
    .await;
}

/// Unknown is never absent: a ManagedWorkload that can't be read may stand for
/// any slice of its namespace, until it's known to be gone.
#[tokio::test(start_paused = true)]
async fn nothing_is_collected_while_a_workload_cannot_be_read() {
    let (mut index, now) = (index(), Instant::now());
    index.spoil_workload(&key("a"), "odd".to_owned(), None, now);
    index.apply_slice(ours("a"), now);
    collecting(index, async |mut server, shared| {
        for _ in 0..16 {
            tokio::task::yield_now().await;
        }
        shared.change(|index, now| index.delete_workload(&key("a"), "", now));
        let call = server.answer(200, deleted()).await;
        assert!(call.line.starts_with("DELETE "), "{call:?}");
        server
    })
    .await;
}

/// One whose finalizer somebody took off leaves its slice behind, and a leader
/// that stalled makes one too late.
#[tokio::test(start_paused = true)]
async fn what_is_left_behind_later_goes_too() {
    let (mut index, now) = (index(), Instant::now());
    index.apply_workload(workload("a", 1, routed("Paused", "a", 20_000)), now);
    index.apply_slice(ours("a"), now);
    collecting(index, async |mut server, shared| {
        shared.change(|index, now| index.delete_workload(&key("a"), "mw-a", now));
        let call = server.answer(200, deleted()).await;
        assert!(call.line.contains("/a-o"), "{call:?}");
        shared.change(|index, now| index.apply_slice(ours("late"), now));
        let call = server.answer(200, deleted()).await;
        assert!(call.line.contains("/late-o"), "{call:?}");
        server
    })
    .await;
}

/// One that somebody's finalizer keeps is asked to go again and again, and later and
/// later: that it's still there is news each time.
#[tokio::test(start_paused = true)]
async fn what_is_kept_is_asked_to_go_later_and_later() {
    let (mut index, now) = (index(), Instant::now());
    index.apply_slice(ours("kept"), now);
    collecting(index, async |server, _| {
        let mut server = server.patient(2 * RETRIES.last);
        let mut waits = Vec::new();
        for _ in 0..4 {
            let begun = Instant::now();
            let call = server.answer(200, kept("kept")).await;
            assert!(call.line.starts_with("DELETE "), "{call:?}");
            waits.push(begun.elapsed());
        }
        let expected = [0, 5, 10, 20].map(Duration::from_secs);
        assert_eq!(waits, expected);
        server
    })
    .await;
}

/// What the API server answers where a slice goes only once somebody lets it.
fn kept(service: &str) -> Value {
    let name = slice_name(service, IpFamily::IPv4);
    let labels = json!({
        "endpointslice.kubernetes.io/managed-by": "napwake.dev",
        "kubernetes.io/service-name": service,
    });
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "namespace": "ns", "name": name, "uid": format!("slice-{name}"),
            "resourceVersion": "5", "labels": labels,
            "finalizers": ["example.com/keeps"],
            "deletionTimestamp": "2026-11-30T12:00:00Z",
        },
        "addressType": "IPv4",
        "endpoints": [],
        "ports": [],
    })
}
