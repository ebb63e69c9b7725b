//! The ledger of doorman ports of the whole cluster: taking, draining, resting.
//!
//! A pure value. The operator keeps one behind a lock, makes it from every
//! status before it first decides, and shows it every status it sees. The
//! truth stays in the statuses: what is only in the ledger is reserved for a
//! plan that may not have been carried out.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use napwake_api::{
    ManagedWorkloadStatus,
    names::DOORMAN_PORTS,
    workload::{Route, RoutePort},
};
use sha2::{Digest, Sha256};

use crate::world::WorkloadKey;

mod entry;
mod gone;
mod held;
mod pool;

use entry::{Entry, Hold, Use, recorded};
use gone::Gone;
use pool::Pool;

/// How many ports may be held (SET-23, SET-24).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// By one workload.
    pub per_workload: usize,
    /// By all workloads of one namespace.
    pub per_namespace: usize,
}

impl Default for Caps {
    fn default() -> Self {
        // ROUTE-67, ROUTE-68
        Self {
            per_workload: 32,
            per_namespace: 256,
        }
    }
}

/// A port of a Service, within the owner's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Claim {
    pub(crate) service: String,
    pub(crate) port: RoutePort,
}

/// The doorman port that serves a [`Claim`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) port: u16,
    /// The workload that took it, where it's another one (T-76).
    pub(crate) by: Option<String>,
}

/// Why the claims of a workload can't all be served: then none is (T-118).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// All doorman ports are in use (ROUTE-65).
    NoFreePort,
    /// The workload would hold so many ports, over its cap (ROUTE-67).
    Workload { ports: usize, cap: usize },
    /// The namespace would hold so many ports, over its cap (ROUTE-68).
    Namespace { ports: usize, cap: usize },
    /// The namespace would hold so many ports with those that drain, over the most that
    /// it may for as long as a drain takes.
    Drains { ports: usize, most: usize },
}

/// How many times its cap a namespace may hold with ports that drain: at its cap, all
/// that it holds may once be renamed or paused again.
const WITH_DRAINS: usize = 2;

/// Who holds which doorman port.
///
/// What is asked of it takes no longer with more workloads in other namespaces.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    caps: Caps,
    owners: BTreeMap<WorkloadKey, BTreeMap<u16, Entry>>,
    /// The owners of each port: one, unless two leaders gave it for a moment, or
    /// several share it (T-76).
    holders: BTreeMap<u16, BTreeSet<WorkloadKey>>,
    gone: Gone,
    pool: Pool,
}

impl Ports {
    /// An empty ledger.
    pub fn new(caps: Caps) -> Self {
        Self {
            caps,
            ..Self::default()
        }
    }

    /// An empty ledger of few ports, so that they are soon given again.
    #[cfg(test)]
    pub(crate) fn within(range: &std::ops::RangeInclusive<u16>) -> Self {
        let mut ports = Self::new(Caps::default());
        for port in DOORMAN_PORTS.filter(|port| !range.contains(port)) {
            ports.pool.bar(port);
        }
        ports
    }

    /// What tells one ledger from another.
    #[cfg(test)]
    pub(crate) fn told(&self) -> impl std::fmt::Debug {
        (&self.owners, self.pool.freed())
    }

    /// Takes in what `status` records for `owner`: to be called with every
    /// status when a leader starts (DRAIN-23), and with each one seen later.
    ///
    /// What a plan has reserved since stays reserved. A status that was just
    /// written is to be shown too, before anything else is decided.
    pub fn observe(&mut self, owner: &WorkloadKey, status: &ManagedWorkloadStatus) {
        let entries = recorded(status);
        self.give_up(owner, |port, known| {
            known.recorded.is_some() && !entries.contains_key(&port)
        });
        for (port, entry) in entries {
            self.set(owner, port, entry);
        }
    }

    /// How many ports are held or rest at `now`, for metrics.
    pub fn in_use(&self, now: Timestamp) -> usize {
        let is_busy = |owner: &WorkloadKey, port: u16| {
            let entry = self.entry(owner, port);
            entry.is_some_and(|entry| entry.is_busy(now))
        };
        let ports = self.holders.iter();
        let held = ports
            .filter(|(port, owners)| owners.iter().any(|owner| is_busy(owner, **port)))
            .count();
        held + self.gone.count()
    }

