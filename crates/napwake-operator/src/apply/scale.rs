//! The replicas of a target: the one write that pauses or wakes.

use k8s_openapi::api::autoscaling::v1::Scale;
use kube::{Api, Client, api::Patch};
use napwake_api::workload::TargetKind;
use napwake_decide::world::TargetId;
use serde_json::{Value, json};

use super::{Applier, ApplyError, patch_params};
use crate::observe::thin;

const WRITE: &str = "scale";

/// A change of replicas, and what must hold for it.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) from: i32,
    pub(super) to: i32,
    /// The target's resourceVersion as seen.
    pub(super) version: String,
}

impl Applier {
    /// Scales the target, if it's as the step says, or not at all.
    pub(super) async fn scale(
        &self,
        namespace: &str,
        target: &TargetId,
        step: &Step,
    ) -> Result<(), ApplyError> {
        let scale = patch_scale(&self.client, namespace, target, patch(&target.uid, step))
            .await
            .map_err(|source| ApplyError::of(WRITE, source))?;
        let key = (namespace.to_owned(), target.name.clone());
        let version = scale.metadata.resource_version.unwrap_or_default();
        self.shared
            .change(|index, now| index.wrote_scale(target.kind, &key, version, now));
        Ok(())
    }
}

/// A Scale leaves out replicas of 0, so what is tested is all of `spec`.
fn patch(uid: &str, step: &Step) -> Value {
    let Step { from, to, version } = step;
    let spec = if *from == 0 {
        json!({})
    } else {
        json!({"replicas": from})
    };
    let test = |path: &str, value: Value| json!({"op": "test", "path": path, "value": value});
    json!([
        test("/metadata/uid", json!(uid)),
        test("/metadata/resourceVersion", json!(version)),
        test("/spec", spec),
        {"op": "add", "path": "/spec/replicas", "value": to},
    ])
}

async fn patch_scale(
    client: &Client,
    namespace: &str,
    target: &TargetId,
    patch: Value,
) -> kube::Result<Scale> {
    let patch = serde_json::from_value(patch).map_err(kube::Error::SerdeError)?;
    let patch = Patch::<()>::Json(patch);
    let (client, params) = (client.clone(), patch_params());
    match target.kind {
        TargetKind::Deployment => {
            let api: Api<thin::Deployment> = Api::namespaced(client, namespace);
            api.patch_scale(&target.name, &params, &patch).await
        }
        TargetKind::StatefulSet => {
            let api: Api<thin::StatefulSet> = Api::namespaced(client, namespace);
            api.patch_scale(&target.name, &params, &patch).await
        }
    }
}
