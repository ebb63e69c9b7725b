//! The seams between this crate and the network.
//!
//! Relaying, replaying and lingering are generic over [`Stream`], so tests run
//! them over `tokio::io::duplex` on a paused clock. [`Accept`] and [`Connect`]
//! exist for the two things that a pair of pipes can't show: accept errors, and
//! targets that refuse, stay silent or answer late. There is no wider trait over
//! a whole network: nothing would use it that these three don't serve.
//!
//! The real implementations are [`crate::listen::Listener`] and
//! [`crate::dial::Tcp`]. This module never opens a socket itself.

use std::io;
use std::net::SocketAddr;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::TcpStream;

/// Both directions of one connection.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {
    /// The socket itself, while nothing stands between it and the next byte to
    /// be read or written. `None` means: only `poll_read` and `poll_write` will do.
    fn socket(&self) -> Option<&TcpStream> {
        None
    }

    /// The socket, for its options alone: they may be set whatever stands between.
    fn options(&self) -> Option<SockRef<'_>> {
        None
    }

    /// Told of `bytes` that were read straight from [`Stream::socket`].
    fn read_past(&mut self, bytes: usize) {
        let _ = bytes;
    }

    /// Told of `bytes` that were written straight to [`Stream::socket`].
    fn written_past(&mut self, bytes: usize) {
        let _ = bytes;
    }
}

impl Stream for TcpStream {
    fn socket(&self) -> Option<&TcpStream> {
        Some(self)
    }

    fn options(&self) -> Option<SockRef<'_>> {
        Some(SockRef::from(self))
    }
}

impl Stream for DuplexStream {}

/// Something that callers connect to.
pub trait Accept: Send {
    /// What a caller's connection is.
    type Stream: Send;

    /// The next connection and its caller's address. Must be cancel-safe.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Stream, SocketAddr)>> + Send;
}

/// Something that makes connections. Implementations don't decide where to: the
/// [`crate::dial::Dialer`] around them does, before every call.
pub trait Connect: Send + Sync {
    /// What a connection is.
    type Stream: Stream;

    /// Connects to `address`. Dropping the future gives up.
    fn connect(&self, address: SocketAddr)
    -> impl Future<Output = io::Result<Self::Stream>> + Send;
}
