//! Which endpoints of a Service are Ready for a port (T-135).
//!
//! Owns how slices that repeat or disagree are read, and what the Pod adds to
//! them. Given are slices of the EndpointSlice controller alone, so never the
//! doorman's own (T-72), and TCP ports alone. Whether an address may be dialed
//! at all is decided where it is dialed.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
};

/// How many Pods of a route may be Ready at most. The first Ready one is enough
/// (HOLD-41), and each that may be is followed: a Service of hundreds must not cost
/// hundreds of watches.
pub const MOST_PODS: usize = 16;

/// How many endpoints: a Pod has one address of each family.
pub const MOST_CANDIDATES: usize = 2 * MOST_PODS;

/// What matters of an EndpointSlice. One Service may have several, for a while
/// with the same endpoint in two of them (F-20, F-22).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// Its ports, whose numbers hold for its own endpoints only (F-21).
    pub ports: Vec<SlicePort>,
    /// Its endpoints.
    pub endpoints: Vec<SliceEndpoint>,
}

/// A port of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlicePort {
    /// The Service port's name, empty where it has none.
    pub name: String,
    /// The number that these endpoints listen on.
    pub number: u16,
}

/// An endpoint of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceEndpoint {
    /// Its address.
    pub address: IpAddr,
    /// Its conditions.
    pub conditions: Conditions,
    /// The Pod it names; one that names none is never dialed.
    pub pod: Option<PodKey>,
}

/// An endpoint's conditions, each of which a slice may leave out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// `ready`, which lies where `publishNotReadyAddresses` is set (F-19).
    pub ready: Option<bool>,
    /// `serving`: the Pod's own Ready condition (F-18).
    pub serving: Option<bool>,
    /// `terminating`.
    pub terminating: Option<bool>,
}

impl Conditions {
    /// T-73: `serving` decides; where it is absent, `ready`; with both absent it
    /// isn't Ready.
    fn says_serving(self) -> bool {
        self.serving.or(self.ready).unwrap_or(false)
    }

    /// T-74: terminating endpoints aren't Ready, even if they still serve.
    fn says_terminating(self) -> bool {
        self.terminating.unwrap_or(false)
    }
}

/// The namespace and name of a Pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What is known of a Pod from the API itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodView {
    /// It hasn't been read yet.
    Unread,
    /// There is none, or it is being deleted.
    Leaving,
    /// It is there.
    There {
        /// Its addresses.
        addresses: Vec<IpAddr>,
        /// Its Ready condition.
        state: PodState,
    },
}

/// A Pod's Ready condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodState {
    /// True.
    Ready,
    /// Anything else.
    NotReady,
}

/// What the slices say of an endpoint that none of them takes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SliceSays {
    /// Listed, and not serving yet.
    Listed,
    /// Serving.
    Serving,
}

/// An endpoint that may be Ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its address, with the port that its own slice gives.
    pub address: SocketAddr,
    /// The Pod behind it.
    pub pod: PodKey,
    /// What the slices say.
    pub slice_says: SliceSays,
}

/// Whether an endpoint is Ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It is.
    Ready,
    /// It isn't.
    NotReady,
    /// Its Pod must be read first.
    PodUnread,
}

/// The endpoints that may be Ready for the Service port of this name, each once
/// and in the order of their addresses: no more of them than [`MOST_PODS`] Pods, at up to
/// [`MOST_CANDIDATES`] addresses, those that serve before the others. What slices list
/// beyond that costs no more than being looked at once.
///
/// A copy that is terminating says nothing; of the others, one that serves is
/// enough (F-22). A slice without the port has no candidates for it (F-21), nor have
/// addresses that aren't allowed.
pub fn candidates<'a>(
    slices: impl IntoIterator<Item = &'a Slice>,
    port_name: &str,
    is_allowed: impl Fn(SocketAddr) -> bool,
) -> Vec<Candidate> {
    let mut first = BTreeSet::new();
    let slices = slices.into_iter();
    for (port, endpoint) in slices.flat_map(|slice| on_port(slice, port_name)) {
        let Some(pod) = &endpoint.pod else { continue };
        if endpoint.conditions.says_terminating() {
            continue;
        }
        let says = if endpoint.conditions.says_serving() {
            SliceSays::Serving
        } else {
            SliceSays::Listed
        };
        let ranked = (Reverse(says), SocketAddr::new(endpoint.address, port), pod);
        // Each may be there twice, once as serving and once as listed.
        let is_full = first.len() >= 2 * MOST_CANDIDATES;
        if is_full && first.last().is_some_and(|last| *last <= ranked) {
            continue;
        }
        if is_allowed(ranked.1) && first.insert(ranked) && is_full {
            first.pop_last();
        }
    }
    best(first)
}

