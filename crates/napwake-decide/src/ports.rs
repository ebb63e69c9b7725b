//! The ledger of doorman ports of the whole cluster: taking, draining, resting.
//!
//! A pure value. The operator keeps one behind a lock, makes it from every
//! status before it first decides, and shows it every status it sees. The
//! truth stays in the statuses: what is only in the ledger is reserved for a
//! plan that may not have been carried out.

use napwake_api::ManagedWorkloadStatus;

use crate::world::WorkloadKey;

/// How many ports may be held (SET-23, SET-24).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caps {
    /// By one workload.
    pub per_workload: usize,
    /// By all workloads of one namespace.
    pub per_namespace: usize,
}

impl Default for Caps {
    fn default() -> Self {
        // ROUTE-67, ROUTE-68
        Self {
            per_workload: 32,
            per_namespace: 256,
        }
    }
}

/// Who holds which doorman port.
#[derive(Clone, Debug, Default)]
pub struct Ports {
    caps: Caps,
}

impl Ports {
    /// An empty ledger.
    pub fn new(caps: Caps) -> Self {
        Self { caps }
    }

    /// Takes in what `status` records for `owner`: to be called with every
    /// status when a leader starts (DRAIN-23), and with each one seen later.
    pub fn observe(&mut self, owner: &WorkloadKey, status: &ManagedWorkloadStatus) {
        let _ = (owner, status, self.caps);
    }

    /// Forgets a ManagedWorkload that is gone.
    pub fn forget(&mut self, owner: &WorkloadKey) {
        let _ = owner;
    }
}
