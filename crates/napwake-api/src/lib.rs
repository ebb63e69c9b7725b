//! The words of the product, shared by every other crate.
//!
//! Owns the `ManagedWorkload` API, every name that appears in a cluster, the
//! condition types and reasons, the settings and how they are read, and the
//! form of stamps and durations, and the spans that both processes go by. Decides nothing, reads no clock, and talks to
//! nobody.

#![allow(
    clippy::duplicated_attributes,
    reason = "printer columns repeat their types; the lint reads whole crates only"
)]

pub mod agreed;
pub mod condition;
pub mod names;
pub mod settings;
pub mod span;
pub mod stamp;
pub mod turned_away;
pub mod workload;

pub use span::Span;
pub use workload::{ManagedWorkload, ManagedWorkloadSpec, ManagedWorkloadStatus};
