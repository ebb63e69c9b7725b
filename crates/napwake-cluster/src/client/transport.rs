//! How requests reach the API server: calls share one HTTP/2 connection, and
//! each watch has a connection of its own, by HTTP/1.1.
//!
//! With a connection for each of many calls at once, all but the first would
//! wait for a TLS handshake: many workloads woken at once would wait for each
//! other. Watches stay apart, so that one that is read slowly holds up nobody,
//! and so that they don't use up the streams that a server allows a connection
//! (100, where nobody changed it).

use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response, Uri};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::legacy::{Client as HttpClient, Error, ResponseFuture, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Config,
    client::{Body, ConfigExt},
};
use tower::Service;

use super::ANSWER;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);

/// How long an answer may pause. A watch pauses for as long as nothing changes,
/// but the server ends it after [`crate::watch::SILENCE`].
const PAUSE: Duration = Duration::from_secs(75);

/// How often the shared connection is tried, in use or not. Without it a server
/// that is gone without a word would take every call with it for minutes.
const PING: Duration = Duration::from_secs(5);

/// How long its answer may take. A server that is only slow keeps its connection.
const PONG: Duration = Duration::from_secs(10);

type Connector = TimeoutConnector<HttpsConnector<HttpConnector>>;

/// Both kinds of connections. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Transport {
    calls: HttpClient<Connector, Body>,
    watches: HttpClient<Connector, Body>,
}

/// By what calls go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Calls {
    /// All by one connection.
    Together,
    /// At the same time only by different ones.
    Apart,
}

impl Transport {
    /// To the server of `config`. Connects with the first request.
    pub(super) fn new(config: &Config, calls: Calls) -> kube::Result<Self> {
        let own = || config.rustls_https_connector_with_connector(tcp());
        let watches = own()?;
        let calls = match calls {
            Calls::Together => either_version(config)?,
            Calls::Apart => own()?,
        };
        Ok(Self {
            calls: HttpClient::builder(TokioExecutor::new())
                .timer(TokioTimer::new())
                .http2_keep_alive_interval(PING)
                .http2_keep_alive_timeout(PONG)
                .http2_keep_alive_while_idle(true)
                .build(limited(calls)),
            watches: HttpClient::builder(TokioExecutor::new()).build(limited(watches)),
        })
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<hyper::body::Incoming>;
    type Error = Error;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> ResponseFuture {
        if is_watch(request.uri()) {
            self.watches.request(request)
        } else {
            self.calls.request(request)
        }
    }
}

/// The only requests of a Kubernetes client with answers that don't end.
fn is_watch(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query.split('&').any(|one| one == "watch=true")
}

/// What kube makes, with HTTP/2 where the server has it.
fn either_version(config: &Config) -> kube::Result<HttpsConnector<HttpConnector>> {
    let mut builder = HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config()?)
        .https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = name.clone().try_into();
        let name = name.map_err(|error| kube::Error::Service(Box::new(error)))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(builder.enable_all_versions().wrap_connector(tcp()))
}

/// Notices connections on which nothing moves any more.
fn limited(connector: HttpsConnector<HttpConnector>) -> Connector {
    let mut connector = TimeoutConnector::new(connector);
    connector.set_connect_timeout(Some(CONNECT));
    connector.set_read_timeout(Some(PAUSE));
    connector.set_write_timeout(Some(ANSWER));
    // A pooled connection's idle time doesn't count as a pause.
    connector.set_reset_reader_on_write(true);
    connector
}

/// Makes connections that send at once what there is to send.
fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp
}

#[cfg(test)]
mod tests;