    /// Finds a doorman port for each claim of `owner`, all or none (T-118).
    ///
    /// A claim keeps the port it has, gets back the one that drains (T-78),
    /// joins the one that another workload took for it (T-76), or takes a port
    /// of the owner's own rest, or a free one: one that was never used, or
    /// else the one unused longest. About when its drain ends a port of its own is
    /// taken only where there's no other (see [`timing::DRAIN_ENDS`]).
    pub(crate) fn assign(
        &mut self,
        owner: &WorkloadKey,
        claims: &BTreeSet<Claim>,
        now: Timestamp,
    ) -> Result<BTreeMap<Claim, Taken>, Shortage> {
        self.rest_gone(now);
        let mut assigned = self.held(owner, claims, now);
        let is_new = |claim: &&Claim| !assigned.contains_key(claim);
        let new: Vec<Claim> = claims.iter().filter(is_new).cloned().collect();
        let own = assigned.values().filter(|taken| taken.by.is_none()).count() + new.len();
        self.check_caps(owner, own)?;
        if new.is_empty() {
            self.reserve(owner, &assigned);
            return Ok(assigned);
        }
        self.check_drains(owner, own, self.own_drains(owner, &assigned))?;
        let mut own_rest = self.own_rest(owner, now);
        let mut picked = BTreeSet::new();
        for claim in new {
            let port = own_rest
                .pop_first()
                .or_else(|| self.free(owner, &claim, &picked, now))
                .or_else(|| self.last_resort(owner, &claim, &picked, now))
                .ok_or(Shortage::NoFreePort)?;
            picked.insert(port);
            assigned.insert(claim, Taken { port, by: None });
        }
        self.reserve(owner, &assigned);
        Ok(assigned)
    }

    /// Takes in what the status that's decided on records, beside what is known
    /// already: it may be older than what was last observed.
    pub(crate) fn recall(&mut self, owner: &WorkloadKey, seen: &ManagedWorkloadStatus) {
        if self.is_known(owner, seen) {
            return; // As nearly always: nothing needs to be made for it.
        }
        for (port, entry) in recorded(seen) {
            let known = self.entry(owner, port);
            if known.is_none_or(|known| known.recorded.is_some()) {
                self.set(owner, port, entry);
            }
        }
    }

    /// Reserves what a plan is about to record, and gives up what earlier ones
    /// had reserved and none recorded.
    ///
    /// What it's about to let go of is held until a status says so: a plan may be
    /// refused over and over, and others would go by it each time.
    pub(crate) fn reserve_planned(
        &mut self,
        owner: &WorkloadKey,
        planned: Option<&ManagedWorkloadStatus>,
    ) {
        let planned = planned.map(recorded).unwrap_or_default();
        self.give_up(owner, |port, known| {
            known.recorded.is_none() && !planned.contains_key(&port)
        });
        for (port, Entry { what, .. }) in planned {
            let known = self.entry(owner, port);
            let recorded = known.and_then(|known| known.recorded);
            let known = known.filter(|_| recorded.is_some());
            if known.is_none_or(|known| known.what.hold() <= what.hold()) {
                self.set(owner, port, Entry { what, recorded });
            }
        }
    }

    /// Whether all that a status records is known just so already, and it's live.
    fn is_known(&self, owner: &WorkloadKey, seen: &ManagedWorkloadStatus) -> bool {
        seen.doorman.as_ref().is_none_or(|doorman| {
            let is_known = |route: &Route| {
                let entry = self.entry(owner, route.doorman_port);
                entry.is_some_and(|entry| entry.is_of(route))
            };
            doorman.resting.is_empty() && doorman.routes.iter().all(is_known)
        })
    }

    fn entry(&self, owner: &WorkloadKey, port: u16) -> Option<&Entry> {
        self.owners.get(owner)?.get(&port)
    }

    fn recorded(&self, owner: &WorkloadKey, port: u16) -> Option<Hold> {
        self.entry(owner, port)?.recorded
    }

