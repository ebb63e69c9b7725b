//! When a cluster is up: what the API says of its nodes, and how long to wait.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::ClusterError;
use super::handle::Cluster;
use super::units;
use crate::progress::Progress;
use crate::run;
use crate::wait::{self, Seen};

/// Bounds for a slow machine with other work; a quiet one takes seconds.
const API_BOUND: Duration = Duration::from_mins(2);
const NODE_BOUND: Duration = Duration::from_mins(3);

/// When each node last reported, by its name: what an earlier run of the
/// machine left in the API is no sign of life.
pub(super) type Heartbeats = BTreeMap<String, String>;

/// A node as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeView {
    pub(super) name: String,
    pub(super) ready: bool,
    pub(super) message: String,
    pub(super) heartbeat: String,
    /// Those that keep pods away.
    pub(super) taints: Vec<String>,
}

/// Waits for the API server, as long as its parts live.
pub(super) fn wait_for_api(cluster: &Cluster) -> Result<(), ClusterError> {
    wait::until("the API server", API_BOUND, || {
        for part in ["etcd", "apiserver"] {
            units::must_be_alive(cluster.state(), part)?;
        }
        match run::check(cluster.kubectl().args(["get", "--raw", "/readyz"])) {
            Ok(()) => Ok(Seen::Done(())),
            Err(run::RunError::Failed { last_words, .. }) => Ok(Seen::NotYet(last_words)),
            Err(other) => Err(other.into()),
        }
    })
}

pub(super) fn heartbeats(cluster: &Cluster) -> Result<Heartbeats, ClusterError> {
    Ok(nodes(cluster)?
        .into_iter()
        .map(|node| (node.name, node.heartbeat))
        .collect())
}

/// Waits until every node takes pods. Nodes named in `stale` have to report
/// again first.
pub(super) fn wait_for_nodes(
    cluster: &Cluster,
    stale: &Heartbeats,
    progress: &Progress,
) -> Result<(), ClusterError> {
    let expected: Vec<_> = cluster
        .topology()
        .nodes
        .iter()
        .map(|node| node.name.as_str())
        .collect();
    let mut told = String::new();
    wait::until("the nodes to be Ready", NODE_BOUND, || {
        for seat in units::seats(cluster.state())? {
            units::must_be_alive(cluster.state(), &seat.name)?;
        }
        if let Some(why) = missing(&nodes(cluster)?, &expected, stale) {
            if told != why {
                progress.line(format_args!("  {why}"));
                told.clone_from(&why);
            }
            return Ok(Seen::NotYet(why));
        }
        Ok(Seen::Done(()))
    })
}

/// Waits for what pods of a namespace can't be made without. It shows that the
/// controllers work.
pub(super) fn wait_for_default_account(cluster: &Cluster) -> Result<(), ClusterError> {
    wait::until("the controllers to work", NODE_BOUND, || {
        units::must_be_alive(cluster.state(), "controller-manager")?;
        let account = ["get", "serviceaccount", "default", "--namespace=default"];
        Ok(if run::succeeds(cluster.kubectl().args(account))? {
            Seen::Done(())
        } else {
            Seen::NotYet("no default service account yet".to_owned())
        })
    })
}

/// What the API server says it is, such as `v1.35.4`.
pub(super) fn version(cluster: &Cluster) -> Result<String, ClusterError> {
    let answer = json(cluster.kubectl().args(["get", "--raw=/version"]))?;
    Ok(answer["gitVersion"].as_str().unwrap_or_default().to_owned())
}

fn json(kubectl: &mut Command) -> Result<Value, ClusterError> {
    serde_json::from_str(&run::output(kubectl)?)
        .map_err(|source| ClusterError::BadAnswer { source })
}

/// The nodes that the API knows.
pub(super) fn nodes(cluster: &Cluster) -> Result<Vec<NodeView>, ClusterError> {
    let list = json(cluster.kubectl().args(["get", "nodes", "--output=json"]))?;
    Ok(list["items"]
        .as_array()
        .map(|items| items.iter().map(view).collect())
        .unwrap_or_default())
}

fn view(node: &Value) -> NodeView {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions
        .and_then(|all| all.iter().find(|condition| condition["type"] == "Ready"))
        .unwrap_or(&Value::Null);
    let taints = node["spec"]["taints"].as_array();
    NodeView {
        name: text(&node["metadata"]["name"]),
        ready: ready["status"] == "True",
        message: text(&ready["message"]),
        heartbeat: text(&ready["lastHeartbeatTime"]),
        taints: taints
            .map(|all| all.iter().map(|t| text(&t["key"])).collect())
            .unwrap_or_default(),
    }
}

/// Why the nodes can't take pods yet, if so.
fn missing(seen: &[NodeView], expected: &[&str], stale: &Heartbeats) -> Option<String> {
    expected.iter().find_map(|name| {
        let Some(node) = seen.iter().find(|node| node.name == *name) else {
            return Some(format!("node {name} has not registered"));
        };
        if stale.get(*name) == Some(&node.heartbeat) {
            return Some(format!(
                "node {name} has not reported since its kubelet started"
            ));
        }
        if !node.ready {
            return Some(format!("node {name} is not Ready: {}", node.message));
        }
        let taints = node.taints.join(", ");
        (!taints.is_empty()).then(|| format!("node {name} still has the taints {taints}"))
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn node(ready: &str, heartbeat: &str, taints: &Value) -> NodeView {
        view(&serde_json::json!({
            "metadata": { "name": "n1" },
            "spec": { "taints": taints },
            "status": { "conditions": [
                { "type": "DiskPressure", "status": "False" },
                { "type": "Ready", "status": ready, "message": "why", "lastHeartbeatTime": heartbeat },
            ]},
        }))
    }

    #[rstest]
    #[case::ready(node("True", "10:05", &Value::Null), None)]
    #[case::not_ready(node("False", "10:05", &Value::Null), Some("node n1 is not Ready: why"))]
    #[case::from_before(
        node("True", "10:00", &Value::Null),
        Some("node n1 has not reported since its kubelet started")
    )]
    #[case::tainted(
        node("True", "10:05", &serde_json::json!([{ "key": "node.kubernetes.io/not-ready" }])),
        Some("node n1 still has the taints node.kubernetes.io/not-ready")
    )]
    fn a_node_takes_pods_when_it_reported_ready_by_itself(
        #[case] node: NodeView,
        #[case] why: Option<&str>,
    ) {
        let stale = Heartbeats::from([("n1".to_owned(), "10:00".to_owned())]);
        assert_eq!(missing(&[node], &["n1"], &stale).as_deref(), why);
    }

    #[test]
    fn every_expected_node_has_to_be_there() {
        let seen = [node("True", "10:05", &Value::Null)];
        let why = missing(&seen, &["n1", "n2"], &Heartbeats::new());
        assert_eq!(why.as_deref(), Some("node n2 has not registered"));
    }
}
