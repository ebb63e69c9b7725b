//! What tests on the real `napwake` processes share.
//!
//! Each test has a [`world::World`] of its own: a namespace at a real API
//! server, addresses and doorman ports that no other test has, and a way to the
//! API server that counts what the doorman asks for and can be cut. In it stand
//! [`route::Route`]s with the objects that the operator and the EndpointSlice
//! controller would write, scripted [`upstream::Upstream`]s in place of pods, a
//! [`doorman::Doorman`], and [`caller::Caller`]s. Tests with nobody in the
//! operator's place write what it would write; others start an
//! [`operator::Operator`].
//!
//! Nothing here is on a loopback address, and nothing gets round the doorman's
//! rule about addresses.

#![allow(
    clippy::print_stderr,
    reason = "a test says what one needs to understand its failure"
)]

pub mod api_way;
pub mod caller;
mod daemon;
pub mod doorman;
pub mod hosts;
pub mod knocks;
mod narrow;
pub mod nginx;
pub mod operator;
pub mod route;
pub mod upstream;
pub mod world;

pub use napwake_testkit::{Context, Result, bail, callers, ensure, managed, wait};

use std::time::Duration;

/// How long something that should happen at once may take on a machine that is
/// busy with other tests.
pub const SOON: Duration = Duration::from_secs(10);

/// Lets a test have as many connections as its doorman.
pub fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    );
    if let Err(error) = raised {
        eprintln!("the limit of open files stays as it is: {error}");
    }
}
