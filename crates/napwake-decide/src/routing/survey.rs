//! Which Services select the pods, and which of their ports and families are
//! routed. A Service that can't be routed has one reason and its own cause.

use std::collections::BTreeSet;

use napwake_api::{
    condition::RouteReason,
    names::setting,
    workload::{IpFamily, RoutePort},
};

use super::{Sight, negs};
use crate::{
    ports::Claim,
    world::{Ingress, Protocol, Service, ServiceKind, ServicePort, Target, TrafficPolicy},
};

/// A Service that selects the pods.
#[derive(Clone, Debug)]
pub(crate) struct Surveyed<'w> {
    pub(crate) service: &'w Service,
    pub(crate) verdict: Verdict<'w>,
}

/// Whether a Service is to be routed.
#[derive(Clone, Debug)]
pub(crate) enum Verdict<'w> {
    /// These ports of it, in these families.
    Route {
        ports: Vec<&'w ServicePort>,
        families: Vec<IpFamily>,
        /// Families of the Service in which no doorman pod has an address (T-67).
        missing: Vec<IpFamily>,
    },
    /// Whether other workloads' pods serve it is still to be read.
    Wait,
    /// It isn't.
    Leave { reason: RouteReason, cause: String },
}

impl Verdict<'_> {
    /// Whether it's to be routed.
    pub(crate) const fn is_routable(&self) -> bool {
        matches!(self, Self::Route { .. })
    }

    /// Whether that can't be told yet.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self, Self::Wait)
    }
}

impl Surveyed<'_> {
    /// Whether it's this Service, and can't be told yet: it's left as it is.
    pub(crate) fn is_open_for(&self, service: &str) -> bool {
        self.verdict.is_open() && self.service.name == service
    }

    /// The ports it needs a doorman port for.
    pub(crate) fn claims(&self) -> Vec<Claim> {
        match &self.verdict {
            Verdict::Route { ports, .. } => {
                ports.iter().map(|port| claim(self.service, port)).collect()
            }
            Verdict::Wait | Verdict::Leave { .. } => Vec::new(),
        }
    }
}

/// The claim of one port of a Service.
pub(crate) fn claim(service: &Service, port: &ServicePort) -> Claim {
    Claim {
        service: service.name.clone(),
        port: RoutePort {
            name: port.name.clone(),
            number: port.number,
        },
    }
}

/// The Services that select its pods (F-137).
pub(crate) fn selecting<'w>(sight: &Sight<'w>, target: &Target) -> Vec<&'w Service> {
    sight
        .services
        .iter()
        .filter(|service| service.deleted.is_none() && target.is_selected_by(service))
        .collect()
}

/// Judges every Service that selects the pods.
///
/// Those that other workloads' Ready pods serve are taken out afterwards, by what is
/// read.
pub(crate) fn survey<'w>(sight: &Sight<'w>, target: &Target) -> Vec<Surveyed<'w>> {
    let families: BTreeSet<IpFamily> = sight
        .pods
        .iter()
        .flat_map(|pod| pod.addresses.keys().copied())
        .collect();
    selecting(sight, target)
        .into_iter()
        .map(|service| Surveyed {
            service,
            verdict: judge(service, &families, sight.ingresses),
        })
        .collect()
}

/// Whether a Service is routed by all that can be seen of it, before a doorman that has
/// addresses in these families.
pub(crate) fn judge<'w>(
    service: &'w Service,
    doorman: &BTreeSet<IpFamily>,
    ingresses: &[Ingress],
) -> Verdict<'w> {
    let leave = |reason, cause: &str| Verdict::Leave {
        reason,
        cause: cause.to_owned(),
    };
    match service.kind {
        // ROUTE-44, ROUTE-46: they count as absent (T-68).
        ServiceKind::Headless => return leave(RouteReason::NoServices, "it is headless"),
        ServiceKind::ExternalName => {
            return leave(RouteReason::NoServices, "it is an ExternalName");
        }
        ServiceKind::Proxied => {}
    }
    let ports = routable_ports(service);
    if ports.is_empty() {
        return leave(
            RouteReason::NoServices,
            "it has no TCP port outside napwake.dev/doorman-ignore-ports",
        );
    }
    if let Some(cause) = negs::in_negs(service, ingresses) {
        return leave(RouteReason::UnsupportedLoadBalancer, &cause); // ROUTE-54
    }
    if service.internal_traffic == TrafficPolicy::Local {
        return leave(
            RouteReason::NodeLocalTraffic,
            "its internalTrafficPolicy is Local",
        );
    }
    // Without any doorman pod its families can't be told.
    let has_family = |family: &&IpFamily| doorman.is_empty() || doorman.contains(family);
    let families: Vec<_> = service
        .families
        .iter()
        .filter(has_family)
        .copied()
        .collect();
    let missing: Vec<_> = service
        .families
        .iter()
        .filter(|family| !has_family(family))
        .copied()
        .collect();
    if families.is_empty() {
        return leave(
            RouteReason::UnsupportedIPFamily,
            "no doorman pod has an address in its IP family",
        );
    }
    Verdict::Route {
        ports,
        families,
        missing,
    }
}

/// The TCP ports that aren't on the Service's ignore list (ROUTE-22, ROUTE-47,
/// ROUTE-48).
fn routable_ports(service: &Service) -> Vec<&ServicePort> {
    let ignored = Ignored::of(service);
    service
        .ports
        .iter()
        .filter(|port| port.protocol == Protocol::Tcp && !ignored.has(port))
        .collect()
}

/// What of the ignore list may name a port, by name or by the number of the Service's
/// port (ROUTE-23, ROUTE-24). The list may have a hundred thousand entries, and the
/// Service a hundred ports: each entry is looked at once.
struct Ignored<'w> {
    names: BTreeSet<&'w str>,
    numbers: BTreeSet<u16>,
}

impl<'w> Ignored<'w> {
    /// By commas, spaces trimmed (T-70).
    fn of(service: &'w Service) -> Self {
        let list = service.annotations.get(setting::DOORMAN_IGNORE_PORTS);
        let entries = list.into_iter().flat_map(|list| list.split(','));
        let entries = entries.map(str::trim).filter(|entry| !entry.is_empty());
        let ports: BTreeSet<&str> = service.ports.iter().map(|port| &*port.name).collect();
        let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
        for entry in entries {
            numbers.extend(entry.parse::<u16>());
            names.extend(ports.get(entry).copied());
        }
        Self { names, numbers }
    }

    fn has(&self, port: &ServicePort) -> bool {
        self.names.contains(&*port.name) || self.numbers.contains(&port.number)
    }
}
