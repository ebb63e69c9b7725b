//! Health and metrics, for those who run the cluster.
//!
//! Two servers: health over plain HTTP, metrics over HTTPS unless the flag says
//! otherwise. Both are bounded (connections, time, header size) and read no
//! request body. Never on the way of a workload's traffic.
//!
//! Who may read the metrics is decided by an [`Authorizer`].

mod routes;
mod serve;
mod tls;

use std::{
    convert::Infallible, io, net::SocketAddr, path::PathBuf, pin::Pin, sync::Arc, time::Duration,
};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

use self::{serve::Transport, tls::Certificates};
use crate::{args::AdminArgs, log::LogHandle, metrics::Metrics, ready::Readiness};

/// A boxed future, so that [`Authorizer`] can be a trait object.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Decides who may read the metrics.
pub trait Authorizer: Send + Sync + 'static {
    /// Judges the bearer token of a request, `None` if it has none. Each call
    /// may take a while: the server bounds how many run at once and how long.
    fn may_read_metrics<'a>(&'a self, bearer: Option<&'a str>) -> BoxFuture<'a, Verdict>;
}

/// What an [`Authorizer`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    /// No token, or one that nobody vouches for: 401.
    Unauthenticated,
    /// A known caller without the right: 403.
    Denied,
    /// Nobody could be asked: 503.
    Unavailable,
}

/// Lets everybody read the metrics.
#[derive(Clone, Copy, Debug)]
pub struct Anyone;

impl Authorizer for Anyone {
    fn may_read_metrics<'a>(&'a self, _bearer: Option<&'a str>) -> BoxFuture<'a, Verdict> {
        Box::pin(async { Verdict::Allowed })
    }
}

/// The admin servers can't start.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    #[error("can't listen on {address} for {purpose}")]
    Bind {
        purpose: &'static str,
        address: SocketAddr,
        source: io::Error,
    },
    #[error("can't make a self-signed certificate")]
    SelfSigned(#[from] rcgen::Error),
    #[error("can't read {}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("no certificate or key in {}", .path.display())]
    Pem {
        path: PathBuf,
        source: rustls::pki_types::pem::Error,
    },
    #[error("the certificate and its key can't be used")]
    Certificate(#[source] rustls::Error),
}

/// How much a server takes on at once. One more drops the oldest connection.
#[derive(Clone, Copy, Debug)]
struct Limits {
    connections: usize,
    /// From the accepted connection to the last byte of the answer.
    whole: Duration,
    headers: Duration,
}

const LIMITS: Limits = Limits {
    connections: 64,
    whole: Duration::from_secs(30),
    headers: Duration::from_secs(10),
};

/// Both servers, listening but not yet answering.
#[derive(Debug)]
pub struct Admin {
    pub health: HealthServer,
    pub metrics: MetricsServer,
}

impl Admin {
    /// Opens both ports and logs their addresses.
    pub fn bind(args: &AdminArgs) -> Result<Self, AdminError> {
        let transport = if args.metrics_insecure {
            Transport::Plain
        } else {
            Transport::tls(match &args.metrics_cert_dir {
                Some(directory) => Certificates::mounted(directory.clone())?,
                None => Certificates::self_signed()?,
            })
        };
        let health = HealthServer {
            listener: Listener::bind("health", args.health_bind_address.0)?,
        };
        let metrics = MetricsServer {
            listener: Listener::bind("metrics", args.metrics_bind_address.0)?,
            transport,
        };
        Ok(Self { health, metrics })
    }
}

/// Answers `/healthz` and `/readyz`.
#[derive(Debug)]
pub struct HealthServer {
    listener: Listener,
}

impl HealthServer {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.address
    }

    /// Serves until dropped. Health is answered while the process drains too,
    /// so give this to [`crate::supervise::Supervisor::endless`].
    ///
    /// `PUT /debug/log-level?filter=debug` changes the log filter, from
    /// loopback only (as `kubectl port-forward` comes).
    pub async fn serve(
        self,
        readiness: Readiness,
        log: LogHandle,
    ) -> Result<Infallible, Infallible> {
        let app = routes::health(readiness, log);
        serve::serve(self.listener.socket, app, Transport::Plain, LIMITS).await
    }
}

/// Answers `/metrics`.
#[derive(Debug)]
pub struct MetricsServer {
    listener: Listener,
    transport: Transport,
}

impl MetricsServer {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.listener.address
    }

    /// Serves until dropped. Over plain HTTP `authorizer` isn't asked: a token
    /// must not be sent in the clear, and the flag says that anyone may read.
    pub async fn serve(
        self,
        metrics: Metrics,
        authorizer: Arc<dyn Authorizer>,
    ) -> Result<Infallible, Infallible> {
        let authorizer = match self.transport {
            Transport::Plain => Arc::new(Anyone),
            Transport::Tls { .. } => authorizer,
        };
        let app = routes::metrics(metrics, authorizer);
        serve::serve(self.listener.socket, app, self.transport, LIMITS).await
    }
}

/// A bound port.
#[derive(Debug)]
struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    fn bind(purpose: &'static str, address: SocketAddr) -> Result<Self, AdminError> {
        let socket = match listen(address) {
            // A host without IPv6 can't open `[::]`; what is meant is "everywhere".
            Err(error) if no_ipv6(&error) && address.ip().is_unspecified() => {
                listen(SocketAddr::from(([0, 0, 0, 0], address.port())))
            }
            socket => socket,
        };
        let bound = socket.and_then(|socket| {
            let address = socket.local_addr()?;
            Ok(Self { socket, address })
        });
        let bound = bound.map_err(|source| AdminError::Bind {
            purpose,
            address,
            source,
        })?;
        tracing::info!(purpose, address = %bound.address, "listening");
        Ok(bound)
    }
}

fn no_ipv6(error: &io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    matches!(
        errno,
        Some(rustix::io::Errno::AFNOSUPPORT | rustix::io::Errno::ADDRNOTAVAIL)
    )
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        // Both families on one socket, whatever the host's default.
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(128)?;
    TcpListener::from_std(socket.into())
}

#[cfg(test)]
mod tests;
