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
mod names;
mod problems;

pub use self::{
    altered::{altered, is_known_again},
    names::{slice_name, slice_names},
};

use crate::{
    checks::{self, Need},
    clock,
    plan::{Over, Write},
    ports::{Claim, Taken},
    routing::{HandOver, Sight, Surveyed, Verdict, claim},
    settle::Settled,
    timing::{self, after},
    world::{
        DoormanPod, Listener, Service, ServicePort, Slice, SlicePort, SliceProblem, SliceSpec,
    },
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

/// Whether what a slice says of a route was checked: it has been routed, or another
/// workload has it. A slice that is there before may be from somebody who was lost.
fn is_known(route: &Route) -> bool {
    route.state == RouteState::Routed || route.taken_by.is_some()
}

fn serves(slices: &[SliceSpec], service: &str, name: &str, port: u16) -> bool {
    slices
        .iter()
        .filter(|slice| slice.service == service && !slice.endpoints.is_empty())
        .flat_map(|slice| &slice.ports)
        .any(|served| served.name == name && served.port == port)
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

/// One port of a slice that's wanted, and its route.
struct Wanted<'a> {
    port: SlicePort,
    route: &'a Route,
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
        let all = self.wanted_ports(service, ports, family);
        let (checks, again) = self.missing_checks(&all, family, found);
        // Made anew it'd refuse callers (DRAIN-06). Before its routes are on record it
        // can't be told whose it is; later, whether anybody listens is about to be known.
        let is_kept = all.is_empty() || !checks.is_empty();
        let is_whole = all.len() == ports.len();
        let full = self.spec(service, &name, family, &all, found);
        let standing = self.standing_ports(service, ports, family, found);
        let is_moving = standing.len() > all.len();
        let spec = if is_moving || self.is_worth_waiting(full.as_ref(), &all, found, family) {
            self.plan.is_complete = false;
            self.spec(service, &name, family, &standing, found)
        } else {
            self.plan.is_complete &= is_whole && full.is_some();
            full
        };
        self.plan.checks.extend(checks);
        self.plan.again.extend(again);
        self.plan.is_complete &= spec.is_some();
        match found.filter(|_| spec.is_none() && is_kept) {
            Some(kept) => self.keep(kept),
            None => self.write(&service.name, spec, found),
        }
    }

    /// The checks that are to be made now, and when others are due again.
    fn missing_checks(
        &self,
        ports: &[Wanted],
        family: IpFamily,
        found: Option<&Slice>,
    ) -> (Vec<Listener>, Vec<Timestamp>) {
        let (mut now, mut later) = (Vec::new(), Vec::new());
        for pod in self.sight.ready_pods() {
            for wanted in ports {
                match self.need(pod, family, wanted, found) {
                    Some((listener, Need::Now)) => now.push(listener),
                    Some((_, Need::At(at))) => later.push(at),
                    Some((_, Need::Nothing)) | None => {}
                }
            }
        }
        (now, later)
    }

    /// The ports whose routes the doorman has been told of, in the Service's
    /// order. One that is about to be left isn't among them.
    fn wanted_ports(
        &self,
        service: &Service,
        ports: &[&ServicePort],
        family: IpFamily,
    ) -> Vec<Wanted<'a>> {
        let wanted = ports.iter().filter_map(|port| {
            let taken = self.assigned.get(&claim(service, port))?;
            let mut routes = self.live_routes(service, port, family);
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
            let mut routes = self.live_routes(service, port, family);
            routes.find(|wanted| found.is_some_and(|slice| slice.spec.ports.contains(&wanted.port)))
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
    ) -> impl Iterator<Item = Wanted<'a>> {
        let routes = self.routes.iter().filter(move |route| {
            route.service == service.name
                && route.port.name == port.name
                && route.port.number == port.number
                && route.state != RouteState::Draining
                && route.families.contains(&family)
        });
        routes.map(|route| {
            let port = SlicePort {
                name: port.name.clone(),
                port: route.doorman_port,
                app_protocol: port.app_protocol.clone(),
            };
            Wanted { port, route }
        })
    }

    /// The slice with these ports and every doorman pod that listens on all of
    /// them; none without a port or a pod.
    fn spec(
        &self,
        service: &Service,
        name: &str,
        family: IpFamily,
        ports: &[Wanted],
        found: Option<&Slice>,
    ) -> Option<SliceSpec> {
        let are_named = endpoints::are_named(self.s.world, service, found);
        let mut endpoints: Vec<_> = self
            .sight
            .ready_pods()
            .filter(|pod| {
                ports
                    .iter()
                    .all(|wanted| self.listens(pod, family, wanted, found))
            })
            .filter_map(|pod| endpoints::endpoint(pod, family, are_named))
            .collect();
        endpoints.sort();
        let spec = SliceSpec {
            name: name.to_owned(),
            service: service.name.clone(),
            service_uid: service.uid.clone(),
            family,
            endpoints,
            ports: ports.iter().map(|wanted| wanted.port.clone()).collect(),
        };
        (!spec.endpoints.is_empty() && !spec.ports.is_empty()).then_some(spec)
    }

    /// Whether the slice with all ports should wait for doorman pods that don't
    /// listen on all of them yet.
    ///
    /// While one of the ports is new, for a moment; with none that does, for as
    /// long as it takes, and the ports that stand already go on standing.
    fn is_worth_waiting(
        &self,
        full: Option<&SliceSpec>,
        ports: &[Wanted],
        found: Option<&Slice>,
        family: IpFamily,
    ) -> bool {
        let Some(full) = full else {
            return true;
        };
        let able = self
            .sight
            .ready_pods()
            .filter(|pod| pod.addresses.contains_key(&family))
            .count();
        let newest = ports
            .iter()
            .filter(|wanted| found.is_none_or(|slice| !slice.spec.ports.contains(&wanted.port)))
            .filter_map(|wanted| wanted.route.opened_at.as_ref())
            .map(|opened| clock::since(opened.0, self.s.now))
            .max();
        full.endpoints.len() < able
            && newest.is_some_and(|opened| self.s.now < after(opened, timing::LAGGARD_BOUND))
    }

    /// Whether a doorman pod is known to listen on a port.
    fn listens(
        &self,
        pod: &DoormanPod,
        family: IpFamily,
        wanted: &Wanted,
        found: Option<&Slice>,
    ) -> bool {
        self.need(pod, family, wanted, found)
            .is_some_and(|(_, need)| need == Need::Nothing)
    }

    /// Whether a doorman pod is to be checked for a port; none where it has no
    /// address in the family.
    fn need(
        &self,
        pod: &DoormanPod,
        family: IpFamily,
        wanted: &Wanted,
        found: Option<&Slice>,
    ) -> Option<(Listener, Need)> {
        let address = pod.addresses.get(&family)?;
        let is_in = is_known(wanted.route)
            && found.is_some_and(|slice| {
                slice.spec.ports.contains(&wanted.port)
                    && slice
                        .spec
                        .endpoints
                        .iter()
                        .any(|one| one.is_of(pod, family))
            });
        let listener = Listener {
            pod: pod.pod.uid.clone(),
            address: *address,
            port: wanted.port.port,
        };
        let need = if is_in {
            Need::Nothing
        } else {
            let opened = wanted.route.opened_at.as_ref().map(|opened| opened.0);
            checks::need(
                &self.s.world.checks,
                &listener,
                opened.unwrap_or(Timestamp::MIN),
                self.s.now,
            )
        };
        Some((listener, need))
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
