//! Objects of one kind as a watch shows them, with this process's own writes on
//! top until the watch has caught up.
//!
//! So a decision never goes by something older than what this process wrote
//! itself. Knows no kinds: what an object is called and which version it has is
//! told to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;

/// How long an own write hides what the watch shows. Watches are never silent
/// for so long while all is well, so what the watch has not shown by then was
/// undone by somebody else in between.
const CATCH_UP: Duration = Duration::from_mins(1);

/// Namespace and name; the namespace is empty for cluster-wide kinds.
pub(crate) type Key = (String, String);

/// What every object has.
pub(crate) trait Versioned {
    /// `metadata.uid`.
    fn uid(&self) -> &str;
    /// `metadata.resourceVersion`.
    fn version(&self) -> &str;
}

/// What is known of one object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Look<T> {
    Known(Arc<T>),
    Absent,
    Unknown(String),
}

impl<T> Look<T> {
    pub(crate) fn known(self) -> Option<Arc<T>> {
        match self {
            Self::Known(object) => Some(object),
            Self::Absent | Self::Unknown(_) => None,
        }
    }
}

/// The objects of one kind.
#[derive(Debug)]
pub(crate) struct Layered<T> {
    seen: BTreeMap<Key, Arc<T>>,
    unreadable: BTreeMap<Key, String>,
    own: BTreeMap<Key, (Own<T>, Instant)>,
}

/// What this process wrote.
#[derive(Debug)]
enum Own<T> {
    /// The object as the API server answered.
    Is(Arc<T>),
    /// A version of which only the number is known.
    Unseen { version: String },
    /// The object of that uid was deleted.
    Gone { uid: String },
}

impl<T> Default for Layered<T> {
    fn default() -> Self {
        Self {
            seen: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            own: BTreeMap::new(),
        }
    }
}

impl<T: Versioned> Layered<T> {
    /// The watch shows this.
    pub(crate) fn apply(&mut self, key: Key, object: Arc<T>) {
        let caught_up = match self.own.get(&key) {
            None => true,
            Some((Own::Is(own), _)) => !is_older(object.version(), own.version()),
            Some((Own::Unseen { version }, _)) => !is_older(object.version(), version),
            // The same uid is what the watch saw before the deletion.
            Some((Own::Gone { uid }, _)) => object.uid() != uid,
        };
        if caught_up {
            self.own.remove(&key);
        }
        self.unreadable.remove(&key);
        self.seen.insert(key, object);
    }

    /// The watch shows that it's gone; `uid` is that of the one that was seen.
    pub(crate) fn delete(&mut self, key: &Key, uid: &str) {
        // A newer one of ours under the same name stays.
        let is_another = matches!(self.own.get(key), Some((Own::Is(own), _)) if own.uid() != uid);
        if !is_another {
            self.own.remove(key);
        }
        self.unreadable.remove(key);
        self.seen.remove(key);
    }

    /// The watch shows something that can't be read.
    pub(crate) fn spoil(&mut self, key: Key, why: String) {
        self.own.remove(&key);
        self.seen.remove(&key);
        self.unreadable.insert(key, why);
    }

    /// This process wrote it, and this was the answer.
    pub(crate) fn wrote(&mut self, key: Key, object: Arc<T>, now: Instant) {
        let newer = self
            .seen
            .get(&key)
            .is_none_or(|seen| is_older(seen.version(), object.version()));
        if newer {
            self.own.insert(key, (Own::Is(object), now));
        }
    }

    /// This process wrote it; of the answer only the version is known.
    pub(crate) fn wrote_unseen(&mut self, key: Key, version: String, now: Instant) {
        let newer = self
            .seen
            .get(&key)
            .is_none_or(|seen| is_older(seen.version(), &version));
        if newer {
            self.own.insert(key, (Own::Unseen { version }, now));
        }
    }

    /// This process deleted the object of that uid.
    pub(crate) fn deleted(&mut self, key: Key, uid: &str, now: Instant) {
        if self.seen.get(&key).is_some_and(|seen| seen.uid() == uid) {
            let uid = uid.to_owned();
            self.own.insert(key, (Own::Gone { uid }, now));
        } else {
            self.own.remove(&key);
        }
    }

    /// What is known of one object.
    pub(crate) fn look(&self, key: &Key, now: Instant) -> Look<T> {
        if let Some((own, since)) = self.own.get(key)
            && now.duration_since(*since) < CATCH_UP
        {
            return match own {
                Own::Is(object) => Look::Known(Arc::clone(object)),
                Own::Gone { .. } => Look::Absent,
                Own::Unseen { version } => Look::Unknown(format!(
                    "the watch hasn't shown version {version} yet, which was just written"
                )),
            };
        }
        if let Some(why) = self.unreadable.get(key) {
            return Look::Unknown(why.clone());
        }
        match self.seen.get(key) {
            Some(object) => Look::Known(Arc::clone(object)),
            None => Look::Absent,
        }
    }

