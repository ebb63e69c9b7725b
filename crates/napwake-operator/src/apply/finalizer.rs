//! The finalizer that keeps a ManagedWorkload until its workload is awake and
//! its ports have rested.

use std::{collections::BTreeSet, sync::Arc};

use kube::{Api, api::Patch};
use napwake_api::{ManagedWorkload, names::FINALIZER};
use napwake_decide::world::Workload;
use serde_json::json;

use super::{Applier, ApplyError, patch_params};
use crate::observe::convert;

const WRITE: &str = "finalizer";

impl Applier {
    pub(super) async fn add_finalizer(
        &self,
        workload: &Workload,
        resource_version: &str,
    ) -> Result<(), ApplyError> {
        let mut finalizers = workload.finalizers.clone();
        finalizers.insert(FINALIZER.to_owned());
        self.write_finalizers(workload, resource_version, &finalizers)
            .await
    }

    pub(super) async fn remove_finalizer(
        &self,
        workload: &Workload,
        resource_version: &str,
    ) -> Result<(), ApplyError> {
        let mut finalizers = workload.finalizers.clone();
        finalizers.remove(FINALIZER);
        self.write_finalizers(workload, resource_version, &finalizers)
            .await
    }

    /// The version makes it safe to write the whole list: nobody has changed it
    /// since it was seen.
    async fn write_finalizers(
        &self,
        workload: &Workload,
        resource_version: &str,
        finalizers: &BTreeSet<String>,
    ) -> Result<(), ApplyError> {
        let patch = Patch::Merge(json!({"metadata": {
            "resourceVersion": resource_version,
            "finalizers": finalizers,
        }}));
        let api: Api<ManagedWorkload> =
            Api::namespaced(self.client.clone(), &workload.key.namespace);
        let written = api
            .patch(&workload.key.name, &patch_params(), &patch)
            .await
            .map_err(|source| ApplyError::of(WRITE, source))?;
        let observed = Arc::new(convert::workload(written));
        let is_gone =
            observed.workload.deleted.is_some() && observed.workload.finalizers.is_empty();
        self.shared.change(|index, now| {
            if is_gone {
                index.deleted_workload(&workload.key, &workload.uid, now)
            } else {
                index.wrote_workload(observed, now)
            }
        });
        Ok(())
    }
}
