//! What a watch has seen, kept for everybody who asks.
//!
//! Filled by the watch alone. Readers look things up, or wait for a state of
//! the store, never for "a change".

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use kube::core::ObjectMeta;
use parking_lot::RwLock;
use tokio::sync::watch;

use super::{ear::Ear, guard::Unreadable};

/// Namespace and name of an object; of a cluster-wide one the namespace is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    pub namespace: String,
    pub name: String,
}

impl ObjectKey {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    pub fn of(meta: &ObjectMeta) -> Self {
        Self {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// A change of the store.
#[derive(Debug)]
pub enum Change<V> {
    /// New, or different from before.
    Applied {
        key: ObjectKey,
        old: Option<Arc<V>>,
        new: Arc<V>,
    },
    /// Deleted, or no longer one that is kept; `old` is what it was before
    /// that, none for one that couldn't be read.
    Removed { key: ObjectKey, old: Option<Arc<V>> },
    /// It is there but can't be read; `old` is what it was before that, and
    /// isn't in the store any longer. Told once for each way of being wrong.
    Unreadable {
        old: Option<Arc<V>>,
        object: Arc<Unreadable>,
    },
}

/// What a store knows of one object.
#[derive(Debug)]
pub enum Lookup<V> {
    Found(Arc<V>),
    /// It isn't there, or isn't one that is kept.
    Absent,
    /// It is there but can't be read.
    Unreadable(Arc<Unreadable>),
    /// The store isn't filled yet.
    NotSynced,
}

/// How far the store has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Whether it has been filled once. It stays so while a watch starts over.
    pub synced: bool,
    /// Counts the changes.
    pub changes: u64,
}

/// What a watch has seen. Cheap to clone; clones are the same.
pub struct Store<V>(Arc<Inner<V>>);

struct Inner<V> {
    objects: RwLock<HashMap<ObjectKey, Slot<V>>>,
    /// While a watch starts over: the objects that were listed so far.
    listed: RwLock<Option<HashSet<ObjectKey>>>,
    progress: watch::Sender<Progress>,
    ear: Arc<Ear>,
}

enum Slot<V> {
    Kept {
        version: Option<String>,
        value: Arc<V>,
    },
    Unreadable(Arc<Unreadable>),
}

impl<V> Slot<V> {
    fn into_kept(self) -> Option<Arc<V>> {
        match self {
            Self::Kept { value, .. } => Some(value),
            Self::Unreadable(_) => None,
        }
    }
}

impl<V> Clone for Store<V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<V> fmt::Debug for Store<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("objects", &self.0.objects.read().len())
            .field("progress", &*self.0.progress.borrow())
            .finish_non_exhaustive()
    }
}

impl<V> Store<V> {
    pub(super) fn new(ear: Arc<Ear>) -> Self {
        Self(Arc::new(Inner {
            objects: RwLock::default(),
            listed: RwLock::default(),
            progress: watch::Sender::default(),
            ear,
        }))
    }

    /// What is known of one object. Unknown is never absent.
    pub fn look(&self, key: &ObjectKey) -> Lookup<V> {
        // Asked first: what is absent before the store is filled may come yet.
        let synced = self.is_synced();
        match self.0.objects.read().get(key) {
            Some(Slot::Kept { value, .. }) => Lookup::Found(Arc::clone(value)),
            Some(Slot::Unreadable(object)) => Lookup::Unreadable(Arc::clone(object)),
            None if synced => Lookup::Absent,
            None => Lookup::NotSynced,
        }
    }

