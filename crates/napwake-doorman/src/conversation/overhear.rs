//! Judging a caller that was passed on, by a copy of its first bytes.
//!
//! Owns that copy, and the silence that speaks as well (T-02, T-03). It delays
//! nothing and changes nothing.

use std::sync::Arc;

use napwake_api::workload::WakeMode;
use napwake_gate::caller::Agents;
use napwake_gate::deadline::SILENCE;
use napwake_gate::head::HeadScan;
use napwake_gate::verdict::{Heard, Wake, would_wake};
use napwake_net::relay::{TAP_LIMIT, Tap, TapVerdict};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// What was heard of a caller.
#[derive(Debug)]
struct Notes {
    bytes: Vec<u8>,
    scan: HeadScan,
    last_byte: Instant,
    wake: Option<Wake>,
    agents: Arc<Agents>,
}

#[derive(Debug)]
struct Shared {
    notes: Mutex<Notes>,
    changed: Notify,
}

/// Waits for the judgment.
#[derive(Debug)]
pub(super) struct Overheard(Arc<Shared>);

/// A tap for the relay, and what waits for its judgment.
pub(super) fn overhear(agents: Arc<Agents>) -> (Tap, Overheard) {
    let shared = Arc::new(Shared {
        notes: Mutex::new(Notes {
            bytes: Vec::new(),
            scan: HeadScan::new(),
            last_byte: Instant::now(),
            wake: None,
            agents,
        }),
        changed: Notify::new(),
    });
    let listening = Listening(Arc::clone(&shared));
    let tap = Tap::new(move |piece| listening.hear(piece));
    (tap, Overheard(shared))
}

/// The tap's end of it, dropped when there is no more to hear.
struct Listening(Arc<Shared>);

impl Listening {
    fn hear(&self, piece: &[u8]) -> TapVerdict {
        let verdict = self.0.notes.lock().hear(piece);
        self.0.changed.notify_one();
        verdict
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.notes.lock().end();
        self.0.changed.notify_one();
    }
}

impl Notes {
    fn hear(&mut self, piece: &[u8]) -> TapVerdict {
        if self.wake.is_some() {
            return TapVerdict::Enough;
        }
        self.bytes.extend_from_slice(piece);
        self.last_byte = Instant::now();
        let heard = Heard::Head(self.scan.look(&self.bytes));
        // In Ask nothing that is passed on wakes, but then nobody listens (T-04).
        self.wake = would_wake(&heard, WakeMode::Request, &self.agents);
        if self.wake.is_some() {
            self.bytes = Vec::new();
            TapVerdict::Enough
        } else {
            TapVerdict::More
        }
    }

    /// No more is heard. If not for its length, the caller ended: nothing that would
    /// wake had been said by then, as by a health check that connects and closes.
    fn end(&mut self) {
        if self.wake.is_none() && self.bytes.len() < TAP_LIMIT {
            self.wake = would_wake(&Heard::Left, WakeMode::Request, &self.agents);
        }
    }

    /// The caller fell silent: it is judged by what there is.
    fn settle(&mut self) {
        let heard = if self.bytes.is_empty() {
            Heard::Silence
        } else {
            Heard::Head(self.scan.settle(&self.bytes))
        };
        self.wake = would_wake(&heard, WakeMode::Request, &self.agents);
    }
}

impl Overheard {
    /// Waits until it is clear whether the caller's request wakes.
    pub(super) async fn wake(self) -> Wake {
        loop {
            let silent_at = {
                let notes = self.0.notes.lock();
                if let Some(wake) = notes.wake {
                    return wake;
                }
                notes.last_byte + SILENCE
            };
            tokio::select! {
                () = self.0.changed.notified() => {}
                () = sleep_until(silent_at) => {
                    let mut notes = self.0.notes.lock();
                    if Instant::now() >= notes.last_byte + SILENCE {
                        notes.settle();
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
