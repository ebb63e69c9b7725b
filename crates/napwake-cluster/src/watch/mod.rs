//! The only way to watch the cluster.
//!
//! A [`Watch`] fills a [`Store`] and keeps it true: it lists, watches, resumes
//! and starts over with a backoff, and never ends. What can't be read is
//! skipped, logged once and told to the observer; it never stops a watch. A
//! silent connection is noticed within [`SILENCE`] and a few seconds, and
//! [`Store::lag`] says how long ago the server was last heard, bookmarks
//! included.
//!
//! [`follow`] watches a single object by name, without the right to list.

mod backoff;
mod ear;
mod follow;
mod guard;
mod store;

use std::{convert::Infallible, fmt::Debug, pin::pin, sync::Arc, time::Duration};

use futures::StreamExt;
use kube::{
    Api, Client, Resource,
    core::NamespaceResourceScope,
    runtime::{
        WatchStreamExt,
        watcher::{self, Config, Event},
    },
};
use napwake_kit::ready::ReadyHandle;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use self::{backoff::Backoff, ear::Ear, guard::Guarded};
pub use self::{
    follow::{Sight, follow},
    guard::Unreadable,
    store::{Change, Lookup, ObjectKey, Progress, Store},
};
use crate::plain;

/// How long the server may keep one watch open. A connection that died silently
/// is noticed 5 s after this at the latest (F-157).
pub const SILENCE: Duration = Duration::from_secs(30);

/// Objects in one page of a list: each page is decoded whole (F-161).
const PAGE: u32 = 250;

/// What a kind must be to be watched.
pub trait Watched:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Watched for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

type Keep<K, V> = Box<dyn FnMut(K) -> Option<V> + Send>;
type Observer<V> = Box<dyn FnMut(Change<V>) + Send>;

/// A watch that isn't started yet: all objects of kind `K` that match, kept as
/// `V`.
#[must_use = "a watch does nothing until it is started"]
pub struct Watch<K, V = K> {
    api: Api<Guarded<K>>,
    ear: Arc<Ear>,
    config: Config,
    keep: Keep<K, V>,
    observer: Option<Observer<V>>,
    ready: Option<ReadyHandle>,
    lines: LineLimit,
}

impl<K, V> Debug for Watch<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl<K: Watched> Watch<K> {
    /// Every object of the cluster. Needs the rights to list and watch.
    pub fn all(client: &Client) -> Self {
        Self::new(client, Api::all)
    }

    /// Every object of one namespace.
    pub fn within(client: &Client, namespace: &str) -> Self
    where
        K: Resource<Scope = NamespaceResourceScope>,
    {
        Self::new(client, |client| Api::namespaced(client, namespace))
    }

    fn new(client: &Client, api: impl FnOnce(Client) -> Api<Guarded<K>>) -> Self {
        let ear = Arc::new(Ear::new());
        let timeout = u32::try_from(SILENCE.as_secs()).unwrap_or(u32::MAX);
        Self {
            api: api(Ear::listening(client, &ear)),
            ear,
            config: Config::default().timeout(timeout).page_size(PAGE),
            keep: Box::new(Some),
            observer: None,
            ready: None,
            lines: LineLimit::new(),
        }
    }

    /// Keeps of each object only what `keep` makes of it; nothing of those for
    /// which it gives `None`, as if they weren't there. Call this before
    /// [`Watch::on_change`].
    pub fn keep<V>(self, keep: impl FnMut(K) -> Option<V> + Send + 'static) -> Watch<K, V> {
        let Self {
            api,
            ear,
            config,
            keep: _,
            observer: _,
            ready,
            lines,
        } = self;
        Watch {
            api,
            ear,
            config,
            keep: Box::new(keep),
            observer: None,
            ready,
            lines,
        }
    }
}

