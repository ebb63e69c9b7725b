//! Services that other workloads' pods serve: those aren't routed (ROUTE-28).
//!
//! Goes by what was read of a Service's own slices in this pause (ROUTE-40). Those
//! are read again every half a minute while others serve it (ROUTE-36), and at once
//! when somebody behind it wakes or goes. In doubt everything stays as it is: what
//! is routed stays routed, as the doorman passes callers on to whoever is Ready.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use napwake_api::{
    condition::RouteReason,
    workload::{Phase, RouteState, TargetRef},
};

use super::{Sight, Surveyed, Verdict};
use crate::{
    behind::{Behind, Owner, ReadFailure, Reading},
    clock, render,
    settle::Settled,
    timing::{self, after},
};

/// What is to be found out about those behind the Services.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    /// Services of which it's to be read now who serves them.
    pub(super) asks: BTreeSet<String>,
    /// When it will have to be.
    pub(super) again: Vec<Timestamp>,
    /// By Service that isn't routed for it, why that can't be told.
    pub(super) problems: BTreeMap<String, String>,
}

/// Whether the others leave a Service to this workload.
#[derive(Debug, PartialEq, Eq)]
enum Stance {
    /// Nobody else's pods serve it.
    Free,
    /// Somebody's do.
    Served,
    /// It hasn't been read in this pause.
    Unread,
}

/// Takes out of `surveyed` what others serve, and what can't be told yet.
pub(super) fn judge(s: &Settled, sight: &Sight, surveyed: &mut [Surveyed]) -> Sharing {
    let mut sharing = Sharing::default();
    let own = owner(&s.workload().spec.target_ref);
    let absent = absent(&own, sight);
    for one in surveyed {
        if !matches!(one.verdict, Verdict::Route { .. }) {
            continue;
        }
        let service = &one.service.name;
        let none = Behind::default();
        let view = View {
            behind: s.world.behind.get(service).unwrap_or(&none),
            own: &own,
            absent: &absent,
            began: began(s),
            stands: stands(s, service),
            now: s.now,
        };
        let due = view.due();
        if due <= s.now {
            sharing.asks.insert(service.clone());
            // Unless the answer comes before.
            sharing.again.push(after(s.now, timing::LOOK_AGAIN));
        } else if due < Timestamp::MAX {
            sharing.again.push(due);
        }
        match view.stance() {
            Stance::Free => {}
            Stance::Unread if view.stands => {}
            Stance::Served => {
                one.verdict = Verdict::Leave {
                    reason: RouteReason::ServedByOtherPods,
                    cause: render::SERVED.to_owned(),
                };
            }
            Stance::Unread => {
                one.verdict = Verdict::Wait;
                let problem = view.failure().map(|failure| render::not_read(&failure.why));
                sharing
                    .problems
                    .extend(problem.map(|problem| (service.clone(), problem)));
            }
        }
    }
    sharing
}

/// Whose pods don't count: this workload's own, and those of others that go to
/// sleep, of which two would else wait for each other.
fn absent(own: &Owner, sight: &Sight) -> BTreeSet<Owner> {
    let asleep = sight
        .peers
        .iter()
        .filter(|peer| matches!(peer.phase, Some(Phase::Pausing | Phase::Paused)))
        .map(|peer| owner(&peer.target));
    asleep.chain([own.clone()]).collect()
}

fn owner(target: &TargetRef) -> Owner {
    Owner::Target(target.kind, target.name.clone())
}

/// Since when a read counts: the start of the pause.
fn began(s: &Settled) -> Timestamp {
    let pause = s.status().pause.as_ref();
    // One that is only about to begin: nothing counts yet.
    pause.map_or(Timestamp::MAX, |pause| {
        clock::since(pause.started_at.0, s.now)
    })
}

/// Whether the Service has a route that isn't leaving.
fn stands(s: &Settled, service: &str) -> bool {
    let doorman = s.status().doorman.as_ref();
    let mut routes = doorman.into_iter().flat_map(|doorman| &doorman.routes);
    routes.any(|route| route.service == service && route.state != RouteState::Draining)
}

/// What one decision goes by.
struct View<'a> {
    behind: &'a Behind,
    own: &'a Owner,
    absent: &'a BTreeSet<Owner>,
    began: Timestamp,
    stands: bool,
    now: Timestamp,
}

impl View<'_> {
    /// What was read in this pause.
    fn read(&self) -> Option<&Reading> {
        let read = self.behind.read.as_ref();
        read.filter(|read| read.at >= self.began)
    }

    /// The failures to read it in this pause.
    fn failure(&self) -> Option<&ReadFailure> {
        let failure = self.behind.failure.as_ref();
        failure.filter(|failure| failure.at >= self.began)
    }

    fn stance(&self) -> Stance {
        let Some(read) = self.read() else {
            return Stance::Unread;
        };
        if !self.are_there(&read.serving) {
            return Stance::Free;
        }
        // What stands goes by what is seen at this moment only: who served it a while
        // ago may have slept since, and be about to wake.
        if self.stands && !self.is_fresh(read) {
            return Stance::Unread;
        }
        Stance::Served
    }

    fn are_there(&self, owners: &BTreeSet<Owner>) -> bool {
        owners.iter().any(|one| !self.absent.contains(one))
    }

    fn is_fresh(&self, read: &Reading) -> bool {
        self.now <= after(read.at, timing::LOOK_AGAIN)
    }

    /// When it's to be read: at once where that is past, never at the end of time.
    fn due(&self) -> Timestamp {
        let first = match self.read() {
            None => Timestamp::MIN,
            Some(read) => self.next(read),
        };
        let retry = self
            .failure()
            .map(|failure| after(failure.at, timing::retry_after(failure.count)));
        retry.map_or(first, |retry| first.max(retry))
    }

    /// When it's to be read after this read.
    fn next(&self, read: &Reading) -> Timestamp {
        let others = |awake: &BTreeSet<Owner>| {
            let others = awake.iter().filter(|one| *one != self.own);
            others.cloned().collect::<BTreeSet<_>>()
        };
        let is_changed = others(&read.awake) != others(&self.behind.awake);
        if is_changed || self.stance() == Stance::Unread {
            return Timestamp::MIN;
        }
        if self.are_there(&read.serving) {
            return after(read.at, timing::OTHERS_AGAIN);
        }
        // Somebody is awake whom the slices don't name yet, or never will.
        if self.are_there(&read.awake) {
            let age = read.at.duration_since(read.since);
            let wait = age.clamp(FIRST_LOOK, timing::OTHERS_AGAIN);
            return after(read.at, wait);
        }
        Timestamp::MAX
    }
}

/// How soon it's read again at first for somebody who is awake: later and later.
const FIRST_LOOK: SignedDuration = timing::READ_AGAIN.0;

#[cfg(test)]
#[path = "sharing_tests.rs"]
mod tests;
