//! Following one Pod by name.
//!
//! Owns what is told of it, for as long as the future lives. Needs no more than
//! `get` and `watch` on Pods (T-135).

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use kube::{Api, Client};
use napwake_cluster::watch::{Sight, follow};
use napwake_cluster::{plain, thin};
use napwake_gate::ready::{PodKey, PodView};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::turns::{Permit, Turn};
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
    /// When it may be watched, and read until then.
    pub(super) turn: Turn,
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
    async fn permit(&self, told: &mut String) -> Option<Permit> {
        let mut permit = pin!(self.turn.to_watch());
        loop {
            tokio::select! {
                biased;
                permit = &mut permit => return permit,
                () = self.turn.to_read() => {}
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
                permit = &mut permit => return permit,
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
