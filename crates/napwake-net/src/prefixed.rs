//! Replaying bytes that were read before.
//!
//! Owns the bytes a held caller sent until they are read again, in order and
//! once, in front of its socket. It never changes them, and never keeps their
//! memory longer than the last of them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::transport::Stream;

/// A stream that is read as `prefix` followed by what the stream itself gives
/// (HOLD-17). Writes go straight through.
#[derive(Debug)]
pub struct Prefixed<S> {
    /// Empty once replayed. An empty `Bytes` owns no memory.
    prefix: Bytes,
    inner: S,
}

impl<S> Prefixed<S> {
    /// Puts `prefix` in front of `inner`.
    pub fn new(prefix: Bytes, inner: S) -> Self {
        let prefix = if prefix.is_empty() {
            Bytes::new()
        } else {
            prefix
        };
        Self { prefix, inner }
    }

    /// How many bytes are still to be replayed.
    pub fn left(&self) -> usize {
        self.prefix.len()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.prefix.is_empty() {
            return Pin::new(&mut this.inner).poll_read(cx, buf);
        }
        let count = this.prefix.len().min(buf.remaining());
        buf.put_slice(&this.prefix[..count]);
        this.prefix.advance(count);
        if this.prefix.is_empty() {
            // An empty slice would still own the memory, and its share of a budget.
            this.prefix = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefixed<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

impl<S: Stream> Stream for Prefixed<S> {
    fn socket(&self) -> Option<&TcpStream> {
        if self.prefix.is_empty() {
            self.inner.socket()
        } else {
            None
        }
    }

    fn options(&self) -> Option<SockRef<'_>> {
        self.inner.options()
    }

    fn read_past(&mut self, bytes: usize) {
        self.inner.read_past(bytes);
    }

    fn written_past(&mut self, bytes: usize) {
        self.inner.written_past(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// An owner that tells when its memory is let go.
    struct Owner {
        bytes: Vec<u8>,
        _alive: Arc<()>,
    }

    fn owned(bytes: &[u8], alive: &Arc<()>) -> Bytes {
        Bytes::from_owner(Owner {
            bytes: bytes.to_vec(),
            _alive: Arc::clone(alive),
        })
    }

    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }

    #[tokio::test]
    async fn the_buffer_is_dropped_with_its_last_byte() {
        let alive = Arc::new(());
        let prefix = owned(b"abc", &alive);
        let (near, _far) = duplex(8);
        let mut stream = Prefixed::new(prefix, near);
        let mut two = [0; 2];
        stream.read_exact(&mut two).await.unwrap();
        assert_eq!(Arc::strong_count(&alive), 2);
        assert_eq!(stream.read_u8().await.unwrap(), b'c');
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[tokio::test]
    async fn an_empty_prefix_owns_nothing() {
        let alive = Arc::new(());
        let prefix = owned(b"", &alive);
        let _stream = Prefixed::new(prefix, duplex(8).0);
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    proptest! {
        /// HOLD-17, HOLD-38: whatever was held at which point, and however it is
        /// read, the reader gets the same bytes in the same order.
        #[test]
        fn every_split_reads_the_same(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            at in any::<proptest::sample::Index>(),
            step in 1_usize..40,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let cut = at.index(bytes.len() + 1);
            let (near, mut far) = duplex(512);
            let got = runtime.block_on(async {
                far.write_all(&bytes[cut..]).await.unwrap();
                drop(far);
                let mut stream = Prefixed::new(Bytes::copy_from_slice(&bytes[..cut]), near);
                let mut got = Vec::new();
                let mut piece = vec![0; step];
                loop {
                    let count = stream.read(&mut piece).await.unwrap();
                    if count == 0 {
                        break got;
                    }
                    got.extend_from_slice(&piece[..count]);
                }
            });
            prop_assert_eq!(got, bytes);
        }
    }
}
