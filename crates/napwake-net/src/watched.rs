//! Counting a connection.
//!
//! Owns the byte counts of one stream, the time of its last activity, and the
//! one record of its end. It observes only: nothing here is ever consulted to
//! decide what happens to a byte.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

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

/// Holds the counts, and gives them to `on_end` exactly once, when it goes.
struct Record {
    traffic: Traffic,
    on_end: Option<Box<dyn FnOnce(Traffic) + Send>>,
}

impl Record {
    fn read(&mut self, bytes: usize) {
        if bytes > 0 {
            self.traffic.read = self.traffic.read.saturating_add(bytes as u64);
            self.traffic.last = Instant::now();
        }
    }

    fn wrote(&mut self, bytes: usize) {
        if bytes > 0 {
            self.traffic.written = self.traffic.written.saturating_add(bytes as u64);
            self.traffic.last = Instant::now();
        }
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if let Some(on_end) = self.on_end.take() {
            on_end(self.traffic);
        }
    }
}

/// A stream that is counted.
pub struct Watched<S> {
    inner: S,
    record: Record,
}

impl<S: fmt::Debug> fmt::Debug for Watched<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched")
            .field("inner", &self.inner)
            .field("traffic", &self.record.traffic)
            .finish_non_exhaustive()
    }
}

impl<S> Watched<S> {
    /// Counts `inner` from now on.
    pub fn new(inner: S) -> Self {
        Self::starting(inner, None)
    }

    /// Counts `inner`, and calls `on_end` once with the totals when the stream
    /// goes, by whatever path: finished, failed, or its task dropped.
    pub fn with_record(inner: S, on_end: impl FnOnce(Traffic) + Send + 'static) -> Self {
        Self::starting(inner, Some(Box::new(on_end)))
    }

    fn starting(inner: S, on_end: Option<Box<dyn FnOnce(Traffic) + Send>>) -> Self {
        let traffic = Traffic {
            read: 0,
            written: 0,
            last: Instant::now(),
        };
        Self {
            inner,
            record: Record { traffic, on_end },
        }
    }

    /// What has passed so far.
    pub fn traffic(&self) -> Traffic {
        self.record.traffic
    }

    /// Ends the watch (and records it), keeping the stream.
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
        this.record.read(buf.filled().len().saturating_sub(before));
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
        this.record.wrote(count);
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

    fn read_past(&mut self, bytes: usize) {
        self.record.read(bytes);
        self.inner.read_past(bytes);
    }

    fn written_past(&mut self, bytes: usize) {
        self.record.wrote(bytes);
        self.inner.written_past(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    type Ends = Arc<Mutex<Vec<Traffic>>>;

    fn recorded<S>(stream: S) -> (Watched<S>, Ends) {
        let ends = Ends::default();
        let sink = ends.clone();
        let watched = Watched::with_record(stream, move |traffic| {
            sink.lock().unwrap().push(traffic);
        });
        (watched, ends)
    }

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

    #[tokio::test]
    async fn the_end_is_recorded_once_when_dropped() {
        let (mut stream, ends) = recorded(duplex(64).0);
        drop(stream.write_all(b"lost").await);
        drop(stream);
        assert_eq!(ends.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn the_end_is_recorded_once_when_taken_apart() {
        let (near, mut far) = duplex(64);
        let (mut stream, ends) = recorded(near);
        stream.write_all(b"four").await.unwrap();
        let mut inner = stream.into_inner();
        assert_eq!(ends.lock().unwrap().as_slice()[0].written, 4);
        inner.write_all(b"more").await.unwrap();
        let mut got = [0; 8];
        far.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"fourmore");
        assert_eq!(ends.lock().unwrap().len(), 1);
    }
}
