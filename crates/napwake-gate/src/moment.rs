//! [`Moment`]: a point in time that somebody else read from a clock.
//!
//! Moments are for spans (how long ago, until when). They are never written
//! anywhere, and never compared with times of day.

use std::time::Duration;

/// How long after an origin of the user's choice something is, such as after
/// the start of the process. Moments of different origins don't compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The origin itself.
    pub const ORIGIN: Self = Self(Duration::ZERO);

    /// The moment `after` the origin.
    pub const fn new(after: Duration) -> Self {
        Self(after)
    }

    /// How long after the origin this is.
    pub const fn since_origin(self) -> Duration {
        self.0
    }

    /// This moment plus `span`; the last moment there is, if that is beyond it.
    #[must_use]
    pub const fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }

    /// How long after `earlier` this is; zero if it isn't after it.
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}
