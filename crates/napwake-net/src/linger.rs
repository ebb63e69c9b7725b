//! Ending an answer so that the caller can read it.
//!
//! Owns the last moments of a connection that is answered here: the write side
//! is shut first, then input is read and dropped for a short, bounded time
//! (T-52). Closing a socket with unread input resets it, and a reset can lose
//! an answer that is still on its way. It never makes the bytes of an answer.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::net::{SendFlags, send};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, Interest, ReadBuf};
use tokio::time::{Instant, timeout, timeout_at};

use crate::kernel::{UNTAKEN, bound_untaken};
use crate::transport::Stream;

/// How long the end of an answer may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LingerLimits {
    /// For writing the answer, to a caller that reads slowly or not at all.
    pub write: Duration,
    /// From the end of the answer until the connection is closed, at most.
    pub wait: Duration,
    /// Bytes read and dropped in that time. A caller that sends more is left
    /// waiting, and so still has the time to read.
    pub dropped: usize,
    /// How long the kernel keeps what of the answer wasn't taken, once the connection
    /// is closed, for a caller that takes nothing: no cap counts it any more (LIMIT-35).
    pub untaken: Duration,
}

impl Default for LingerLimits {
    /// 10 s, 2 s, 1 MiB and 10 s.
    fn default() -> Self {
        Self {
            write: Duration::from_secs(10),
            wait: Duration::from_secs(2),
            dropped: 1024 * 1024,
            untaken: UNTAKEN,
        }
    }
}

/// How an answered connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerEnd {
    /// The caller closed after the answer.
    Closed,
    /// The answer was sent; the caller was still there when the time was up.
    TimeUp,
    /// The caller left, or its connection failed, before the answer was out.
    Unsent(io::ErrorKind),
}

/// Writes `answer`, shuts the write side, lingers and closes.
pub async fn answer<S: Stream>(mut stream: S, answer: &[u8], limits: LingerLimits) -> AnswerEnd {
    let written = timeout(limits.write, write_last(&mut stream, answer)).await;
    bound_untaken(&stream, limits.untaken);
    match written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        Ok(()) => farewell(&mut stream, limits).await,
        Err(error) => AnswerEnd::Unsent(error.kind()),
    }
}

/// Writes what nothing but the end follows: the kernel keeps the last of it until
/// then, so that both go in one packet. A packet more would be a tenth of what an
/// answer costs.
async fn write_last(stream: &mut impl Stream, bytes: &[u8]) -> io::Result<()> {
    let Some(socket) = stream.socket() else {
        return stream.write_all(bytes).await;
    };
    let flags = SendFlags::MORE | SendFlags::NOSIGNAL;
    let mut rest = bytes;
    while !rest.is_empty() {
        let send = || send(socket, rest, flags).map_err(io::Error::from);
        let count = socket.async_io(Interest::WRITABLE, send).await?;
        rest = rest.get(count..).unwrap_or_default();
    }
    Ok(())
}

/// Shuts the write side, then reads and drops until the caller closes or a limit
/// is met. The stream is for closing afterwards.
pub async fn farewell<S>(stream: &mut S, limits: LingerLimits) -> AnswerEnd
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let until = Instant::now() + limits.wait;
    let lingering = async {
        stream.shutdown().await?;
        let mut allowed = limits.dropped;
        while allowed > 0 {
            let count = std::future::poll_fn(|cx| poll_drop(cx, stream)).await?;
            if count == 0 {
                return Ok(());
            }
            allowed = allowed.saturating_sub(count);
        }
        std::future::pending::<io::Result<()>>().await
    };
    match timeout_at(until, lingering).await {
        // A caller that resets after the answer has gone, too.
        Ok(Ok(()) | Err(_)) => AnswerEnd::Closed,
        Err(_) => AnswerEnd::TimeUp,
    }
}

/// Reads into a scratch space that exists only during the call.
fn poll_drop<S: AsyncRead + Unpin>(
    cx: &mut Context<'_>,
    stream: &mut S,
) -> Poll<io::Result<usize>> {
    let mut scratch = [MaybeUninit::<u8>::uninit(); 16 * 1024];
    let mut piece = ReadBuf::uninit(&mut scratch);
    ready!(Pin::new(stream).poll_read(cx, &mut piece))?;
    Poll::Ready(Ok(piece.filled().len()))
}

#[cfg(test)]
mod tests;
