//! The gate's budget, as the net's intake asks for it.

use napwake_gate::budget;
use napwake_net::intake::{self, Intake};

/// A held caller.
pub(super) type Caller = Intake<Share>;

/// A connection's share of the budget.
#[derive(Debug)]
pub(super) struct Share(pub(super) budget::Share);

impl intake::Budget for Share {
    fn take(&mut self, want: usize) -> usize {
        self.0.take(want)
    }

    fn give_back(&mut self, bytes: usize) {
        self.0.give_back(bytes);
    }

    fn freed(&mut self) -> impl Future<Output = ()> + Send {
        self.0.freed()
    }
}
