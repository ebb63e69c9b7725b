//! What should be, from what is: the pure core of the operator.
//!
//! [`decide`] is given everything observed for one ManagedWorkload ([`World`])
//! and the time, and returns what to write, in order ([`Plan`]). It reads no
//! clock, talks to no cluster and keeps no state but the ledger of doorman
//! ports ([`Ports`]), which can be made anew from every status at any time.
//!
//! Whoever carries out a plan makes no choices. Any write may be the last
//! before a crash: the next call finds where things stand.

#![deny(clippy::indexing_slicing, clippy::string_slice, clippy::expect_used)]
#![cfg_attr(
    test,
    allow(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::expect_used,
        reason = "a test may stop at what it doesn't expect"
    )
)]

pub mod behind;
mod checks;
mod clock;
mod draft;
pub mod lease;
pub mod left_behind;
mod lifecycle;
pub mod optin;
pub mod orphans;
mod owners;
pub mod plan;
pub mod ports;
mod render;
mod routing;
mod settle;
#[cfg(test)]
mod sim;
pub mod slices;
pub mod timing;
mod turned_away;
pub mod world;

pub use plan::{Plan, Write};
pub use ports::Ports;
pub use world::{Seen, World};

use jiff::Timestamp;
use napwake_api::stamp;
use settle::Fate;

/// What should be done next for one ManagedWorkload.
///
/// `ports` is the ledger of the whole cluster: what this plan takes is
/// reserved in it at once, so that two workloads decided at the same time get
/// different ports. Deciding again from the same world and ledger gives the
/// same plan; deciding after the plan was carried out plans nothing new.
///
/// Times are compared with `now` only; its precision is cut to microseconds
/// in all that is written.
pub fn decide(world: &World, ports: &mut Ports, now: Timestamp) -> Plan {
    let now = stamp::to_micros(now);
    let seen = &world.workload.status;
    ports.recall(&world.workload.key, seen);
    let plan = match settle::settle(world, now) {
        Ok(s) if s.fate == Fate::Gone => Plan::nothing(),
        Ok(s) => lifecycle::step(&s, ports).into_plan(&s),
        Err(why) => Plan::waiting(why, now),
    };
    let planned = plan.writes.iter().find_map(|write| match write {
        Write::WriteStatus { status, .. } => Some(status.as_ref()),
        _ => None,
    });
    ports.reserve_planned(&world.workload.key, planned);
    plan
}
