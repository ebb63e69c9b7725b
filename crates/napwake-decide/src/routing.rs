//! Per Service: routed, or the reason it isn't, and how far its route is.
//!
//! Works out everything afresh each time (ROUTE-40): which Services select the
//! pods, which ports are routed, what the status should record, which slices
//! should stand. Holds nothing up: what it says about a pause is only whether
//! more is to be waited for.

use std::collections::BTreeSet;

use jiff::Timestamp;
use napwake_api::{
    condition::RouteReason,
    workload::{DoormanStatus, Phase, Route, RouteState},
};

use crate::{
    draft::Draft,
    plan::Write,
    ports::{Claim, Ports, Shortage},
    render::Finding,
    settle::Settled,
    slices::{self, SlicePlan},
    timing::{self, after},
    world::{Doorman, DoormanPod, DoormanState, Ingress, Listener, Peer, Seen, Service, Slice},
};

mod finding;
mod hand_over;
mod negs;
mod records;
mod sharing;
mod survey;

pub(crate) use hand_over::HandOver;
#[cfg(test)]
pub(crate) use survey::judge;
pub(crate) use survey::{Surveyed, Verdict, claim};

/// What should become of the routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// They stand, or are to.
    Stand,
    /// They leave, as the workload has been Running since then: each slice goes
    /// once its Service has a Ready pod to hand it over to.
    HandOver(Timestamp),
    /// They leave: slices go, then 30 s of drain, then a minute's rest.
    Leave,
    /// They go at once, without a drain (T-130).
    Vanish,
}

/// Whether a pause has anything to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It can't be told how the routes stand: nothing is scaled down.
    Unknown,
    /// Something may still come of it.
    Working,
    /// As good as it gets: every route stands, or can't.
    Settled,
}

/// What is to be done about the routes.
#[derive(Debug)]
pub(crate) struct Routing {
    doorman: DoormanStatus,
    writes: Vec<Write>,
    checks: Vec<Listener>,
    reads: BTreeSet<String>,
    asks: BTreeSet<String>,
    again: Vec<Timestamp>,
    /// What can't be told, and why.
    unknown: Option<String>,
    outcome: Outcome,
    /// None keeps the condition as it is.
    finding: Option<Finding<RouteReason>>,
    /// How Services are told of that a load balancer keeps from being routed.
    behind_load_balancers: Vec<String>,
}

/// What was observed around the routes, all of it known.
#[derive(Clone, Debug)]
pub(crate) struct Sight<'w> {
    pub(crate) services: &'w [Service],
    pub(crate) ingresses: &'w [Ingress],
    pub(crate) slices: &'w [Slice],
    /// Every doorman pod; none where it's turned off.
    pub(crate) pods: &'w [DoormanPod],
    pub(crate) is_disabled: bool,
    pub(crate) peers: &'w [Peer],
}

impl<'w> Sight<'w> {
    /// Routes that leave need neither Services nor doorman pods to be known.
    fn of(s: &Settled<'w>, mode: Mode) -> Result<Self, String> {
        let world = s.world;
        if mode != Mode::Stand {
            return Ok(Self {
                services: world.services.known().map_or(&[], Vec::as_slice),
                ingresses: &world.ingresses,
                slices: list(&world.slices, "the EndpointSlices")?,
                pods: &[],
                is_disabled: world.doorman == Doorman::Disabled,
                peers: list(&world.peers, "the other ManagedWorkloads")?,
            });
        }
        let (pods, is_disabled): (&[DoormanPod], bool) = match &world.doorman {
            Doorman::Disabled => (&[], true),
            Doorman::Enabled(pods) => (list(pods, "the doorman's pods")?, false),
        };
        Ok(Self {
            services: list(&world.services, "the Services")?,
            ingresses: &world.ingresses,
            slices: list(&world.slices, "the EndpointSlices")?,
            pods,
            is_disabled,
            peers: list(&world.peers, "the other ManagedWorkloads")?,
        })
    }

    pub(crate) fn ready_pods(&self) -> impl Iterator<Item = &'w DoormanPod> {
        self.pods
            .iter()
            .filter(|pod| pod.state == DoormanState::Ready)
    }

    /// Live routes of other workloads: those that pause, sleep or wake (T-76).
    pub(crate) fn peer_routes(&self) -> impl Iterator<Item = (&'w Peer, &'w Route)> {
        self.all_peer_routes().filter(|(peer, _)| stands_by(peer))
    }

    /// The same, and those of others that have woken and hand over still.
    pub(crate) fn all_peer_routes(&self) -> impl Iterator<Item = (&'w Peer, &'w Route)> {
        self.peers
            .iter()
            .flat_map(|peer| peer.routes.iter().map(move |route| (peer, route)))
            .filter(|(_, route)| route.state != RouteState::Draining)
    }

    /// The Services whose slices are other workloads' business, for one that has
    /// these routes: they stand by them, or they are about to hand over what isn't
    /// this one's to hand over.
    pub(crate) fn left_to_peers(&self, own: &[Route]) -> BTreeSet<&'w str> {
        let live = own.iter().filter(|one| one.state != RouteState::Draining);
        let own: BTreeSet<&str> = live.map(|one| &*one.service).collect();
        let mut left = BTreeSet::new();
        for (peer, route) in self.all_peer_routes() {
            let service = &*route.service;
            if stands_by(peer) || !own.contains(service) {
                left.insert(service);
            }
        }
        left
    }
}

