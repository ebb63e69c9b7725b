//! Writing a stamp.
//!
//! Owns the one patch, for a click the read that it is written over, and what their
//! failure means. Changes the two annotations and nothing else.

use std::net::IpAddr;
use std::sync::Arc;

use kube::api::Patch;
use kube::{Api, Client};
use napwake_api::ManagedWorkload;
use napwake_api::names::signal;
use napwake_api::stamp::{LastRequest, Stamp};
use napwake_gate::places::WorkloadKey;
use serde_json::{Value, json};

use super::Asker;
use crate::calls::{CallError, in_time, patch_params};
use crate::routes::{Claimant, ServiceKey, Workload};

/// What is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StampValue {
    /// `napwake.dev/last-request` (HOLD-14).
    pub last_request: LastRequest,
    /// `napwake.dev/last-request-from` (HOLD-32).
    pub from: IpAddr,
}

impl StampValue {
    /// What `asker` has written, who came by `service`.
    pub(super) fn new(asker: Asker, service: &ServiceKey, stamp: Stamp) -> Self {
        Self {
            last_request: LastRequest {
                stamp,
                kind: asker.kind,
                service: Some(service.name.to_string()),
            },
            from: asker.source.get(),
        }
    }
}

/// A stamp that wasn't written.
#[derive(Debug, thiserror::Error)]
pub enum StampError {
    /// The ManagedWorkload is gone: there is nothing to wake.
    #[error("the ManagedWorkload is gone")]
    Gone,
    /// It isn't as it was read any more.
    #[error("the ManagedWorkload changes all the time")]
    Overtaken,
    /// Anything else.
    #[error(transparent)]
    Call(CallError),
}

impl From<CallError> for StampError {
    fn from(error: CallError) -> Self {
        if error.is_not_found() {
            Self::Gone
        } else if error.is_conflict() {
            Self::Overtaken
        } else {
            Self::Call(error)
        }
    }
}

/// A workload as it was read for a click.
#[derive(Debug, Clone)]
pub struct AsRead {
    /// As it is.
    pub workload: Arc<Workload>,
    /// Which version of it that is.
    pub version: String,
}

/// Writes stamps.
pub trait Stamper: Send + Sync + 'static {
    /// Writes one, whatever is there.
    fn stamp(
        &self,
        workload: &WorkloadKey,
        value: &StampValue,
    ) -> impl Future<Output = Result<(), StampError>> + Send;

    /// Reads a workload, from the API server itself.
    fn look(
        &self,
        workload: &WorkloadKey,
    ) -> impl Future<Output = Result<AsRead, StampError>> + Send;

    /// Writes one, if the workload still is as it was read.
    fn stamp_over(
        &self,
        seen: &AsRead,
        value: &StampValue,
    ) -> impl Future<Output = Result<(), StampError>> + Send;
}

/// Writes stamps to the API server.
#[derive(Clone)]
pub struct ApiStamper {
    client: Client,
}

impl std::fmt::Debug for ApiStamper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiStamper").finish_non_exhaustive()
    }
}

impl ApiStamper {
    /// Writes with `client`.
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

impl ApiStamper {
    fn api(&self, workload: &WorkloadKey) -> Api<ManagedWorkload> {
        Api::namespaced(self.client.clone(), workload.namespace())
    }

    /// Writes the two annotations; `metadata` may say of which version.
    async fn write(
        &self,
        workload: &WorkloadKey,
        mut metadata: Value,
        value: &StampValue,
    ) -> Result<(), StampError> {
        metadata["annotations"] = json!({
            signal::LAST_REQUEST: value.last_request.to_string(),
            signal::LAST_REQUEST_FROM: value.from.to_string(),
        });
        let params = patch_params();
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let api = self.api(workload);
        // The answer is not needed, so only its metadata is asked for.
        in_time(api.patch_metadata(workload.name(), &params, &patch)).await?;
        Ok(())
    }
}

impl Stamper for ApiStamper {
    async fn stamp(&self, workload: &WorkloadKey, value: &StampValue) -> Result<(), StampError> {
        self.write(workload, json!({}), value).await
    }

    async fn look(&self, workload: &WorkloadKey) -> Result<AsRead, StampError> {
        let object = in_time(self.api(workload).get(workload.name())).await?;
        let read = Claimant::read(&object).ok_or(StampError::Gone)?;
        Ok(AsRead {
            workload: read.1.workload,
            version: object.metadata.resource_version.unwrap_or_default(),
        })
    }

    async fn stamp_over(&self, seen: &AsRead, value: &StampValue) -> Result<(), StampError> {
        let version = json!({
            "uid": &*seen.workload.uid,
            "resourceVersion": seen.version,
        });
        self.write(&seen.workload.key, version, value).await
    }
}
