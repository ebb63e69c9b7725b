//! What tests with real browsers share.
//!
//! A [`browser::Browser`] is a browser as a person has it, driven over WebDriver.
//! It opens a workload's Service through a [`door::Door`], which passes everything
//! on and keeps what was asked for, or through an ingress. A
//! [`site::Site`] is somebody else's site.
//!
//! None of them is on a loopback address: to a browser, pages from there are as
//! good as HTTPS, and it says more of itself than it would to anybody else.

#![allow(
    clippy::print_stderr,
    reason = "a test says what one needs to understand its failure"
)]

pub mod browser;
pub mod door;
pub mod seen;
pub mod site;
pub mod workload;

pub use napwake_testkit::{Context, Result, bail, ending, ensure, ingress, managed, wait};

use std::time::Duration;

/// How long something may take that waits for nothing but a browser, on a busy
/// machine of two cores.
pub const SOON: Duration = Duration::from_secs(90);
