//! The EndpointSlices wanted, per Service and family (T-76), against those that
//! are there, and the connect checks that are needed first.
//!
//! A slice names only doorman pods that listen on all its ports: each passed a
//! check since the route opened, or is in the slice of one that is routed already.
//! Endpoints are rewritten in place (F-44), and nobody else's slice is ever touched.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use napwake_api::{
    names::slice::MANAGED_BY_NAPWAKE,
    workload::{IpFamily, Route, RouteState},
};

mod altered;
mod endpoints;
mod listeners;
mod names;
mod problems;

use self::listeners::{Listeners, Wanted};
pub use self::{
    altered::{altered, is_known_again},
    names::{slice_name, slice_names},
};

use crate::{
    clock,
    plan::{Over, Write},
    ports::{Claim, Taken},
    routing::{HandOver, Sight, Surveyed, Verdict, claim},
    settle::Settled,
    timing::{self, after},
    world::{Listener, Service, ServicePort, Slice, SlicePort, SliceProblem, SliceSpec},
};

/// What to do about the slices.
#[derive(Debug, Default)]
pub(crate) struct SlicePlan {
    pub(crate) writes: Vec<Write>,
    pub(crate) checks: Vec<Listener>,
    pub(crate) again: Vec<Timestamp>,
    /// By Service, what keeps a slice of it from being written.
    pub(crate) problems: BTreeMap<String, String>,
    /// Whether every slice that's wanted stands in full, or was refused.
    pub(crate) is_complete: bool,
    /// Services that keep a slice until their own pods serve them.
    pub(crate) kept: BTreeSet<String>,
    /// Slices that are there now.
    present: Vec<SliceSpec>,
    /// Those of them that stay.
    staying: Vec<SliceSpec>,
    /// Slices that are about to be made, or of which it's about to be known who listens.
    coming: Vec<SliceSpec>,
}

impl SlicePlan {
    /// Whether a slice that is there and stays points at this doorman port
    /// under this port's name.
    pub(crate) fn serves(&self, service: &str, name: &str, port: u16) -> bool {
        serves(&self.staying, service, name, port)
    }

    /// Whether one that is about to be made will.
    pub(crate) fn will_serve(&self, service: &str, name: &str, port: u16) -> bool {
        serves(&self.coming, service, name, port)
    }

    /// Whether a Service has a slice in this family, or is about to.
    pub(crate) fn stands(&self, service: &str, family: IpFamily) -> bool {
        let mut slices = self.staying.iter().chain(&self.coming);
        slices.any(|slice| slice.service == service && slice.family == family)
    }

    /// Whether a slice that is there points at this doorman port.
    pub(crate) fn is_pointed_at(&self, service: &str, port: u16) -> bool {
        self.present
            .iter()
            .filter(|slice| slice.service == service)
            .flat_map(|slice| &slice.ports)
            .any(|served| served.port == port)
    }

    /// Whether any slice of the workload is there.
    pub(crate) fn any_present(&self) -> bool {
        !self.present.is_empty()
    }
}

fn serves(slices: &[SliceSpec], service: &str, name: &str, port: u16) -> bool {
    slices
        .iter()
        .filter(|slice| slice.service == service && !slice.endpoints.is_empty())
        .flat_map(|slice| &slice.ports)
        .any(|served| served.port == port && served.name == name)
}

/// Works out what to do about the slices of the Services that are `wanted`, that
/// select the pods, or that a route in the status names.
pub(crate) fn plan(
    s: &Settled,
    sight: &Sight,
    wanted: &[Surveyed],
    assigned: &BTreeMap<Claim, Taken>,
    selecting: &[&Service],
    hand_over: &HandOver,
) -> SlicePlan {
    let routes: &[Route] = s
        .status()
        .doorman
        .as_ref()
        .map_or(&[], |doorman| &doorman.routes);
    let mut work = Work {
        s,
        sight,
        routes,
        assigned,
        plan: SlicePlan {
            is_complete: true,
            ..SlicePlan::default()
        },
        named: BTreeSet::new(),
    };
    for surveyed in wanted {
        if let Verdict::Route {
            ports, families, ..
        } = &surveyed.verdict
        {
            for family in families {
                work.slice(surveyed.service, ports, *family);
            }
        }
    }
    let services: BTreeSet<&str> = selecting
        .iter()
        .map(|service| service.name.as_str())
        .chain(routes.iter().map(|route| route.service.as_str()))
        .filter(|name| !wanted.iter().any(|one| one.is_open_for(name)))
        .collect();
    work.remove_others(&services, hand_over);
    work.plan
}

