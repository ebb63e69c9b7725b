//! One request, and when it was answered.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::clock::{Clock, Moment};

/// Longer than the doorman holds anybody.
const PATIENCE: Duration = Duration::from_secs(130);

/// The most that is read of an answer.
const ENOUGH: usize = 4096;

/// When a caller sent its first byte, and when the first one of the answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) sent: Moment,
    pub(crate) answered: Moment,
}

/// Asks the app of that name, which says its own name.
pub(crate) async fn ask(clock: Clock, address: SocketAddr, app: &str) -> Result<Answered> {
    let asked = timeout(PATIENCE, ask_and_wait(clock, address, app)).await;
    asked.with_context(|| format!("{app} didn't answer within {PATIENCE:?}"))?
}

async fn ask_and_wait(clock: Clock, address: SocketAddr, app: &str) -> Result<Answered> {
    let mut stream = TcpStream::connect(address)
        .await
        .with_context(|| format!("connect to {app} at {address}"))?;
    stream.set_nodelay(true)?;
    let request = format!("GET / HTTP/1.1\r\nHost: {app}\r\nConnection: close\r\n\r\n");
    let sent = clock.now();
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::with_capacity(ENOUGH);
    stream.read_buf(&mut answer).await?;
    let answered = clock.now();
    while stream.read_buf(&mut answer).await? > 0 {
        ensure!(answer.len() < ENOUGH, "{app} answers without an end");
    }
    let answer = String::from_utf8_lossy(&answer);
    ensure!(is_of(&answer, app), "not the answer of {app}: {answer:?}");
    Ok(Answered { sent, answered })
}

fn is_of(answer: &str, app: &str) -> bool {
    answer.starts_with("HTTP/1.1 200 ") && answer.contains(&format!("\r\n\r\napp {app}-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_the_apps_own() {
        let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\napp a-1-7d9-x\n";
        assert!(is_of(answer, "a-1") && !is_of(answer, "a-2"));
        assert!(!is_of(&answer.replace("200", "503"), "a-1"));
    }
}
