//! One pending wake, from the first who asked to its stamp.
//!
//! Owns the order of things: is it still needed, is it allowed, is it written.
//! Ends by itself, and leaves the slot free for the next pause.

use std::sync::Arc;

use jiff::Timestamp;
use napwake_api::stamp::{LastRequest, Stamp};
use napwake_cluster::plain;
use napwake_gate::deadline::WAKE_RETRY;
use napwake_gate::places::WorkloadKey;
use napwake_gate::wake::Need;
use tokio::time::{Instant, sleep};

use super::{Asker, How, Obstacle, STEP, Shared, Slot, StampError, StampValue, Stamper, log_stamp};
use crate::routes::{Pause, RouteHandle, Workload};

/// One pending wake.
#[derive(Debug)]
pub(super) struct Pursuit<S> {
    shared: Arc<Shared<S>>,
    route: RouteHandle,
    workload: WorkloadKey,
    slot: Arc<Slot>,
    /// Whether the allowance was charged. It is once, however often the write is
    /// tried.
    charged: bool,
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
    asker: Asker,
    /// Whether this is the pause's first stamp.
    wakes: bool,
}

impl<S: Stamper> Pursuit<S> {
    pub(super) fn new(shared: Arc<Shared<S>>, route: RouteHandle, workload: &Workload) -> Self {
        Self {
            shared,
            route,
            workload: workload.key.clone(),
            slot: Arc::clone(&workload.slot),
            charged: false,
        }
    }

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
                () = self.slot.joined.notified() => {}
            }
        }
    }

    /// Decides under the slot's lock, so that whoever joins either is seen here
    /// or finds the slot free.
    fn step(&mut self) -> Step {
        let route = self.route.now();
        let workload = route.wakes().find(|one| one.key == self.workload);
        let mut state = self.slot.state.lock();
        let now = self.shared.clock.now();
        let over = state
            .pending
            .as_ref()
            .is_none_or(|pending| pending.until <= Instant::now());
        let workload = match workload {
            Some(workload) if !over && state.need(workload, now) == Need::Stamp => workload,
            _ => {
                state.pending = None;
                return Step::End;
            }
        };
        let wakes = !state.is_stamped(workload, now);
        let Some(pending) = &mut state.pending else {
            return Step::End;
        };
        if wakes && !self.charged {
            let taken = self
                .shared
                .allowance
                .take(pending.asker.source, self.shared.steady.now());
            if let Err(over) = taken {
                pending.obstacle = Some(Obstacle::OverRate(over));
                return Step::Wait;
            }
            self.charged = true;
        }
        let asker = pending.asker;
        Step::Stamp(Write {
            value: StampValue {
                last_request: LastRequest {
                    stamp: stamp_of(workload, now),
                    kind: asker.kind,
                    service: Some(route.key.service.name.to_string()),
                },
                from: asker.source.get(),
            },
            workload: Arc::clone(workload),
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
                    state.pending = None;
                }
                self.tell(&write);
                true
            }
            Err(StampError::Gone) => {
                self.slot.state.lock().pending = None;
                true
            }
            Err(error) => {
                let obstacle = Obstacle::Unwritten(plain(&error).into());
                self.slot.stands_in_the_way(&self.workload, obstacle);
                false
            }
        }
    }

    fn tell(&self, write: &Write) {
        let (workload, asker) = (&write.workload, write.asker);
        let service = &self.route.now().key.service;
        log_stamp(workload, service, asker);
        // A request that was passed on calls a pause off; nothing is woken.
        if write.wakes && asker.how == How::Waits {
            self.shared.reporter.woken(workload, service, asker.kind);
        }
    }
}

fn stamp_of(workload: &Workload, now: Timestamp) -> Stamp {
    match workload.state.pause() {
        Some(pause) => stamp(pause, now),
        None => Stamp::now(now),
    }
}

/// The stamp of a request at `now`: newer than the pause in any case, for the
/// clock of the one who wrote the pause may be ahead of ours (T-12).
pub(super) fn stamp(pause: Pause, now: Timestamp) -> Stamp {
    let after = pause.started_at.checked_add(STEP).unwrap_or(now);
    Stamp::now(now.max(after))
}