    /// The one way by which an owner comes to a port, or has it for something else.
    fn set(&mut self, owner: &WorkloadKey, port: u16, entry: Entry) {
        let before = self.entry(owner, port);
        if before == Some(&entry) {
            return;
        }
        let is_new = before.is_none();
        let was_taken = before.is_some_and(Entry::is_taken);
        match (was_taken, entry.is_taken()) {
            (false, true) => self.pool.take(port),
            (true, false) => self.pool.let_go(port),
            _ => {}
        }
        if let Use::Resting { until } = entry.what {
            self.pool.rest(port, until);
        }
        if is_new {
            let holders = self.holders.entry(port).or_default();
            holders.insert(owner.clone());
        }
        let entries = self.owners.entry(owner.clone()).or_default();
        entries.insert(port, entry);
    }

    /// The one way by which an owner comes to have a port no more.
    fn give_up(&mut self, owner: &WorkloadKey, which: impl Fn(u16, &Entry) -> bool) {
        let Some(entries) = self.owners.get_mut(owner) else {
            return;
        };
        for (port, entry) in entries.extract_if(.., |port, entry| which(*port, entry)) {
            if entry.is_taken() {
                self.pool.let_go(port);
            }
            if let Some(holders) = self.holders.get_mut(&port) {
                holders.remove(owner);
                if holders.is_empty() {
                    self.holders.remove(&port);
                }
            }
        }
        if entries.is_empty() {
            self.owners.remove(owner);
        }
    }

    fn reserve(&mut self, owner: &WorkloadKey, assigned: &BTreeMap<Claim, Taken>) {
        for (claim, taken) in assigned {
            let known = self.entry(owner, taken.port);
            if known.is_some_and(|known| known.is_live_for(claim, taken.by.as_ref())) {
                continue;
            }
            let recorded = known.and_then(|known| known.recorded);
            let what = Use::Live {
                claim: claim.clone(),
                by: taken.by.clone(),
            };
            self.set(owner, taken.port, Entry { what, recorded });
        }
    }

