//! A scripted API server for tests: one answer per request, in order. When the
//! script is at its end, requests wait for ever.

use std::{collections::VecDeque, convert::Infallible, sync::Arc};

use bytes::Bytes;
use futures::stream;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::{Client, client::Body, core::response::reason};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// An answer.
pub(crate) enum Answer {
    Json(Value),
    /// An error, as the API server writes one.
    Error(u16),
    /// A watch: open until the sender is dropped.
    Watch(mpsc::Receiver<String>),
}

/// What was asked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) call: String,
    pub(crate) body: Value,
}

#[derive(Clone)]
pub(crate) struct FakeApi {
    script: Arc<Mutex<VecDeque<Answer>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl FakeApi {
    pub(crate) fn new(script: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            script: Arc::new(Mutex::new(script.into_iter().collect())),
            asked: Arc::default(),
        }
    }

    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request| api.clone().answer(request));
        Client::new(service, "default")
    }

    /// What was asked so far, as `GET /path?query`.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.asked
            .lock()
            .iter()
            .map(|asked| asked.call.clone())
            .collect()
    }

    /// The bodies that were sent so far.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.asked
            .lock()
            .iter()
            .map(|asked| asked.body.clone())
            .collect()
    }

    async fn answer(
        self,
        request: Request<Body>,
    ) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, kube::Error> {
        let call = format!("{} {}", request.method(), request.uri());
        let body = request.into_body().collect_bytes().await?;
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        self.asked.lock().push(Asked { call, body });
        let answer = self.script.lock().pop_front();
        let (code, body) = match answer {
            Some(Answer::Json(value)) => (200, Full::from(value.to_string()).boxed_unsync()),
            Some(Answer::Error(code)) => (code, Full::from(status(code)).boxed_unsync()),
            Some(Answer::Watch(lines)) => (200, watch_body(lines)),
            None => std::future::pending().await,
        };
        let mut response = Response::new(body);
        *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
        Ok(response)
    }
}

fn status(code: u16) -> String {
    let reason = match code {
        403 => reason::FORBIDDEN,
        409 => reason::ALREADY_EXISTS,
        410 => reason::EXPIRED,
        _ => reason::INTERNAL_ERROR,
    };
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": "scripted", "reason": reason, "code": code,
    })
    .to_string()
}

fn watch_body(lines: mpsc::Receiver<String>) -> UnsyncBoxBody<Bytes, Infallible> {
    let frames = stream::unfold(lines, async |mut lines| {
        let line = lines.recv().await?;
        Some((Ok(http_body::Frame::data(Bytes::from(line))), lines))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// A watch that the test feeds.
pub(crate) struct Feed(mpsc::Sender<String>);

impl Feed {
    pub(crate) fn new() -> (Self, Answer) {
        let (send, receive) = mpsc::channel(64);
        (Self(send), Answer::Watch(receive))
    }

    pub(crate) async fn send(&self, kind: &str, object: Value) {
        // As the server writes it: the type first.
        let line = format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n");
        self.0.send(line).await.unwrap();
    }

    pub(crate) async fn bookmark(&self, version: &str) {
        let metadata = json!({"resourceVersion": version});
        let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata});
        self.send("BOOKMARK", object).await;
    }

    pub(crate) async fn expire(&self) {
        self.send("ERROR", serde_json::from_str(&status(410)).unwrap())
            .await;
    }
}

/// A list of objects.
pub(crate) fn list(version: &str, items: &[Value]) -> Answer {
    Answer::Json(json!({
        "kind": "List", "apiVersion": "v1",
        "metadata": {"resourceVersion": version}, "items": items,
    }))
}
