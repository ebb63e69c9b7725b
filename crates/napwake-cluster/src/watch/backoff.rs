//! How long to wait before trying again.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use kube::runtime::utils;
use tokio::time::Instant;

/// Short at first, since a blind doorman makes callers wait; no longer than
/// some seconds, since every process of Napwake makes few requests.
const WAITS: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(200))
    .with_factor(2.0)
    .with_max_delay(Duration::from_secs(5))
    .without_max_times()
    .with_jitter();

/// After this long without an error the waits are short again.
const FORGET: Duration = Duration::from_secs(30);

/// Waits of 0.2 s, doubled up to 5 s, each with up to as much again at random;
/// never gives up.
#[derive(Debug)]
pub(super) struct Backoff {
    waits: ExponentialBackoff,
    last: Option<Instant>,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self {
            waits: WAITS.build(),
            last: None,
        }
    }
}

impl Iterator for Backoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let now = Instant::now();
        if self
            .last
            .is_some_and(|last| now.duration_since(last) > FORGET)
        {
            self.waits = WAITS.build();
        }
        self.last = Some(now);
        self.waits.next()
    }
}

impl utils::Backoff for Backoff {
    /// Called at each success. Only time resets: a watcher succeeds in
    /// announcing its list each time before that list fails.
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn grows_to_a_bound_and_forgets() {
        let mut backoff = Backoff::new();
        let bounds = [200, 400, 800, 1_600, 3_200, 5_000, 5_000].map(Duration::from_millis);
        for bound in bounds {
            let wait = backoff.next().unwrap();
            assert!(
                (bound..=bound * 2).contains(&wait),
                "{wait:?} for {bound:?}"
            );
            utils::Backoff::reset(&mut backoff);
            advance(wait).await;
        }
        advance(FORGET).await;
        advance(Duration::from_secs(1)).await;
        assert!(backoff.next().unwrap() <= bounds[1]);
    }
}
