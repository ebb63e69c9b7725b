//! Words for people: what was found → conditions and event texts.
//!
//! The only place that has sentences. Decides nothing.

use std::collections::BTreeMap;

use jiff::Timestamp;
use napwake_api::{
    ManagedWorkloadStatus,
    condition::{self, ConditionType, ReadyReason, RouteReason, Status, TargetReason, Wanted},
    names::{event, setting},
    stamp,
    workload::{ActivitySource, ClockStatus, IpFamily, PauseReason},
};

use crate::{owners::Standing, ports::Shortage, settle::Settled};

/// A reason, and the words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding<R> {
    pub(crate) reason: R,
    /// Why, in a sentence.
    pub(crate) message: String,
}

/// ROUTE-15
pub(crate) const ROUTED: &str = "requests are held and wake the workload";
/// ROUTE-16
pub(crate) const ROUTED_ASK: &str = "the doorman asks a person's browser before waking the \
    workload, and turns away other requests";
/// ROUTE-18
pub(crate) const UNPROBED: &str = "no container has a readiness probe and there is no readiness \
    gate, so a request may reach the app before it can serve";
pub(crate) const DISABLED: &str = "the doorman is turned off for the cluster";
pub(crate) const UNAVAILABLE: &str = "no doorman pod is Ready";
pub(crate) const NOT_LISTENING: &str = "no Ready doorman pod accepts the operator's connections \
    on its doorman ports yet, which a NetworkPolicy may keep from it";
pub(crate) const BEING_ROUTED: &str = "its Services are being routed";
pub(crate) const NO_SERVICES: &str = "no Service selects its pods";
/// ROUTE-30
pub(crate) const SERVED: &str = "another workload's Ready pods serve it";
pub(crate) const PAUSED: &str = "Its pods are gone";
pub(crate) const RUNNING: &str = "It is awake: a pod of it is Ready";
/// ROUTE-76
const AT_LAST_PAUSE: &str = "at its last pause: ";
/// ROUTE-19: what to do about a missing readiness probe.
pub(crate) const PROBE_ADVICE: &str = "No container has a readiness probe and there is no \
    readiness gate, so held requests are passed on as soon as its containers run, maybe before \
    the app can serve. Give it a readinessProbe that passes only once it can: see \"Readiness \
    probes\" in the documentation of wake on request";

/// ROUTE-55: what to do about a Service in NEGs.
const LOAD_BALANCER_ADVICE: &str = "Requests through it fail while the workload is paused: see \
    \"On GKE\" in the documentation of wake on request";

pub(crate) fn pausing(reason: PauseReason) -> &'static str {
    match reason {
        PauseReason::Idle => "Nobody has used it for idleAfter: it is being paused",
        PauseReason::Requested => "A pause was asked for: it is being paused",
        PauseReason::Recovered => {
            "It was found at 0 replicas with Napwake's mark: its Services are routed again"
        }
    }
}

pub(crate) fn called_off(source: ActivitySource) -> String {
    format!("The pause is called off: {}", cause(source))
}

pub(crate) fn pause_overtaken(asked: Timestamp, clock: &ClockStatus) -> String {
    format!(
        "The pause asked for at {} isn't begun: {} at {}, which counts as later. To pause it all \
         the same, ask again",
        stamp::render(asked),
        cause(clock.last_activity_source),
        stamp::render(clock.last_activity.0),
    )
}

pub(crate) fn resuming(source: ActivitySource) -> String {
    format!("It is being woken: {}", cause(source))
}

fn cause(source: ActivitySource) -> &'static str {
    match source {
        ActivitySource::Request => "a request came",
        ActivitySource::Annotation => "napwake.dev/activity was set",
        ActivitySource::Command => "somebody asked for it",
        ActivitySource::Query => "its activity query is above the threshold",
        ActivitySource::Traffic => "its pods receive traffic",
        ActivitySource::Rollout => "its pod template was changed",
        ActivitySource::Scale => "its replicas were raised",
        ActivitySource::Dependent => "a workload that depends on it woke",
        ActivitySource::Started => "its pods are starting",
    }
}

/// A sentence with notes behind it.
pub(crate) fn with_notes(base: &str, notes: &[String]) -> String {
    let mut message = base.to_owned();
    for note in notes {
        message.push_str("; ");
        message.push_str(note);
    }
    message
}

