//! The end of a doorman pod, from SIGTERM to exit.
//!
//! Owns the two steps of it: accepting ends, then everything does (DRAIN-11 to
//! DRAIN-13). Readiness fails at the signal itself, by `napwake_kit`.

use std::convert::Infallible;
use std::time::Duration;

use napwake_gate::drain::{POD_ACCEPTS, POD_ENDS};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long whatever was cut may take to notice.
pub const NOTICE: Duration = Duration::from_secs(1);

/// The steps of an ending, as tokens.
#[derive(Debug, Clone, Default)]
pub struct Stopping {
    /// Cancelled when nothing more is accepted.
    pub accepting: CancellationToken,
    /// Cancelled when whatever is still open must end.
    pub cut: CancellationToken,
}

impl Stopping {
    /// Waits for `asked`, then ends accepting and, as soon as `connections` are
    /// done or their time is up, everything.
    pub async fn carry_out(
        self,
        asked: CancellationToken,
        connections: TaskTracker,
    ) -> Result<(), Infallible> {
        asked.cancelled().await;
        let since = Instant::now();
        sleep_until(since + POD_ACCEPTS).await;
        self.accepting.cancel();
        tracing::info!(open = connections.len(), "accepting nothing more");
        connections.close();
        let ended = timeout_at(since + POD_ENDS, connections.wait()).await;
        if ended.is_err() {
            tracing::info!(open = connections.len(), "cutting what is still open");
        }
        self.cut.cancel();
        if timeout_at(Instant::now() + NOTICE, connections.wait())
            .await
            .is_err()
        {
            tracing::warn!(open = connections.len(), "connections are lost");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
