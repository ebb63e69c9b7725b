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
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{Judge, PodViews};

/// How long to wait before reading again, where there is no watch to tell.
const AGAIN: Duration = Duration::from_secs(1);

/// How long there is between two reads, of whichever Pods: some sixty a second.
const BETWEEN_READS: Duration = Duration::from_millis(16);

/// Whose turn it is to read a Pod that isn't watched. Clones share it.
#[derive(Clone)]
pub(super) struct Reads(Arc<Mutex<Option<Instant>>>);

impl Reads {
    /// Nobody has read yet.
    pub(super) fn new() -> Self {
        Self(Arc::default())
    }

    /// Waits for a turn, in the order of coming. Cancel-safe.
    async fn turn(&self) {
        let mut next = self.0.lock().await;
        if let Some(next) = *next {
            sleep_until(next).await;
        }
        *next = Some(Instant::now() + BETWEEN_READS);
    }
}

/// A Pod to follow, and where to tell of it.
#[derive(Clone)]
pub(super) struct Followed {
    pub(super) client: Client,
    pub(super) pod: PodKey,
    pub(super) judge: Judge,
    pub(super) seen: watch::Sender<PodViews>,
    /// How many watches there may be.
    pub(super) watches: Arc<Semaphore>,
    /// How often Pods may be read where there is no watch left.
    pub(super) reads: Reads,
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
        let mut told = String::new();
        let _permit = self.permit(&mut told).await;
        let PodKey { namespace, name } = &self.pod;
        let mut sights = pin!(follow::<thin::Pod>(&self.client, namespace, name));
        while let Some(sight) = sights.next().await {
            match sight {
                Sight::Is(pod) => {
                    told.clear();
                    self.tell(self.judge.read(&pod));
                }
                Sight::Gone => self.tell(PodView::Leaving),
                Sight::Unreadable(object) => {
                    tracing::warn!(pod = %object.key, error = object.error, "a pod can't be read");
                    self.tell(PodView::Leaving);
                }
                // What was seen stands until it's seen again: the slice tells of
                // an end, too.
                Sight::Lost(error) => {
                    self.complain(&mut told, &error, "a pod's watch failed, trying on");
                }
            }
        }
    }

    /// Waits for a watch, and reads once a second until then, where it is its turn.
    async fn permit(&self, told: &mut String) -> Option<OwnedSemaphorePermit> {
        let mut permit = pin!(Arc::clone(&self.watches).acquire_owned());
        loop {
            tokio::select! {
                biased;
                permit = &mut permit => return permit.ok(),
                () = self.reads.turn() => {}
            }
            let api: Api<thin::Pod> = Api::namespaced(self.client.clone(), &self.pod.namespace);
            match api.get_opt(&self.pod.name).await {
                Ok(found) => {
                    told.clear();
                    self.tell(found.map_or(PodView::Leaving, |pod| self.judge.read(&pod)));
                }
                Err(error) => self.complain(told, &error, "a pod can't be read, trying on"),
            }
            tokio::select! {
                biased;
                permit = &mut permit => return permit.ok(),
                () = sleep(AGAIN) => {}
            }
        }
    }

    /// Tells of a trouble, unless it is the one that was told last.
    fn complain(&self, told: &mut String, error: &kube::Error, message: &'static str) {
        let PodKey { namespace, name } = &self.pod;
        let error = plain(error);
        if *told == error {
            return;
        }
        told.clone_from(&error);
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
