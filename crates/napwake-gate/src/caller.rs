//! Who a caller is, by its request alone: a known checker, a hunter for hidden
//! files, a robot, a client that wants JSON.
//!
//! Owns the lists and how they match. Nothing but the bytes counts, never an
//! address or an interval (CLASS-33). Never says what is done with the caller.

mod accept;
mod agents;
mod hidden;
mod robots;
#[cfg(test)]
mod tests;

pub use accept::{BodyForm, body_form};
pub use agents::{Agents, BUILT_IN, Checker, EmptyPrefix};
#[doc(hidden)]
pub use hidden::fuzz_hidden;
pub use hidden::is_hidden;
pub use robots::names_robot;
