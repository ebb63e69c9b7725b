//! The board: what is known of routes, kept up to date change by change.
//!
//! Owns every route's current value and the table of ports to listen on. It is
//! told of ManagedWorkloads and slices and of the time; it watches nothing and
//! reads no clock itself.
//!
//! Slices come for every Service of the cluster, most of which have no route.
//! They are kept all the same, in a compact form, so that a route that appears
//! after its Service's slices finds them here (F-160 to F-162).

use std::collections::hash_map::Entry as MapEntry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use napwake_api::names::DOORMAN_PORTS;
use napwake_gate::places::WorkloadKey;
use napwake_gate::ready::{self, Candidate};
use napwake_gate::serving::{self, Listed};
use napwake_net::dial::AddressRule;
use tokio::sync::watch;
use tokio::time::Instant;

use super::claim::{Claim, Claimant};
use super::handle::{RouteSender, Table, TableChanges};
use super::model::{Route, RouteKey, ServiceKey, Serving, Workload};
use super::slice::Slice;
use crate::pods::Keepers;

/// The present, on both clocks.
pub type Now = serving::Now<Instant>;

/// Everything known of routes.
#[derive(Debug)]
pub struct Board {
    workloads: HashMap<WorkloadKey, Claimant>,
    services: HashMap<ServiceKey, Known>,
    routes: HashMap<RouteKey, KeptRoute>,
    /// Services whose routes must be worked out again.
    dirty: HashSet<ServiceKey>,
    /// Routes that drain, or whose port is closed already.
    draining: HashSet<RouteKey>,
    table: watch::Sender<Option<Arc<Table>>>,
    keepers: Keepers,
    rule: AddressRule,
}

/// What is known of a Service.
#[derive(Debug, Default)]
struct Known {
    /// Its controller-managed slices, by name.
    slices: Vec<Arc<Slice>>,
    /// The ManagedWorkloads that route it.
    claimants: BTreeSet<WorkloadKey>,
    /// Its routes that stand, listed or not.
    routes: BTreeSet<RouteKey>,
    /// What is listed and can't be a route, for its port is none of ours.
    strangers: BTreeSet<RouteKey>,
}

impl Known {
    fn is_empty(&self) -> bool {
        self.slices.is_empty() && self.claimants.is_empty() && self.routes.is_empty()
    }
}

/// A route that is served, or whose connections live on.
#[derive(Debug)]
struct KeptRoute {
    sender: RouteSender,
    /// Its workloads, as they were last seen.
    workloads: Vec<Arc<Workload>>,
    serving: Serving,
    /// Whether the table has it.
    open: bool,
}

impl Board {
    /// An empty board. `keepers` look after the Pods of its routes. An address
    /// that `rule` forbids never counts as Ready: whoever waited for it would
    /// neither wake anything nor be served (NET-26 to NET-28, T-72).
    pub fn new(keepers: Keepers, rule: AddressRule) -> Self {
        Self {
            workloads: HashMap::new(),
            services: HashMap::new(),
            routes: HashMap::new(),
            dirty: HashSet::new(),
            draining: HashSet::new(),
            table: watch::Sender::new(None),
            keepers,
            rule,
        }
    }

    /// The ports to listen on.
    pub fn table(&self) -> TableChanges {
        self.table.subscribe()
    }

    /// A ManagedWorkload as it is now.
    pub fn put_workload(&mut self, key: WorkloadKey, mut claimant: Claimant) {
        let before = self.workloads.get(&key);
        if let Some(before) = before {
            claimant.adopt(before);
        }
        let services = |claimant: &Claimant| {
            let claims = claimant.claims.iter();
            claims.map(|claim| claim.service.clone()).collect()
        };
        let old: BTreeSet<ServiceKey> = before.map(services).unwrap_or_default();
        let new: BTreeSet<ServiceKey> = services(&claimant);
        for service in &new {
            let known = self.services.entry(service.clone()).or_default();
            known.claimants.insert(key.clone());
        }
        for service in old.difference(&new) {
            self.unclaim(service, &key);
        }
        self.dirty.extend(old);
        self.dirty.extend(new);
        self.workloads.insert(key, claimant);
    }

    /// A ManagedWorkload that is gone.
    pub fn drop_workload(&mut self, key: &WorkloadKey) {
        let Some(claimant) = self.workloads.remove(key) else {
            return;
        };
        claimant.workload.slot.leave();
        for claim in claimant.claims {
            self.unclaim(&claim.service, key);
            self.dirty.insert(claim.service);
        }
    }

    fn unclaim(&mut self, service: &ServiceKey, key: &WorkloadKey) {
        if let Some(known) = self.services.get_mut(service) {
            known.claimants.remove(key);
        }
        self.forget_if_empty(service);
    }

