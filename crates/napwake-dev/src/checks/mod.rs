//! Checks of the tree itself: which requirements no test shows, and whether
//! the invariants of ARCHITECTURE.md hold.
//!
//! Reads sources and the dependency graph; changes nothing.

pub mod checked;
pub mod layers;
pub mod named;
pub mod sources;
pub mod tidy;
pub mod trace;
