//! What the watches, the reconciler and the opting in share: the index behind
//! one lock, and the queues of those whom its changes concern.

use napwake_decide::world::WorkloadKey;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    observe::{Concerns, Index, Key, TargetKey},
    queue::{Queue, Urgency},
};

/// Everything observed, and what has to be looked at.
#[derive(Debug)]
pub(crate) struct Shared {
    index: Mutex<Index>,
    /// ManagedWorkloads to be decided.
    pub(crate) workloads: Queue<WorkloadKey>,
    /// Deployments and StatefulSets whose opting in is to be looked at.
    pub(crate) targets: Queue<TargetKey>,
    /// EndpointSlices of which it's to be seen whether anybody stands for them.
    pub(crate) slices: Queue<Key>,
}

impl Shared {
    pub(crate) fn new(index: Index) -> Self {
        Self {
            index: Mutex::new(index),
            workloads: Queue::new(),
            targets: Queue::new(),
            slices: Queue::new(),
        }
    }

    /// Somebody works on whom changes concern, and first asks for everybody.
    pub(crate) fn open_queues(&self) {
        self.workloads.open();
        self.targets.open();
        self.slices.open();
    }

    /// Nobody does, as in a process that doesn't lead: names come and go, and none of
    /// them is kept.
    pub(crate) fn shut_queues(&self) {
        self.workloads.shut();
        self.targets.shut();
        self.slices.shut();
    }

    /// Changes the index and asks for work on everybody whom it concerns.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Index, Instant) -> Concerns) {
        let concerns = change(&mut self.index.lock(), Instant::now());
        for (key, urgency) in concerns.workloads {
            if urgency == Urgency::Wake {
                tracing::debug!(namespace = key.namespace, workload = key.name, "stamped");
            }
            self.workloads.add(key, urgency);
        }
        for key in concerns.targets {
            self.targets.add(key, Urgency::Usual);
        }
        for key in concerns.slices {
            self.slices.add(key, Urgency::Usual);
        }
    }

    /// Looks something up, or decides, which reserves ports. Nothing may be
    /// waited for in `look`.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut Index, Instant) -> T) -> T {
        look(&mut self.index.lock(), Instant::now())
    }
}
