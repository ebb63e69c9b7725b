//! A process in a cluster: client, watches, thin types, events, authorization,
//! and how its errors are told.
//!
//! Owns how Napwake talks to the API server, and the few writes that every
//! process makes: events, and the reviews that say who may read its metrics.
//! Decides nothing about workloads; what is written to them is the operator's
//! and the doorman's.

pub mod authorize;
pub mod client;
pub mod events;
mod plain;
pub mod thin;
pub mod watch;

pub use self::plain::plain;

#[cfg(test)]
mod fake_api;
