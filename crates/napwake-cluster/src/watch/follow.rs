//! Follows a single object by name.
//!
//! One watch request gives the object as it is and then its changes, so the
//! right to watch is enough: a doorman follows the Pods of those it holds, and
//! must not list Pods (T-135). Nothing is kept.

use std::time::Duration;

use futures::{Stream, StreamExt, TryStreamExt, stream::BoxStream};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{WatchEvent, WatchParams},
    core::NamespaceResourceScope,
};
use tokio::time::{Instant, sleep, timeout};

use super::{SILENCE, Unreadable, Watched, backoff::Backoff, guard::Guarded};

/// How long after [`SILENCE`] a connection counts as dead.
const MARGIN: Duration = Duration::from_secs(5);

/// A watch that ended sooner than this isn't begun again at once.
const HASTY: Duration = Duration::from_secs(1);

/// From the beginning: the object as any server's cache has it, then changes.
const ANY_VERSION: &str = "0";

/// What is seen of the object.
#[derive(Debug)]
pub enum Sight<K> {
    /// As it is now.
    Is(K),
    /// It was deleted. (One that never was is simply not seen.)
    Gone,
    /// It is there but can't be read.
    Unreadable(Unreadable),
    /// The watch failed. What was seen may be out of date; it goes on after a
    /// short wait.
    Lost(kube::Error),
}

/// Follows the object of that name, for as long as the stream is read.
pub fn follow<K>(
    client: &Client,
    namespace: &str,
    name: &str,
) -> impl Stream<Item = Sight<K>> + Send + use<K>
where
    K: Watched + Resource<Scope = NamespaceResourceScope>,
{
    let timeout = u32::try_from(SILENCE.as_secs()).unwrap_or(u32::MAX);
    let follower = Follower {
        api: Api::namespaced(client.clone(), namespace),
        params: WatchParams::default()
            .fields(&format!("metadata.name={name}"))
            .timeout(timeout),
        version: ANY_VERSION.to_owned(),
        events: None,
        began: Instant::now(),
        backoff: Backoff::new(),
        wait: None,
    };
    futures::stream::unfold(follower, async |mut follower| {
        let sight = follower.next().await;
        Some((sight, follower))
    })
}

type Events<K> = BoxStream<'static, kube::Result<WatchEvent<Guarded<K>>>>;

struct Follower<K: Watched> {
    api: Api<Guarded<K>>,
    params: WatchParams,
    version: String,
    events: Option<Events<K>>,
    began: Instant,
    backoff: Backoff,
    wait: Option<Duration>,
}

impl<K: Watched> Follower<K> {
    async fn next(&mut self) -> Sight<K> {
        loop {
            match self.step().await {
                Ok(Some(sight)) => return sight,
                Ok(None) => {}
                Err(error) => {
                    self.events = None;
                    ANY_VERSION.clone_into(&mut self.version);
                    self.wait = self.backoff.next();
                    return Sight::Lost(error);
                }
            }
        }
    }

    async fn step(&mut self) -> kube::Result<Option<Sight<K>>> {
        if let Some(wait) = self.wait.take() {
            sleep(wait).await;
        }
        let events = if let Some(events) = &mut self.events {
            events
        } else {
            self.began = Instant::now();
            let events = self.api.watch(&self.params, &self.version).await?;
            self.events.insert(events.boxed())
        };
        // A watch that ended as it should, or fell silent, resumes where it was.
        match timeout(SILENCE + MARGIN, events.try_next()).await {
            Ok(Ok(Some(event))) => self.see(event),
            Ok(Err(error)) => Err(error),
            Ok(Ok(None)) | Err(_) => {
                self.events = None;
                if self.began.elapsed() < HASTY {
                    self.wait = self.backoff.next();
                }
                Ok(None)
            }
        }
    }

    fn see(&mut self, event: WatchEvent<Guarded<K>>) -> kube::Result<Option<Sight<K>>> {
        let sight = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                self.version_of(object.resource_version());
                object
                    .into_result()
                    .map_or_else(|unreadable| Sight::Unreadable(*unreadable), Sight::Is)
            }
            WatchEvent::Deleted(object) => {
                self.version_of(object.resource_version());
                Sight::Gone
            }
            WatchEvent::Bookmark(bookmark) => {
                self.version_of(Some(bookmark.metadata.resource_version));
                return Ok(None);
            }
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        };
        Ok(Some(sight))
    }

    fn version_of(&mut self, version: Option<String>) {
        if let Some(version) = version {
            self.version = version;
        }
    }
}
