//! What the status records of routes and ports: opened, routed, draining,
//! resting (T-69, T-78).

use std::collections::BTreeMap;

use jiff::Timestamp;
use napwake_api::workload::{DoormanStatus, IpFamily, RestingPort, Route, RouteState};

use super::{Found, Mode, Surveyed, Verdict, survey};
use crate::{
    draft::micro,
    ports::{Claim, Taken},
    settle::Settled,
    slices::SlicePlan,
    timing::{self, after},
    world::WorkloadKey,
};

/// The records that the status should hold next.
pub(super) fn next(
    s: &Settled,
    found: &Found,
    wanted: &[Surveyed],
    assigned: &BTreeMap<Claim, Taken>,
) -> DoormanStatus {
    let none = DoormanStatus::default();
    let seen = s.status().doorman.as_ref().unwrap_or(&none);
    let mut next = DoormanStatus::default();
    for surveyed in wanted {
        for (claim, families) in wanted_routes(surveyed) {
            if let Some(taken) = assigned.get(&claim) {
                let known = find(&seen.routes, &claim, taken.port);
                next.routes
                    .push(stand(claim, taken, families, known, found.plan, s.now));
            }
        }
    }
    for route in &seen.routes {
        let stays = next
            .routes
            .iter()
            .any(|kept| kept.doorman_port == route.doorman_port);
        if !stays {
            match leave(route, found, &s.workload().key, s.now) {
                Left::Route(route) => next.routes.push(route),
                Left::Rest(rest) => next.resting.push(rest),
                Left::Nothing => {}
            }
        }
    }
    let in_use = |port| next.routes.iter().any(|route| route.doorman_port == port);
    let resting: Vec<_> = seen
        .resting
        .iter()
        .filter(|rest| rest.until.0 > s.now && !in_use(rest.port))
        .cloned()
        .collect();
    next.resting.extend(resting);
    next.resting.sort_by_key(|rest| rest.port);
    next
}

fn wanted_routes(surveyed: &Surveyed) -> Vec<(Claim, Vec<IpFamily>)> {
    match &surveyed.verdict {
        Verdict::Route {
            ports, families, ..
        } => ports
            .iter()
            .map(|port| (survey::claim(surveyed.service, port), families.clone()))
            .collect(),
        Verdict::Wait | Verdict::Leave { .. } => Vec::new(),
    }
}

fn find<'r>(routes: &'r [Route], claim: &Claim, port: u16) -> Option<&'r Route> {
    routes.iter().find(|route| {
        route.doorman_port == port && route.port == claim.port && route.service == claim.service
    })
}

/// A route that stands or is to.
fn stand(
    claim: Claim,
    taken: &Taken,
    families: Vec<IpFamily>,
    known: Option<&Route>,
    plan: &SlicePlan,
    now: Timestamp,
) -> Route {
    let known = known.filter(|route| route.state != RouteState::Draining);
    let was_routed = known.is_some_and(|route| route.state == RouteState::Routed);
    let (service, name) = (&claim.service, &claim.port.name);
    // One that is being repaired stays Routed meanwhile.
    let has_slice = plan.serves(service, name, taken.port)
        || (was_routed && plan.will_serve(service, name, taken.port));
    let (state, opened_at) = match known {
        // New, or taken back from its drain.
        None => (RouteState::Opening, Some(micro(now))),
        Some(route) if has_slice => (RouteState::Routed, route.opened_at.clone()),
        // Its slices are gone and none can be written: checks begin anew.
        Some(_) if was_routed => (RouteState::Opening, Some(micro(now))),
        Some(route) => (RouteState::Opening, route.opened_at.clone()),
    };
    Route {
        service: claim.service,
        port: claim.port,
        doorman_port: taken.port,
        families,
        forwarded: false,
        state,
        opened_at,
        draining_until: None,
        taken_by: taken.by.clone(),
    }
}

/// What becomes of a route that isn't wanted.
enum Left {
    Route(Route),
    Rest(RestingPort),
    Nothing,
}

fn leave(route: &Route, found: &Found, own: &WorkloadKey, now: Timestamp) -> Left {
    let port = route.doorman_port;
    let rest = |from| {
        Left::Rest(RestingPort {
            port,
            until: micro(after(from, timing::REST)),
        })
    };
    if let Some(by) = &route.taken_by {
        let mut routes = found.sight.all_peer_routes();
        let is_theirs =
            routes.any(|(peer, theirs)| peer.name == *by && theirs.doorman_port == port);
        if is_theirs || !found.plan.is_pointed_at(&route.service, port) {
            return Left::Nothing; // Another workload has it on record, or had.
        }
        // Both leave at once: somebody must have it on record while a slice stands.
        return Left::Route(Route {
            taken_by: None,
            ..route.clone()
        });
    }
    // Of the same Service port: one that two leaders gave twice drains and rests for both.
    let is_shared = |theirs: &Route| {
        theirs.doorman_port == port
            && (&theirs.service, &theirs.port) == (&route.service, &route.port)
    };
    let peer = found
        .sight
        .peer_routes()
        .find(|(_, theirs)| is_shared(theirs));
    match peer {
        // The record moves first (T-76): kept until the other one has it.
        Some((_, theirs)) if theirs.taken_by.as_deref() == Some(own.name.as_str()) => {
            return Left::Route(drain(route, now));
        }
        Some(_) => return Left::Nothing,
        None => {}
    }
    // Whoever gets the port gets the callers whom a slice sends there.
    if found.plan.is_pointed_at(&route.service, port) {
        return Left::Route(route.clone());
    }
    match (&route.draining_until, route.state) {
        _ if found.mode == Mode::Vanish => rest(now),
        (Some(until), RouteState::Draining) if until.0 <= now => rest(now),
        (Some(_), RouteState::Draining) => Left::Route(route.clone()),
        _ => Left::Route(drain(route, now)),
    }
}

/// The route as it drains, for 30 s from when that began.
fn drain(route: &Route, now: Timestamp) -> Route {
    let until = || micro(after(now, timing::DRAIN));
    Route {
        state: RouteState::Draining,
        draining_until: Some(route.draining_until.clone().unwrap_or_else(until)),
        ..route.clone()
    }
}

#[cfg(test)]
#[path = "records_tests.rs"]
mod tests;
