//! Keeping a connection to the API server open.
//!
//! Owns a small request now and then. Without it the first stamp after a quiet
//! while would wait for a new connection and its TLS handshake, since clients
//! and servers close connections that were idle for 90 s.

use std::convert::Infallible;
use std::time::Duration;

use kube::Client;
use napwake_cluster::plain;
use tokio::time::{MissedTickBehavior, interval};

/// Half of what closes an idle connection.
const EVERY: Duration = Duration::from_secs(45);

/// Asks for the server's version now and then, for ever.
pub async fn keep_warm(client: Client) -> Result<Infallible, Infallible> {
    let mut turns = interval(EVERY);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        turns.tick().await;
        warm(&client).await;
    }
}

/// Asks for the server's version once: what it says doesn't matter, but whoever
/// asks next finds a connection.
pub async fn warm(client: &Client) {
    if let Err(error) = client.apiserver_version().await {
        tracing::debug!(error = plain(&error), "the API server can't be reached");
    }
}
