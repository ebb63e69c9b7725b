//! Counting a target's pods while it stops.
//!
//! Pods aren't watched: they are many, and only whether any is left is ever
//! asked, for a moment of each pause.

use kube::{Api, Client, api::ListParams};
use napwake_cluster::thin::Pod;
use napwake_decide::Seen;

/// Pods that have ended don't count: nobody deletes them for a while.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// More than this needn't be told apart.
const AT_MOST: u32 = 500;

/// How many pods of that selector exist, terminating ones included.
pub(crate) async fn count_pods(client: &Client, namespace: &str, selector: &str) -> Seen<u32> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let params = ListParams::default()
        .labels(selector)
        .fields(NOT_ENDED)
        .limit(AT_MOST);
    match pods.list_metadata(&params).await {
        Ok(list) => Seen::Known(u32::try_from(list.items.len()).unwrap_or(u32::MAX)),
        Err(error) => Seen::Unknown(format!("its pods can't be counted: {error}")),
    }
}
