//! What this crate's tests share: a small cluster in memory, objects, a doorman
//! over it, and what it logs.

mod cluster;
mod lines;
mod objects;
mod stored;
mod world;

pub(crate) use self::cluster::Cluster;
pub(crate) use self::lines::Lines;
pub(crate) use self::objects::{claimant, managed, merge, now, numbered, slice};
pub(crate) use self::world::{Dial, Ending, World, ending, read};
