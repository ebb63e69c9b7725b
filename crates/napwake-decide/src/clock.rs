//! The idle clock: what counts as activity, which is the newest, and when the
//! workload will have been idle for long enough.
//!
//! Reads stamps, never a clock. Whether activity ends a pause is asked of it;
//! what follows is [`crate::lifecycle`]'s.

use jiff::Timestamp;
use napwake_api::{
    ManagedWorkloadStatus,
    names::signal,
    stamp::{LastRequest, Stamp},
    workload::{ActivitySource, ClockStatus, MicroTime},
};

use crate::{
    timing::{self, after},
    world::{Map, World},
};

/// Something that counts as use of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Activity {
    pub(crate) source: ActivitySource,
    pub(crate) stamp: Stamp,
}

impl Activity {
    /// Something that was found at `now`.
    pub(crate) fn found(source: ActivitySource, now: Timestamp) -> Self {
        Self {
            source,
            stamp: Stamp::now(now),
        }
    }
}

/// What the annotations say, read once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Signals {
    /// Use of the workload, as far as the annotations tell.
    pub(crate) activities: Vec<Activity>,
    /// A pause asked for.
    pub(crate) pause: Option<Stamp>,
    /// When the first stamp that lies too far ahead will count (T-12).
    pub(crate) due: Option<Timestamp>,
    /// What could not be read and is passed over, for people.
    pub(crate) unreadable: Vec<String>,
}

/// Reads the signals on the ManagedWorkload and on the target.
pub(crate) fn read(world: &World, now: Timestamp) -> Signals {
    let mut signals = Signals::default();
    let own = &world.workload.annotations;
    // Whoever stamps while a pause is on does so behind its start, by whatever
    // clock that was written.
    let started = world.workload.status.pause.as_ref();
    let now = started.map_or(now, |pause| pause.started_at.0.max(now));
    let target = world.target.known().map(|target| &target.annotations);
    signals.activity(own, signal::LAST_REQUEST, ActivitySource::Request, now);
    signals.activity(own, signal::ACTIVITY, ActivitySource::Annotation, now);
    if let Some(target) = target {
        signals.activity(target, signal::ACTIVITY, ActivitySource::Annotation, now);
    }
    signals.activity(own, signal::WAKE_REQUESTED, ActivitySource::Command, now);
    signals.pause = signals.stamp(own, signal::PAUSE_REQUESTED, now);
    signals
}

impl Signals {
    fn activity(&mut self, from: &Map, key: &str, source: ActivitySource, now: Timestamp) {
        if let Some(stamp) = self.stamp(from, key, now) {
            self.activities.push(Activity { source, stamp });
        }
    }

    /// The stamp of an annotation, unless it can't be read or lies too far
    /// ahead (T-12).
    fn stamp(&mut self, from: &Map, key: &str, now: Timestamp) -> Option<Stamp> {
        let text = from.get(key)?;
        // `last-request` has words behind its time; the others are bare times.
        let stamp = if key == signal::LAST_REQUEST {
            text.parse::<LastRequest>().map(|request| request.stamp)
        } else {
            text.parse::<Stamp>()
        };
        match stamp {
            Err(problem) => {
                self.unreadable.push(format!("{key}={text:?} {problem}"));
                None
            }
            Ok(stamp) if stamp.at() > after(now, timing::SKEW) => {
                let due = after(stamp.at(), -timing::SKEW);
                self.due = Some(self.due.map_or(due, |known| known.min(due)));
                None
            }
            Ok(stamp) => Some(stamp),
        }
    }

    /// The newest activity that counts as newer than `since` (T-127): one of
    /// the same microsecond does, since in doubt it wakes.
    pub(crate) fn newer_than(&self, since: Timestamp) -> Option<Activity> {
        self.activities
            .iter()
            .copied()
            .filter(|Activity { stamp, .. }| stamp.at() == since || stamp.is_newer_than(since))
            .max_by_key(|activity| activity.stamp.at())
    }

    /// Whether a pause is asked for that nothing has overtaken: neither an
    /// activity of a stamp, nor `last`, the newest recorded one.
    ///
    /// In doubt, as when one of two stamps of the same second is in whole
    /// seconds, activity beats the pause (T-127).
    pub(crate) fn pause_asked(&self, last: Timestamp) -> bool {
        let Some(pause) = self.pause else {
            return false;
        };
        let is_overtaken = |activity: Stamp| {
            let same_second = activity.at().as_second() == pause.at().as_second();
            activity.at() >= pause.at()
                || activity.is_newer_than(pause.at())
                || (same_second && pause.is_newer_than(activity.at()) && is_whole(pause))
        };
        !self
            .activities
            .iter()
            .map(|activity| activity.stamp)
            .chain([Stamp::now(last)])
            .any(is_overtaken)
    }
}

/// Since when use ends a pause that began at `started`.
///
/// One that begins further ahead than clocks may differ was written by a clock
/// that was wrong, and is over or another leader's by now. When it really began
/// can't be told, so that whatever is recent counts: in doubt it wakes.
pub(crate) fn since(started: Timestamp, now: Timestamp) -> Timestamp {
    if started > after(now, timing::SKEW) {
        after(now, -timing::SKEW)
    } else {
        started
    }
}

/// Whether a stamp may have been cut to whole seconds.
fn is_whole(stamp: Stamp) -> bool {
    stamp.is_newer_than(stamp.at())
}

/// Moves the recorded clock on to `activity`, where that's newer.
pub(crate) fn move_on(status: &mut ManagedWorkloadStatus, activity: Activity) {
    let at = activity.stamp.at();
    match &mut status.clock {
        Some(clock) if clock.last_activity.0 >= at => {}
        Some(clock) => {
            clock.last_activity = MicroTime(at);
            clock.last_activity_source = activity.source;
        }
        None => {
            status.clock = Some(ClockStatus {
                last_activity: MicroTime(at),
                last_activity_source: activity.source,
                running_since: None,
                idle_at: None,
            });
        }
    }
}

/// When the workload will have been idle for `idle_after`: counted from its
/// last activity, from when it became Running, and from when it began to wake
/// (T-128), whichever is last.
pub(crate) fn idle_at(
    status: &ManagedWorkloadStatus,
    idle_after: jiff::SignedDuration,
) -> Option<Timestamp> {
    let clock = status.clock.as_ref()?;
    let resumed = status.resume.as_ref().map(|resume| resume.started_at.0);
    let running = clock.running_since.as_ref().map(|since| since.0);
    let newest = [Some(clock.last_activity.0), running, resumed]
        .into_iter()
        .flatten()
        .max()?;
    Some(after(newest, idle_after))
}

#[cfg(test)]
#[path = "clock_tests.rs"]
mod tests;
