//! Who a caller is, by its request alone: a known checker, a hunter for hidden
//! files, a robot, a person's browser, a client that wants JSON.
//!
//! Owns the lists and how they match. Nothing but the bytes counts, never an
//! address or an interval (CLASS-33). Never says what is done with the caller.

mod accept;
mod agents;
mod browser;
mod hidden;
mod robots;
#[cfg(test)]
mod tests;

pub use accept::{BodyForm, asks_for_html, body_form};
#[doc(hidden)]
pub use agents::fuzz_user_agent;
pub use agents::{Agents, BUILT_IN, Checker, EmptyPrefix};
pub use browser::{is_browser, opens_page};
#[doc(hidden)]
pub use hidden::fuzz_hidden;
pub use hidden::is_hidden;
pub use robots::names_robot;
