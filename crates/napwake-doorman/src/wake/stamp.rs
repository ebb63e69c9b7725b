//! Writing a stamp.
//!
//! Owns the one patch, and what its failure means. Changes the two annotations
//! and nothing else.

use std::net::IpAddr;
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use napwake_api::ManagedWorkload;
use napwake_api::names::{self, signal};
use napwake_api::stamp::LastRequest;
use napwake_gate::places::WorkloadKey;
use serde_json::json;
use tokio::time::timeout;

/// How long one write may take before it counts as failed.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StampValue {
    /// `napwake.dev/last-request` (HOLD-14).
    pub last_request: LastRequest,
    /// `napwake.dev/last-request-from` (HOLD-32).
    pub from: IpAddr,
}

/// A stamp that wasn't written.
#[derive(Debug, thiserror::Error)]
pub enum StampError {
    /// The ManagedWorkload is gone: there is nothing to wake.
    #[error("the ManagedWorkload is gone")]
    Gone,
    /// The API server refused it, or couldn't be asked.
    #[error(transparent)]
    Refused(Box<kube::Error>),
    /// It didn't answer in time.
    #[error("the API server didn't answer within {TIMEOUT:?}")]
    TimedOut,
}

/// Writes stamps.
pub trait Stamper: Send + Sync + 'static {
    /// Writes one.
    fn stamp(
        &self,
        workload: &WorkloadKey,
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

impl Stamper for ApiStamper {
    async fn stamp(&self, workload: &WorkloadKey, value: &StampValue) -> Result<(), StampError> {
        let api: Api<ManagedWorkload> = Api::namespaced(self.client.clone(), workload.namespace());
        let params = PatchParams {
            field_manager: Some(names::DOORMAN_FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(json!({ "metadata": { "annotations": {
            signal::LAST_REQUEST: value.last_request.to_string(),
            signal::LAST_REQUEST_FROM: value.from.to_string(),
        }}}));
        // The answer is not needed, so only its metadata is asked for.
        let written = api.patch_metadata(workload.name(), &params, &patch);
        match timeout(TIMEOUT, written).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(kube::Error::Api(status))) if status.is_not_found() => Err(StampError::Gone),
            Ok(Err(error)) => Err(StampError::Refused(Box::new(error))),
            Err(_) => Err(StampError::TimedOut),
        }
    }
}
