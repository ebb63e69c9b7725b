//! A process: arguments, logs, errors, health and metrics, supervision,
//! shutdown, the clock.
//!
//! Owns what every long-running Napwake process needs whatever it does: how it
//! starts, says what it is, is watched from outside and ends. Knows nothing of
//! Kubernetes and nothing of workloads: who may read the metrics is a trait
//! ([`admin::Authorizer`]) that it is given.

pub mod admin;
pub mod args;
pub mod chain;
pub mod clock;
pub mod limits;
pub mod log;
pub mod metrics;
pub mod ready;
pub mod run;
pub mod shutdown;
pub mod supervise;
pub mod timer;
