//! One bounded HTTP/1 server: accept, perhaps TLS, one request, close.
//!
//! Keeps no connection open between requests: scrapes and probes come many
//! seconds apart, and an idle connection would hold one of few places.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, extract::ConnectInfo};
use hyper::{Request, body::Incoming, server::conn::http1, service::Service};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

use super::{Limits, tls::Certificates};

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
    let places = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    loop {
        // It can't fail: nobody closes the semaphore.
        let place = Arc::clone(&places).acquire_owned().await.ok();
        while connections.try_join_next().is_some() {}
        let (stream, peer) = accept(&listener).await;
        let (app, transport) = (app.clone(), transport.clone());
        connections.spawn(async move {
            let answered = timeout(
                limits.whole,
                connection(stream, peer, app, transport, limits),
            );
            if let Ok(Err(error)) = answered.await {
                tracing::debug!(%peer, %error, "admin connection failed");
            }
            drop(place);
        });
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
    #[error("TLS handshake failed: {0}")]
    Handshake(io::Error),
    #[error("HTTP failed: {0}")]
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
