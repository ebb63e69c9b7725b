//! Counting a target's pods while it stops.
//!
//! Pods aren't watched: they are many, and only whether any is left is ever
//! asked, for a moment of each pause.

use kube::{Api, Client, api::ListParams};
use napwake_cluster::{
    plain,
    thin::{Pod, PodPhase},
};
use napwake_decide::{Seen, behind::Owner};
use tokio::time::timeout;

use super::{behind::owner, served::PATIENCE};

/// Pods in one page of the list.
const PAGE: u32 = 500;

/// How many pods of a target, by its selector, exist, terminating ones included: those
/// of the first page that has any, as more needn't be told apart.
///
/// Others' pods may match the selector too, as a canary's do whose labels are those of
/// the stable Deployment and one more. They stay when the target stops.
pub(crate) async fn count_pods(
    client: &Client,
    namespace: &str,
    target: &Owner,
    selector: &str,
) -> Seen<u32> {
    match timeout(PATIENCE, count(client, namespace, target, selector)).await {
        Ok(Ok(left)) => Seen::Known(left),
        Ok(Err(error)) => Seen::Unknown(plain(&error)),
        Err(_) => Seen::Unknown(format!("no answer in {} s", PATIENCE.as_secs())),
    }
}

async fn count(
    client: &Client,
    namespace: &str,
    target: &Owner,
    selector: &str,
) -> kube::Result<u32> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut params = ListParams::default().labels(selector).limit(PAGE);
    loop {
        let page = pods.list(&params).await?;
        let its = page
            .items
            .iter()
            .filter(|pod| owner(&pod.metadata) == *target);
        let left = its.filter(|pod| counts(pod)).count();
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) if left == 0 => params = params.continue_token(&token),
            _ => return Ok(u32::try_from(left).unwrap_or(u32::MAX)),
        }
    }
}

/// One that has ended and that nobody deletes doesn't count: it may stay for
/// long, as evicted pods do. One that is being deleted counts until it's gone
/// (HOLD-01), though the kubelet calls it ended a moment before.
fn counts(pod: &Pod) -> bool {
    let has_ended = matches!(pod.status.phase, PodPhase::Succeeded | PodPhase::Failed);
    pod.is_deleted() || !has_ended
}

#[cfg(test)]
mod tests {
    use napwake_decide::world::TargetKind;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::{NAMESPACE, Server, api};

    /// A running pod of that Deployment's ReplicaSet.
    fn pod(name: &str, deployment: &str) -> Value {
        json!({
            "metadata": {
                "name": name,
                "labels": {"app": "api", "pod-template-hash": "7c9f4"},
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "uid": "u",
                    "name": format!("{deployment}-7c9f4"), "controller": true,
                }],
            },
            "spec": {}, "status": {"phase": "Running"},
        })
    }

    async fn page(server: &mut Server, pods: &[Value], next: &str) -> String {
        let list = json!({
            "apiVersion": "v1", "kind": "PodList", "metadata": {"continue": next},
            "items": pods,
        });
        let call = server.answer(200, list).await;
        assert_eq!(call.line, "GET /api/v1/namespaces/ns/pods");
        call.query.get("continue").cloned().unwrap_or_default()
    }

    /// Pods that match the selector and are others', as a canary's, or nobody's, don't
    /// keep a workload from being paused.
    #[rstest]
    #[case::its_own(&[pod("a", "api"), pod("b", "api-canary")], 1)]
    #[case::a_canarys(&[pod("b", "api-canary")], 0)]
    #[case::nobodys(&[json!({"metadata": {"name": "c"}, "spec": {}, "status": {"phase": "Running"}})], 0)]
    #[tokio::test]
    async fn only_its_own_pods_count(#[case] pods: &[Value], #[case] expected: u32) {
        let (client, mut server) = api();
        let target = Owner::Target(TargetKind::Deployment, "api".to_owned());
        let counting = count_pods(&client, NAMESPACE, &target, "app=api");
        let (left, _) = tokio::join!(counting, page(&mut server, pods, ""));
        assert_eq!(left, Seen::Known(expected));
    }

    /// Pages are read on until one has any.
    #[tokio::test]
    async fn every_page_is_looked_at() {
        let (client, mut server) = api();
        let target = Owner::Target(TargetKind::Deployment, "api".to_owned());
        let script = async {
            let mut ended = pod("a", "api");
            ended["status"]["phase"] = json!("Failed");
            page(&mut server, &[ended], "more").await;
            assert_eq!(page(&mut server, &[pod("b", "api")], "").await, "more");
        };
        let counting = count_pods(&client, NAMESPACE, &target, "app=api");
        let (left, ()) = tokio::join!(counting, script);
        assert_eq!(left, Seen::Known(1));
    }

    #[rstest]
    #[case("Running", None, true)]
    #[case("Pending", None, true)]
    #[case("Failed", None, false)]
    #[case("Succeeded", None, false)]
    #[case("Running", Some("2026-11-30T08:00:00Z"), true)]
    #[case("Succeeded", Some("2026-11-30T08:00:00Z"), true)]
    fn a_pod_counts_until_it_is_gone(
        #[case] phase: &str,
        #[case] deleted: Option<&str>,
        #[case] expected: bool,
    ) {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "web-1", "deletionTimestamp": deleted},
            "spec": {}, "status": {"phase": phase},
        }))
        .expect("readable");
        assert_eq!(counts(&pod), expected);
    }
}
