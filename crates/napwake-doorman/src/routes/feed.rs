//! Keeps the board true to the cluster.
//!
//! Owns the two watches, of ManagedWorkloads and of controller-managed slices,
//! and the task that settles the board after changes. Changes that come together
//! are settled together; nothing is queued.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use napwake_api::ManagedWorkload;
use napwake_api::names::slice as names;
use napwake_cluster::thin;
use napwake_cluster::watch::{Change, Store, Watch};
use napwake_gate::places::WorkloadKey;
use napwake_kit::clock::Clock;
use napwake_kit::ready::Readiness;
use napwake_kit::supervise::Supervisor;
use napwake_kit::timer::until;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::board::{Board, Now};
use super::claim::Claimant;
use super::handle::TableChanges;
use super::slice::Slice;
use crate::metrics::Metrics;

/// The board, shared by those who fill it and the one who settles it.
#[derive(Debug, Clone)]
struct Shared(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    board: Mutex<Board>,
    changed: Notify,
}

impl Shared {
    fn change(&self, change: impl FnOnce(&mut Board)) {
        change(&mut self.0.board.lock());
        self.0.changed.notify_one();
    }
}

/// What has been started.
#[derive(Debug)]
pub struct Feed {
    /// The ports to listen on.
    pub table: TableChanges,
    workloads: Store<(WorkloadKey, Claimant)>,
    slices: Store<Slice>,
}

impl Feed {
    /// Starts the watches, and the task that settles the board, as tasks of
    /// `tasks`. The process isn't ready before both watches have seen everything
    /// (T-113).
    pub fn start(
        client: &Client,
        board: Board,
        clock: Clock,
        metrics: Metrics,
        readiness: &Readiness,
        tasks: &mut Supervisor,
    ) -> Self {
        let table = board.table();
        let shared = Shared(Arc::new(Inner {
            board: Mutex::new(board),
            changed: Notify::new(),
        }));
        let filling = shared.clone();
        let (workloads, watching) = Watch::<ManagedWorkload>::all(client)
            .keep(|object| Claimant::read(&object))
            .on_change(move |change| filling.change(|board| on_workload(board, &metrics, change)))
            .ready(readiness.handle("managed workloads"))
            .start();
        tasks.endless("managed workloads", watching);
        let filling = shared.clone();
        let (slices, watching) = Watch::<thin::EndpointSlice>::all(client)
            .labels(&format!(
                "{}={}",
                names::MANAGED_BY,
                names::MANAGED_BY_CONTROLLER
            ))
            .keep(|object| Slice::read(&object))
            .on_change(move |change| filling.change(|board| on_slice(board, change)))
            .ready(readiness.handle("endpoint slices"))
            .start();
        tasks.endless("endpoint slices", watching);
        let stores = (workloads.clone(), slices.clone());
        tasks.endless("routes", async move {
            stores.0.synced().await;
            stores.1.synced().await;
            settle(&shared, &clock).await
        });
        Self {
            table,
            workloads,
            slices,
        }
    }

    /// Reads how long ago the watches last heard anything; the longer counts.
    pub fn lag(&self) -> impl Fn() -> Duration + Send + Sync + 'static {
        let (workloads, slices) = (self.workloads.clone(), self.slices.clone());
        move || workloads.lag().max(slices.lag())
    }
}

/// Settles the board after each change, and when time alone changes something.
/// Begins once everything is known, so that no port is opened or closed on half
/// of it.
async fn settle(shared: &Shared, clock: &Clock) -> Result<Infallible, Infallible> {
    let mut next = shared.settle(clock);
    loop {
        tokio::select! {
            () = shared.0.changed.notified() => {}
            () = until(next) => {}
        }
        next = shared.settle(clock);
    }
}

impl Shared {
    fn settle(&self, clock: &Clock) -> Option<Instant> {
        let now = Now {
            instant: Instant::now(),
            time: clock.now(),
        };
        self.0.board.lock().settle(now)
    }
}

pub(crate) fn on_workload(
    board: &mut Board,
    metrics: &Metrics,
    change: Change<(WorkloadKey, Claimant)>,
) {
    match change {
        Change::Applied { new, .. } => {
            let (key, claimant) = &*new;
            board.put_workload(key.clone(), claimant.clone());
        }
        // Whatever was read of it last, if anything: it can't be woken any more.
        Change::Removed { key, .. } => {
            let key = WorkloadKey::new(&key.namespace, &key.name);
            // In this order: whoever counts for it from now on sees that it is gone.
            board.drop_workload(&key);
            metrics.forget(&key);
        }
        // Its callers are better served by what was last read than by nothing.
        Change::Unreadable { .. } => {}
    }
}

fn on_slice(board: &mut Board, change: Change<Slice>) {
    match change {
        Change::Applied { new, old, .. } => {
            // A slice never changes its Service, but nothing forbids it.
            if let Some(old) = old.filter(|old| old.service != new.service) {
                board.drop_slice(&old);
            }
            board.put_slice(new);
        }
        // What can't be read must not be connected to.
        Change::Removed { old, .. } | Change::Unreadable { old, .. } => {
            if let Some(old) = old {
                board.drop_slice(&old);
            }
        }
    }
}
