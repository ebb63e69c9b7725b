//! What `WakeOnRequest` should say: the reason by T-133's order, and every
//! Service with its own cause (T-68).

use napwake_api::{
    condition::{self, ConditionType, RouteReason},
    workload::{DoormanStatus, IpFamily, RouteState, WakeMode},
};

use super::{Found, Mode, Surveyed, Verdict};
use crate::{
    clock,
    owners::Standing,
    render::{self, Finding},
    settle::Settled,
    slices::SlicePlan,
    timing::{self, after},
    world::{Publishes, Readiness},
};

/// Works out what the condition should say; none where it stays as it is.
pub(super) fn finding(
    s: &Settled,
    found: &Found,
    next: &DoormanStatus,
) -> Option<Finding<RouteReason>> {
    let Found {
        sight,
        mode,
        surveyed,
        shortage,
        plan,
    } = found;
    if *mode != Mode::Stand {
        return awake(s, plan, next);
    }
    let is_open = surveyed.iter().any(|one| one.verdict.is_open());
    if is_open && plan.problems.is_empty() && !is_new(s) {
        return None; // It's known in a moment.
    }
    let is_routable = is_open || surveyed.iter().any(|one| one.verdict.is_routable());
    let is_routed = next
        .routes
        .iter()
        .any(|route| route.state == RouteState::Routed);
    let (reason, message) = if sight.is_disabled {
        (RouteReason::DoormanDisabled, render::DISABLED.to_owned())
    } else if is_routable && sight.ready_pods().next().is_none() {
        (
            RouteReason::DoormanUnavailable,
            render::UNAVAILABLE.to_owned(),
        )
    } else if !plan.problems.is_empty() {
        (RouteReason::RoutingFailed, render::problems(&plan.problems))
    } else if let Some(shortage) = shortage {
        render::shortage(*shortage)
    } else if is_routed {
        (RouteReason::DoormanRouted, routed(s, found, next))
    } else if is_routable {
        opening(s)
    } else {
        unroutable(surveyed)
    };
    Some(Finding { reason, message })
}

/// Routed: what callers meet, and what should be known beside it (OBS-25).
fn routed(s: &Settled, found: &Found, next: &DoormanStatus) -> String {
    let mut notes = Vec::new();
    for surveyed in &found.surveyed {
        let name = &surveyed.service.name;
        match &surveyed.verdict {
            Verdict::Leave { reason, cause } if *reason != RouteReason::NoServices => {
                notes.push(render::left_out(name, cause));
            }
            Verdict::Leave { .. } | Verdict::Wait => {}
            Verdict::Route {
                families, missing, ..
            } => {
                notes.extend(
                    missing
                        .iter()
                        .map(|family| render::no_family(name, *family)),
                );
                notes.extend(not_listening(s, found, next, name, families));
                if surveyed.service.publishes == Publishes::AllPods {
                    notes.push(render::publishes_all(name));
                }
            }
        }
    }
    let is_unprobed = s
        .target
        .is_some_and(|target| target.template.readiness == Readiness::Unprobed);
    if is_unprobed {
        notes.push(render::UNPROBED.to_owned());
    }
    let base = match s.workload().spec.wake.mode {
        WakeMode::Request => render::ROUTED,
        WakeMode::Ask => render::ROUTED_ASK,
    };
    render::with_notes(base, &notes)
}

/// What of a Service isn't routed though it's to be, as no doorman pod is known to listen
/// for it: once that has lasted.
fn not_listening(
    s: &Settled,
    found: &Found,
    next: &DoormanStatus,
    service: &str,
    families: &[IpFamily],
) -> Vec<String> {
    let routes = next.routes.iter().filter(|route| route.service == service);
    let opened = routes.filter_map(|route| route.opened_at.as_ref()).max();
    let is_due = opened.is_some_and(|opened| {
        let opened = clock::since(opened.0, s.now);
        s.now >= after(opened, timing::ROUTING_BOUND)
    });
    let stands = |family: &&IpFamily| found.plan.stands(service, **family);
    let left: Vec<_> = families.iter().filter(|family| !stands(family)).collect();
    if !is_due || left.is_empty() {
        Vec::new()
    } else if left.len() == families.len() {
        vec![render::left_out(service, render::NOT_LISTENING)]
    } else {
        let left = left.into_iter();
        left.map(|family| render::not_listening(service, *family))
            .collect()
    }
}

