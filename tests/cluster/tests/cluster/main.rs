//! Tests on a real cluster that runs pods, with Napwake installed from its
//! chart: level C.
//!
//! They run in the cluster's network, each in a namespace of its own. Cases
//! that take minutes are in modules named `long`.

mod hold;
mod life;
mod protocols;
mod readiness;
mod route;
mod setup;
