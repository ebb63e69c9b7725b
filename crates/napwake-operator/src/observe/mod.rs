//! From watches to Worlds.
//!
//! [`Index`] is a plain object that watches and own writes change; it yields a
//! World for a key and says whom a change concerns. Never writes to the cluster.

mod behind;
mod concerns;
pub(crate) mod convert;
mod index;
mod ingresses;
mod layered;
mod namespaces;
mod negs;
mod neighbors;
mod outlived;
mod pods;
mod served;
mod slice_ledger;
pub(crate) mod thin;
mod watches;
mod world;

pub(crate) use self::{
    behind::read_behind,
    concerns::{Concerns, TargetKey},
    index::{DoormanService, Index},
    layered::{Key, Look},
    pods::count_pods,
    served::{Served, read_served},
    watches::{Watches, start},
};
