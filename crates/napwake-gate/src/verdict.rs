//! What is done with a caller: hold, pass, answer or close.
//!
//! Owns the decision, whether it wakes anything, and whether it counts as turned
//! away. Never carries it out. A held caller stays held, whatever the settings
//! become (T-102); it is judged again only when a pod becomes Ready.

use napwake_api::{
    stamp::RequestKind,
    workload::{Phase, WakeMode},
};

use crate::{
    answer::{Answer, AnswerKind, Body},
    caller::{self, Agents, BodyForm, Checker},
    head::{Head, Http1},
};

/// What was heard of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard<'a> {
    /// It sent something.
    Head(Head<'a>),
    /// It connected and sent nothing for [`crate::deadline::SILENCE`] (CLASS-04).
    Silence,
    /// It closed its connection, or shut its sending side, which looks the same
    /// (HOLD-33, HOLD-35), before it had said enough to be judged.
    Left,
}

/// One workload behind a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleeper {
    /// Who wakes it.
    pub mode: WakeMode,
    /// Where it stands.
    pub phase: Phase,
}

impl Sleeper {
    /// Whether a request that wakes wakes this one: not if it asks first, and
    /// not if there is nothing to wake (T-75, T-124). While it pauses, waking it
    /// calls the pause off (HOLD-11, T-04, T-74).
    pub fn is_woken_by_requests(self) -> bool {
        self.mode == WakeMode::Request && self.is_asleep()
    }

    /// Pausing without a Ready pod is as good as paused (T-05).
    fn is_asleep(self) -> bool {
        matches!(self.phase, Phase::Paused | Phase::Pausing)
    }
}

/// Whether any pod of the Service is Ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pods {
    /// At least one, whichever workload it belongs to (HOLD-10).
    Ready,
    /// None.
    NoneReady,
}

/// Whether a route still wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The Service is sent to the doorman.
    Serving,
    /// It no longer is, or the ManagedWorkload is gone: strays are passed or
    /// held, and nothing is woken or counted (DRAIN-19, T-79, T-111).
    Draining,
}

/// Where a route stands, which decides what its callers get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A pod is Ready: everything passes (CLASS-23, T-35).
    Served,
    /// A request is held, and wakes.
    Wakes,
    /// A request is held; there is nothing to wake.
    Waits,
    /// Every workload behind it is asleep and asks.
    Asks,
}

impl Standing {
    /// Where a route with these workloads stands.
    ///
    /// A request wakes all those in Request. Otherwise, once any of them is
    /// waking, it is held for that one (ASK-45). Only if all are asleep and ask
    /// does the doorman ask (T-75).
    pub fn of(route: Route, pods: Pods, workloads: &[Sleeper]) -> Self {
        if pods == Pods::Ready {
            Self::Served
        } else if route == Route::Draining || workloads.is_empty() {
            Self::Waits
        } else if workloads.iter().any(|one| one.is_woken_by_requests()) {
            Self::Wakes
        } else if workloads.iter().all(|one| one.is_asleep()) {
            Self::Asks
        } else {
            Self::Waits
        }
    }
}

/// What is done with a caller.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Wait for more of it.
    MoreNeeded,
    /// Pass it to a Ready pod, unread.
    Pass,
    /// Hold it until a pod is Ready.
    Hold(Wake),
    /// Answer it and close.
    Answer(Answer, Tally),
    /// Close it with nothing sent.
    Close(Tally),
}

/// Whether a request wakes.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// It wakes each workload behind the route that requests wake, as this kind.
    Yes(RequestKind),
    /// It wakes nothing.
    No,
}

/// Whether a caller counts as turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tally {
    /// AWAY-02, AWAY-03: it sent something, and the workload asks.
    TurnedAway,
    /// AWAY-05, T-28, T-46, T-47: anything else.
    NotCounted,
}

