//! The course of a pause from its start to the scale-down: route, look out, stop.

use napwake_api::{
    names::event,
    workload::{PauseStatus, Phase, RouteState},
};

use crate::{
    clock,
    draft::{Draft, micro},
    owners::{self, Mark},
    render,
    routing::Outcome,
    settle::Settled,
    timing::{self, after},
    world::{Readiness, Target},
};

/// Brings a pause that is under way one step on.
///
/// Never scales down while anything it goes by is unknown, nor before the mark
/// is seen on the target.
pub(super) fn go_on(s: &Settled, target: &Target, outcome: Outcome, draft: &mut Draft) {
    let Some(pause) = draft.status.pause.clone() else {
        return;
    };
    if draft.status.phase != Some(Phase::Pausing) || target.replicas == 0 {
        return;
    }
    // Long before the scale-down, so that this isn't delayed by it.
    draft.mark(target, Some(target.replicas));
    match outcome {
        Outcome::Unknown => return,
        Outcome::Working if s.now < routing_bound(s, &pause) => {
            draft.again(routing_bound(s, &pause));
            return;
        }
        Outcome::Working | Outcome::Settled => {}
    }
    let routed_at = pause
        .routed_at
        .clone()
        .or_else(|| stands(draft).then(|| micro(s.now)));
    let pause = PauseStatus { routed_at, ..pause };
    draft.status.pause = Some(pause.clone());
    let until = lookout_end(s, &pause);
    let noticed = mark_bound(s, &pause);
    match until {
        Some(until) if s.now < until => draft.again(until),
        // It's about to be written, or seen.
        _ if s.mark != Mark::Replicas(target.replicas) => {}
        _ if target.observed_generation < target.generation && s.now < noticed => {
            draft.again(noticed);
        }
        _ => stop(s, target, pause, draft),
    }
}

/// Notes when a pause whose pods are stopped already is routed at last, and
/// says once each pause if nothing tells when a pod can serve (ROUTE-20).
pub(super) fn note_route(s: &Settled, draft: &mut Draft) {
    let stands = stands(draft);
    let Some(pause) = &mut draft.status.pause else {
        return;
    };
    if pause.routed_at.is_none() && pause.scaled_at.is_some() && stands {
        pause.routed_at = Some(micro(s.now));
    }
    let is_new = pause.routed_at.is_some()
        && s.status()
            .pause
            .as_ref()
            .is_none_or(|known| known.routed_at.is_none());
    let is_unprobed = s
        .target
        .is_some_and(|target| target.template.readiness == Readiness::Unprobed);
    if is_new && is_unprobed {
        draft.warning(event::NO_READINESS_PROBE, render::PROBE_ADVICE);
    }
}

fn routing_bound(s: &Settled, pause: &PauseStatus) -> jiff::Timestamp {
    after(
        clock::since(pause.started_at.0, s.now),
        timing::ROUTING_BOUND,
    )
}

fn mark_bound(s: &Settled, pause: &PauseStatus) -> jiff::Timestamp {
    after(clock::since(pause.started_at.0, s.now), timing::MARK_BOUND)
}

/// Whether any slice points at the doorman.
fn stands(draft: &Draft) -> bool {
    draft.status.doorman.as_ref().is_some_and(|doorman| {
        doorman
            .routes
            .iter()
            .any(|route| route.state == RouteState::Routed)
    })
}

/// Until when the route stands beside the pods: none where there's no route,
/// since nobody could be seen through it.
fn lookout_end(s: &Settled, pause: &PauseStatus) -> Option<jiff::Timestamp> {
    let lookout = s.workload().spec.lookout.signed();
    let span = lookout.max(timing::SLICE_SETTLES);
    pause
        .routed_at
        .as_ref()
        .map(|routed_at| after(routed_at.0, span))
}

/// Stops the pods. The status is written first: that fails if a stamp has come
/// in the meantime, it saves the replicas once more, and by it whoever ends this
/// pause knows that a scale-down may still come.
fn stop(s: &Settled, target: &Target, pause: PauseStatus, draft: &mut Draft) {
    draft.status.pause = Some(PauseStatus {
        // Anew each time, so that no scale-down goes without this write.
        scaled_at: Some(micro(s.now)),
        replicas: target.replicas,
        ..pause
    });
    draft.status.target = Some(owners::record(target));
    draft.scale_down(target);
}
