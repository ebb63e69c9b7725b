//! A door to stand before.

use std::{sync::LazyLock, time::Duration};

use jiff::Timestamp;
use napwake_api::workload::{Phase, WakeMode, WakePage};

use crate::{
    Moment,
    caller::Agents,
    head::{Head, HeadScan},
    places::WorkloadKey,
    serving::Serving,
    token::{Found, KEY_BYTES, Keys, ReadAt},
    verdict::{Door, Heard, Pods, Sleeper, Standing, Verdict, judge},
};

/// When every pause here began.
pub(super) const STARTED: &str = "2026-11-30T09:00:00.000001Z";

/// When everything here happens.
pub(super) const NOW: &str = "2026-11-30T10:00:00Z";

/// When every caller here came, with its keys long read.
pub(super) const CAME: Moment = Moment::new(Duration::from_hours(1));

static WORKLOAD: LazyLock<WorkloadKey> = LazyLock::new(|| WorkloadKey::new("preview-42", "api"));

pub(super) fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

pub(super) fn agents() -> Agents {
    Agents::with_added(["MyCorpMonitor/"]).expect("no empty prefix")
}

pub(super) fn sleeper(mode: WakeMode, phase: Phase) -> Sleeper<'static> {
    Sleeper {
        workload: &WORKLOAD,
        mode,
        page: WakePage::default(),
        max_wait: Duration::from_mins(2),
        phase,
        pause_started: time(STARTED),
        last_wake: None,
        is_pending: false,
        resuming_since: None,
    }
}

/// What is behind a door.
pub(super) struct Place {
    pub(super) sleepers: Vec<Sleeper<'static>>,
    pub(super) keys: Keys,
    pub(super) now: Timestamp,
    pub(super) came: Option<Moment>,
}

impl Default for Place {
    /// With a key and nobody in particular.
    fn default() -> Self {
        Self::with(&[])
    }
}

impl Place {
    pub(super) fn with(sleepers: &[Sleeper<'static>]) -> Self {
        let mut keys = Keys::default();
        let read = ReadAt {
            began: Moment::ORIGIN,
            done: Moment::ORIGIN,
        };
        let _seen = keys.found(Found::Key(&[1; KEY_BYTES]), read);
        Self {
            sleepers: sleepers.to_vec(),
            keys,
            now: time(NOW),
            came: Some(CAME),
        }
    }

    pub(super) fn door<'a>(&'a self, standing: Standing, agents: &'a Agents) -> Door<'a> {
        Door {
            standing,
            sleepers: &self.sleepers,
            agents,
            signer: self.keys.at(CAME),
            now: self.now,
            came: self.came,
        }
    }

    /// What the sender of these bytes gets, with no pod Ready.
    pub(super) fn judge<'b>(&self, bytes: &'b [u8]) -> Verdict<'b> {
        self.judge_head(HeadScan::new().look(bytes))
    }

    pub(super) fn judge_head<'b>(&self, head: Head<'b>) -> Verdict<'b> {
        let standing = Standing::of(&Serving::<()>::Live, Pods::NoneReady, &self.sleepers);
        judge_at(self, standing, &Heard::Head(head))
    }
}

pub(super) fn judge_at<'b>(place: &Place, standing: Standing, heard: &Heard<'b>) -> Verdict<'b> {
    judge(heard, &place.door(standing, &agents()))
}
