//! What the admin servers answer.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::{ConnectInfo, RawQuery, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, put},
};

use super::{Authorizer, Verdict};
use crate::{
    log::{LogFilter, LogHandle},
    metrics::{Format, Metrics},
    ready::{Readiness, Status},
};

pub(super) fn health(readiness: Readiness, log: LogHandle) -> Router {
    Router::new()
        // Alive is: this task still answers. What must not end is supervised.
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz).with_state(readiness))
        .route("/debug/log-level", put(log_level).with_state(log))
}

async fn readyz(State(readiness): State<Readiness>, RawQuery(query): RawQuery) -> Response {
    let verbose = query.is_some_and(|query| query.split('&').any(|part| part == "verbose"));
    let status = readiness.status();
    let code = match status {
        Status::Ready => StatusCode::OK,
        Status::Waiting(_) | Status::Stopping => StatusCode::SERVICE_UNAVAILABLE,
    };
    let body = match status {
        Status::Ready => "ok\n".to_owned(),
        Status::Waiting(missing) if verbose => format!("waiting for {}\n", missing.join(", ")),
        Status::Stopping if verbose => "stopping\n".to_owned(),
        Status::Waiting(_) | Status::Stopping => "not ready\n".to_owned(),
    };
    (code, body).into_response()
}

/// Only from the pod itself: nobody else on the network may change what is logged.
async fn log_level(
    State(log): State<LogHandle>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    RawQuery(query): RawQuery,
) -> Response {
    if !peer.ip().to_canonical().is_loopback() {
        return (StatusCode::FORBIDDEN, "from loopback only\n").into_response();
    }
    let query = query.unwrap_or_default();
    let filter = query
        .split('&')
        .find_map(|part| part.strip_prefix("filter="));
    let Some(Ok(filter)) = filter.map(str::parse::<LogFilter>) else {
        return (StatusCode::BAD_REQUEST, "give ?filter=LEVEL\n").into_response();
    };
    match log.set_filter(&filter) {
        Ok(()) => {
            tracing::info!(%filter, "log filter changed");
            (StatusCode::OK, "ok\n").into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

#[derive(Clone)]
struct Scrape {
    metrics: Metrics,
    authorizer: Arc<dyn Authorizer>,
}

pub(super) fn metrics(metrics: Metrics, authorizer: Arc<dyn Authorizer>) -> Router {
    Router::new()
        .route("/metrics", get(scrape))
        .with_state(Scrape {
            metrics,
            authorizer,
        })
}

async fn scrape(State(scrape): State<Scrape>, headers: HeaderMap) -> Response {
    match scrape.authorizer.may_read_metrics(bearer(&headers)).await {
        Verdict::Allowed => {}
        Verdict::Unauthenticated => {
            let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
            return (StatusCode::UNAUTHORIZED, challenge).into_response();
        }
        Verdict::Denied => return StatusCode::FORBIDDEN.into_response(),
        Verdict::Unavailable => return StatusCode::SERVICE_UNAVAILABLE.into_response(),
    }
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok());
    let format = Format::accepted(accept);
    match scrape.metrics.encode(format) {
        Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "can't encode the metrics");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// The token of an `Authorization: Bearer` header (RFC 6750, section 2.1).
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}