impl<K: Watched, V: Send + Sync + 'static> Watch<K, V> {
    /// Only objects with these labels, such as `a=b,!c`.
    pub fn labels(mut self, selector: &str) -> Self {
        self.config = self.config.labels(selector);
        self
    }

    /// Only objects with these fields, such as `metadata.name=a`.
    pub fn fields(mut self, selector: &str) -> Self {
        self.config = self.config.fields(selector);
        self
    }

    /// Tells of each change, in order, right after the store has it. It runs
    /// inside the watch: keep it short, and don't block.
    pub fn on_change(mut self, observer: impl FnMut(Change<V>) + Send + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// Gives this handle back once the store is filled.
    pub fn ready(mut self, handle: ReadyHandle) -> Self {
        self.ready = Some(handle);
        self
    }

    /// The store, and the watch that fills it for as long as it runs: give that
    /// to [`napwake_kit::supervise::Supervisor::endless`].
    pub fn start(
        self,
    ) -> (
        Store<V>,
        impl Future<Output = Result<Infallible, Infallible>> + Send + 'static,
    ) {
        let store = Store::new(Arc::clone(&self.ear));
        let running = self.run(store.clone());
        (store, running)
    }

    async fn run(mut self, store: Store<V>) -> Result<Infallible, Infallible> {
        let mut health = Health::new(K::plural(&()).into_owned());
        // The stream has no end; should it find one, it begins anew.
        loop {
            let events = watcher::watcher(self.api.clone(), self.config.clone());
            let mut events = pin!(events.backoff(Backoff::new()));
            while let Some(event) = events.next().await {
                match event {
                    Ok(event) => {
                        health.well();
                        self.apply(&store, event);
                    }
                    Err(error) => health.failed(&error),
                }
            }
        }
    }

    fn apply(&mut self, store: &Store<V>, event: Event<Guarded<K>>) {
        let change = match event {
            Event::Init => {
                store.begin();
                None
            }
            Event::InitApply(object) | Event::Apply(object) => self.put(store, object),
            Event::Delete(object) => store.remove(&ObjectKey::of(object.meta())),
            Event::InitDone => {
                for gone in store.finish() {
                    self.tell(gone);
                }
                drop(self.ready.take());
                None
            }
        };
        if let Some(change) = change {
            self.tell(change);
        }
    }

    fn put(&mut self, store: &Store<V>, object: Guarded<K>) -> Option<Change<V>> {
        let key = ObjectKey::of(object.meta());
        match object.into_result() {
            Ok(object) => {
                let version = object.meta().resource_version.clone();
                store.put(key, version, (self.keep)(object))
            }
            Err(unreadable) => store.put_unreadable(key, *unreadable),
        }
    }

    fn tell(&mut self, change: Change<V>) {
        if let Change::Unreadable { object, .. } = &change
            && self.lines.take(Instant::now())
        {
            tracing::warn!(
                kind = %K::kind(&()),
                namespace = object.key.namespace,
                name = object.key.name,
                error = object.error,
                "an object can't be read and is passed over"
            );
        }
        if let Some(observer) = &mut self.observer {
            observer(change);
        }
    }
}

/// How many lines a watch logs in a minute about objects that can't be read.
const LINES: u32 = 20;

/// Keeps whoever can write many unreadable objects from filling the log. The
/// observer is told of all, and the store has them.
#[derive(Debug)]
struct LineLimit {
    since: Instant,
    taken: u32,
}

impl LineLimit {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            taken: 0,
        }
    }

    fn take(&mut self, now: Instant) -> bool {
        if now.duration_since(self.since) >= Duration::from_mins(1) {
            *self = Self {
                since: now,
                taken: 0,
            };
        }
        self.taken += 1;
        if self.taken == LINES {
            tracing::warn!("more objects can't be read; no line for each in this minute");
        }
        self.taken < LINES
    }
}

/// Says once that a watch fails, and once that it is back.
#[derive(Debug)]
struct Health {
    plural: String,
    failing: bool,
}

impl Health {
    fn new(plural: String) -> Self {
        Self {
            plural,
            failing: false,
        }
    }

    fn failed(&mut self, error: &watcher::Error) {
        let (kind, error) = (&self.plural, plain(error));
        if std::mem::replace(&mut self.failing, true) {
            tracing::debug!(kind, error, "still can't watch");
        } else {
            tracing::warn!(kind, error, "can't watch");
        }
    }

    fn well(&mut self) {
        if std::mem::take(&mut self.failing) {
            tracing::info!(kind = self.plural, "watching again");
        }
    }
}

#[cfg(test)]
mod tests;
