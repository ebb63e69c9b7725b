//! Handing Services over to the pods of a workload that has woken.
//!
//! That it has a Ready pod is known before the EndpointSlice controller has
//! written it into the Services' own slices. Were Napwake's gone by then, a
//! Service would have no endpoint at all and refuse its callers. Whoever reads
//! slices sees these writes in their order, so that it's enough to let go of a
//! Service once a slice of its own names a Ready pod.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use napwake_api::workload::IpFamily;

use super::Mode;
use crate::{
    settle::Settled,
    timing::{self, after},
    world::{Doorman, DoormanState, Endpoint, Seen, Service, SliceSpec},
};

/// Which slices wait for the Service's own.
pub(crate) struct HandOver<'w> {
    /// Since when the workload is Running; none where no slice waits.
    since: Option<Timestamp>,
    now: Timestamp,
    /// The Services that select the pods; none where they aren't known.
    selecting: Option<BTreeSet<&'w str>>,
    /// Who serves which Service; none where that isn't known.
    served: Option<&'w BTreeMap<String, BTreeSet<IpFamily>>>,
    doorman: &'w Doorman,
}

impl<'w> HandOver<'w> {
    pub(crate) fn of(s: &Settled<'w>, mode: Mode, selecting: &[&'w Service]) -> Self {
        let since = match mode {
            Mode::HandOver(since) => Some(since),
            Mode::Stand | Mode::Leave | Mode::Vanish => None,
        };
        let selecting = selecting.iter().map(|service| service.name.as_str());
        let services = s.world.services.known();
        Self {
            since,
            now: s.now,
            selecting: services.map(|_| selecting.collect()),
            served: s.world.served.known(),
            doorman: &s.world.doorman,
        }
    }

    /// What a slice that isn't wanted any more says for now: nothing where it goes.
    ///
    /// It stays while its Service selects the pods, none is known to serve it in that
    /// family, and a doorman pod is there still (ROUTE-63). Doorman pods that have
    /// left are taken out of it, as callers would be refused there.
    pub(crate) fn kept(&self, slice: &SliceSpec) -> Option<SliceSpec> {
        let is_selected = self
            .selecting
            .as_ref()
            .is_none_or(|selecting| selecting.contains(slice.service.as_str()));
        let is_served = self
            .served
            .and_then(|served| served.get(&slice.service))
            .is_some_and(|families| families.contains(&slice.family));
        let is_awaited = self.since.is_some() && is_selected && !is_served;
        is_awaited.then(|| self.manned(slice)).flatten()
    }

    /// The slice with those of its doorman pods that are Ready, as far as is known;
    /// none where none is.
    fn manned(&self, slice: &SliceSpec) -> Option<SliceSpec> {
        let pods = match self.doorman {
            Doorman::Enabled(Seen::Known(pods)) => pods,
            Doorman::Enabled(Seen::Unknown(_)) => return Some(slice.clone()),
            Doorman::Enabled(Seen::Absent) | Doorman::Disabled => return None,
        };
        let is_there = |endpoint: &Endpoint| {
            let mut ready = pods.iter().filter(|pod| pod.state == DoormanState::Ready);
            ready.any(|pod| endpoint.is_of(pod, slice.family))
        };
        let mut slice = slice.clone();
        slice.endpoints.retain(is_there);
        (!slice.endpoints.is_empty()).then_some(slice)
    }

    /// When to look again, the last time at the bound.
    pub(crate) fn again(&self) -> Option<Timestamp> {
        let since = self.since?;
        let (first, last) = timing::READ_AGAIN;
        let wait = self.now.duration_since(since).clamp(first, last);
        let bound = after(since, timing::HAND_OVER_BOUND);
        Some(after(self.now, wait).min(bound))
    }
}

#[cfg(test)]
#[path = "hand_over_tests.rs"]
mod tests;
