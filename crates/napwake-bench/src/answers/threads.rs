//! The doorman with as many threads as it would have on a core of its own.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::memory::{NAMESPACE, doormen};

/// The Deployment and its container.
const DEPLOYMENT: &str = "napwake-doorman";
const CONTAINER: &str = "doorman";

/// By this tokio takes fewer threads than there are cores, of which it would otherwise
/// see all: it's put on one only after its start.
const VARIABLE: &str = "TOKIO_WORKER_THREADS";

/// Pods that leave take 40 seconds each.
const PATIENCE: Duration = Duration::from_mins(3);

/// How often it's looked at.
const EVERY: Duration = Duration::from_millis(500);

/// Replaces the doorman's pods by such of one thread, and waits until the others are
/// gone.
pub(super) async fn one(client: &Client) -> Result<()> {
    let container = json!({"name": CONTAINER, "env": [{"name": VARIABLE, "value": "1"}]});
    let template = json!({"template": {"spec": {"containers": [container]}}});
    let patch = Patch::Strategic(json!({ "spec": template }));
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    deployments
        .patch(DEPLOYMENT, &PatchParams::default(), &patch)
        .await
        .context("give the doorman one thread")?;
    let until = Instant::now() + PATIENCE;
    loop {
        let pods = doormen(client).await?;
        if pods.len() > 1 && pods.iter().all(|pod| has_one(pod) && is_ready(pod)) {
            return Ok(());
        }
        if Instant::now() > until {
            bail!("waited {PATIENCE:?} for doorman pods of one thread");
        }
        sleep(EVERY).await;
    }
}

fn has_one(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut variables = containers.flat_map(|container| container.env.iter().flatten());
    variables.any(|variable| variable.name == VARIABLE)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| &status.conditions);
    let mut all = conditions.flatten();
    all.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
