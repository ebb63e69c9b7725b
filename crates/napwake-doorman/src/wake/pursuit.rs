//! One pending wake, from the first who asked to its stamp.
//!
//! Owns the order of things: is it still needed, is it allowed, is it written.
//! Ends by itself, with its pause or once no route of those who asked wakes any more,
//! and leaves the slot to whoever asks next.

use std::sync::Arc;

use jiff::Timestamp;
use napwake_api::stamp::Stamp;
use napwake_cluster::plain;
use napwake_gate::deadline::WAKE_RETRY;
use napwake_gate::places::WorkloadKey;
use napwake_gate::wake::Need;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::{Asker, How, Obstacle, STEP, Shared, Slot, StampError, StampValue, Stamper, log_stamp};
use crate::routes::{Pause, ServiceKey, Workload};

/// One pending wake.
#[derive(Debug)]
pub(super) struct Pursuit<S> {
    pub(super) shared: Arc<Shared<S>>,
    pub(super) workload: WorkloadKey,
    pub(super) slot: Arc<Slot>,
    /// The pause that it's for.
    pub(super) pause: Pause,
    /// Told when somebody joins.
    pub(super) joined: Arc<Notify>,
    /// Whether the allowance was charged. It is once, however often the write is
    /// tried.
    pub(super) charged: bool,
}

/// What to do now.
enum Step {
    /// Write this.
    Stamp(Write),
    /// Try again later.
    Wait,
    /// It is done, or nobody waits any more. The slot is free.
    End,
}

struct Write {
    value: StampValue,
    workload: Arc<Workload>,
    service: ServiceKey,
    asker: Asker,
    /// Whether this is the pause's first stamp.
    wakes: bool,
}

impl<S: Stamper> Pursuit<S> {
    pub(super) async fn run(mut self) {
        loop {
            match self.step() {
                Step::End => return,
                Step::Wait => {}
                Step::Stamp(write) => {
                    if self.write(write).await {
                        return;
                    }
                }
            }
            tokio::select! {
                () = sleep(WAKE_RETRY) => {}
                () = self.joined.notified() => {}
            }
        }
    }

    /// Decides under the slot's lock, so that whoever joins either is seen here
    /// or finds the slot free.
    fn step(&mut self) -> Step {
        let mut state = self.slot.state.lock();
        let now = self.shared.clock.now();
        let pending = state.pending(self.pause);
        let awaited = pending.and_then(|pending| pending.awaited(&self.workload));
        let needed = awaited.map(|(joiner, workload)| {
            let need = state.need(&workload, now);
            (joiner, workload, need)
        });
        let Some((joiner, workload, need)) = needed.filter(|(.., need)| *need != Need::Nothing)
        else {
            state.end(self.pause);
            return Step::End;
        };
        let asker = joiner.asker;
        let wakes = need == Need::Wake;
        if wakes && workload.is_paused() && !self.charged {
            let (allowance, moment) = (&self.shared.allowance, self.shared.steady.now());
            if let Err(over) = allowance.take(asker.source, moment) {
                if let Some(pending) = state.pending(self.pause) {
                    pending.obstacle = Some(Obstacle::OverRate(over));
                }
                return Step::Wait;
            }
            self.charged = true;
        }
        let service = joiner.service();
        Step::Stamp(Write {
            value: StampValue::new(asker, &service, stamp(self.pause, now)),
            workload,
            service,
            asker,
            wakes,
        })
    }

    /// Whether that was the end of it.
    async fn write(&self, write: Write) -> bool {
        let written = self
            .shared
            .stamper
            .stamp(&self.workload, &write.value)
            .await;
        match written {
            Ok(()) => {
                {
                    let mut state = self.slot.state.lock();
                    state.stamped = Some(write.value.last_request.stamp);
                    state.end(self.pause);
                }
                self.tell(&write);
                true
            }
            Err(StampError::Gone) => {
                self.slot.state.lock().end(self.pause);
                true
            }
            Err(error) => {
                let obstacle = Obstacle::Unwritten(plain(&error).into());
                self.slot
                    .stands_in_the_way(&self.workload, self.pause, obstacle);
                false
            }
        }
    }

    fn tell(&self, write: &Write) {
        let (workload, service, asker) = (&write.workload, &write.service, write.asker);
        log_stamp(workload, service, asker);
        // A request that was passed on calls a pause off; nothing is woken.
        if write.wakes && asker.how == How::Waits {
            self.shared.reporter.woken(workload, service, asker.kind);
        }
    }
}

/// The stamp of a request at `now`: newer than the pause in any case, for the
/// clock of the one who wrote the pause may be ahead of ours (T-12).
pub(super) fn stamp(pause: Pause, now: Timestamp) -> Stamp {
    let after = pause.started_at.checked_add(STEP).unwrap_or(now);
    Stamp::now(now.max(after))
}