/// What is told of the Services that a load balancer keeps from being routed, as the
/// condition has it.
pub(super) fn behind_load_balancers(surveyed: &[Surveyed]) -> Vec<String> {
    let told = surveyed.iter().filter_map(|one| match &one.verdict {
        Verdict::Leave { reason, cause } if *reason == RouteReason::UnsupportedLoadBalancer => {
            Some(render::left_out(&one.service.name, cause))
        }
        Verdict::Leave { .. } | Verdict::Wait | Verdict::Route { .. } => None,
    });
    told.collect()
}

/// Whether the pause has only just begun.
fn is_new(s: &Settled) -> bool {
    s.status().pause.as_ref().is_none_or(|pause| {
        pause.scaled_at.is_none() && s.now < after(pause.started_at.0, timing::ROUTING_BOUND)
    })
}

/// To be routed, and nothing is yet.
fn opening(s: &Settled) -> (RouteReason, String) {
    if is_new(s) {
        (RouteReason::NotPaused, render::BEING_ROUTED.to_owned())
    } else {
        (
            RouteReason::DoormanUnavailable,
            render::NOT_LISTENING.to_owned(),
        )
    }
}

/// None of its Services can be routed: the first reason by T-133.
fn unroutable(surveyed: &[Surveyed]) -> (RouteReason, String) {
    let causes: Vec<_> = surveyed
        .iter()
        .filter_map(|surveyed| match &surveyed.verdict {
            Verdict::Leave { reason, cause } => Some((*reason, &surveyed.service.name, cause)),
            Verdict::Route { .. } | Verdict::Wait => None,
        })
        .collect();
    let reason = causes
        .iter()
        .map(|(reason, ..)| *reason)
        .min()
        .unwrap_or(RouteReason::NoServices);
    let message = if causes.is_empty() {
        render::NO_SERVICES.to_owned()
    } else {
        let causes: Vec<_> = causes
            .iter()
            .map(|(_, name, cause)| render::left_out(name, cause))
            .collect();
        causes.join("; ")
    };
    (reason, message)
}

/// Awake, or left alone.
fn awake(s: &Settled, plan: &SlicePlan, next: &DoormanStatus) -> Option<Finding<RouteReason>> {
    let known = condition::get(&s.status().conditions, ConditionType::WakeOnRequest);
    let is_live = next
        .routes
        .iter()
        .any(|route| route.state != RouteState::Draining);
    if known.is_some() && is_live && plan.any_present() {
        return None; // T-120: as it was, until the slices are gone.
    }
    let kept = known
        .filter(|known| s.standing == Standing::Managed && known.status == "False")
        .and_then(|known| Some((kept(&known.reason)?, known.message.as_str())));
    Some(match kept {
        Some((reason, message)) => Finding {
            reason,
            message: render::at_last_pause(message),
        },
        None => Finding {
            reason: RouteReason::NotPaused,
            message: render::not_paused(&s.standing),
        },
    })
}

/// The problems with Services that stay on the condition of an awake workload
/// (ROUTE-76, ROUTE-77).
fn kept(reason: &str) -> Option<RouteReason> {
    [
        RouteReason::ServedByOtherPods,
        RouteReason::NodeLocalTraffic,
        RouteReason::UnsupportedIPFamily,
        RouteReason::UnsupportedLoadBalancer,
        RouteReason::TooManyPorts,
    ]
    .into_iter()
    .find(|kept| kept.to_string() == reason)
}