/// Whether pods serve, and none has the Service port of this name: its `targetPort` is a
/// name that no container of theirs has, and so no slice of theirs has the port (F-21).
pub fn lack_port<'a>(slices: impl IntoIterator<Item = &'a Slice>, port_name: &str) -> bool {
    let serves =
        |one: &SliceEndpoint| one.conditions.says_serving() && !one.conditions.says_terminating();
    let mut are_there = false;
    for slice in slices {
        if slice.ports.iter().any(|port| port.name == port_name) {
            return false;
        }
        are_there |= slice.endpoints.iter().any(serves);
    }
    are_there
}

/// Of what is ranked, each endpoint once, as the best that is said of it.
fn best(ranked: BTreeSet<(Reverse<SliceSays>, SocketAddr, &PodKey)>) -> Vec<Candidate> {
    let mut found: BTreeMap<(SocketAddr, &PodKey), SliceSays> = BTreeMap::new();
    let mut pods = BTreeSet::new();
    for (Reverse(says), address, pod) in ranked {
        if found.len() >= MOST_CANDIDATES || pods.len() >= MOST_PODS && !pods.contains(pod) {
            continue;
        }
        pods.insert(pod);
        found.entry((address, pod)).or_insert(says);
    }
    found
        .into_iter()
        .map(|((address, pod), slice_says)| Candidate {
            address,
            pod: pod.clone(),
            slice_says,
        })
        .collect()
}

fn on_port<'a>(
    slice: &'a Slice,
    name: &str,
) -> impl Iterator<Item = (u16, &'a SliceEndpoint)> + use<'a> {
    let port = slice.ports.iter().find(|port| port.name == name);
    port.into_iter()
        .flat_map(|port| slice.endpoints.iter().map(|one| (port.number, one)))
}

impl Candidate {
    /// Whether this endpoint is Ready, by its slice and its Pod.
    ///
    /// The Pod must have the address and must not be leaving; then either of the
    /// two saying so is enough, since slices lag (T-135).
    pub fn readiness(&self, pod: &PodView) -> Readiness {
        match pod {
            PodView::Unread => Readiness::PodUnread,
            PodView::Leaving => Readiness::NotReady,
            PodView::There { addresses, state } => {
                let says_ready = self.slice_says == SliceSays::Serving || *state == PodState::Ready;
                if says_ready && addresses.contains(&self.address.ip()) {
                    Readiness::Ready
                } else {
                    Readiness::NotReady
                }
            }
        }
    }
}

/// How a route looks to somebody who wants to pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// Pods are Ready at these addresses, each there once.
    Ready(Vec<SocketAddr>),
    /// A slice says that one is Ready, and its Pod hasn't been read yet.
    Unread,
    /// None is Ready.
    NotReady,
}

/// How a route with these candidates looks, by the Pods that were read.
pub fn outlook<'a>(
    candidates: &[Candidate],
    pod: impl Fn(&PodKey) -> Option<&'a PodView>,
) -> Outlook {
    let (mut ready, mut is_awaited) = (Vec::new(), false);
    for candidate in candidates {
        let pod = pod(&candidate.pod).unwrap_or(&PodView::Unread);
        match candidate.readiness(pod) {
            Readiness::Ready => ready.push(candidate.address),
            Readiness::NotReady => {}
            Readiness::PodUnread => is_awaited |= candidate.slice_says == SliceSays::Serving,
        }
    }
    // They are in order.
    ready.dedup();
    match (ready.is_empty(), is_awaited) {
        (false, _) => Outlook::Ready(ready),
        (true, true) => Outlook::Unread,
        (true, false) => Outlook::NotReady,
    }
}

#[cfg(test)]
mod tests;
