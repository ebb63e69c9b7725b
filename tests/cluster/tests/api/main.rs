//! Tests on a real API server without nodes: level A.
//!
//! The real operator and doorman run as processes against it. Pods and
//! endpoints are what a test writes, in the place of kubelets and of the
//! controllers that make and count pods: see [`setup`]. All of it runs in the
//! network of a control plane of its own.

#![allow(
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may stop at what it doesn't expect, and says why"
)]

mod aside;
mod buttons;
#[path = "../manifests/chart.rs"]
#[allow(
    dead_code,
    clippy::unwrap_used,
    reason = "tests of manifests use more of it"
)]
mod chart;
mod disputed;
mod doorman_pods;
mod failures;
mod faults;
mod kept_key;
mod leaders;
mod life;
mod load_balancers;
mod one_key;
mod opting_in;
mod plugin;
mod ports;
mod probes;
mod reasons;
mod rest;
mod rights;
mod routes;
mod setup;
mod sharing;
mod strange_services;
mod target_refs;
mod turned_away;
mod validation;
