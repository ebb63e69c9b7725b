//! Waiting for a time that may not be set.
//!
//! Owns that one which isn't never comes.

use std::future::pending;

use tokio::time::{Instant, sleep_until};

/// Waits until then; for ever, if there is no then. Cancel-safe.
pub async fn until(then: Option<Instant>) {
    match then {
        Some(then) => sleep_until(then).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn comes_when_it_is_set() {
        let start = Instant::now();
        let span = Duration::from_secs(5);
        until(Some(start + span)).await;
        assert_eq!(start.elapsed(), span);
        assert!(timeout(span * 1000, until(None)).await.is_err());
    }
}