pub(crate) fn left_out(service: &str, cause: &str) -> String {
    format!("Service {service} isn't routed: {cause}")
}

/// Who serves a Service.
pub(crate) fn not_read(why: &str) -> String {
    format!("whether other pods serve it can't be read: {why}")
}

pub(crate) fn no_family(service: &str, family: IpFamily) -> String {
    format!("Service {service} isn't routed in {family:?}, in which no doorman pod has an address")
}

/// A Service of which one family only isn't routed, though it's to be.
pub(crate) fn not_listening(service: &str, family: IpFamily) -> String {
    format!("Service {service} isn't routed in {family:?}: {NOT_LISTENING}")
}

pub(crate) fn publishes_all(service: &str) -> String {
    format!(
        "Service {service} publishes addresses of pods that aren't Ready, so callers that don't \
         reach the doorman may meet those"
    )
}

/// What keeps slices from being written, Service by Service.
pub(crate) fn problems(problems: &BTreeMap<String, String>) -> String {
    let lines: Vec<_> = problems
        .iter()
        .map(|(service, cause)| left_out(service, cause))
        .collect();
    lines.join("; ")
}

/// Why there are too few ports.
pub(crate) fn shortage(shortage: Shortage) -> (RouteReason, String) {
    match shortage {
        Shortage::NoFreePort => (
            RouteReason::NoFreePort,
            "every doorman port is in use".to_owned(),
        ),
        Shortage::Workload { ports, cap } => (
            RouteReason::TooManyPorts,
            format!(
                "it would hold {ports} doorman ports, over the {cap} that a workload may (Helm \
                 value doorman.portsPerWorkload): list some in {} on their Service",
                setting::DOORMAN_IGNORE_PORTS
            ),
        ),
        Shortage::Namespace { ports, cap } => (
            RouteReason::TooManyPorts,
            format!(
                "its namespace would hold {ports} doorman ports, over the {cap} that one may \
                 (Helm value doorman.portsPerNamespace)"
            ),
        ),
        Shortage::Drains { ports, most } => (
            RouteReason::TooManyPorts,
            format!(
                "with those that drain its namespace would hold {ports} doorman ports, over the \
                 {most} that one may meanwhile (twice the Helm value doorman.portsPerNamespace)"
            ),
        ),
    }
}

/// A problem of the last pause, once (ROUTE-76).
pub(crate) fn at_last_pause(message: &str) -> String {
    if message.starts_with(AT_LAST_PAUSE) {
        message.to_owned()
    } else {
        format!("{AT_LAST_PAUSE}{message}")
    }
}

/// Why it isn't paused (T-136).
pub(crate) fn not_paused(standing: &Standing) -> String {
    match standing {
        Standing::Managed => "the workload is awake".to_owned(),
        Standing::Missing => "the workload isn't there".to_owned(),
        Standing::AlreadyManaged(older) => {
            format!("the ManagedWorkload {older} manages the workload")
        }
        Standing::Owned(owner) => format!(
            "the workload is owned by {} {} and left to it",
            owner.kind, owner.name
        ),
        Standing::Ignored => "the workload carries napwake.dev/ignore".to_owned(),
        Standing::Suspended => "spec.suspend leaves the workload as it is".to_owned(),
        Standing::ScaledToZero => "somebody else scaled the workload to 0".to_owned(),
    }
}

/// Whether Napwake manages the workload.
fn ready(s: &Settled) -> Finding<ReadyReason> {
    let (reason, message) = match &s.standing {
        Standing::Suspended => (ReadyReason::Suspended, not_paused(&s.standing)),
        Standing::Managed => match &s.world.never_idle {
            Some(why) => (
                ReadyReason::InvalidSetting,
                format!("it isn't paused on its own: {why}"),
            ),
            None => (
                ReadyReason::Managed,
                "Napwake manages the workload".to_owned(),
            ),
        },
        other => (ReadyReason::TargetUnavailable, not_paused(other)),
    };
    let passed_over: Vec<_> = s
        .signals
        .unreadable
        .iter()
        .map(|problem| format!("{problem} and is passed over"))
        .collect();
    Finding {
        reason,
        message: with_notes(&message, &passed_over),
    }
}

