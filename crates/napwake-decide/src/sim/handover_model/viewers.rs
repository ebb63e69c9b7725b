//! Who sees the cluster through a watch, in order and late: doorman pods see the
//! statuses, kube-proxy sees the slices.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use napwake_api::workload::{Route, RoutePort};
use napwake_gate::serving::{self, Listed, Now, Serving};

use super::super::{Cluster, SliceSpec};

/// A watch of things by name: what was seen, and what wasn't yet.
#[derive(Clone, Debug)]
pub(super) struct Watch<T> {
    pub(super) seen: BTreeMap<String, T>,
    /// When, of what, and what it is now; none where it's gone.
    pub(super) behind: VecDeque<(Timestamp, String, Option<T>)>,
}

impl<T: Clone + PartialEq> Watch<T> {
    /// One that has seen everything.
    pub(super) fn new(now: &BTreeMap<String, T>) -> Self {
        Self {
            seen: now.clone(),
            behind: VecDeque::new(),
        }
    }

    /// Things are so now.
    pub(super) fn change(&mut self, at: Timestamp, now: &BTreeMap<String, T>) {
        let names = self.seen.keys().chain(now.keys()).cloned();
        let names: std::collections::BTreeSet<String> = names
            .chain(self.behind.iter().map(|(_, name, _)| name.clone()))
            .collect();
        for name in names {
            let told = self.behind.iter().rev().find(|(_, of, _)| *of == name);
            let told = told.map_or(self.seen.get(&name), |(_, _, it)| it.as_ref());
            if told != now.get(&name) {
                let it = now.get(&name).cloned();
                self.behind.push_back((at, name, it));
            }
        }
    }

    /// Sees the next change.
    pub(super) fn see(&mut self) {
        match self.behind.pop_front() {
            Some((_, name, Some(it))) => {
                self.seen.insert(name, it);
            }
            Some((_, name, None)) => {
                self.seen.remove(&name);
            }
            None => {}
        }
    }

    pub(super) fn is_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    /// When the oldest change was that isn't seen.
    pub(super) fn behind_since(&self) -> Option<Timestamp> {
        self.behind.front().map(|(at, ..)| *at)
    }
}

/// What the doorman knows a route by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RouteKey {
    pub(super) port: u16,
    pub(super) service: String,
    pub(super) name: RoutePort,
}

/// A doorman pod.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    /// What each ManagedWorkload lists.
    pub(super) statuses: Watch<Vec<(RouteKey, Listed)>>,
    pub(super) routes: BTreeMap<RouteKey, Serving<Timestamp>>,
    /// The open ports, and whose they are.
    pub(super) table: BTreeMap<u16, RouteKey>,
}

impl Pod {
    /// One that starts now.
    pub(super) fn new(now: Timestamp, cluster: &Cluster) -> Self {
        let mut pod = Self {
            statuses: Watch::new(&listed(cluster)),
            routes: BTreeMap::new(),
            table: BTreeMap::new(),
        };
        pod.settle(now);
        pod
    }

    /// Works out how each route is served, by what was seen and the time, as the
    /// doorman's board does.
    pub(super) fn settle(&mut self, now: Timestamp) {
        let mut listed: BTreeMap<RouteKey, Vec<Listed>> = self
            .routes
            .keys()
            .map(|key| (key.clone(), Vec::new()))
            .collect();
        for (key, how) in self.statuses.seen.values().flatten() {
            listed.entry(key.clone()).or_default().push(*how);
        }
        let time = Now {
            instant: now,
            time: now,
        };
        let next = listed.into_iter().map(|(key, listed)| {
            let serving = Serving::next(listed, self.routes.get(&key).copied(), time);
            (key, serving)
        });
        self.routes = next.filter(|(_, serving)| serving.is_open(now)).collect();
        let open = self.routes.iter();
        let open = open.map(|(key, serving)| (key.port, (*serving, key)));
        let has_it = |port, key: &RouteKey| self.table.get(&port) == Some(key);
        let table = serving::holders(open, has_it).into_iter();
        self.table = table.map(|(port, key)| (port, key.clone())).collect();
    }

    /// The route that a port is open for.
    pub(super) fn holder(&self, port: u16) -> Option<&RouteKey> {
        self.table.get(&port)
    }
}

/// What each ManagedWorkload lists.
pub(super) fn listed(cluster: &Cluster) -> BTreeMap<String, Vec<(RouteKey, Listed)>> {
    let read = |route: &Route| {
        let key = RouteKey {
            port: route.doorman_port,
            service: route.service.clone(),
            name: route.port.clone(),
        };
        (key, Listed::read(route))
    };
    let workloads = cluster.apps.iter().filter_map(|(name, app)| {
        let doorman = app.workload.as_ref()?.status.doorman.as_ref()?;
        Some((name.clone(), doorman.routes.iter().map(read).collect()))
    });
    workloads.collect()
}

/// Every slice of Napwake's.
pub(super) fn slices(cluster: &Cluster) -> BTreeMap<String, SliceSpec> {
    let slices = cluster.slices.iter();
    slices
        .map(|(name, slice)| (name.clone(), slice.spec.clone()))
        .collect()
}
