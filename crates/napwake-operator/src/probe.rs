//! The connect check: whether the doorman's pods listen (ROUTE-79).
//!
//! Connects, all at once and for a second at most, and closes at once without a
//! byte, which wakes nothing and counts as nothing at the doorman (ROUTE-80).
//! What comes of each goes into the index, and its ManagedWorkload is decided
//! again. No decision waits for a check; a stop ends all of them, and is waited for.

use std::{
    collections::HashSet, convert::Infallible, fmt, net::SocketAddr, sync::Arc, time::Duration,
};

use napwake_decide::world::{Check, CheckOutcome, Listener, WorkloadKey};
use napwake_kit::clock::Clock;
use napwake_net::{
    dial::{AddressRule, Dialer, Pace, Tcp},
    transport::Connect,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{queue::Urgency, shared::Shared};

/// How long a doorman pod may take to accept.
const PATIENCE: Duration = Duration::from_secs(1);

/// Connections that are tried at once: each is a file descriptor.
const AT_ONCE: usize = 256;

/// Checks listeners.
pub(crate) struct Prober<C = Tcp> {
    dialer: Dialer<C>,
    shared: Arc<Shared>,
    clock: Clock,
    tasks: TaskTracker,
    stop: CancellationToken,
    turns: Semaphore,
    /// Those under way, which needn't be begun again.
    under_way: Mutex<HashSet<Listener>>,
}

impl<C> fmt::Debug for Prober<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prober")
            .field("under_way", &self.under_way.lock().len())
            .finish_non_exhaustive()
    }
}

impl Prober {
    /// One that connects over TCP, to the doorman's pods by their addresses, until
    /// `stop`.
    pub(crate) fn new(shared: Arc<Shared>, clock: Clock, stop: CancellationToken) -> Self {
        let pace = Pace {
            timeout: PATIENCE,
            stagger: PATIENCE,
        };
        Self::over(
            Dialer::new(AddressRule::own_pods(), pace),
            shared,
            clock,
            stop,
        )
    }
}

impl<C: Connect + Send + Sync + 'static> Prober<C> {
    fn over(dialer: Dialer<C>, shared: Arc<Shared>, clock: Clock, stop: CancellationToken) -> Self {
        Self {
            dialer,
            shared,
            clock,
            tasks: TaskTracker::new(),
            stop,
            turns: Semaphore::new(AT_ONCE),
            under_way: Mutex::default(),
        }
    }

    /// Begins to check each listener that isn't being checked already, and has
    /// `key` decided again as their results come in.
    pub(crate) fn check(self: &Arc<Self>, key: &WorkloadKey, listeners: Vec<Listener>) {
        for listener in listeners {
            if self.under_way.lock().insert(listener.clone()) {
                let (prober, key) = (Arc::clone(self), key.clone());
                self.tasks.spawn(async move {
                    tokio::select! {
                        () = prober.check_one(key, listener) => {}
                        () = prober.stop.cancelled() => {}
                    }
                });
            }
        }
    }

    /// Waits until it's to stop, and then until no check is under way.
    pub(crate) async fn stopped(self: Arc<Self>) -> Result<(), Infallible> {
        self.stop.cancelled().await;
        self.tasks.close();
        self.tasks.wait().await;
        Ok(())
    }

    async fn check_one(&self, key: WorkloadKey, listener: Listener) {
        let turn = self.turns.acquire().await;
        let at = self.clock.now();
        let address = SocketAddr::new(listener.address, listener.port);
        let outcome = match self.dialer.dial(address).await {
            // Dropped at once: that closes it.
            Ok(_stream) => CheckOutcome::Listening,
            Err(error) => {
                tracing::debug!(%address, error = &error as &dyn std::error::Error, "silent");
                CheckOutcome::Silent
            }
        };
        drop(turn);
        self.under_way.lock().remove(&listener);
        self.shared
            .with(|index, now| index.checked(listener, Check { at, outcome }, now));
        self.shared.workloads.add(key, Urgency::Usual);
    }
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
