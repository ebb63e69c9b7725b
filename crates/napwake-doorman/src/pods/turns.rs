//! Whose turn it is to look at a Pod.
//!
//! Owns how many Pods are watched at once and how often the others are read, and that a
//! namespace whose routes name very many takes no more than its part of either: callers
//! of the others don't wait behind it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

/// Watches of Pods at most, over all routes. Each is a connection to the API
/// server.
pub(super) const WATCHES: usize = 256;

/// How many of them are for Pods of one namespace at most.
pub(super) const WATCHES_OF_ONE: usize = 64;

/// How long there is between two reads, of whichever Pods: some sixty a second.
const BETWEEN_READS: Duration = Duration::from_millis(16);

/// The turns of all namespaces.
pub(super) struct Turns {
    most_of_one: usize,
    all: Arc<All>,
    /// Those of whom somebody follows a Pod.
    namespaces: parking_lot::Mutex<HashMap<String, Weak<One>>>,
}

struct All {
    watches: Arc<Semaphore>,
    next_read: Mutex<Option<Instant>>,
}

/// One namespace's part.
struct One {
    watches: Arc<Semaphore>,
    /// Who reads next of it: it has one place in the line of all.
    reading: Mutex<()>,
}

/// The turns of one namespace's Pods. Clones share it.
#[derive(Clone)]
pub(super) struct Turn {
    all: Arc<All>,
    one: Arc<One>,
}

/// A watch that may be. Dropping it gives it back.
#[must_use]
pub(super) struct Permit {
    _of_all: OwnedSemaphorePermit,
    _of_one: OwnedSemaphorePermit,
}

impl Turns {
    /// Nobody has read yet, and there may be so many watches.
    pub(super) fn new(most: usize, most_of_one: usize) -> Self {
        Self {
            most_of_one,
            all: Arc::new(All {
                watches: Arc::new(Semaphore::new(most)),
                next_read: Mutex::default(),
            }),
            namespaces: parking_lot::Mutex::default(),
        }
    }

    /// Those of Pods of this namespace.
    pub(super) fn of(&self, namespace: &str) -> Turn {
        let mut namespaces = self.namespaces.lock();
        let known = namespaces.get(namespace).and_then(Weak::upgrade);
        let one = known.unwrap_or_else(|| {
            namespaces.retain(|_, one| one.strong_count() > 0);
            let one = Arc::new(One {
                watches: Arc::new(Semaphore::new(self.most_of_one)),
                reading: Mutex::default(),
            });
            namespaces.insert(namespace.to_owned(), Arc::downgrade(&one));
            one
        });
        Turn {
            all: Arc::clone(&self.all),
            one,
        }
    }
}

impl Turn {
    /// Waits until one more Pod may be watched. Cancel-safe.
    pub(super) async fn to_watch(&self) -> Option<Permit> {
        let of_one = Arc::clone(&self.one.watches).acquire_owned().await.ok()?;
        let of_all = Arc::clone(&self.all.watches).acquire_owned().await.ok()?;
        Some(Permit {
            _of_all: of_all,
            _of_one: of_one,
        })
    }

    /// Waits until a Pod may be read that isn't watched: namespaces in turn, and within
    /// one in the order of coming. Cancel-safe.
    pub(super) async fn to_read(&self) {
        let _first_of_one = self.one.reading.lock().await;
        let mut next = self.all.next_read.lock().await;
        if let Some(next) = *next {
            sleep_until(next).await;
        }
        *next = Some(Instant::now() + BETWEEN_READS);
    }
}
