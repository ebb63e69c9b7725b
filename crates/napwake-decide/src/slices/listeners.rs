//! Which doorman pods are known to listen on the ports of a slice, and which are to be
//! connected to first (ROUTE-79).

use std::{collections::BTreeMap, net::IpAddr};

use jiff::Timestamp;
use napwake_api::workload::{IpFamily, Route, RouteState};

use crate::{
    checks::{self, Need},
    world::{Check, DoormanPod, Listener, Slice, SlicePort},
};

/// One port of a slice that's wanted, and its route.
pub(super) struct Wanted<'a> {
    pub(super) port: SlicePort,
    pub(super) route: &'a Route,
    /// Whether the slice that was found has it.
    pub(super) stands: bool,
}

impl<'a> Wanted<'a> {
    pub(super) fn new(port: SlicePort, route: &'a Route, found: Option<&Slice>) -> Self {
        let ports = found.map_or(&[][..], |slice| &slice.spec.ports);
        // Numbers first, as there are as many ports to look for as to look among.
        let stands = ports
            .iter()
            .any(|standing| standing.port == port.port && *standing == port);
        Self {
            port,
            route,
            stands,
        }
    }

    /// Whether what a slice says of the route was checked: it has been routed, or another
    /// workload has it. A slice that is there before may be from somebody who was lost.
    fn is_known(&self) -> bool {
        self.stands && (self.route.state == RouteState::Routed || self.route.taken_by.is_some())
    }
}

/// Those who may listen for one slice.
pub(super) struct Listeners<'a> {
    pub(super) family: IpFamily,
    doors: Vec<Door<'a>>,
    checks: &'a BTreeMap<Listener, Check>,
    now: Timestamp,
}

/// A Ready doorman pod with an address in the slice's family.
struct Door<'a> {
    pod: &'a DoormanPod,
    address: IpAddr,
    /// Whether the slice that was found names it.
    is_named: bool,
}

impl<'a> Listeners<'a> {
    pub(super) fn new(
        ready: impl Iterator<Item = &'a DoormanPod>,
        family: IpFamily,
        found: Option<&Slice>,
        checks: &'a BTreeMap<Listener, Check>,
        now: Timestamp,
    ) -> Self {
        let named = found.map_or(&[][..], |slice| &slice.spec.endpoints);
        let door = |pod: &'a DoormanPod| {
            Some(Door {
                pod,
                address: *pod.addresses.get(&family)?,
                is_named: named.iter().any(|endpoint| endpoint.is_of(pod, family)),
            })
        };
        Self {
            family,
            doors: ready.filter_map(door).collect(),
            checks,
            now,
        }
    }

    /// How many pods there are.
    pub(super) fn pods(&self) -> usize {
        self.doors.len()
    }

    /// The pods that are known to listen on all of the ports.
    pub(super) fn on_all(&self, ports: &[Wanted]) -> impl Iterator<Item = &'a DoormanPod> {
        let listens = |door: &Door| {
            let mut needs = ports.iter().map(|wanted| self.need(door, wanted).1);
            needs.all(|need| need == Need::Nothing)
        };
        let doors = self.doors.iter().filter(move |door| listens(door));
        doors.map(|door| door.pod)
    }

    /// The checks that are to be made now, and when others are due again.
    pub(super) fn missing(&self, ports: &[Wanted]) -> (Vec<Listener>, Vec<Timestamp>) {
        let (mut now, mut later) = (Vec::new(), Vec::new());
        for door in &self.doors {
            for wanted in ports {
                match self.need(door, wanted) {
                    (Some(listener), Need::Now) => now.push(listener),
                    (_, Need::At(at)) => later.push(at),
                    (_, Need::Now | Need::Nothing) => {}
                }
            }
        }
        (now, later)
    }

    /// Whether a doorman pod is to be checked for a port, and as whom.
    fn need(&self, door: &Door, wanted: &Wanted) -> (Option<Listener>, Need) {
        if door.is_named && wanted.is_known() {
            return (None, Need::Nothing);
        }
        let listener = Listener {
            pod: door.pod.pod.uid.clone(),
            address: door.address,
            port: wanted.port.port,
        };
        let opened = wanted.route.opened_at.as_ref().map(|opened| opened.0);
        let opened = opened.unwrap_or(Timestamp::MIN);
        let need = checks::need(self.checks, &listener, opened, self.now);
        (Some(listener), need)
    }
}
