//! What kubectl says of the sample workloads.

use serde_json::Value;

use super::{DemoError, NAMESPACE};
use crate::cluster::Cluster;
use crate::run;

/// A ManagedWorkload, as far as the story goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Workload {
    pub(super) phase: String,
    /// The doorman's stamp.
    pub(super) last_request: Option<String>,
    /// What woke it.
    pub(super) source: Option<String>,
}

/// A pod, as far as the story goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pod {
    pub(super) name: String,
    pub(super) ready: bool,
}

pub(super) fn workload(cluster: &Cluster, name: &str) -> Result<Workload, DemoError> {
    let found = get(cluster, &["managedworkload", name])?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Ok(Workload {
        phase: text(&found["status"]["phase"]).unwrap_or_default(),
        last_request: text(&found["metadata"]["annotations"]["napwake.dev/last-request"]),
        source: text(&found["status"]["clock"]["lastActivitySource"]),
    })
}

pub(super) fn pods(cluster: &Cluster, app: &str) -> Result<Vec<Pod>, DemoError> {
    let found = get(cluster, &["pods", "-l", &format!("app={app}")])?;
    let items = found["items"].as_array().cloned().unwrap_or_default();
    Ok(items.iter().map(pod).collect())
}

pub(super) fn service_address(cluster: &Cluster, name: &str) -> Result<String, DemoError> {
    let found = get(cluster, &["service", name])?;
    Ok(found["spec"]["clusterIP"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

fn pod(object: &Value) -> Pod {
    let conditions = object["status"]["conditions"].as_array();
    let ready = conditions.is_some_and(|conditions| {
        conditions
            .iter()
            .any(|known| known["type"] == "Ready" && known["status"] == "True")
    });
    Pod {
        name: object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        ready,
    }
}

fn get(cluster: &Cluster, words: &[&str]) -> Result<Value, DemoError> {
    let mut kubectl = cluster.kubectl();
    kubectl
        .args(["get", "-n", NAMESPACE, "-o", "json"])
        .args(words);
    Ok(serde_json::from_str(&run::output(&mut kubectl)?)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_ready_by_its_condition() {
        let with = |status: &str| {
            pod(
                &json!({"metadata": {"name": "a"}, "status": {"conditions": [
                {"type": "Initialized", "status": "True"}, {"type": "Ready", "status": status}]}}),
            )
        };
        assert!(with("True").ready && !with("False").ready);
    }
}