    /// A controller-managed slice as it is now.
    pub fn put_slice(&mut self, slice: Arc<Slice>) {
        let service = slice.service.clone();
        let known = self.services.entry(service.clone()).or_default();
        match known.slices.iter_mut().find(|old| old.name == slice.name) {
            Some(old) if *old == slice => return,
            Some(old) => *old = slice,
            None => known.slices.push(slice),
        }
        self.touch(service);
    }

    /// A slice that is gone.
    pub fn drop_slice(&mut self, gone: &Slice) {
        if let Some(known) = self.services.get_mut(&gone.service) {
            known.slices.retain(|slice| slice.name != gone.name);
            self.touch(gone.service.clone());
        }
        self.forget_if_empty(&gone.service);
    }

    /// Slices of Services without a route change all day: they cost no more than
    /// being remembered.
    fn touch(&mut self, service: ServiceKey) {
        let known = self.services.get(&service);
        if known.is_some_and(|known| !known.claimants.is_empty() || !known.routes.is_empty()) {
            self.dirty.insert(service);
        }
    }

    fn forget_if_empty(&mut self, service: &ServiceKey) {
        if self.services.get(service).is_some_and(Known::is_empty) {
            self.services.remove(service);
        }
    }

    /// Works out what the changes since the last call lead to, and what time
    /// itself does: closing ports whose drain is over. Returns when to call again
    /// though nothing changed.
    pub fn settle(&mut self, now: Now) -> Option<Instant> {
        let mut moved = self.table.borrow().is_none();
        for service in std::mem::take(&mut self.dirty) {
            moved |= self.settle_service(&service, now);
        }
        moved |= self.close_drained(now.instant);
        if moved {
            self.publish();
        }
        self.forget_unused();
        self.next_end(now.instant)
    }

    /// Says whether the ports, or whose they are, may have changed.
    fn settle_service(&mut self, service: &ServiceKey, now: Now) -> bool {
        let Some(known) = self.services.get(service) else {
            return false;
        };
        let mut wanted: BTreeMap<RouteKey, Claimed> = BTreeMap::new();
        let mut strangers = BTreeSet::new();
        for claimant in known
            .claimants
            .iter()
            .filter_map(|key| self.workloads.get(key))
        {
            for claim in claimant.claims_on(service) {
                if !DOORMAN_PORTS.contains(&claim.doorman_port) {
                    strangers.insert(claim.route_key());
                    continue;
                }
                let behind = (Arc::clone(&claimant.workload), claim.state);
                wanted.entry(claim.route_key()).or_default().push(behind);
            }
        }
        let unlisted = known.routes.iter().filter(|key| !wanted.contains_key(*key));
        let unlisted: Vec<RouteKey> = unlisted.cloned().collect();
        let mut moved = false;
        for (key, claimed) in wanted {
            moved |= self.put_route(key, claimed, now);
        }
        for key in unlisted {
            moved |= self.leave_route(&key, now);
        }
        self.leave_out(service, strangers);
        moved
    }

    /// A port outside of ROUTE-04's range is the doorman's own, or nobody's: it isn't
    /// listened on, whoever wrote it into a status. That's said once, until it goes.
    fn leave_out(&mut self, service: &ServiceKey, strangers: BTreeSet<RouteKey>) {
        let Some(known) = self.services.get_mut(service) else {
            return;
        };
        for key in strangers.difference(&known.strangers) {
            tracing::warn!(
                namespace = &*service.namespace,
                service = &*service.name,
                port = key.doorman_port,
                "a status lists a port that can't be a route's, left out"
            );
        }
        known.strangers = strangers;
    }

    /// A route that ManagedWorkloads list.
    fn put_route(&mut self, key: RouteKey, claimed: Claimed, now: Now) -> bool {
        let before = self.routes.get(&key).map(|kept| kept.serving);
        let listed = claimed.iter().map(|(_, listed)| *listed);
        let serving = Serving::next(listed, before, now);
        let workloads = claimed.into_iter().map(|(workload, _)| workload).collect();
        self.write_route(key, workloads, serving, now.instant)
    }

    /// A route that no ManagedWorkload lists any more: it is served on for a
    /// while, waking nothing (DRAIN-17, T-111).
    fn leave_route(&mut self, key: &RouteKey, now: Now) -> bool {
        let Some(kept) = self.routes.get(key) else {
            return false;
        };
        let serving = Serving::next([], Some(kept.serving), now);
        // What became of its workloads is still worth knowing (T-110).
        let latest = |old: &Arc<Workload>| {
            let claimant = self.workloads.get(&old.key);
            Arc::clone(claimant.map_or(old, |claimant| &claimant.workload))
        };
        let workloads = kept.workloads.iter().map(latest).collect();
        self.write_route(key.clone(), workloads, serving, now.instant)
    }

