//! What came of a pause that was asked for, so that none is dropped in silence.

use napwake_api::{
    names::event,
    workload::{PauseAnswer, PauseAsked, Phase},
};

use crate::{
    draft::{Draft, micro},
    render,
    settle::Settled,
};

/// Records what came of the pause that was asked for last, once that is clear,
/// and says so where activity has overtaken it (T-127).
pub(super) fn answer(s: &Settled, draft: &mut Draft) {
    let Some(asked) = s.signals.pause.map(|stamp| micro(stamp.at())) else {
        return;
    };
    let Some(clock) = &draft.status.clock else {
        return;
    };
    if is_answered(s) {
        return;
    }
    let answer = match draft.status.phase {
        Some(Phase::Pausing | Phase::Paused) => PauseAnswer::Taken,
        // The next look begins it.
        _ if s.signals.pause_asked(clock.last_activity.0) => return,
        _ => PauseAnswer::Overtaken,
    };
    if answer == PauseAnswer::Overtaken {
        let note = render::pause_overtaken(asked.0, clock);
        draft.warning(event::PAUSE_OVERTAKEN, note);
    }
    draft.status.pause_asked = Some(PauseAsked { at: asked, answer });
}

/// Whether it's known what came of the pause that was asked for last. Then it
/// begins no other one: by a clock that runs ahead it may seem newer than what
/// called it off (T-12).
pub(super) fn is_answered(s: &Settled) -> bool {
    let asked = s.signals.pause.map(|stamp| micro(stamp.at()));
    let known = s.status().pause_asked.as_ref();
    known.is_some_and(|known| Some(&known.at) == asked.as_ref())
}

#[cfg(test)]
#[path = "asked_tests.rs"]
mod tests;
