//! Running, Pausing, Paused, Resuming: when each is left, and what happens then.
//!
//! Goes by [`Settled`] alone. Routes are [`crate::routing`]'s; this module asks
//! of it only whether they stand.

use jiff::Timestamp;
use napwake_api::{
    names::event,
    workload::{ActivitySource, PauseReason, PauseStatus, Phase, ResumeStatus},
};

use crate::{
    clock::{self, Activity},
    draft::{Draft, micro},
    owners::{self, Change, Mark, Standing},
    ports::Ports,
    render,
    routing::{self, Mode},
    settle::{Fate, Settled},
    timing::{self, after},
    turned_away,
    world::{Seen, Target},
};

mod aside;
mod asked;
mod leaving;
mod pause;

/// Drafts the next step for a workload.
pub(crate) fn step(s: &Settled, ports: &mut Ports) -> Draft {
    let mut draft = Draft::new(s.status());
    match (s.fate, &s.standing, s.target) {
        (Fate::Lost, _, _) => leaving::lost(s, &mut draft),
        (Fate::Leaves, Standing::AlreadyManaged(_), _) => aside::step(s, &mut draft),
        (Fate::Leaves, _, Some(target)) => leaving::wake_first(s, target, &mut draft),
        (Fate::Stays, Standing::Managed, Some(target)) => managed(s, target, &mut draft),
        (Fate::Stays, _, Some(target)) if aside::is_woken_first(s) => {
            leaving::wake_first(s, target, &mut draft);
        }
        _ => aside::step(s, &mut draft),
    }
    let routing = routing::route(s, ports, mode(s, &draft));
    let outcome = routing.into_draft(&mut draft, s);
    if let (Some(Phase::Pausing), Some(target)) = (s.phase(), s.target) {
        pause::go_on(s, target, outcome, &mut draft);
    }
    pause::note_route(s, &mut draft);
    set_idle_at(s, &mut draft);
    turned_away::note(s, &mut draft.status);
    if let Some(due) = s.signals.due {
        draft.again(due);
    }
    draft
}

/// Whether the routes should stand, leave, or be gone.
fn mode(s: &Settled, draft: &Draft) -> Mode {
    match draft.status.phase {
        _ if s.fate == Fate::Lost => Mode::Vanish,
        Some(Phase::Pausing | Phase::Paused) => Mode::Stand,
        Some(Phase::Resuming) if draft.status.pause.is_some() => Mode::Stand,
        Some(Phase::Running) if s.is_ready() => hand_over(s, draft),
        _ => Mode::Leave,
    }
}

/// How routes leave that a workload with a Ready pod doesn't need any more.
fn hand_over(s: &Settled, draft: &Draft) -> Mode {
    let clock = draft.status.clock.as_ref();
    let since = clock.and_then(|clock| clock.running_since.as_ref());
    // One that lies far ahead is by a clock that was wrong, and ends nothing.
    let counts = |since: &Timestamp| {
        s.now < after(*since, timing::HAND_OVER_BOUND) && *since <= after(s.now, timing::SKEW)
    };
    since
        .map(|since| since.0)
        .filter(counts)
        .map_or(Mode::Leave, Mode::HandOver)
}

fn managed(s: &Settled, target: &Target, draft: &mut Draft) {
    match s.phase() {
        None => first_seen(s, target, draft),
        Some(_) if s.change == Change::New => first_seen(s, target, draft),
        Some(Phase::Running) => running(s, target, draft),
        Some(Phase::Pausing) => pausing(s, target, draft),
        Some(Phase::Paused) => paused(s, target, draft),
        Some(Phase::Resuming) => resuming(s, target, draft),
    }
    asked::answer(s, draft);
}

/// A workload that was never looked at, or another one under the same name
/// (T-128).
fn first_seen(s: &Settled, target: &Target, draft: &mut Draft) {
    draft.status.pause = None;
    draft.status.resume = None;
    if target.replicas > 0 {
        begin(s, target, draft);
        return;
    }
    // At 0 with the mark: paused by Napwake, whose ManagedWorkload was lost.
    let asked = s.signals.newer_than(s.workload().created);
    match (s.phase(), asked) {
        (None, Some(activity)) => wake(s, target, activity, draft),
        _ => recover(s, target, draft),
    }
}

/// Takes up a workload that has pods: Running if one is Ready.
fn begin(s: &Settled, target: &Target, draft: &mut Draft) {
    clock::move_on(
        &mut draft.status,
        Activity::found(ActivitySource::Started, s.now),
    );
    draft.record(target);
    if s.is_ready() {
        become_running(s, target, draft);
    } else {
        become_resuming(s.now, ActivitySource::Started, draft);
    }
}

