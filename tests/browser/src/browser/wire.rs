//! How commands get to a driver: HTTP/1.1 on this machine.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use thirtyfour::{
    error::{WebDriverError, WebDriverResult},
    session::http::{Body, HttpClient},
};

/// How long a driver may take for one command: it starts browsers, and waits for
/// pages.
const BOUND: Duration = Duration::from_mins(3);

/// The way to one driver.
#[derive(Clone, Debug)]
pub(super) struct Wire(Client<HttpConnector, Full<Bytes>>);

impl Wire {
    pub(super) fn new() -> Self {
        Self(Client::builder(TokioExecutor::new()).build_http())
    }
}

#[async_trait::async_trait]
impl HttpClient for Wire {
    async fn send(&self, request: Request<Body<'_>>) -> WebDriverResult<Response<Bytes>> {
        let failed =
            |error: &dyn std::fmt::Display| WebDriverError::RequestFailed(error.to_string());
        let what = format!("{} {}", request.method(), request.uri().path());
        let request = request.map(|body| match body {
            Body::Empty => Full::default(),
            Body::Json(json) => Full::from(json.to_string()),
        });
        let exchange = async {
            let answer = self
                .0
                .request(request)
                .await
                .map_err(|error| failed(&error))?;
            let (head, body) = answer.into_parts();
            let body = body.collect().await.map_err(|error| failed(&error))?;
            Ok(Response::from_parts(head, body.to_bytes()))
        };
        let done = tokio::time::timeout(BOUND, exchange).await;
        done.unwrap_or_else(|_| Err(failed(&format!("no answer to {what} within {BOUND:?}"))))
    }

    async fn new(&self) -> Arc<dyn HttpClient> {
        Arc::new(Self::new())
    }
}
