//! What to do with a caller: the pure core of the doorman.
//!
//! Owns how first bytes are read, who a caller is, what is done with it, every
//! byte that is ever sent to one, and the caps. Never does anything itself: no
//! sockets, no tasks, no clock (a [`Moment`] is passed in), no randomness.
//!
//! A connection meets the modules in this order: [`places`] and [`deadline`]
//! from accept; [`head`] over what it sends, within [`budget`]; [`caller`],
//! [`token`] and [`verdict`]; [`answer`] and [`pages`], and [`tally`] where it is
//! turned away, or [`wake`] and [`allowance`]; [`ready`] and [`pick`] for where it
//! is passed; [`drain`] for when all this ends early. Whose the port is that it came
//! to was [`serving`]'s matter before.

#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::string_slice, clippy::expect_used)
)]

mod age;
pub mod allowance;
pub mod answer;
pub mod budget;
pub mod caller;
pub mod click;
pub mod deadline;
pub mod drain;
pub mod form;
pub mod head;
mod line;
pub mod moment;
pub mod pages;
pub mod pick;
pub mod places;
pub mod ready;
pub mod serving;
pub mod tally;
mod target;
pub mod token;
pub mod verdict;
pub mod wake;

pub use moment::Moment;
