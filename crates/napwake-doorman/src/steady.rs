//! The steady clock, as the gate wants it.
//!
//! Owns the origin that the gate's moments count from. Knows no time of day.

use std::time::Duration;

use napwake_gate::Moment;
use tokio::time::Instant;

/// Turns the runtime's instants into the gate's moments. Copies count alike.
#[derive(Debug, Clone, Copy)]
pub struct Steady {
    origin: Instant,
}

impl Steady {
    /// Counts from now on.
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    /// The present.
    pub fn now(self) -> Moment {
        self.moment(Instant::now())
    }

    /// The moment of an instant; one before the origin counts as the origin.
    pub fn moment(self, instant: Instant) -> Moment {
        Moment::new(instant.saturating_duration_since(self.origin))
    }

    /// The instant of a moment; one too far ahead for the clock counts as a day
    /// from now.
    pub fn instant(self, moment: Moment) -> Instant {
        const FAR: Duration = Duration::from_hours(24);
        let instant = self.origin.checked_add(moment.since_origin());
        instant.unwrap_or_else(|| Instant::now() + FAR)
    }
}
