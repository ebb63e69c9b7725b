//! A process in a cluster: client, watches, thin types, events, authorization.
//!
//! Owns how Napwake talks to the API server, and the few writes that every
//! process makes: events, and the reviews that say who may read its metrics.
//! Decides nothing about workloads; what is written to them is the operator's
//! and the doorman's.

pub mod authorize;
pub mod client;
pub mod events;
pub mod thin;
pub mod watch;

#[cfg(test)]
mod fake_api;
