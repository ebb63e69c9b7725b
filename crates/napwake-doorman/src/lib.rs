//! The doorman: a small proxy that holds callers of paused workloads, wakes them,
//! and passes each caller to the first Ready pod.
//!
//! Owns the way of a connection through the product, and what it leads to in the
//! cluster: three annotations on a ManagedWorkload, its own wake key, and events.
//! Writes no slice, no Service and no workload. What to do with a caller is decided
//! in `napwake_gate`; sockets are `napwake_net`'s.
//!
//! | Module | Owns |
//! |---|---|
//! | [`args`], [`run`] | the flags, the wiring |
//! | [`routes`] | which ports to listen on, and where they lead |
//! | [`listeners`] | open ports follow the table |
//! | [`conversation`] | one connection, from accept to end |
//! | [`wake`] | stamping: many ask, one is written |
//! | [`key`] | the wake key's Secret |
//! | [`tally`] | what was turned away: counting, and telling |
//! | `calls` | what calls to the API server have in common |
//! | [`pods`] | the Pods behind a route, while somebody waits for them |
//! | [`report`], [`metrics`] | events, metrics |
//! | [`stopping`] | the end of the process, step by step |
//! | [`steady`] | the clock that the gate's moments count by |

pub mod args;
mod calls;
pub mod conversation;
pub mod key;
pub mod listeners;
pub mod metrics;
pub mod pods;
pub mod report;
pub mod routes;
pub mod run;
pub mod steady;
pub mod stopping;
pub mod tally;
#[cfg(test)]
mod tests;
pub mod wake;

pub use args::DoormanArgs;
pub use run::run;