/// Whether the target exists and may be scaled.
fn target(s: &Settled) -> Finding<TargetReason> {
    let reason = match &s.standing {
        Standing::Managed | Standing::Suspended => TargetReason::TargetFound,
        Standing::Missing => TargetReason::TargetNotFound,
        Standing::AlreadyManaged(_) => TargetReason::AlreadyManaged,
        Standing::Owned(_) => TargetReason::OwnedByController,
        Standing::Ignored => TargetReason::Ignored,
        Standing::ScaledToZero => TargetReason::TargetScaledToZero,
    };
    let target = &s.workload().spec.target_ref;
    let message = match &s.standing {
        Standing::Managed | Standing::Suspended => "the workload is there".to_owned(),
        Standing::Missing => format!("there is no {} {}", target.kind.as_str(), target.name),
        other => not_paused(other),
    };
    Finding { reason, message }
}

/// Puts what was found into a status as conditions; `wake_on_request` only where it's
/// told anew.
pub(crate) fn conditions(
    status: &mut ManagedWorkloadStatus,
    s: &Settled,
    wake_on_request: Option<Finding<RouteReason>>,
) {
    let is = |holds| if holds { Status::True } else { Status::False };
    let (ready, target) = (ready(s), target(s));
    let ready = Wanted {
        type_: ConditionType::Ready,
        status: is(ready.reason == ReadyReason::Managed),
        reason: ready.reason.to_string(),
        message: ready.message,
    };
    let target = Wanted {
        type_: ConditionType::TargetAvailable,
        status: is(target.reason == TargetReason::TargetFound),
        reason: target.reason.to_string(),
        message: target.message,
    };
    let wake = wake_on_request.map(|found| Wanted {
        type_: ConditionType::WakeOnRequest,
        status: is(found.reason == RouteReason::DoormanRouted),
        reason: found.reason.to_string(),
        message: found.message,
    });
    let generation = s.workload().generation;
    for wanted in [ready, target].into_iter().chain(wake) {
        let message = shorten(wanted.message);
        let wanted = Wanted { message, ..wanted };
        condition::set(&mut status.conditions, &wanted, Some(generation), s.now);
    }
}

/// Bytes that a message may have: as many as one of the API's own conditions.
const LONGEST_MESSAGE: usize = 32 * 1024;

/// A namespace may have more Services than a status can name: one that is too large is
/// refused, and all that it says besides with it.
fn shorten(mut message: String) -> String {
    const MARK: char = '…';
    if message.len() > LONGEST_MESSAGE {
        let end = LONGEST_MESSAGE - MARK.len_utf8();
        message.truncate(message.floor_char_boundary(end));
        message.push(MARK);
    }
    message
}

/// Warnings that go with a change of the conditions, once each. Of Services that a
/// load balancer keeps from being routed, once each pause (ROUTE-55).
pub(crate) fn warnings(
    s: &Settled,
    next: &ManagedWorkloadStatus,
    behind_load_balancers: &[String],
) -> Vec<(&'static str, String)> {
    let known = |status: &ManagedWorkloadStatus, type_| {
        condition::get(&status.conditions, type_)
            .map(|known| (known.reason.clone(), known.message.clone()))
    };
    let news =
        |type_| known(next, type_).filter(|new| known(s.status(), type_).as_ref() != Some(new));
    let failed = news(ConditionType::WakeOnRequest)
        .filter(|(reason, _)| *reason == RouteReason::RoutingFailed.to_string())
        .map(|(_, message)| (event::ROUTING_FAILED, message));
    let unreadable = news(ConditionType::Ready)
        .filter(|_| !s.signals.unreadable.is_empty())
        .map(|(_, message)| (event::INVALID_SETTING, message));
    let tells = |status: &ManagedWorkloadStatus, told: &str| {
        known(status, ConditionType::WakeOnRequest).is_some_and(|(_, message)| {
            !message.starts_with(AT_LAST_PAUSE) && message.contains(told)
        })
    };
    let left_out = behind_load_balancers
        .iter()
        .filter(|told| tells(next, told) && !tells(s.status(), told))
        .map(|told| {
            let note = format!("{told}. {LOAD_BALANCER_ADVICE}");
            (event::UNSUPPORTED_LOAD_BALANCER, note)
        });
    [failed, unreadable]
        .into_iter()
        .flatten()
        .chain(left_out)
        .collect()
}
