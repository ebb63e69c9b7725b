//! Sockets: listening, reading held callers, dialing, relaying.
//!
//! This crate knows connections and bytes, and nothing of the product built on
//! them: no workloads, no modes, no HTTP, no Kubernetes. What may be read, what
//! may be dialed and how long anything may last is told to it as values.
//!
//! | Module | Owns |
//! |---|---|
//! | [`transport`] | the two seams that tests replace: accepting and connecting |
//! | [`listen`] | opening a port, the accept loop, what accept errors mean |
//! | [`intake`] | reading a held caller within a budget, noticing that it left |
//! | [`prefixed`] | replaying bytes that were read before |
//! | [`watched`] | counting bytes, the last activity, one record of the end |
//! | [`dial`] | the only connector, and the rule about where it may connect |
//! | [`relay`] | carrying bytes between a caller and a target until it ends |
//! | [`linger`] | ending an answer so that the caller can read it |
//! | `kernel` | socket options: what the kernel does, and keeps, of a connection |
//!
//! It never spawns a task: whoever calls it decides where its futures run.

pub mod dial;
pub mod intake;
mod kernel;
pub mod linger;
pub mod listen;
pub mod prefixed;
pub mod relay;
pub mod transport;
pub mod watched;
