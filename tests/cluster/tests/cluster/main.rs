//! Tests on a real cluster that runs pods, with Napwake installed from its
//! chart: level C.
//!
//! They run in the cluster's network, each in a namespace of its own. Cases
//! that take minutes are in modules named `long`.

#![allow(
    clippy::print_stderr,
    reason = "a test says what one needs to understand its failure"
)]

mod alone;
mod asking;
mod checked;
mod hold;
mod ingresses;
mod kept;
mod life;
mod own;
mod protocols;
mod proxied;
mod readiness;
mod rounds;
mod route;
mod setup;
mod shared;
mod slices;
mod steady;
mod through;
mod unread;
