//! The Secret itself, in the API server.
//!
//! Owns the two calls that the doorman may make of it, by name. Judges nothing.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use napwake_api::names;

use crate::calls::{CallError, post_params, within};

/// How long one call may take: a click may wait for it, and for the one before it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The Secret, by name.
#[derive(Clone)]
pub(super) struct KeySecret {
    api: Api<Secret>,
    name: String,
}

impl std::fmt::Debug for KeySecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeySecret")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The Secret as it was read. Not shown, not even for debugging.
pub(super) struct SecretAsRead(Box<Secret>);

impl SecretAsRead {
    /// What its key field holds, if it has one.
    pub(super) fn key(&self) -> Option<&[u8]> {
        let data = self.0.data.as_ref()?;
        Some(&data.get(names::WAKE_KEY_FIELD)?.0)
    }
}

/// Who filled the Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Filled {
    ByUs,
    /// It isn't as it was read any more.
    BySomebodyElse,
}

/// A call that came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum SecretError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("no random bytes")]
    NoRandomness(#[from] getrandom::Error),
    #[error("somebody else writes it over and over")]
    Contended,
}

impl KeySecret {
    pub(super) fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            name: name.to_owned(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Reads it; `None` if there is none.
    pub(super) async fn read(&self) -> Result<Option<SecretAsRead>, SecretError> {
        let found = within(TIMEOUT, self.api.get_opt(&self.name)).await?;
        Ok(found.map(|secret| SecretAsRead(Box::new(secret))))
    }

    /// Puts `key` in its key field, if it is still as it was read: the update
    /// carries the resourceVersion (TOKEN-20). All else in it stays.
    pub(super) async fn fill(&self, read: SecretAsRead, key: &[u8]) -> Result<Filled, SecretError> {
        let SecretAsRead(mut secret) = read;
        let data = secret.data.get_or_insert_default();
        data.insert(names::WAKE_KEY_FIELD.to_owned(), ByteString(key.to_vec()));
        let params = post_params();
        let written = self.api.replace(&self.name, &params, &secret);
        match within(TIMEOUT, written).await {
            Ok(_) => Ok(Filled::ByUs),
            Err(error) if error.is_conflict() => Ok(Filled::BySomebodyElse),
            Err(error) => Err(error.into()),
        }
    }
}
