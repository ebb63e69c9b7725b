//! One click on one workload: read, judged, and written over what was read.
//!
//! Owns that two clicks at the same instant, at whichever pods, lead to one stamp
//! (T-10): those at one pod are carried out in turn; of those at several, the write
//! carries the version that was read, and the one that comes too late reads and judges
//! anew. What couldn't be written is tried again apart
//! from whoever clicked (T-62, T-63, T-112).

use std::sync::Arc;

use napwake_cluster::plain;
use napwake_gate::click::{Press, press};
use napwake_gate::deadline::WAKE_RETRY;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep};

use super::pursuit::{Pursuit, stamp};
use super::slot::{ClickTurn, Joiner, Wanted};
use super::{Obstacle, Shared, StampError, StampValue, Stamper, log_stamp};
use crate::calls::TRIES;
use crate::routes::{Pause, Workload};

/// A click that is carried out.
#[derive(Debug)]
pub(super) struct Click<S> {
    shared: Arc<Shared<S>>,
    /// For whom it is written: who clicked, or who joined.
    joiner: Joiner,
    /// As it was when the click was judged good.
    workload: Arc<Workload>,
    /// The pause that the click's token is for.
    pause: Pause,
    until: Instant,
    /// Whether the allowance was charged. It is once, however often the write is
    /// tried.
    is_charged: bool,
}

/// What came of a try.
enum Tried {
    Pressed(Press),
    NotYet(Obstacle),
}

impl<S: Stamper> Click<S> {
    pub(super) fn new(
        shared: Arc<Shared<S>>,
        joiner: Joiner,
        (workload, pause): (Arc<Workload>, Pause),
        until: Instant,
    ) -> Self {
        Self {
            shared,
            joiner,
            workload,
            pause,
            until,
            is_charged: false,
        }
    }

    /// Says what came of the first try, and tries on by itself where nothing was
    /// written yet: that counts as written. Whoever's turn is next finds what came of it
    /// in the slot.
    pub(super) async fn run(mut self, turn: ClickTurn, tell: oneshot::Sender<Press>) {
        let (press, joined) = match self.try_once().await {
            Tried::Pressed(press) => (press, None),
            Tried::NotYet(obstacle) => (Press::Stamp, self.becomes_pending(obstacle)),
        };
        drop(turn);
        // Whoever clicked may have left; the wake goes on (T-59).
        tell.send(press).ok();
        if let Some(joined) = joined {
            self.try_on(&joined).await;
            self.leave_to_requests(joined).await;
        }
    }

    /// If it is for this click to try on, and not for one before it, what is told when
    /// somebody joins.
    fn becomes_pending(&self, obstacle: Obstacle) -> Option<Arc<Notify>> {
        let wanted = Wanted {
            workload: &self.workload.key,
            pause: self.pause,
            asker: self.joiner.asker,
            route: &self.joiner.route,
            until: self.until,
        };
        let joined = self.workload.slot.state.lock().join_or_begin(wanted)?;
        self.stands_in_the_way(obstacle);
        Some(joined)
    }

    /// A request that joined, as it may after the mode was changed, has more to wake by
    /// than a click does.
    async fn leave_to_requests(self, joined: Arc<Notify>) {
        let slot = Arc::clone(&self.workload.slot);
        let is_left = slot.state.lock().end_clicks(self.pause);
        if is_left {
            let pursuit = Pursuit {
                shared: self.shared,
                workload: self.workload.key.clone(),
                slot,
                pause: self.pause,
                joined,
                charged: self.is_charged,
            };
            pursuit.run().await;
        }
    }

    async fn try_on(&mut self, joined: &Notify) {
        loop {
            tokio::select! {
                () = sleep(WAKE_RETRY) => {}
                () = joined.notified() => {}
            }
            if !self.is_waited_for() {
                return;
            }
            match self.try_again().await {
                Tried::Pressed(_) => return,
                Tried::NotYet(obstacle) => self.stands_in_the_way(obstacle),
            }
        }
    }

    /// Whether somebody who asked would still be there, on a route that still wakes.
    fn is_waited_for(&mut self) -> bool {
        let mut state = self.workload.slot.state.lock();
        let pending = state.pending(self.pause);
        let Some((joiner, _)) = pending.and_then(|one| one.awaited(&self.workload.key)) else {
            return false;
        };
        self.joiner = joiner;
        true
    }

    /// Reads nothing while it couldn't be written anyway: what it would take is taken
    /// first, and given back where another was ahead.
    async fn try_again(&mut self) -> Tried {
        let source = self.joiner.asker.source;
        let is_charged_now = self.workload.is_paused() && !self.is_charged;
        if is_charged_now {
            let moment = self.shared.steady.now();
            if let Err(over) = self.shared.allowance.take(source, moment) {
                return Tried::NotYet(Obstacle::OverRate(over));
            }
            self.is_charged = true;
        }
        let tried = self.try_once().await;
        let is_needless = matches!(&tried, Tried::Pressed(press) if *press != Press::Stamp);
        if is_charged_now && is_needless {
            self.shared.allowance.give_back(source);
            self.is_charged = false;
        }
        tried
    }

    async fn try_once(&mut self) -> Tried {
        for _ in 0..TRIES {
            match self.read_and_stamp().await {
                Err(StampError::Overtaken) => {}
                Ok(tried) => return tried,
                Err(StampError::Gone) => return Tried::Pressed(Press::OtherPause),
                Err(error) => return Tried::NotYet(Obstacle::Unwritten(plain(&error).into())),
            }
        }
        let error = StampError::Overtaken.to_string();
        Tried::NotYet(Obstacle::Unwritten(error.into()))
    }

    async fn read_and_stamp(&mut self) -> Result<Tried, StampError> {
        let (key, stamper) = (&self.workload.key, &self.shared.stamper);
        let seen = stamper.look(key).await?;
        if seen.workload.uid != self.workload.uid {
            return Err(StampError::Gone);
        }
        let now = self.shared.clock.now();
        let pressed = press(seen.workload.asked(now), self.pause.started_at, now);
        if pressed != Press::Stamp {
            return Ok(Tried::Pressed(pressed));
        }
        let asker = self.joiner.asker;
        let is_charged_now = seen.workload.is_paused() && !self.is_charged;
        if is_charged_now {
            let (source, moment) = (asker.source, self.shared.steady.now());
            if let Err(over) = self.shared.allowance.take(source, moment) {
                return Ok(Tried::NotYet(Obstacle::OverRate(over)));
            }
            self.is_charged = true;
        }
        let service = self.joiner.service();
        let value = StampValue::new(asker, &service, stamp(self.pause, now));
        let written = stamper.stamp_over(&seen, &value).await;
        if is_charged_now && matches!(written, Err(StampError::Overtaken)) {
            // Another was first: if that one woke it, this one wakes nothing (LIMIT-15).
            self.shared.allowance.give_back(asker.source);
            self.is_charged = false;
        }
        written?;
        self.workload.slot.state.lock().stamped = Some(value.last_request.stamp);
        log_stamp(&self.workload, &service, asker);
        self.shared
            .reporter
            .woken(&self.workload, &service, asker.kind);
        Ok(Tried::Pressed(Press::Stamp))
    }

    fn stands_in_the_way(&self, obstacle: Obstacle) {
        self.workload
            .slot
            .stands_in_the_way(&self.workload.key, self.pause, obstacle);
    }
}

#[cfg(test)]
mod tests;
