//! What tests of several crates share: waiting for a state, namespaces of a
//! test's own, builders for the objects a test makes, callers, and an ingress.
//!
//! Never part of what ships. Waits always have a bound and say what they saw
//! last.

#![allow(
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may stop at what it doesn't expect, and says why"
)]

pub mod apps;
pub mod block;
pub mod callers;
pub mod ending;
pub mod ingress;
pub mod managed;
pub mod place;
pub mod wait;

pub use anyhow::{Context, Result, anyhow, bail, ensure};
