//! What is known of slices, pauses and doorman pods, and since when. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use jiff::Timestamp;

use super::Doorman;
use crate::clock::Moment;
use crate::watching::{Change, Meta, Pod, Slice};

/// An object's namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(String, String);

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self(namespace.to_owned(), name.to_owned())
    }

    fn of(metadata: &Meta) -> Self {
        Self::new(&metadata.namespace, &metadata.name)
    }
}

/// Slices that name an address.
#[derive(Debug, Clone, Copy)]
struct Named {
    slices: usize,
    /// When one last did, or no longer did.
    changed: Moment,
}

#[derive(Debug, Clone, Copy, Default)]
struct DoormanPod {
    ready: Option<(IpAddr, Moment)>,
    leaves: Option<Moment>,
}

#[derive(Debug, Default)]
pub(crate) struct Book {
    slices: BTreeMap<Key, BTreeSet<IpAddr>>,
    named: BTreeMap<IpAddr, Named>,
    /// By Service, when it first had a slice.
    routed: BTreeMap<Key, Moment>,
    /// By workload, when its pause was decided.
    pauses: BTreeMap<Key, Option<Timestamp>>,
    doormen: BTreeMap<String, DoormanPod>,
}

impl Book {
    pub(crate) fn slice(&mut self, change: &Change<Slice>, service: &str, now: Moment) {
        let metadata = &change.object().metadata;
        let addresses = match change {
            Change::Is(slice) => slice.addresses(),
            Change::Gone(_) => BTreeSet::new(),
        };
        if !addresses.is_empty() {
            let service = Key::new(&metadata.namespace, service);
            self.routed.entry(service).or_insert(now);
        }
        let known = self.slices.insert(Key::of(metadata), addresses.clone());
        let known = known.unwrap_or_default();
        for address in known.symmetric_difference(&addresses) {
            let named = self.named.entry(*address).or_insert(Named {
                slices: 0,
                changed: now,
            });
            named.changed = now;
            if addresses.contains(address) {
                named.slices += 1;
            } else {
                named.slices -= 1;
            }
        }
    }

    /// A workload is managed, and was paused then if it was.
    pub(crate) fn workload(&mut self, key: Key, paused: Option<Timestamp>) {
        self.pauses.insert(key, paused);
    }

    pub(crate) fn doorman(&mut self, change: &Change<Pod>, now: Moment) {
        let pod = change.object();
        let name = pod.metadata.name.clone();
        if let Change::Gone(_) = change {
            self.doormen.remove(&name);
            return;
        }
        let known = self.doormen.entry(name).or_default();
        let since = known.ready.map(|(_, since)| since);
        known.ready = pod.ready().map(|address| (address, since.unwrap_or(now)));
        if pod.metadata.leaves() {
            known.leaves.get_or_insert(now);
        }
    }

    pub(crate) fn is_managed(&self, workload: &Key) -> bool {
        self.pauses.contains_key(workload)
    }

    /// When a workload's pause was decided, and when its Service of the same name
    /// had a slice.
    pub(crate) fn pause(&self, workload: &Key) -> Option<(Timestamp, Moment)> {
        let decided = self.pauses.get(workload).copied().flatten()?;
        Some((decided, *self.routed.get(workload)?))
    }

    /// The doorman pods that are Ready, the youngest first.
    pub(crate) fn doormen(&self) -> Vec<(Doorman, Moment)> {
        let ready = self.doormen.iter().filter_map(|(name, pod)| {
            let (address, since) = pod.ready?;
            Some(((name.clone(), address), since))
        });
        let mut ready: Vec<_> = ready.collect();
        ready.sort_by_key(|(_, since)| std::cmp::Reverse(*since));
        ready
    }

    /// Since when this pod leaves, and since when no slice names its address.
    pub(crate) fn left(&self, pod: &str, address: IpAddr) -> Option<(Moment, Moment)> {
        let leaves = self.doormen.get(pod)?.leaves?;
        let named = self.named.get(&address)?;
        (named.slices == 0).then_some((leaves, named.changed))
    }

    /// How many slices name an address, and since when.
    pub(crate) fn named(&self, address: IpAddr) -> Option<(usize, Moment)> {
        let named = self.named.get(&address)?;
        Some((named.slices, named.changed))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn slice(addresses: &[&str]) -> Change<Slice> {
        let endpoints: Vec<_> = addresses
            .iter()
            .map(|address| json!({"addresses": [address]}))
            .collect();
        let object = json!({"metadata": {"namespace": "n", "name": "s"}, "endpoints": endpoints});
        Change::Is(serde_json::from_value(object).unwrap())
    }

    fn pod(patch: &Value) -> Change<Pod> {
        let mut object = json!({"metadata": {"name": "d"}, "status": {"podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}]}});
        object["metadata"]
            .as_object_mut()
            .unwrap()
            .extend(patch.as_object().unwrap().clone());
        Change::Is(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn slices_are_counted_by_the_addresses_they_name() {
        let (mut book, at) = (Book::default(), Moment::of_micros);
        let [a, b] = ["10.0.0.1", "10.0.0.2"].map(|address| address.parse().unwrap());
        book.slice(&slice(&["10.0.0.1", "10.0.0.2"]), "web", at(1));
        book.slice(&slice(&["10.0.0.1", "10.0.0.2"]), "web", at(2));
        assert_eq!(book.named(a), Some((1, at(1))));
        book.slice(&slice(&["10.0.0.2"]), "web", at(3));
        assert_eq!(book.named(a), Some((0, at(3))));
        assert_eq!(book.named(b), Some((1, at(1))));
        let Change::Is(gone) = slice(&["10.0.0.2"]) else {
            unreachable!()
        };
        book.slice(&Change::Gone(gone), "web", at(4));
        assert_eq!(book.named(b), Some((0, at(4))));
    }

    #[test]
    fn a_pause_has_taken_effect_with_the_services_first_slice() {
        let mut book = Book::default();
        let key = Key::new("n", "web");
        book.slice(&slice(&["10.0.0.1"]), "web", Moment::of_micros(5));
        book.workload(key.clone(), None);
        assert!(book.is_managed(&key) && book.pause(&key).is_none());
        book.workload(key.clone(), Some(Timestamp::UNIX_EPOCH));
        let pause = (Timestamp::UNIX_EPOCH, Moment::of_micros(5));
        assert_eq!(book.pause(&key), Some(pause));
    }

    #[test]
    fn a_doorman_has_left_once_no_slice_names_it() {
        let (mut book, at) = (Book::default(), Moment::of_micros);
        let address = "10.0.0.1".parse().unwrap();
        book.doorman(&pod(&json!({})), at(1));
        book.slice(&slice(&["10.0.0.1"]), "web", at(2));
        assert_eq!(book.doormen(), [(("d".to_owned(), address), at(1))]);
        book.doorman(
            &pod(&json!({"deletionTimestamp": "2026-01-02T03:04:05Z"})),
            at(3),
        );
        assert_eq!(book.doormen(), []);
        assert_eq!(book.left("d", address), None);
        book.slice(&slice(&["10.0.0.2"]), "web", at(4));
        assert_eq!(book.left("d", address), Some((at(3), at(4))));
    }
}