    fn write_route(
        &mut self,
        key: RouteKey,
        workloads: Vec<Arc<Workload>>,
        serving: Serving,
        now: Instant,
    ) -> bool {
        let route = Route {
            key: key.clone(),
            serving,
            keys: workloads.iter().map(|one| one.key.clone()).collect(),
            workloads: workloads.clone(),
            candidates: self.candidates(&key),
            lacks_port: ready::lack_port(self.slices_of(&key), &key.port),
        };
        match serving {
            Serving::Live => self.draining.remove(&key),
            Serving::Draining(_) => self.draining.insert(key.clone()),
        };
        let open = serving.is_open(now);
        let known = self.services.entry(key.service.clone()).or_default();
        known.routes.insert(key.clone());
        match self.routes.entry(key) {
            MapEntry::Occupied(mut entry) => {
                let kept = entry.get_mut();
                let moved = kept.serving != serving || kept.open != open;
                kept.workloads = workloads;
                kept.serving = serving;
                kept.open = open;
                kept.sender.put(route);
                moved
            }
            MapEntry::Vacant(entry) => {
                let sender = RouteSender::new(route, &self.keepers);
                entry.insert(KeptRoute {
                    sender,
                    workloads,
                    serving,
                    open,
                });
                true
            }
        }
    }

    /// Closes the ports whose drain is over.
    fn close_drained(&mut self, now: Instant) -> bool {
        let mut moved = false;
        for key in &self.draining {
            if let Some(kept) = self.routes.get_mut(key)
                && kept.open
                && !kept.serving.is_open(now)
            {
                kept.open = false;
                moved = true;
            }
        }
        moved
    }

    /// Forgets routes whose port is closed once nobody is on them.
    fn forget_unused(&mut self) {
        let routes = &self.routes;
        let over = self.draining.extract_if(|key| {
            routes
                .get(key)
                .is_none_or(|kept| !kept.open && !kept.sender.is_in_use())
        });
        for key in over.collect::<Vec<_>>() {
            self.routes.remove(&key);
            if let Some(known) = self.services.get_mut(&key.service) {
                known.routes.remove(&key);
            }
            self.forget_if_empty(&key.service);
        }
    }

    /// The endpoints of a route that may be Ready.
    fn candidates(&self, key: &RouteKey) -> Arc<[Candidate]> {
        let is_allowed = |address| self.rule.check(address).is_ok();
        ready::candidates(self.slices_of(key), &key.port, is_allowed).into()
    }

    fn slices_of(&self, key: &RouteKey) -> impl Iterator<Item = &ready::Slice> {
        let known = self.services.get(&key.service).into_iter();
        let slices = known.flat_map(|known| &known.slices);
        slices.map(|slice| &slice.content)
    }

    /// Tells the listeners.
    fn publish(&self) {
        let before = self.table.borrow().clone().unwrap_or_default();
        let open = self.routes.iter().filter(|(_, kept)| kept.open);
        let open = open.map(|(key, kept)| (key.doorman_port, (kept.serving, key)));
        let has_it = |port, key: &RouteKey| {
            let both = before.get(&port).zip(self.routes.get(key));
            both.is_some_and(|(before, kept)| before.is_same(&kept.sender.handle()))
        };
        let handle = |key| Some(self.routes.get(key)?.sender.handle());
        let table: Table = serving::holders(open, has_it)
            .into_iter()
            .filter_map(|(port, key)| Some((port, handle(key)?)))
            .collect();
        self.table.send_if_modified(|current| {
            let same = current
                .as_ref()
                .is_some_and(|current| same_routes(current, &table));
            if !same {
                *current = Some(Arc::new(table));
            }
            !same
        });
    }

    /// When time alone changes something.
    fn next_end(&self, now: Instant) -> Option<Instant> {
        let draining = self.draining.iter().filter_map(|key| self.routes.get(key));
        let ends = draining.map(|kept| match kept.serving {
            Serving::Draining(drain) if kept.open => drain.closes,
            // Its port is closed, but somebody is still on it.
            Serving::Draining(_) | Serving::Live => now + LOOK_AGAIN,
        });
        ends.min()
    }
}

/// The workloads that list a route, and how far it is for each.
type Claimed = Vec<(Arc<Workload>, Listed)>;

/// How often a route without a port is looked at, to forget it once its last
/// connection is gone.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

fn same_routes(left: &Table, right: &Table) -> bool {
    left.len() == right.len()
        && left
            .iter()
            .zip(right)
            .all(|((a, old), (b, new))| a == b && old.is_same(new))
}

impl Claim {
    fn route_key(&self) -> RouteKey {
        RouteKey {
            doorman_port: self.doorman_port,
            service: self.service.clone(),
            port: Arc::clone(&self.port),
        }
    }
}