/// Takes up a workload at 0 that Napwake has paused: its route is made afresh.
fn recover(s: &Settled, target: &Target, draft: &mut Draft) {
    clock::move_on(
        &mut draft.status,
        Activity::found(ActivitySource::Started, s.now),
    );
    draft.status.phase = Some(Phase::Pausing);
    draft.status.resume = None;
    draft.status.pause = Some(PauseStatus {
        started_at: micro(s.now),
        routed_at: None,
        scaled_at: Some(micro(s.now)),
        paused_at: None,
        reason: PauseReason::Recovered,
        replicas: s.replicas_before(),
    });
    draft.status.target = Some(owners::record(target));
    draft.event(event::PAUSING, render::pausing(PauseReason::Recovered));
}

fn running(s: &Settled, target: &Target, draft: &mut Draft) {
    if target.replicas == 0 {
        recover(s, target, draft);
        return;
    }
    draft.mark(target, None);
    note_use(s, target, draft);
    let is_new = draft
        .status
        .clock
        .as_ref()
        .is_none_or(|clock| clock.running_since.is_none());
    if is_new {
        begin(s, target, draft);
    } else if let Some(reason) = pause_due(s, draft) {
        start_pause(s, target, reason, draft);
    }
}

fn resuming(s: &Settled, target: &Target, draft: &mut Draft) {
    if target.replicas == 0 {
        // Marked still, so the scale-up never came: once more.
        let source = draft
            .status
            .resume
            .as_ref()
            .map_or(ActivitySource::Started, |resume| resume.source);
        wake(s, target, Activity::found(source, s.now), draft);
        return;
    }
    draft.mark(target, None);
    note_use(s, target, draft);
    // A pause that is asked for wins over a pod that has just become Ready:
    // both are seen, and the asking is the later wish (T-128).
    if let Some(reason) = pause_due(s, draft) {
        start_pause(s, target, reason, draft);
    } else if s.is_ready() {
        become_running(s, target, draft);
    }
}

fn pausing(s: &Settled, target: &Target, draft: &mut Draft) {
    let Some(pause) = draft.status.pause.clone() else {
        become_running(s, target, draft);
        return;
    };
    if let Some(activity) = called_off_by(s, target, &pause) {
        draft.event(event::PAUSE_CALLED_OFF, render::called_off(activity.source));
        wake(s, target, activity, draft);
        return;
    }
    if target.replicas > 0 {
        return; // `pause::go_on` has the rest, once it's known how routing stands.
    }
    if pause.scaled_at.is_none() {
        // Not by us: somebody else was quicker. The mark follows what they did
        // before that; the status says how the pause began.
        let replicas = match s.mark {
            Mark::Replicas(replicas) => replicas,
            Mark::None | Mark::Spoilt => pause.replicas,
        };
        draft.status.pause = Some(PauseStatus {
            scaled_at: Some(micro(s.now)),
            replicas,
            ..pause
        });
        return;
    }
    await_pods_gone(s, target, pause, draft);
}

/// Paused once no pod is left, terminating ones included.
fn await_pods_gone(s: &Settled, target: &Target, pause: PauseStatus, draft: &mut Draft) {
    match &s.world.pods {
        Seen::Unknown(why) => draft.unknown(format!("its pods can't be counted: {why}"), s.now),
        Seen::Known(left) if *left > 0 => draft.again(after(s.now, timing::COUNT_AGAIN)),
        Seen::Known(_) | Seen::Absent => {
            draft.status.phase = Some(Phase::Paused);
            draft.status.pause = Some(PauseStatus {
                paused_at: Some(micro(s.now)),
                ..pause
            });
            draft.status.target = Some(owners::record(target));
            draft.event(event::PAUSED, render::PAUSED);
        }
    }
}

/// What ends a pause before its pods are gone: activity newer than its start,
/// by a stamp or by what others did to the workload.
fn called_off_by(s: &Settled, target: &Target, pause: &PauseStatus) -> Option<Activity> {
    if let Some(activity) = newer_than_start(s, pause) {
        return Some(activity);
    }
    let known = s.status().target.as_ref()?;
    // Our own scale-down is one change of the spec; replicas after two are
    // somebody else's.
    let was_raised = pause.scaled_at.is_some()
        && target.replicas > 0
        && target.generation > known.generation + 1;
    match s.change {
        Change::Raised => Some(Activity::found(ActivitySource::Scale, s.now)),
        Change::Rollout => Some(Activity::found(ActivitySource::Rollout, s.now)),
        Change::New | Change::None if was_raised => {
            Some(Activity::found(ActivitySource::Scale, s.now))
        }
        Change::New | Change::None => None,
    }
}

