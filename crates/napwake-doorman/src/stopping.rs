//! The end of a doorman pod, from SIGTERM to exit.
//!
//! Owns the steps of it: accepting ends, then every connection does (DRAIN-11 to
//! DRAIN-13), and then what they led to is written. Readiness fails at the signal
//! itself, by `napwake_kit`.

use std::convert::Infallible;
use std::time::Duration;

use napwake_gate::drain::{POD_ACCEPTS, POD_ENDS};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long whatever was cut may take to notice.
pub const NOTICE: Duration = Duration::from_secs(1);

/// How long the last writes may take together, once every connection has ended.
/// That is within the 40 s that a pod is given, of which 5 are over before SIGTERM
/// (T-82).
pub const LAST_WRITES: Duration = Duration::from_secs(5);

/// The steps of an ending, as tokens.
#[derive(Debug, Clone, Default)]
pub struct Stopping {
    /// Cancelled when nothing more is accepted.
    pub accepting: CancellationToken,
    /// Cancelled when whatever is still open must end.
    pub cut: CancellationToken,
    /// Cancelled when no connection is left that could lead to a write.
    pub ended: CancellationToken,
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
        self.ended.cancel();
        Ok(())
    }

    /// Waits until no connection is left, and then for what `writing` still has to
    /// write: a wake goes on though its caller is gone (T-84).
    pub async fn last_writes(self, writing: TaskTracker) -> Result<(), Infallible> {
        self.ended.cancelled().await;
        writing.close();
        if timeout(LAST_WRITES, writing.wait()).await.is_err() {
            tracing::warn!(left = writing.len(), "wakes or events are lost");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