/// A slice plan in the making.
struct Work<'a, 'w> {
    s: &'a Settled<'w>,
    sight: &'a Sight<'w>,
    routes: &'a [Route],
    assigned: &'a BTreeMap<Claim, Taken>,
    plan: SlicePlan,
    /// Names of slices that are wanted.
    named: BTreeSet<String>,
}

impl<'a, 'w> Work<'a, 'w> {
    /// One slice that's wanted.
    fn slice(&mut self, service: &'w Service, ports: &[&ServicePort], family: IpFamily) {
        let name = slice_name(&service.name, family);
        let found = self
            .sight
            .slices
            .iter()
            .find(|slice| slice.spec.name == name);
        self.named.insert(name.clone());
        if found.is_some_and(|slice| !is_ours(slice)) {
            self.problem(&service.name, &name, &SliceProblem::Foreign);
            return;
        }
        if let Some(outdated) = found.filter(|slice| self.is_outdated(slice, service)) {
            self.plan.present.push(outdated.spec.clone());
            self.plan.is_complete = false;
            self.delete(outdated);
            return;
        }
        let listeners = self.listeners(family, found);
        let all = self.wanted_ports(service, ports, family, found);
        let (checks, again) = listeners.missing(&all);
        // Made anew it'd refuse callers (DRAIN-06). Before its routes are on record it
        // can't be told whose it is; later, whether anybody listens is about to be known.
        let is_kept = all.is_empty() || !checks.is_empty();
        let is_whole = all.len() == ports.len();
        let spec_of = |ports: &[Wanted]| self.spec(service, &listeners, ports, found);
        let full = spec_of(&all);
        let standing = self.standing_ports(service, ports, family, found);
        let is_moving = standing.len() > all.len();
        let until = |full: &SliceSpec| self.laggards_until(full, &all, &listeners);
        let laggards = full.as_ref().and_then(until);
        // Where no pod listens on all of them, it's waited for as long as it takes; the
        // ports that stand already go on standing.
        let waits = is_moving || full.is_none() || laggards.is_some();
        let spec = if waits { spec_of(&standing) } else { full };
        self.plan.is_complete &= !waits && is_whole;
        self.plan.checks.extend(checks);
        self.plan.again.extend(again.into_iter().chain(laggards));
        self.plan.is_complete &= spec.is_some();
        match found.filter(|_| spec.is_none() && is_kept) {
            Some(kept) => self.keep(kept),
            None => self.write(&service.name, spec, found),
        }
    }

