//! Counting a target's pods while it stops.
//!
//! Pods aren't watched: they are many, and only whether any is left is ever
//! asked, for a moment of each pause.

use kube::{Api, Client, api::ListParams};
use napwake_cluster::{
    plain,
    thin::{Pod, PodPhase},
};
use napwake_decide::Seen;

/// More than this needn't be told apart.
const AT_MOST: u32 = 500;

/// How many pods of that selector exist, terminating ones included.
pub(crate) async fn count_pods(client: &Client, namespace: &str, selector: &str) -> Seen<u32> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let params = ListParams::default().labels(selector).limit(AT_MOST);
    match pods.list(&params).await {
        Ok(list) => {
            let left = list.items.iter().filter(|pod| counts(pod)).count();
            Seen::Known(u32::try_from(left).unwrap_or(u32::MAX))
        }
        Err(error) => Seen::Unknown(plain(&error)),
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
    use rstest::rstest;
    use serde_json::json;

    use super::*;

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