    /// Every known object of a namespace, by name.
    pub(crate) fn within<'a>(
        &'a self,
        namespace: &'a str,
        now: Instant,
    ) -> impl Iterator<Item = Arc<T>> + 'a {
        let first = (namespace.to_owned(), String::new());
        let seen = self.seen.range(first.clone()..);
        let seen = seen.take_while(move |(key, _)| key.0 == namespace);
        let own = self.own.range(first..).map(|(key, _)| key);
        let mut own = own.take_while(move |key| key.0 == namespace).peekable();
        // With nothing on top, as most often, what is seen is all there is: a namespace may
        // have thousands.
        let (plain, layers) = match own.peek() {
            None => (Some(seen), None),
            Some(_) => (None, Some(seen.map(|(key, _)| key).chain(own))),
        };
        let plain = plain.into_iter().flatten();
        let keys: BTreeSet<&Key> = layers.into_iter().flatten().collect();
        let known = move |key: &Key| self.look(key, now).known();
        let layered = keys.into_iter().filter_map(known);
        plain.map(|(_, object)| Arc::clone(object)).chain(layered)
    }

    /// An object of a namespace of which nothing is known, if there's any, and why.
    pub(crate) fn unknown_within(&self, namespace: &str, now: Instant) -> Option<(&Key, String)> {
        let first = (namespace.to_owned(), String::new());
        let unreadable = self.unreadable.range(first.clone()..).map(|(key, _)| key);
        let own = self.own.range(first..).map(|(key, _)| key);
        unreadable
            .take_while(|key| key.0 == namespace)
            .chain(own.take_while(|key| key.0 == namespace))
            .find_map(|key| match self.look(key, now) {
                Look::Unknown(why) => Some((key, why)),
                Look::Known(_) | Look::Absent => None,
            })
    }

    /// Every known object.
    pub(crate) fn all(&self, now: Instant) -> impl Iterator<Item = Arc<T>> + '_ {
        let keys: BTreeSet<&Key> = self.seen.keys().chain(self.own.keys()).collect();
        keys.into_iter()
            .filter_map(move |key| self.look(key, now).known())
    }
}

/// Whether version `a` is older than `b`. They count up for all objects of a
/// kind; where they aren't numbers only the watch is believed.
pub(super) fn is_older(a: &str, b: &str) -> bool {
    match (a.parse::<u128>(), b.parse::<u128>()) {
        (Ok(a), Ok(b)) => a < b,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Eq)]
    struct Thing {
        uid: &'static str,
        version: &'static str,
    }

    impl Versioned for Thing {
        fn uid(&self) -> &str {
            self.uid
        }

        fn version(&self) -> &str {
            self.version
        }
    }

    fn key() -> Key {
        ("ns".to_owned(), "a".to_owned())
    }

    fn thing(uid: &'static str, version: &'static str) -> Arc<Thing> {
        Arc::new(Thing { uid, version })
    }

    /// The version that is known, or in a word why none is.
    fn shown(things: &Layered<Thing>) -> String {
        match things.look(&key(), Instant::now()) {
            Look::Known(thing) => thing.version.to_owned(),
            Look::Absent => "absent".to_owned(),
            Look::Unknown(_) => "unknown".to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_own_write_hides_older_ones() {
        let mut things = Layered::default();
        things.apply(key(), thing("u", "5"));
        things.wrote(key(), thing("u", "9"), Instant::now());
        assert_eq!(shown(&things), "9");
        things.apply(key(), thing("u", "7"));
        assert_eq!(shown(&things), "9");
        things.apply(key(), thing("u", "10"));
        assert_eq!(shown(&things), "10");
        // The answer to a write that the watch has overtaken.
        things.wrote(key(), thing("u", "9"), Instant::now());
        assert_eq!(shown(&things), "10");
    }

    #[tokio::test(start_paused = true)]
    async fn an_unseen_write_is_unknown_until_the_watch_has_it() {
        let mut things = Layered::default();
        things.apply(key(), thing("u", "5"));
        things.wrote_unseen(key(), "9".to_owned(), Instant::now());
        assert_eq!(shown(&things), "unknown");
        things.apply(key(), thing("u", "8"));
        assert_eq!(shown(&things), "unknown");
        things.apply(key(), thing("u", "9"));
        assert_eq!(shown(&things), "9");
    }

    #[tokio::test(start_paused = true)]
    async fn an_own_deletion_hides_what_was_deleted() {
        let mut things = Layered::default();
        things.apply(key(), thing("u", "5"));
        things.deleted(key(), "u", Instant::now());
        assert_eq!(shown(&things), "absent");
        things.apply(key(), thing("u", "6"));
        assert_eq!(shown(&things), "absent");
        things.apply(key(), thing("v", "7"));
        assert_eq!(shown(&things), "7");
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_deletion_of_an_earlier_one_leaves_ours() {
        let mut things = Layered::default();
        things.apply(key(), thing("u", "5"));
        things.wrote(key(), thing("v", "9"), Instant::now());
        things.delete(&key(), "u");
        assert_eq!(shown(&things), "9");
        things.delete(&key(), "v");
        assert_eq!(shown(&things), "absent");
    }

    #[tokio::test(start_paused = true)]
    async fn in_time_the_watch_is_right() {
        let mut things = Layered::default();
        things.wrote(key(), thing("v", "9"), Instant::now());
        assert_eq!(shown(&things), "9");
        assert_eq!(things.within("ns", Instant::now()).count(), 1);
        tokio::time::advance(CATCH_UP).await;
        assert_eq!(shown(&things), "absent");
        assert_eq!(things.all(Instant::now()).count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn unreadable_is_unknown() {
        let mut things = Layered::default();
        things.apply(key(), thing("u", "5"));
        things.spoil(key(), "no".to_owned());
        assert_eq!(shown(&things), "unknown");
        let unknown = things.unknown_within("ns", Instant::now());
        assert_eq!(unknown.map(|(key, _)| key), Some(&key()));
        assert_eq!(things.unknown_within("n", Instant::now()), None);
        things.delete(&key(), "u");
        assert_eq!(shown(&things), "absent");
        assert_eq!(things.unknown_within("ns", Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_is_not_its_neighbor() {
        let mut things = Layered::default();
        for namespace in ["n", "ns", "ns-1", "nt"] {
            things.apply((namespace.to_owned(), "a".to_owned()), thing("u", "1"));
        }
        assert_eq!(things.within("ns", Instant::now()).count(), 1);
        assert_eq!(things.all(Instant::now()).count(), 4);
    }
}