/// Whether it pauses, sleeps or wakes.
fn stands_by(peer: &Peer) -> bool {
    let phase = peer.phase;
    phase.is_some_and(|phase| matches!(phase, Phase::Pausing | Phase::Paused | Phase::Resuming))
}

fn list<'w, T>(seen: &'w Seen<Vec<T>>, what: &str) -> Result<&'w [T], String> {
    match seen {
        Seen::Known(list) => Ok(list),
        Seen::Absent => Ok(&[]),
        Seen::Unknown(why) => Err(format!("{what} can't be read: {why}")),
    }
}

/// What was found out about the routes.
struct Found<'a, 'w> {
    sight: Sight<'w>,
    mode: Mode,
    /// Every Service that selects the pods.
    surveyed: Vec<Surveyed<'w>>,
    shortage: Option<Shortage>,
    plan: &'a SlicePlan,
}

/// Works out what to do about the routes.
pub(crate) fn route(s: &Settled, ports: &mut Ports, mode: Mode) -> Routing {
    let sight = match Sight::of(s, mode) {
        Ok(sight) => sight,
        Err(why) => return Routing::unknown(s, why),
    };
    let mut surveyed = match (mode, s.target) {
        (Mode::Stand, Some(target)) if !sight.is_disabled => survey::survey(&sight, target),
        _ => Vec::new(),
    };
    let sharing = sharing::judge(s, &sight, &mut surveyed);
    let claims: BTreeSet<Claim> = surveyed.iter().flat_map(Surveyed::claims).collect();
    let (assigned, shortage) = match ports.assign(&s.workload().key, &claims, s.now) {
        Ok(assigned) => (assigned, None),
        Err(shortage) => (std::collections::BTreeMap::new(), Some(shortage)),
    };
    let wanted = match shortage {
        Some(_) => Vec::new(),
        None => surveyed.clone(),
    };
    let selecting = s
        .target
        .map(|target| survey::selecting(&sight, target))
        .unwrap_or_default();
    let hand_over = HandOver::of(s, mode, &selecting);
    let mut plan = slices::plan(s, &sight, &wanted, &assigned, &selecting, &hand_over);
    plan.problems.extend(sharing.problems);
    plan.again.extend(sharing.again);
    let found = Found {
        sight,
        mode,
        surveyed,
        shortage,
        plan: &plan,
    };
    let doorman = records::next(s, &found, &wanted, &assigned);
    let mut routing = Routing {
        outcome: outcome(&wanted, shortage, &plan),
        finding: finding::finding(s, &found, &doorman),
        behind_load_balancers: finding::behind_load_balancers(&found.surveyed),
        doorman,
        writes: plan.writes,
        checks: plan.checks,
        reads: plan.kept,
        asks: sharing.asks,
        again: plan.again,
        unknown: None,
    };
    routing.look_again(s, shortage);
    if !routing.reads.is_empty() {
        routing.again.extend(hand_over.again());
    }
    routing
}

/// A pause has nothing to wait for once each slice that's wanted stands in
/// full or was refused.
fn outcome(wanted: &[Surveyed], shortage: Option<Shortage>, plan: &SlicePlan) -> Outcome {
    if wanted.iter().any(|one| one.verdict.is_open()) {
        return Outcome::Working;
    }
    let is_routable = wanted.iter().any(|one| one.verdict.is_routable());
    if shortage.is_some() || !is_routable || plan.is_complete {
        Outcome::Settled
    } else {
        Outcome::Working
    }
}

impl Routing {
    /// Leaves everything as it is.
    fn unknown(s: &Settled, why: String) -> Self {
        Self {
            doorman: s.status().doorman.clone().unwrap_or_default(),
            writes: Vec::new(),
            checks: Vec::new(),
            reads: BTreeSet::new(),
            asks: BTreeSet::new(),
            again: Vec::new(),
            unknown: Some(why),
            outcome: Outcome::Unknown,
            finding: None,
            behind_load_balancers: Vec::new(),
        }
    }

    /// Notes when a drain ends, when a port has rested, and when to ask for ports again.
    fn look_again(&mut self, s: &Settled, shortage: Option<Shortage>) {
        let routes = self.doorman.routes.iter();
        let draining = routes.filter_map(|route| route.draining_until.as_ref());
        let resting = self.doorman.resting.iter().map(|rest| &rest.until);
        let ends = draining.chain(resting).map(|until| until.0);
        self.again.extend(ends.min());
        if shortage.is_some() {
            self.again.push(after(s.now, timing::PORTS_AGAIN));
        }
    }

    /// Puts it into the draft, and says how the routes stand.
    pub(crate) fn into_draft(self, draft: &mut Draft, s: &Settled) -> Outcome {
        let is_empty = self.doorman.routes.is_empty() && self.doorman.resting.is_empty();
        if !is_empty || s.status().doorman.is_some() {
            draft.status.doorman = (!is_empty).then_some(self.doorman);
        }
        draft.slices = self.writes;
        draft.checks = self.checks;
        draft.reads = self.reads;
        draft.asks = self.asks;
        draft.wake_on_request = self.finding;
        draft.behind_load_balancers = self.behind_load_balancers;
        for at in self.again {
            draft.again(at);
        }
        if let Some(why) = self.unknown {
            draft.unknown(why, s.now);
        }
        self.outcome
    }
}

#[cfg(test)]
mod tests;