/// What is done with a caller of whom this was heard, on a route that stands so.
///
/// The same bytes get the same verdict from wherever they come (CLASS-33).
pub fn judge(heard: &Heard<'_>, standing: Standing, agents: &Agents) -> Verdict {
    match heard {
        Heard::Left => Verdict::Close(Tally::NotCounted),
        _ if standing == Standing::Served => Verdict::Pass,
        Heard::Head(Head::MoreNeeded) => Verdict::MoreNeeded,
        Heard::Head(Head::Http1(request)) => judge_request(request, standing, agents),
        Heard::Head(Head::HttpBegun) => held_or(
            standing,
            RequestKind::Request,
            turned_away(Body::Sent, BodyForm::Plain),
        ),
        Heard::Head(Head::Http2Preface | Head::Tls | Head::Other) => held_or(
            standing,
            RequestKind::Request,
            // ASK-42, ASK-43, ASK-83
            Verdict::Close(Tally::TurnedAway),
        ),
        Heard::Silence => held_or(
            standing,
            RequestKind::Request,
            // T-46: it asked for nothing, and may be a browser's spare connection.
            Verdict::Close(Tally::NotCounted),
        ),
    }
}

/// Whether a caller that was passed on calls off a pause, by a copy of its first
/// bytes or its silence; `None` until enough was heard (HOLD-11, T-02, T-03).
///
/// To be asked for each pausing workload behind the route. In Ask nothing that
/// is passed on wakes it (T-04).
pub fn would_wake(heard: &Heard<'_>, mode: WakeMode, agents: &Agents) -> Option<Wake> {
    if mode == WakeMode::Ask {
        return Some(Wake::No);
    }
    // As if no pod were Ready: only then are checkers and hidden files told apart.
    match judge(heard, Standing::Wakes, agents) {
        Verdict::MoreNeeded => None,
        Verdict::Hold(wake) => Some(wake),
        Verdict::Pass | Verdict::Answer(..) | Verdict::Close(_) => Some(Wake::No),
    }
}

fn judge_request(request: &Http1<'_>, standing: Standing, agents: &Agents) -> Verdict {
    let body = Body::to(request.method);
    // T-34: the agent first, on GET and HEAD; hidden files next, on any method.
    let own = match agents.checker(request.method, request.user_agent) {
        Some(Checker::Probe) => Some(AnswerKind::Probe),
        Some(Checker::GoogleHealthCheck) => Some(AnswerKind::GoogleHealthCheck),
        None => caller::is_hidden(request.target).then_some(AnswerKind::HiddenFile),
    };
    match own {
        Some(kind) => Verdict::Answer(Answer { kind, body }, Tally::NotCounted),
        None => held_or(standing, kind_of(request), turned_away(body, request.wants)),
    }
}

fn kind_of(request: &Http1<'_>) -> RequestKind {
    match request.user_agent {
        Some(agent) if caller::names_robot(agent) => RequestKind::Robot,
        _ => RequestKind::Request,
    }
}

fn held_or(standing: Standing, kind: RequestKind, asked: Verdict) -> Verdict {
    match standing {
        Standing::Served => Verdict::Pass,
        Standing::Wakes => Verdict::Hold(Wake::Yes(kind)),
        Standing::Waits => Verdict::Hold(Wake::No),
        Standing::Asks => asked,
    }
}

fn turned_away(body: Body, form: BodyForm) -> Verdict {
    let kind = AnswerKind::Asleep(form);
    Verdict::Answer(Answer { kind, body }, Tally::TurnedAway)
}

/// For fuzzing: whatever `bytes` are, a workload that asks holds nobody, and
/// whoever is answered gets an answer that says so.
#[doc(hidden)]
pub fn fuzz_verdict(bytes: &[u8]) {
    let heard = Heard::Head(crate::head::HeadScan::new().settle(bytes));
    match judge(&heard, Standing::Asks, &Agents::built_in()) {
        Verdict::Answer(answer, _) => assert!(answer.to_bytes().starts_with(b"HTTP/1.1 ")),
        verdict => assert!(matches!(verdict, Verdict::Close(Tally::TurnedAway))),
    }
}

#[cfg(test)]
mod tests;
