//! The mark on a paused target that keeps its number of replicas.

use std::sync::Arc;

use kube::{Api, api::Patch};
use napwake_api::{names::signal, workload::TargetKind};
use napwake_decide::world::TargetId;
use serde_json::json;

use super::{Applier, ApplyError, patch_params};
use crate::observe::{convert, thin};

const WRITE: &str = "mark";

impl Applier {
    /// Sets the mark on the target of that uid and version, or takes it off.
    pub(super) async fn mark(
        &self,
        namespace: &str,
        target: &TargetId,
        paused_replicas: Option<i32>,
        version: &str,
    ) -> Result<(), ApplyError> {
        let value = paused_replicas.map(|replicas| replicas.to_string());
        // A patch can change neither uid nor version, so it's refused where one
        // differs, even if the mark is as it should be already.
        let patch = Patch::Merge(json!({"metadata": {
            "uid": target.uid,
            "resourceVersion": version,
            "annotations": {signal::PAUSED_REPLICAS: value},
        }}));
        let (client, params) = (self.client.clone(), patch_params());
        let scalable = match target.kind {
            TargetKind::Deployment => {
                let api: Api<thin::Deployment> = Api::namespaced(client, namespace);
                api.patch(&target.name, &params, &patch)
                    .await
                    .map(|object| object.0)
            }
            TargetKind::StatefulSet => {
                let api: Api<thin::StatefulSet> = Api::namespaced(client, namespace);
                api.patch(&target.name, &params, &patch)
                    .await
                    .map(|object| object.0)
            }
        };
        let scalable = scalable.map_err(|source| ApplyError::of(WRITE, source))?;
        let observed = Arc::new(convert::target(target.kind, scalable));
        self.shared
            .change(|index, now| index.wrote_target(observed, now));
        Ok(())
    }
}