/// The newest activity since a pause began.
fn newer_than_start(s: &Settled, pause: &PauseStatus) -> Option<Activity> {
    let since = clock::since(pause.started_at.0, s.now);
    s.signals.newer_than(since)
}

fn paused(s: &Settled, target: &Target, draft: &mut Draft) {
    let Some(pause) = draft.status.pause.clone() else {
        recover(s, target, draft);
        return;
    };
    if let Some(activity) = newer_than_start(s, &pause) {
        wake(s, target, activity, draft);
    } else if target.replicas > 0 {
        // LIFE-09
        wake(
            s,
            target,
            Activity::found(ActivitySource::Scale, s.now),
            draft,
        );
    } else {
        // Its generation too: by it a wake knows that this is still that sleep.
        draft.status.target = Some(owners::record(target));
        draft.mark(target, Some(pause.replicas));
    }
}

/// Wakes the workload: one scale write, unless it has replicas already.
fn wake(s: &Settled, target: &Target, activity: Activity, draft: &mut Draft) {
    clock::move_on(&mut draft.status, activity);
    if target.replicas > 0 {
        draft.mark(target, None);
        draft.status.target = Some(owners::record(target));
    } else {
        draft.scale_up(s, target);
    }
    if target.replicas > 0 && s.is_ready() {
        become_running(s, target, draft);
    } else {
        become_resuming(s.now, activity.source, draft);
    }
}

fn become_running(s: &Settled, target: &Target, draft: &mut Draft) {
    draft.status.phase = Some(Phase::Running);
    draft.status.pause = None;
    draft.status.resume = None;
    if let Some(clock) = &mut draft.status.clock {
        clock.running_since = Some(micro(s.now));
    }
    draft.mark(target, None);
    draft.event(event::RUNNING, render::RUNNING);
}

fn become_resuming(now: Timestamp, source: ActivitySource, draft: &mut Draft) {
    if draft.status.phase == Some(Phase::Resuming) {
        return; // Counted from the first time (T-121).
    }
    draft.status.phase = Some(Phase::Resuming);
    draft.status.resume = Some(ResumeStatus {
        started_at: micro(now),
        source,
    });
    draft.event(event::RESUMING, render::resuming(source));
}

/// Moves the clock on by what was seen, and records the target as it is.
fn note_use(s: &Settled, target: &Target, draft: &mut Draft) {
    match s.change {
        Change::Raised => clock::move_on(
            &mut draft.status,
            Activity::found(ActivitySource::Scale, s.now),
        ),
        Change::Rollout => clock::move_on(
            &mut draft.status,
            Activity::found(ActivitySource::Rollout, s.now),
        ),
        Change::New | Change::None => {}
    }
    for activity in &s.signals.activities {
        clock::move_on(&mut draft.status, *activity);
    }
    draft.record(target);
}

/// Why the workload should pause now, if it should.
fn pause_due(s: &Settled, draft: &Draft) -> Option<PauseReason> {
    let last = draft.status.clock.as_ref()?.last_activity.0;
    if s.signals.pause_asked(last) && !asked::is_answered(s) {
        return Some(PauseReason::Requested);
    }
    let is_idle = s.world.never_idle.is_none()
        && clock::idle_at(&draft.status, s.workload().spec.idle_after.signed())
            .is_some_and(|idle_at| idle_at <= s.now);
    is_idle.then_some(PauseReason::Idle)
}

fn start_pause(s: &Settled, target: &Target, reason: PauseReason, draft: &mut Draft) {
    draft.status.phase = Some(Phase::Pausing);
    draft.status.resume = None;
    draft.status.pause = Some(PauseStatus {
        started_at: micro(s.now),
        routed_at: None,
        scaled_at: None,
        paused_at: None,
        reason,
        replicas: target.replicas.max(1),
    });
    if let Some(clock) = &mut draft.status.clock {
        clock.running_since = None;
    }
    draft.event(event::PAUSING, render::pausing(reason));
}

/// Says when the workload will have been idle for long enough, while that counts.
fn set_idle_at(s: &Settled, draft: &mut Draft) {
    let counts = s.fate == Fate::Stays
        && s.standing == Standing::Managed
        && s.world.never_idle.is_none()
        && matches!(draft.status.phase, Some(Phase::Running | Phase::Resuming));
    let idle_at = counts
        .then(|| clock::idle_at(&draft.status, s.workload().spec.idle_after.signed()))
        .flatten();
    if let Some(clock) = &mut draft.status.clock {
        clock.idle_at = idle_at.map(micro);
    }
    if let Some(idle_at) = idle_at {
        draft.again(idle_at);
    }
}

#[cfg(test)]
mod tests;
