//! Calls to the API server: what those who read and write there have in common.
//!
//! Owns how long a call may take, as whom the doorman writes, and how often something
//! is read anew that somebody else changed before it was written. Calls nobody.

use std::time::Duration;

use kube::api::{PatchParams, PostParams};
use kube::core::Status;
use napwake_api::names::DOORMAN_FIELD_MANAGER;
use tokio::time::timeout;

/// How long a call may take before it counts as failed.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How often in a row something is read and written anew because it changed in
/// between. The operator writes a status a few times in a pause at most.
pub(crate) const TRIES: usize = 8;

/// A call that came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The API server refused it, or couldn't be asked.
    #[error("the API server refused it or couldn't be asked")]
    Refused(#[source] Box<kube::Error>),
    /// It didn't answer in time.
    #[error("the API server didn't answer within {0:?}")]
    TimedOut(Duration),
}

impl CallError {
    /// Whether there is nothing of that name.
    pub(crate) fn is_not_found(&self) -> bool {
        self.is(Status::is_not_found)
    }

    /// Whether it isn't as it was read any more.
    pub(crate) fn is_conflict(&self) -> bool {
        self.is(Status::is_conflict)
    }

    fn is(&self, what: impl FnOnce(&Status) -> bool) -> bool {
        match self {
            Self::Refused(error) => match &**error {
                kube::Error::Api(status) => what(status),
                _ => false,
            },
            Self::TimedOut(_) => false,
        }
    }
}

/// What a call comes to, if it does in time.
pub(crate) async fn in_time<T>(
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, CallError> {
    within(TIMEOUT, call).await
}

/// The same, where somebody waits for it who hasn't that much time.
pub(crate) async fn within<T>(
    limit: Duration,
    call: impl Future<Output = kube::Result<T>>,
) -> Result<T, CallError> {
    let ended = timeout(limit, call).await;
    let ended = ended.map_err(|_| CallError::TimedOut(limit))?;
    ended.map_err(|error| CallError::Refused(Box::new(error)))
}

/// For patches, as the doorman.
pub(crate) fn patch_params() -> PatchParams {
    PatchParams {
        field_manager: Some(DOORMAN_FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// For replacing, as the doorman.
pub(crate) fn post_params() -> PostParams {
    PostParams {
        field_manager: Some(DOORMAN_FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}