    /// What others have the port for.
    fn others<'a>(
        &'a self,
        owner: &'a WorkloadKey,
        port: u16,
    ) -> impl Iterator<Item = (&'a WorkloadKey, &'a Entry)> {
        let holders = self.holders.get(&port).into_iter().flatten();
        holders
            .filter(move |other| *other != owner)
            .filter_map(move |other| Some((other, self.entry(other, port)?)))
    }

    /// The other workloads of the owner's namespace.
    fn neighbours<'a>(
        &'a self,
        owner: &WorkloadKey,
    ) -> impl Iterator<Item = (&'a WorkloadKey, &'a BTreeMap<u16, Entry>)> {
        let first = WorkloadKey {
            namespace: owner.namespace.clone(),
            name: String::new(),
        };
        self.owners
            .range(first..)
            .take_while(|(other, _)| other.namespace == owner.namespace)
            .filter(move |(other, _)| *other != owner)
    }

    /// How many of the owner's ports drain for what it doesn't claim any more.
    fn own_drains(&self, owner: &WorkloadKey, assigned: &BTreeMap<Claim, Taken>) -> usize {
        let kept: BTreeSet<u16> = assigned.values().map(|taken| taken.port).collect();
        let own = self.owners.get(owner).into_iter().flatten();
        own.filter(|(port, entry)| {
            entry.is_counted() && entry.what.hold() == Hold::Draining && !kept.contains(port)
        })
        .count()
    }

    fn check_caps(&self, owner: &WorkloadKey, own: usize) -> Result<(), Shortage> {
        let Caps {
            per_workload,
            per_namespace,
        } = self.caps;
        if own > per_workload {
            return Err(Shortage::Workload {
                ports: own,
                cap: per_workload,
            });
        }
        if own == 0 {
            return Ok(());
        }
        let live = own + self.neighbours_hold(owner, Hold::Live);
        if live > per_namespace {
            return Err(Shortage::Namespace {
                ports: live,
                cap: per_namespace,
            });
        }
        Ok(())
    }

    /// What drains counts for the namespace, if less, or whoever renames the ports of a
    /// Service over and over would use up everybody's. Who takes none isn't asked: what
    /// drains is over soon.
    fn check_drains(&self, owner: &WorkloadKey, own: usize, drains: usize) -> Result<(), Shortage> {
        let live = own + self.neighbours_hold(owner, Hold::Live);
        let with_drains = live + drains + self.neighbours_hold(owner, Hold::Draining);
        let most = self.caps.per_namespace.saturating_mul(WITH_DRAINS);
        if with_drains > most {
            return Err(Shortage::Drains {
                ports: with_drains,
                most,
            });
        }
        Ok(())
    }

    /// How many ports that count the other workloads of the owner's namespace hold so.
    fn neighbours_hold(&self, owner: &WorkloadKey, hold: Hold) -> usize {
        self.neighbours(owner)
            .flat_map(|(_, entries)| entries.values())
            .filter(|entry| entry.is_counted() && entry.what.hold() == hold)
            .count()
    }

    /// Whether somebody else has the port, or it rests for them.
    fn is_others(&self, owner: &WorkloadKey, port: u16, now: Timestamp) -> bool {
        let mut others = self.others(owner, port);
        others.any(|(_, entry)| entry.is_busy(now))
    }

    /// The owner's own ports that it may take again: resting ones.
    fn own_rest(&self, owner: &WorkloadKey, now: Timestamp) -> BTreeSet<u16> {
        let own = self.owners.get(owner).into_iter().flatten();
        let rest = own.filter(|(_, entry)| {
            matches!(entry.what, Use::Resting { .. }) && entry.is_told_by_checks(now)
        });
        rest.map(|(port, _)| *port)
            .filter(|port| !self.is_others(owner, *port, now))
            .collect()
    }

    /// A port of the owner's own whose drain is about to end, or just has: better than
    /// none.
    fn last_resort(
        &self,
        owner: &WorkloadKey,
        claim: &Claim,
        picked: &BTreeSet<u16>,
        now: Timestamp,
    ) -> Option<u16> {
        let may_be = |entry: &Entry| match &entry.what {
            Use::Live { .. } => false,
            Use::Draining { claim: held, .. } => held == claim,
            Use::Resting { .. } => true,
        };
        let mut own = self.owners.get(owner)?.iter();
        own.find(|(port, entry)| {
            may_be(entry) && !picked.contains(port) && !self.is_others(owner, **port, now)
        })
        .map(|(port, _)| *port)
    }

    /// A port that nobody uses. The search begins at a place that the claim's
    /// name gives, so that a workload tends to get its port again and others
    /// tend not to, also after a change of leader.
    fn free(
        &self,
        owner: &WorkloadKey,
        claim: &Claim,
        picked: &BTreeSet<u16>,
        now: Timestamp,
    ) -> Option<u16> {
        let start = first_choice(owner, claim);
        self.pool.untouched(start, picked).or_else(|| {
            let is_free = |until: Timestamp, port: u16| {
                !picked.contains(&port)
                    && self.entry(owner, port).is_none()
                    // Of one that was used, the time says it: unless its owner is
                    // gone, and with it the rest.
                    && (until <= now || !self.is_others(owner, port, now))
            };
            let mut idle = self.pool.idle();
            idle.find_map(|(until, port)| is_free(until, port).then_some(port))
        })
    }
}

/// Where the search for a free port begins.
fn first_choice(owner: &WorkloadKey, claim: &Claim) -> u16 {
    let mut hash = Sha256::new();
    for part in [
        &owner.namespace,
        &owner.name,
        &claim.service,
        &claim.port.name,
    ] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.update(claim.port.number.to_be_bytes());
    let number = hash
        .finalize()
        .iter()
        .take(4)
        .fold(0u32, |number, byte| number << 8 | u32::from(*byte));
    let count = u32::from(DOORMAN_PORTS.end() - DOORMAN_PORTS.start()) + 1;
    let offset = u16::try_from(number % count).unwrap_or(0);
    DOORMAN_PORTS.start() + offset
}

#[cfg(test)]
#[path = "ports_tests.rs"]
mod tests;
