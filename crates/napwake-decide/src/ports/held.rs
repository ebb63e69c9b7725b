//! The ports that claims have already: the owner's own, or those that other workloads
//! behind the same Services took (T-76).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{
    Claim, Ports, Taken,
    entry::{Entry, Hold, Use},
};
use crate::world::WorkloadKey;

/// Whether a port is only reserved, and by whom.
type Rank<'a> = (bool, &'a str);

/// A port that an owner has for a claim.
#[derive(Clone, Copy)]
struct Own {
    port: u16,
    is_draining: bool,
    /// Whether it took the port itself.
    is_taker: bool,
}

impl Ports {
    /// The ports that already serve claims. The namespace's are gone through once, not
    /// for each claim.
    pub(super) fn held(
        &self,
        owner: &WorkloadKey,
        claims: &BTreeSet<Claim>,
        now: Timestamp,
    ) -> BTreeMap<Claim, Taken> {
        let own = self.own_ports(owner, now);
        let takers = self.takers(owner, claims);
        let held = claims.iter().filter_map(|claim| {
            let own = own.get(claim).copied();
            let taken = self.taken(owner, own, takers.get(claim).copied())?;
            Some((claim.clone(), taken))
        });
        held.collect()
    }

    fn taken(
        &self,
        owner: &WorkloadKey,
        own: Option<Own>,
        taker: Option<(Rank<'_>, u16)>,
    ) -> Option<Taken> {
        let keeps = own.filter(|own| own.is_taker).map(|own| own.port);
        let rank = keeps.map(|port| self.rank(owner, port));
        let taker = taker.filter(|(theirs, port)| {
            keeps != Some(*port) && rank.is_none_or(|rank| *theirs < rank)
        });
        let (port, by) = match (taker, own) {
            (Some(((_, by), port)), _) => (port, Some(by.to_owned())),
            // Its own; or that of a taker who has left: the record moves here
            // (T-76).
            (None, Some(own)) => (own.port, None),
            (None, None) => return None,
        };
        Some(Taken { port, by })
    }

    /// The owner's own, by what it has them for: those of routes before those that drain.
    fn own_ports(&self, owner: &WorkloadKey, now: Timestamp) -> BTreeMap<&Claim, Own> {
        let mut ports = BTreeMap::new();
        for (port, entry) in self.owners.get(owner).into_iter().flatten() {
            let (claim, is_draining, is_taker) = match &entry.what {
                Use::Live { claim, by } => (claim, false, by.is_none()),
                Use::Draining { claim, .. } if entry.is_told_by_checks(now) => (claim, true, false),
                Use::Draining { .. } | Use::Resting { .. } => continue,
            };
            if self.is_contested(owner, claim, *port) {
                continue;
            }
            let own = Own {
                port: *port,
                is_draining,
                is_taker,
            };
            let first = ports.entry(claim).or_insert(own);
            if first.is_draining && !is_draining {
                *first = own;
            }
        }
        ports
    }

    /// Other workloads of the namespace that took ports for these claims: of each claim
    /// the first by its rank. A port that rests on record is its owner's alone to take
    /// back (DRAIN-21, T-78).
    fn takers<'a>(
        &'a self,
        owner: &WorkloadKey,
        claims: &BTreeSet<Claim>,
    ) -> BTreeMap<&'a Claim, (Rank<'a>, u16)> {
        let services: BTreeSet<&str> = claims.iter().map(|claim| &*claim.service).collect();
        let is_claimed =
            |claim: &&Claim| services.contains(&*claim.service) && claims.contains(*claim);
        let mut takers: BTreeMap<&Claim, (Rank<'_>, u16)> = BTreeMap::new();
        for (other, entries) in self.neighbours(owner) {
            let mut met = BTreeSet::new();
            for (port, entry) in entries {
                let Some(claim) = took(entry).filter(is_claimed) else {
                    continue;
                };
                if met.insert(claim) {
                    let taker = (self.rank(other, *port), *port);
                    let first = takers.entry(claim).or_insert(taker);
                    *first = taker.min(*first);
                }
            }
        }
        takers
    }

    /// Who keeps its port where several took one for the same claim, as one of them
    /// was about to leave, or for two leaders: the least. Were each to keep its own,
    /// they would write their slices over each other's without end (T-76).
    fn rank<'a>(&self, owner: &'a WorkloadKey, port: u16) -> Rank<'a> {
        (self.recorded(owner, port).is_none(), &owner.name)
    }

    /// Whether another workload has the port for something else, as two leaders could
    /// have given it for a moment: then each takes another one, for a listener that
    /// is found there may be for either (ROUTE-79).
    fn is_contested(&self, owner: &WorkloadKey, claim: &Claim, port: u16) -> bool {
        self.others(owner, port)
            .any(|(other, entry)| match &entry.what {
                Use::Live { claim: held, .. } | Use::Draining { claim: held, .. } => {
                    other.namespace != owner.namespace || held != claim
                }
                Use::Resting { .. } => false,
            })
    }
}

/// For what its owner took a port, and may share it.
fn took(entry: &Entry) -> Option<&Claim> {
    match &entry.what {
        Use::Live { claim, by: None } if entry.recorded != Some(Hold::Resting) => Some(claim),
        _ => None,
    }
}
