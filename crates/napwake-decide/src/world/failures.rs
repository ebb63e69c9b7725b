//! What keeps slices from standing as they are written.

use jiff::Timestamp;

use super::SliceSpec;

/// Slice writes that failed one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SliceFailure {
    /// When the last one failed; of one that was altered, when it was written.
    pub at: Timestamp,
    /// How many failed in a row, at least 1.
    pub count: u32,
    /// Why the last one failed.
    pub why: SliceProblem,
}

/// Why a slice write failed, or came to nothing.
///
/// A conflict with a newer version isn't one, since the next decision sees it, but
/// for one after the other: those are given as refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SliceProblem {
    /// A slice of that name is there, and somebody else manages it (ROUTE-71).
    /// Given only after reading it; one of our own belongs into
    /// [`super::World::slices`] instead.
    Foreign,
    /// The API server refused the write, with its message (ROUTE-70).
    Refused(String),
    /// It was written, and stands otherwise: admission changed it on its way, or
    /// somebody else soon after. Tells of the last time.
    Altered {
        /// What was written.
        written: Box<SliceSpec>,
        /// What of it was changed, for people.
        what: String,
    },
}