    /// One object, if it is there and can be read.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<V>> {
        match self.look(key) {
            Lookup::Found(value) => Some(value),
            Lookup::Absent | Lookup::Unreadable(_) | Lookup::NotSynced => None,
        }
    }

    /// All readable objects, in no order.
    pub fn all(&self) -> Vec<Arc<V>> {
        self.matching(|_| true)
    }

    /// All readable objects that match, in no order. Looks at every object:
    /// where that is too slow, keep an index with [`super::Watch::on_change`].
    pub fn matching(&self, matches: impl Fn(&V) -> bool) -> Vec<Arc<V>> {
        let objects = self.0.objects.read();
        let kept = objects.values().filter_map(|slot| match slot {
            Slot::Kept { value, .. } if matches(value) => Some(Arc::clone(value)),
            Slot::Kept { .. } | Slot::Unreadable(_) => None,
        });
        kept.collect()
    }

    /// All objects that are there but can't be read.
    pub fn unreadable(&self) -> Vec<Arc<Unreadable>> {
        let objects = self.0.objects.read();
        let unreadable = objects.values().filter_map(|slot| match slot {
            Slot::Unreadable(object) => Some(Arc::clone(object)),
            Slot::Kept { .. } => None,
        });
        unreadable.collect()
    }

    /// How many objects it holds, unreadable ones included.
    pub fn len(&self) -> usize {
        self.0.objects.read().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether it has been filled once.
    pub fn is_synced(&self) -> bool {
        self.0.progress.borrow().synced
    }

    /// Waits until it has been filled once.
    pub async fn synced(&self) {
        self.wait_for(|store| store.is_synced().then_some(())).await;
    }

    /// Waits until `check` finds what it looks for. It is asked now and after
    /// each change, so keep it quick.
    pub async fn wait_for<T>(&self, mut check: impl FnMut(&Self) -> Option<T>) -> T {
        let mut progress = self.subscribe();
        loop {
            progress.mark_unchanged();
            if let Some(found) = check(self) {
                return found;
            }
            // It can't fail: we hold the sender ourselves.
            progress.changed().await.ok();
        }
    }

    /// Tells of progress: something changed, or the store is filled.
    pub fn subscribe(&self) -> watch::Receiver<Progress> {
        self.0.progress.subscribe()
    }

    /// How long ago the watch last heard from the API server. At most
    /// [`super::SILENCE`] and a few seconds while all is well.
    pub fn lag(&self) -> Duration {
        self.0.ear.silent_for()
    }

    /// A list begins.
    pub(super) fn begin(&self) {
        *self.0.listed.write() = Some(HashSet::new());
    }

    /// The list is complete: what wasn't in it is gone.
    pub(super) fn finish(&self) -> Vec<Change<V>> {
        let Some(listed) = self.0.listed.write().take() else {
            return Vec::new();
        };
        let mut gone = Vec::new();
        let mut objects = self.0.objects.write();
        for (key, slot) in objects.extract_if(|key, _| !listed.contains(key)) {
            let old = slot.into_kept();
            gone.push(Change::Removed { key, old });
        }
        drop(objects);
        self.0.progress.send_modify(|progress| {
            progress.synced = true;
            progress.changes += gone.len() as u64;
        });
        gone
    }

    /// An object as it is now; `value` is `None` if it isn't one that is kept.
    pub(super) fn put(
        &self,
        key: ObjectKey,
        version: Option<String>,
        value: Option<V>,
    ) -> Option<Change<V>> {
        self.note_listed(&key);
        let Some(value) = value else {
            return self.remove(&key);
        };
        let mut objects = self.0.objects.write();
        if let Some(Slot::Kept { version: known, .. }) = objects.get(&key)
            && known.is_some()
            && *known == version
        {
            return None;
        }
        let new = Arc::new(value);
        let slot = Slot::Kept {
            version,
            value: Arc::clone(&new),
        };
        let old = objects.insert(key.clone(), slot).and_then(Slot::into_kept);
        drop(objects);
        self.count();
        Some(Change::Applied { key, old, new })
    }

    pub(super) fn put_unreadable(
        &self,
        key: ObjectKey,
        unreadable: Unreadable,
    ) -> Option<Change<V>> {
        self.note_listed(&key);
        let mut objects = self.0.objects.write();
        if let Some(Slot::Unreadable(known)) = objects.get(&key)
            && known.uid == unreadable.uid
            && known.error == unreadable.error
        {
            return None;
        }
        let object = Arc::new(unreadable);
        let slot = Slot::Unreadable(Arc::clone(&object));
        let old = objects.insert(key, slot).and_then(Slot::into_kept);
        drop(objects);
        self.count();
        Some(Change::Unreadable { old, object })
    }

    pub(super) fn remove(&self, key: &ObjectKey) -> Option<Change<V>> {
        let old = self.0.objects.write().remove(key)?;
        self.count();
        Some(Change::Removed {
            key: key.clone(),
            old: old.into_kept(),
        })
    }

    fn note_listed(&self, key: &ObjectKey) {
        if let Some(listed) = self.0.listed.write().as_mut() {
            listed.insert(key.clone());
        }
    }

    fn count(&self) {
        self.0
            .progress
            .send_modify(|progress| progress.changes += 1);
    }
}
