//! Bounded waiting for programs outside this one.
//!
//! Owns the only clock and the only sleep of the development tools. They are
//! blocking programs that wait for processes of the machine, which no paused
//! clock could drive; nothing of the product uses this module.

use std::time::{Duration, Instant};

/// How often a state is asked for while waiting.
const POLL: Duration = Duration::from_millis(200);

/// A stretch of time that started when this was made.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(
        clippy::disallowed_methods,
        reason = "the development tools' one clock"
    )]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

/// What one look at a state found.
#[derive(Debug)]
pub enum Seen<T> {
    Done(T),
    /// Not there yet; says how far it is, for whoever reads the failure.
    NotYet(String),
}

/// The bound ran out.
#[derive(Debug, thiserror::Error)]
#[error("waited {} s for {what}; last seen: {last}", bound.as_secs())]
pub struct TimedOut {
    pub what: String,
    pub bound: Duration,
    pub last: String,
}

/// Looks until the state is there, at most for `bound`. An error of the look
/// itself ends the wait at once: it says that waiting is pointless.
pub fn until<T, E: From<TimedOut>>(
    what: &str,
    bound: Duration,
    mut look: impl FnMut() -> Result<Seen<T>, E>,
) -> Result<T, E> {
    let since = Stopwatch::start();
    loop {
        match look()? {
            Seen::Done(value) => return Ok(value),
            Seen::NotYet(last) if since.elapsed() >= bound => {
                return Err(TimedOut {
                    what: what.to_owned(),
                    bound,
                    last,
                }
                .into());
            }
            Seen::NotYet(_) => pause(POLL),
        }
    }
}

/// Sleeps between two looks.
#[expect(
    clippy::disallowed_methods,
    reason = "the development tools' one sleep; no runtime here"
)]
pub(crate) fn pause(span: Duration) {
    std::thread::sleep(span);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_that_runs_out_says_what_was_seen_last() {
        let mut looks = 0;
        let gone: Result<(), TimedOut> = until("the node", Duration::ZERO, || {
            looks += 1;
            Ok(Seen::NotYet(format!("look {looks}")))
        });
        assert_eq!(
            gone.unwrap_err().to_string(),
            "waited 0 s for the node; last seen: look 1"
        );
    }

    #[test]
    fn an_error_of_the_look_ends_the_wait() {
        #[derive(Debug, thiserror::Error)]
        enum Failed {
            #[error("pointless")]
            Pointless,
            #[error(transparent)]
            Late(#[from] TimedOut),
        }
        let ended: Result<(), Failed> = until("anything", Duration::from_hours(1), || {
            Err(Failed::Pointless)
        });
        assert!(matches!(ended, Err(Failed::Pointless)));
    }
}
