//! Readiness, as handles.
//!
//! Whoever must finish something before the process may get traffic takes a
//! handle and gives it back when done; the process is ready when none is left.
//! Once the process stops it is never ready again. Owns no server: `admin`
//! answers `/readyz` from here.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The readiness of this process. Cheap to clone; clones are the same.
#[derive(Clone, Debug)]
pub struct Readiness {
    missing: Arc<watch::Sender<Missing>>,
    stopping: CancellationToken,
}

#[derive(Debug, Default)]
struct Missing {
    names: BTreeMap<u64, String>,
    next: u64,
}

/// What `/readyz` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    Ready,
    /// Still to come, by name, in the order in which the handles were taken.
    Waiting(Vec<String>),
    /// The process is shutting down (DRAIN-04).
    Stopping,
}

impl Readiness {
    /// Ready until somebody takes a handle: take the first ones before the
    /// health server starts. Not ready from the moment the process's token is
    /// cancelled (DRAIN-04).
    pub fn new(process: &CancellationToken) -> Self {
        Self {
            missing: Arc::default(),
            stopping: process.clone(),
        }
    }

    /// Takes a handle: the process isn't ready before it is given back.
    pub fn handle(&self, name: impl Into<String>) -> ReadyHandle {
        let mut id = 0;
        self.missing.send_modify(|missing| {
            id = missing.next;
            missing.next += 1;
            missing.names.insert(id, name.into());
        });
        ReadyHandle {
            id,
            readiness: self.clone(),
        }
    }

    pub fn status(&self) -> Status {
        if self.stopping.is_cancelled() {
            return Status::Stopping;
        }
        let missing = self.missing.borrow();
        if missing.names.is_empty() {
            Status::Ready
        } else {
            Status::Waiting(missing.names.values().cloned().collect())
        }
    }

    /// Waits until no handle is left.
    pub async fn ready(&self) {
        let mut missing = self.missing.subscribe();
        let waited = missing.wait_for(|missing| missing.names.is_empty()).await;
        debug_assert!(waited.is_ok(), "we hold the sender ourselves");
    }
}

/// One thing that must be finished before the process is ready. Dropping it
/// says the same as [`ReadyHandle::done`]: a task that fails before it is done
/// is the supervisor's business, which stops the process.
#[must_use = "the process counts as ready once this is dropped"]
#[derive(Debug)]
pub struct ReadyHandle {
    id: u64,
    readiness: Readiness,
}

impl ReadyHandle {
    /// Says that this is finished.
    pub fn done(self) {
        drop(self);
    }
}

impl Drop for ReadyHandle {
    fn drop(&mut self) {
        self.readiness.missing.send_modify(|missing| {
            missing.names.remove(&self.id);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readiness() -> Readiness {
        Readiness::new(&CancellationToken::new())
    }

    fn waiting(names: &[&str]) -> Status {
        Status::Waiting(names.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn ready_when_no_handle_is_left() {
        let readiness = readiness();
        let caches = readiness.handle("caches");
        let listeners = readiness.handle("listeners");
        assert_eq!(readiness.status(), waiting(&["caches", "listeners"]));

        listeners.done();
        assert_eq!(readiness.status(), waiting(&["caches"]));
        drop(caches);
        assert_eq!(readiness.status(), Status::Ready);
    }

    #[test]
    fn two_handles_of_one_name_are_two() {
        let readiness = readiness();
        let first = readiness.handle("cache");
        let second = readiness.handle("cache");
        first.done();
        assert_eq!(readiness.status(), waiting(&["cache"]));
        second.done();
        assert_eq!(readiness.status(), Status::Ready);
    }

    #[test]
    fn stopping_is_for_good() {
        let process = CancellationToken::new();
        let readiness = Readiness::new(&process);
        let caches = readiness.handle("caches");
        process.cancel();
        assert_eq!(readiness.status(), Status::Stopping);
        caches.done();
        assert_eq!(readiness.status(), Status::Stopping);
    }

    /// DRAIN-04: cancelling the process's token is enough.
    #[test]
    fn not_ready_from_the_moment_the_process_stops() {
        let process = CancellationToken::new();
        let readiness = Readiness::new(&process);
        assert_eq!(readiness.status(), Status::Ready);
        process.cancel();
        assert_eq!(readiness.status(), Status::Stopping);
    }

    #[tokio::test]
    async fn waiting_ends_with_the_last_handle() {
        let readiness = readiness();
        let caches = readiness.handle("caches");
        let (ready, ()) = tokio::join!(
            async {
                readiness.ready().await;
                readiness.status()
            },
            async { caches.done() },
        );
        assert_eq!(ready, Status::Ready);
    }
}