    fn listeners(&self, family: IpFamily, found: Option<&Slice>) -> Listeners<'a> {
        let (checks, now) = (&self.s.world.checks, self.s.now);
        Listeners::new(self.sight.ready_pods(), family, found, checks, now)
    }

    /// The ports whose routes the doorman has been told of, in the Service's
    /// order. One that is about to be left isn't among them.
    fn wanted_ports(
        &self,
        service: &Service,
        ports: &[&ServicePort],
        family: IpFamily,
        found: Option<&Slice>,
    ) -> Vec<Wanted<'a>> {
        let wanted = ports.iter().filter_map(|port| {
            let taken = self.assigned.get(&claim(service, port))?;
            let mut routes = self.live_routes(service, port, family, found);
            routes.find(|wanted| wanted.port.port == taken.port)
        });
        wanted.collect()
    }

    /// The ports that the slice has already, in the Service's order; one that moves is
    /// among them until the doorman listens on its next one.
    fn standing_ports(
        &self,
        service: &Service,
        ports: &[&ServicePort],
        family: IpFamily,
        found: Option<&Slice>,
    ) -> Vec<Wanted<'a>> {
        let standing = ports.iter().filter_map(|port| {
            let mut routes = self.live_routes(service, port, family, found);
            routes.find(|wanted| wanted.stands)
        });
        standing.collect()
    }

    /// The routes of a Service's port that aren't leaving: two where it moves from one
    /// doorman port to another.
    fn live_routes(
        &self,
        service: &Service,
        port: &ServicePort,
        family: IpFamily,
        found: Option<&Slice>,
    ) -> impl Iterator<Item = Wanted<'a>> {
        // What is told apart soonest comes first: each port is looked for among all.
        let routes = self.routes.iter().filter(move |route| {
            route.port.number == port.number
                && route.state != RouteState::Draining
                && route.port.name == port.name
                && route.service == service.name
                && route.families.contains(&family)
        });
        routes.map(move |route| {
            let port = SlicePort {
                name: port.name.clone(),
                port: route.doorman_port,
                app_protocol: port.app_protocol.clone(),
            };
            Wanted::new(port, route, found)
        })
    }

    /// The slice with these ports and every doorman pod that listens on all of
    /// them; none without a port or a pod.
    fn spec(
        &self,
        service: &Service,
        listeners: &Listeners,
        ports: &[Wanted],
        found: Option<&Slice>,
    ) -> Option<SliceSpec> {
        let family = listeners.family;
        let are_named = endpoints::are_named(self.s.world, service, found);
        let mut endpoints: Vec<_> = listeners
            .on_all(ports)
            .filter_map(|pod| endpoints::endpoint(pod, family, are_named))
            .collect();
        endpoints.sort();
        let spec = SliceSpec {
            name: slice_name(&service.name, family),
            service: service.name.clone(),
            service_uid: service.uid.clone(),
            family,
            endpoints,
            ports: ports.iter().map(|wanted| wanted.port.clone()).collect(),
        };
        (!spec.endpoints.is_empty() && !spec.ports.is_empty()).then_some(spec)
    }

    /// Until when the slice with all ports waits for doorman pods that don't listen on
    /// all of them yet: while one of the ports is new, for a moment.
    fn laggards_until(
        &self,
        full: &SliceSpec,
        ports: &[Wanted],
        listeners: &Listeners,
    ) -> Option<Timestamp> {
        let newest = ports
            .iter()
            .filter(|wanted| !wanted.stands)
            .filter_map(|wanted| wanted.route.opened_at.as_ref())
            .map(|opened| clock::since(opened.0, self.s.now))
            .max()?;
        let until = after(newest, timing::LAGGARD_BOUND);
        (full.endpoints.len() < listeners.pods() && self.s.now < until).then_some(until)
    }

    /// Leaves a slice as it is until it's known who listens: what is routed by it stays
    /// so, and nothing else becomes so.
    fn keep(&mut self, found: &Slice) {
        self.note_altered(&found.spec.service, &found.spec);
        self.plan.present.push(found.spec.clone());
        self.plan.coming.push(found.spec.clone());
    }

    /// Writes the slice, leaves it as it is, or takes it away; and asks for the
    /// checks that are missing.
    fn write(&mut self, service: &str, spec: Option<SliceSpec>, found: Option<&Slice>) {
        if let Some(found) = found {
            self.plan.present.push(found.spec.clone());
        }
        let Some(spec) = spec else {
            if let Some(found) = found {
                self.delete(found);
            }
            return;
        };
        match found {
            Some(found) if found.spec == spec => {
                self.note_altered(service, &spec);
                self.plan.staying.push(spec);
            }
            _ if self.is_backing_off(service, &spec) => {
                self.plan
                    .staying
                    .extend(found.map(|found| found.spec.clone()));
            }
            _ => {
                // Not in full before it's seen to stand.
                self.plan.is_complete = false;
                let over = found.map_or(Over::Nothing, |found| Over::Existing {
                    uid: found.uid.clone(),
                    resource_version: found.resource_version.clone(),
                });
                match found {
                    Some(found) => self.plan.staying.push(found.spec.clone()),
                    None => self.plan.coming.push(spec.clone()),
                }
                self.plan
                    .writes
                    .push(Write::ApplySlice { slice: spec, over });
            }
        }
    }

    /// Takes away slices of ours that aren't wanted, but for those that other
    /// workloads behind the same Service stand by (T-76), or that would leave
    /// nobody there.
    fn remove_others(&mut self, services: &BTreeSet<&str>, hand_over: &HandOver) {
        let sight = self.sight;
        let shared = sight.left_to_peers(self.routes);
        let names: BTreeSet<String> = services
            .iter()
            .flat_map(|service| slice_names(service))
            .collect();
        // By its name, too, should somebody have changed its label.
        let is_theirs = |spec: &SliceSpec| {
            services.contains(spec.service.as_str()) || names.contains(&spec.name)
        };
        let others: Vec<&Slice> = sight
            .slices
            .iter()
            .filter(|slice| is_ours(slice) && is_theirs(&slice.spec))
            .filter(|slice| !self.named.contains(&slice.spec.name))
            .filter(|slice| !shared.contains(slice.spec.service.as_str()))
            .collect();
        for slice in others {
            let service = &slice.spec.service;
            let kept = hand_over.kept(&slice.spec);
            if kept.is_some() {
                self.plan.kept.insert(service.clone());
            }
            self.write(service, kept, Some(slice));
        }
    }
}

fn is_ours(slice: &Slice) -> bool {
    slice.managed_by.as_deref() == Some(MANAGED_BY_NAPWAKE)
}

#[cfg(test)]
#[path = "slices_tests.rs"]
mod tests;
