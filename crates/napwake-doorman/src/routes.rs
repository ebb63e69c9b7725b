//! Routes: which ports to listen on, whose they are, and where they lead.
//!
//! Owns the watches of ManagedWorkloads and of controller-managed EndpointSlices
//! and the immutable values made of them. Each route has a channel of its own,
//! and callers wait for a state of their route, never for "a change". Writes
//! nothing to the cluster (ROUTE-81).

mod board;
mod claim;
mod feed;
mod handle;
mod model;
mod slice;

pub use self::board::{Board, Now};
pub use self::claim::{Claim, Claimant};
pub use self::feed::Feed;
pub use self::handle::{RouteHandle, Table, TableChanges};
pub use self::model::{Pause, Route, RouteKey, ServiceKey, Serving, State, Workload};
pub use self::slice::Slice;

#[cfg(test)]
pub(crate) use self::feed::on_workload;

#[cfg(test)]
mod tests;
