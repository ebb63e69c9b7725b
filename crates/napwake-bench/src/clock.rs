//! The run's one clock.
//!
//! Owns the only reading of the time of day, which ties what this program sees
//! to what the API server logs. They run on the same machine.

use jiff::Timestamp;
use tokio::time::Instant;

/// A moment of the run, in microseconds since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(i64);

/// Milliseconds from one moment to another, negative if the other is earlier.
pub(crate) type Millis = f64;

impl Moment {
    /// Of so many microseconds.
    #[cfg(test)]
    pub(crate) const fn of_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub(crate) const fn micros(self) -> i64 {
        self.0
    }

    /// How long after `earlier` this is.
    pub(crate) fn after(self, earlier: Self) -> Millis {
        millis(self.0 - earlier.0)
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a run of hours has fewer microseconds than a float has digits"
)]
fn millis(micros: i64) -> Millis {
    micros as f64 / 1e3
}

/// Tells moments, of its own and of the time of day.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    day: Timestamp,
    steady: Instant,
}

impl Clock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the bench's one reading of the time of day"
    )]
    pub(crate) fn start() -> Self {
        Self {
            day: Timestamp::now(),
            steady: Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Moment {
        let micros = self.steady.elapsed().as_micros();
        Moment(i64::try_from(micros).unwrap_or(i64::MAX))
    }

    /// When that was.
    pub(crate) fn moment(&self, at: Timestamp) -> Moment {
        Moment(at.as_microsecond() - self.day.as_microsecond())
    }

    /// The time of day now, as stamps have it.
    pub(crate) fn day(&self) -> Timestamp {
        self.day + self.steady.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan as _;

    use super::*;

    #[test]
    fn moments_of_either_kind_are_of_one_scale() {
        let clock = Clock::start();
        let now = clock.now();
        let later = clock.moment(clock.day() + 1500.milliseconds());
        let between = later.after(now);
        assert!((1500.0..1600.0).contains(&between), "{between}");
        assert!(now.after(later) < -1499.0);
    }
}
