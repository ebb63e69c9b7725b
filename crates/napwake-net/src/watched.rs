//! Counting a connection.
//!
//! Owns the byte counts of one stream and the time of its last activity. It
//! observes only: nothing here is ever consulted to decide what happens to a byte.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::transport::Stream;

/// What passed through a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes read from the stream.
    pub read: u64,
    /// Bytes written to the stream.
    pub written: u64,
    /// When the last of them passed; the beginning if none did.
    pub last: Instant,
}

impl Traffic {
    fn read(&mut self, bytes: usize) {
        if bytes > 0 {
            self.read = self.read.saturating_add(bytes as u64);
            self.last = Instant::now();
        }
    }

    fn wrote(&mut self, bytes: usize) {
        if bytes > 0 {
            self.written = self.written.saturating_add(bytes as u64);
            self.last = Instant::now();
        }
    }
}

/// A stream that is counted.
#[derive(Debug)]
pub struct Watched<S> {
    inner: S,
    traffic: Traffic,
}

impl<S> Watched<S> {
    /// Counts `inner` from now on.
    pub fn new(inner: S) -> Self {
        let traffic = Traffic {
            read: 0,
            written: 0,
            last: Instant::now(),
        };
        Self { inner, traffic }
    }

    /// What has passed so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Ends the watch, keeping the stream.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
        this.traffic.read(buf.filled().len().saturating_sub(before));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let count = ready!(Pin::new(&mut this.inner).poll_write(cx, buf))?;
        this.traffic.wrote(count);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

impl<S: Stream> Stream for Watched<S> {
    fn socket(&self) -> Option<&TcpStream> {
        self.inner.socket()
    }

    fn options(&self) -> Option<SockRef<'_>> {
        self.inner.options()
    }

    fn read_past(&mut self, bytes: usize) {
        self.traffic.read(bytes);
        self.inner.read_past(bytes);
    }

    fn written_past(&mut self, bytes: usize) {
        self.traffic.wrote(bytes);
        self.inner.written_past(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn counts_each_way_and_remembers_the_last_activity() {
        let (near, mut far) = duplex(64);
        let mut stream = Watched::new(near);
        let start = stream.traffic().last;
        tokio::time::advance(Duration::from_secs(5)).await;
        stream.write_all(b"hello").await.unwrap();
        far.write_all(b"abc").await.unwrap();
        assert_eq!(stream.traffic().last, start + Duration::from_secs(5));
        tokio::time::advance(Duration::from_secs(5)).await;
        let mut got = [0; 3];
        stream.read_exact(&mut got).await.unwrap();
        let last = start + Duration::from_secs(10);
        let expected = Traffic {
            read: 3,
            written: 5,
            last,
        };
        assert_eq!(stream.traffic(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_of_stream_is_no_activity() {
        let (near, far) = duplex(64);
        let mut stream = Watched::new(near);
        let start = stream.traffic().last;
        drop(far);
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(stream.read(&mut [0; 4]).await.unwrap(), 0);
        assert_eq!(stream.traffic().last, start);
    }
}
