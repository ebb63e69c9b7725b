//! The status of a ManagedWorkload.

use std::sync::Arc;

use kube::{Api, core::ObjectMeta};
use napwake_api::{ManagedWorkload, ManagedWorkloadStatus};
use napwake_decide::world::Workload;

use super::{Applier, ApplyError, post_params};
use crate::observe::convert;

const WRITE: &str = "status";

impl Applier {
    /// Replaces the status, if the object is still of that version.
    pub(super) async fn write_status(
        &self,
        workload: &Workload,
        resource_version: String,
        status: ManagedWorkloadStatus,
    ) -> Result<(), ApplyError> {
        let object = ManagedWorkload {
            metadata: ObjectMeta {
                name: Some(workload.key.name.clone()),
                namespace: Some(workload.key.namespace.clone()),
                uid: Some(workload.uid.clone()),
                resource_version: Some(resource_version),
                ..ObjectMeta::default()
            },
            // Of no effect here, but an object without one doesn't read.
            spec: workload.spec.clone(),
            status: Some(status),
        };
        let api: Api<ManagedWorkload> =
            Api::namespaced(self.client.clone(), &workload.key.namespace);
        let written = api
            .replace_status(&workload.key.name, &post_params(), &object)
            .await
            .map_err(|source| ApplyError::of(WRITE, source))?;
        let observed = Arc::new(convert::workload(written));
        self.metrics
            .count_transition(&workload.status, &observed.workload.status);
        tracing::debug!(
            namespace = workload.key.namespace,
            workload = workload.key.name,
            phase = ?observed.workload.status.phase,
            "status written"
        );
        self.shared
            .change(|index, now| index.wrote_workload(observed, now));
        Ok(())
    }
}
