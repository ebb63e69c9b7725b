//! Opening a port and accepting from it.
//!
//! Owns the listening socket, the options of accepted streams, and what an
//! accept error means. It never looks at what a caller sends, and never decides
//! whether a caller is served: it hands every connection on.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::kernel::{bound_held, prepare};
use crate::transport::Accept;

/// How many callers may wait to be accepted. The kernel lowers it to
/// `net.core.somaxconn`, which is 4096 on Linux since 5.4.
pub const BACKLOG: i32 = 4096;

/// How long to wait after an accept error that isn't the caller's own, such as
/// too many open files.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where a port is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ListenOn {
    /// Every address of both families, on one socket; IPv4 only where the
    /// machine has no IPv6.
    Everywhere,
    /// One address.
    Address(IpAddr),
}

/// A port that couldn't be opened.
#[derive(Debug, thiserror::Error)]
#[error("can't open port {port}")]
pub struct ListenError {
    /// The port that was asked for.
    pub port: u16,
    /// What the kernel said.
    pub source: io::Error,
}

/// An open port. Dropping it closes the port at once; connections accepted from
/// it live on, and the port can be opened again while they do (T-80).
#[derive(Debug)]
pub struct Listener {
    inner: TcpListener,
}

impl Listener {
    /// Opens `port` (0: any free one). Must run within a tokio runtime.
    pub fn open(on: ListenOn, port: u16) -> Result<Self, ListenError> {
        let opened = match on {
            ListenOn::Address(address) => bind(SocketAddr::new(address, port)),
            ListenOn::Everywhere => {
                let v6 = bind(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), port));
                match v6 {
                    Err(error) if lacks_ipv6(&error) => {
                        bind(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port))
                    }
                    opened => opened,
                }
            }
        };
        opened
            .and_then(TcpListener::from_std)
            .map(|inner| Self { inner })
            .map_err(|source| ListenError { port, source })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}

fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking().cloexec(),
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    // Connections accepted earlier may still use the port.
    socket.set_reuse_address(true)?;
    // On Linux what is accepted has them from its listener: six calls less each.
    prepare(&socket);
    bound_held(&socket);
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// IPv6 is compiled out of the kernel, or turned off for this namespace.
fn lacks_ipv6(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL)
    )
}

impl Accept for Listener {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, caller) = self.inner.accept().await?;
        Ok((stream, canonical(caller)))
    }
}

/// The address without its IPv4-mapped form (T-66).
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// A connection from the accept loop.
#[derive(Debug)]
pub struct Accepted<S = TcpStream> {
    /// The connection, its options set.
    pub stream: S,
    /// Where it came from; never an IPv4-mapped address (T-66).
    pub caller: SocketAddr,
}

/// Accepts until cancelled, then closes the listener.
///
/// Errors never end the loop: those of one connection are passed over, others
/// pause it for [`ACCEPT_PAUSE`]. When cancelled, it first takes the callers
/// whose connections the kernel had already made, who would otherwise be reset,
/// and the port is closed when this returns. `on_stream` must not block.
pub async fn accept_loop<A: Accept>(
    mut listener: A,
    cancel: CancellationToken,
    mut on_stream: impl FnMut(Accepted<A::Stream>) + Send,
) {
    let mut troubled = 0_u64;
    loop {
        let result = tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            result = listener.accept() => result,
        };
        match result {
            Ok((stream, caller)) => {
                if troubled > 0 {
                    tracing::info!(failed = troubled, "accepting again");
                    troubled = 0;
                }
                on_stream(Accepted { stream, caller });
            }
            Err(error) if is_of_one_connection(&error) => {
                tracing::debug!(%error, "a connection ended before it was accepted");
                tokio::task::consume_budget().await;
            }
            Err(error) => {
                if troubled == 0 {
                    tracing::error!(%error, "can't accept connections, trying on");
                }
                troubled = troubled.saturating_add(1);
                tokio::select! {
                    () = cancel.cancelled() => break,
                    () = tokio::time::sleep(ACCEPT_PAUSE) => {}
                }
            }
        }
    }
    sweep(&mut listener, &mut on_stream).await;
}

/// Takes whoever is waiting now, and no more than fit the backlog.
async fn sweep<A: Accept>(listener: &mut A, on_stream: &mut impl FnMut(Accepted<A::Stream>)) {
    // The runtime may not have heard of the last ones yet: let it look once.
    tokio::task::yield_now().await;
    for _ in 0..BACKLOG {
        let next = tokio::task::unconstrained(async {
            tokio::select! {
                biased;
                result = listener.accept() => Some(result),
                () = std::future::ready(()) => None,
            }
        });
        match next.await {
            Some(Ok((stream, caller))) => on_stream(Accepted { stream, caller }),
            Some(Err(error)) if is_of_one_connection(&error) => {}
            Some(Err(_)) | None => break,
        }
    }
}

/// Whether an accept error tells only of the one connection that was next
/// (`accept(2)`: network errors already pending on the new socket, and `EPERM`
/// from a firewall). Such an error has used up its connection, so passing over
/// it can't spin.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::CONNABORTED
                | Errno::CONNRESET
                | Errno::INTR
                | Errno::PERM
                | Errno::PROTO
                | Errno::NOPROTOOPT
                | Errno::TIMEDOUT
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::NONET
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
        )
    )
}

#[cfg(test)]
mod tests;
