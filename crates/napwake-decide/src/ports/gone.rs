//! Ports of ManagedWorkloads that went before these had rested, as one does whose
//! finalizer is taken off by hand: the doorman serves them for a while yet (T-111), and
//! whoever got one would get callers that aren't its own (DRAIN-21).

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{
    Ports,
    entry::{Entry, Use},
};
use crate::{
    timing::{self, after},
    world::WorkloadKey,
};

/// Those that have yet to rest: when each began isn't known before the next decision.
#[derive(Clone, Debug, Default)]
pub(super) struct Gone(BTreeSet<u16>);

impl Gone {
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

impl Ports {
    /// Forgets a ManagedWorkload that is gone, but for the ports that haven't rested.
    pub fn forget(&mut self, owner: &WorkloadKey) {
        let entries = self.owners.get(owner).cloned().unwrap_or_default();
        self.give_up(owner, |_, _| true);
        for (port, entry) in entries {
            match entry.what {
                Use::Resting { .. } => self.set(&nobody(), port, entry),
                // Whoever shares it takes the record over (T-76).
                _ if entry.recorded.is_none() || self.is_taken(port) => {}
                Use::Live { .. } | Use::Draining { .. } => {
                    self.gone.0.insert(port);
                }
            }
        }
    }

    fn is_taken(&self, port: u16) -> bool {
        let holders = self.holders.get(&port).into_iter().flatten();
        let mut entries = holders.filter_map(|owner| self.entry(owner, port));
        entries.any(Entry::is_taken)
    }

    /// What a ledger that was kept before this one knows of those that are gone.
    pub fn inherit(&mut self, before: &Self) {
        self.gone.0.extend(&before.gone.0);
        let rests = before.owners.get(&nobody()).into_iter().flatten();
        for (port, entry) in rests {
            self.set(&nobody(), *port, entry.clone());
        }
    }

    /// From now on they drain and rest, and those that have rested are free.
    pub(super) fn rest_gone(&mut self, now: Timestamp) {
        let until = after(after(now, timing::DRAIN), timing::REST);
        for port in std::mem::take(&mut self.gone.0) {
            let what = Use::Resting { until };
            let recorded = None;
            self.set(&nobody(), port, Entry { what, recorded });
        }
        self.give_up(&nobody(), |_, entry| !entry.is_busy(now));
    }
}

/// Whose they are. No ManagedWorkload is without a namespace.
const fn nobody() -> WorkloadKey {
    WorkloadKey {
        namespace: String::new(),
        name: String::new(),
    }
}
