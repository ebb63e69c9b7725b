//! Following one Pod by name.
//!
//! Owns what is told of it, for as long as the future lives. Needs no more than
//! `get` and `watch` on Pods (T-135).

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::{Api, Client};
use napwake_cluster::watch::{Sight, follow};
use napwake_cluster::{plain, thin};
use napwake_gate::ready::{PodKey, PodView};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Judge, PodViews};

/// How long to wait before reading again, where there is no watch to tell.
const AGAIN: Duration = Duration::from_secs(1);

/// A Pod to follow, and where to tell of it.
#[derive(Clone)]
pub(super) struct Followed {
    pub(super) client: Client,
    pub(super) pod: PodKey,
    pub(super) judge: Judge,
    pub(super) seen: watch::Sender<PodViews>,
    /// How many watches there may be.
    pub(super) watches: Arc<Semaphore>,
    /// Cancelled once it isn't to be followed any more.
    pub(super) end: CancellationToken,
}

impl Followed {
    /// Tells of the Pod as it is, and of every change, until its end.
    pub(super) async fn follow(self) {
        let end = self.end.clone();
        end.run_until_cancelled_owned(self.tell_on()).await;
    }

    async fn tell_on(self) {
        let _permit = self.permit().await;
        let PodKey { namespace, name } = &self.pod;
        let mut sights = pin!(follow::<thin::Pod>(&self.client, namespace, name));
        while let Some(sight) = sights.next().await {
            match sight {
                Sight::Is(pod) => self.tell(self.judge.read(&pod)),
                Sight::Gone => self.tell(PodView::Leaving),
                Sight::Unreadable(object) => {
                    tracing::warn!(pod = %object.key, error = object.error, "a pod can't be read");
                    self.tell(PodView::Leaving);
                }
                // What was seen stands until it's seen again: the slice tells of
                // an end, too.
                Sight::Lost(error) => {
                    self.complain(&error, "a pod's watch failed, trying on");
                }
            }
        }
    }

    /// Waits for a watch, and reads once a second until then.
    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            match Arc::clone(&self.watches).try_acquire_owned() {
                Ok(permit) => return Some(permit),
                Err(tokio::sync::TryAcquireError::Closed) => return None,
                Err(tokio::sync::TryAcquireError::NoPermits) => {}
            }
            let api: Api<thin::Pod> = Api::namespaced(self.client.clone(), &self.pod.namespace);
            match api.get_opt(&self.pod.name).await {
                Ok(Some(pod)) => self.tell(self.judge.read(&pod)),
                Ok(None) => self.tell(PodView::Leaving),
                Err(error) => {
                    self.complain(&error, "a pod can't be read, trying on");
                }
            }
            sleep(AGAIN).await;
        }
    }

    fn complain(&self, error: &kube::Error, message: &'static str) {
        let PodKey { namespace, name } = &self.pod;
        let error = plain(error);
        tracing::warn!(namespace, pod = name, error, "{message}");
    }

    /// Tells of it while it is followed. Whoever ends that forgets what was seen
    /// afterwards, so what is told here is never left behind, though both may be on
    /// their way at once.
    fn tell(&self, view: PodView) {
        self.seen.send_if_modified(|seen| {
            let changed = !self.end.is_cancelled() && seen.get(&self.pod) != Some(&view);
            if changed {
                seen.insert(self.pod.clone(), view);
            }
            changed
        });
    }
}

#[cfg(test)]
mod tests;
