//! One bounded HTTP/1 server: accept, perhaps TLS, one request, close.
//!
//! Keeps no connection open between requests: scrapes and probes come many
//! seconds apart, and an idle connection would hold one of few places. When
//! every place is taken, the oldest connection makes room: anybody on the
//! network can open some and say nothing, and the kubelet's probe, which is
//! answered in a moment, must not wait behind them.

use std::{
    collections::VecDeque, convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration,
};

use axum::{Router, extract::ConnectInfo};
use hyper::{Request, body::Incoming, server::conn::http1, service::Service};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

use super::{Limits, tls::Certificates};
use crate::chain::Chain;

/// How bytes travel.
#[derive(Clone)]
pub(super) enum Transport {
    Plain,
    Tls {
        acceptor: TlsAcceptor,
        certificates: Arc<Certificates>,
    },
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain => "Plain",
            Self::Tls { .. } => "Tls",
        })
    }
}

impl Transport {
    pub(super) fn tls(certificates: Certificates) -> Self {
        let certificates = Arc::new(certificates);
        let acceptor = TlsAcceptor::from(Arc::new(certificates.server_config()));
        Self::Tls {
            acceptor,
            certificates,
        }
    }
}

/// Serves until dropped, and its connections with it.
pub(super) async fn serve(
    listener: TcpListener,
    app: Router,
    transport: Transport,
    limits: Limits,
) -> Result<Infallible, Infallible> {
    let mut connections = Connections::default();
    loop {
        let (stream, peer) = accept(&listener).await;
        connections.make_room(limits.connections).await;
        let (app, transport) = (app.clone(), transport.clone());
        connections.start(async move {
            let answered = timeout(
                limits.whole,
                connection(stream, peer, app, transport, limits),
            );
            if let Ok(Err(error)) = answered.await {
                tracing::debug!(%peer, error = %Chain(&error), "admin connection failed");
            }
        });
    }
}

/// The connections under way; dropped with whoever serves them.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    oldest_first: VecDeque<AbortHandle>,
}

impl Connections {
    /// Waits until fewer than `most` are left.
    async fn make_room(&mut self, most: usize) {
        while self.tasks.try_join_next().is_some() {}
        self.oldest_first.retain(|task| !task.is_finished());
        while self.tasks.len() >= most {
            if let Some(oldest) = self.oldest_first.pop_front() {
                oldest.abort();
            }
            self.tasks.join_next().await;
        }
    }

    fn start(&mut self, connection: impl Future<Output = ()> + Send + 'static) {
        self.oldest_first.push_back(self.tasks.spawn(connection));
    }
}

/// Accepts one connection. Errors of a single connection don't count; others,
/// such as too many open files, are given time to pass.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) if of_one_connection(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "can't accept an admin connection");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

fn of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}

#[derive(Debug, thiserror::Error)]
enum ConnectionError {
    #[error("TLS handshake failed")]
    Handshake(#[source] io::Error),
    #[error("HTTP failed")]
    Http(#[from] hyper::Error),
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    app: Router,
    transport: Transport,
    limits: Limits,
) -> Result<(), ConnectionError> {
    match transport {
        Transport::Plain => http(stream, peer, app, limits).await,
        Transport::Tls {
            acceptor,
            certificates,
        } => {
            certificates.refresh(Instant::now());
            let stream = acceptor
                .accept(stream)
                .await
                .map_err(ConnectionError::Handshake)?;
            http(stream, peer, app, limits).await
        }
    }
}

async fn http(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: SocketAddr,
    app: Router,
    limits: Limits,
) -> Result<(), ConnectionError> {
    let app = TowerToHyperService::new(app);
    let with_peer = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        app.call(request)
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .header_read_timeout(limits.headers)
        .max_buf_size(16 * 1024)
        .serve_connection(TokioIo::new(stream), with_peer)
        .await?;
    Ok(())
}
