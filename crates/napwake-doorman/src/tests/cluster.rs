//! An API server in memory: Pods that can be watched by name, and whatever is
//! written, recorded.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::stored::Stored;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// A request that was made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

/// The cluster. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Cluster {
    state: Arc<Mutex<State>>,
    made: Arc<watch::Sender<usize>>,
}

#[derive(Default)]
struct State {
    pods: HashMap<(String, String), Value>,
    watches: Vec<((String, String), mpsc::UnboundedSender<String>)>,
    calls: Vec<Call>,
    refusals: Vec<u16>,
    stored: Stored,
    is_broken: bool,
    is_silent: bool,
    lost_answers: usize,
}

impl Cluster {
    pub(crate) fn client(&self) -> Client {
        let cluster = self.clone();
        let service = tower::service_fn(move |request| {
            let cluster = cluster.clone();
            async move { cluster.answer(request).await }
        });
        Client::new(service, "default")
    }

    /// A Pod as it is from now on.
    pub(crate) fn put_pod(&self, namespace: &str, name: &str, ip: &str, ready: bool) {
        let status = if ready { "True" } else { "False" };
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "namespace": namespace, "name": name, "uid": "1", "resourceVersion": "7",
            },
            "status": {
                "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }],
                "conditions": [{ "type": "Ready", "status": status }],
            },
        });
        self.put(namespace, name, pod);
    }

    /// A Pod as it is from now on, written out.
    pub(crate) fn put(&self, namespace: &str, name: &str, pod: Value) {
        let key = (namespace.to_owned(), name.to_owned());
        let line = event("MODIFIED", &pod);
        let mut state = self.state.lock();
        for (_, watch) in state.watches.iter().filter(|(of, _)| *of == key) {
            watch.send(line.clone()).ok();
        }
        state.pods.insert(key, pod);
    }

    /// The next stamps are refused with these codes.
    pub(crate) fn refuse_stamps(&self, codes: impl IntoIterator<Item = u16>) {
        self.state.lock().refusals.extend(codes);
    }

    /// An object as it is from now on, at its path.
    pub(crate) fn store(&self, path: &str, object: Value) {
        self.state.lock().stored.put(path, object);
    }

    /// An object that was stored, as it is now.
    pub(crate) fn stored(&self, path: &str) -> Option<Value> {
        self.state.lock().stored.get(path)
    }

    /// Takes away an object that was stored.
    pub(crate) fn unstore(&self, path: &str) {
        self.state.lock().stored.remove(path);
    }

    /// So many of the next patches are carried out and then answered as if not.
    pub(crate) fn lose_answers(&self, count: usize) {
        self.state.lock().lost_answers = count;
    }

    /// From now on every call fails.
    pub(crate) fn break_down(&self) {
        self.state.lock().is_broken = true;
    }

    /// From now on no call is answered.
    pub(crate) fn fall_silent(&self) {
        self.state.lock().is_silent = true;
    }

    /// From now on calls are answered again.
    pub(crate) fn speak_again(&self) {
        self.state.lock().is_silent = false;
    }

    /// What was asked so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.state.lock().calls.clone()
    }

    /// The stamps that were asked for so far, refused ones included.
    pub(crate) fn stamps(&self) -> Vec<Value> {
        let calls = self.calls();
        let stamps = calls
            .into_iter()
            .filter(|call| call.method == Method::PATCH);
        stamps.map(|call| call.body).collect()
    }

    /// The events that were written so far, as reason and note.
    pub(crate) fn events(&self) -> Vec<(String, String)> {
        let text = |body: &Value, field: &str| body[field].as_str().unwrap_or_default().to_owned();
        self.calls()
            .iter()
            .filter(|call| call.path.ends_with("/events"))
            .map(|call| (text(&call.body, "reason"), text(&call.body, "note")))
            .collect()
    }

    /// How many Pods are watched now.
    pub(crate) fn watched(&self) -> usize {
        let state = self.state.lock();
        state
            .watches
            .iter()
            .filter(|(_, watch)| !watch.is_closed())
            .count()
    }

    /// Waits until the calls are as `wanted` says.
    pub(crate) async fn until(&self, wanted: impl Fn(&Self) -> bool) {
        let mut made = self.made.subscribe();
        while !wanted(self) {
            made.changed().await.unwrap();
        }
    }

    async fn answer(&self, request: Request<Body>) -> Result<Answer, Infallible> {
        // Calls that are made together overlap.
        tokio::task::yield_now().await;
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap_or_default();
        let call = Call {
            method: head.method,
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        };
        let answer = {
            let mut state = self.state.lock();
            state.calls.push(call.clone());
            (!state.is_silent).then(|| state.answer(&call))
        };
        self.made.send_modify(|made| *made += 1);
        match answer {
            Some(answer) => Ok(answer),
            None => std::future::pending().await,
        }
    }
}

impl State {
    fn answer(&mut self, call: &Call) -> Answer {
        if self.is_broken {
            return refusal(500);
        }
        let is_refused = call.method == Method::PATCH && !self.refusals.is_empty();
        if !is_refused && let Some(answer) = self.stored.answer(call) {
            if call.method == Method::PATCH && self.lost_answers > 0 {
                self.lost_answers -= 1;
                return refusal(500);
            }
            return answer.map_or_else(refusal, |object| whole(&object));
        }
        match call.method {
            Method::PATCH => match (!self.refusals.is_empty()).then(|| self.refusals.remove(0)) {
                Some(code) => refusal(code),
                None => whole(&json!({
                    "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                    "metadata": { "name": "api", "namespace": "shop" },
                })),
            },
            Method::POST => whole(&call.body),
            Method::GET if call.query.contains("watch=") => self.watch(call),
            _ => self.read(call),
        }
    }

    fn watch(&mut self, call: &Call) -> Answer {
        let namespace = call.path.split('/').nth(4).unwrap_or_default().to_owned();
        let selector = call
            .query
            .split('&')
            .find_map(|part| part.strip_prefix("fieldSelector="));
        let name = selector
            .and_then(|selector| selector.rsplit(['=', 'D']).next())
            .unwrap_or_default()
            .to_owned();
        let (send, lines) = mpsc::unbounded_channel();
        let key = (namespace, name);
        if let Some(pod) = self.pods.get(&key) {
            send.send(event("ADDED", pod)).ok();
        }
        self.watches.push((key, send));
        let frames = stream::unfold(lines, async |mut lines| {
            let line = lines.recv().await?;
            Some((Ok(http_body::Frame::data(Bytes::from(line))), lines))
        });
        Response::new(StreamBody::new(frames).boxed_unsync())
    }

    fn read(&self, call: &Call) -> Answer {
        let mut parts = call.path.split('/').skip(4);
        let namespace = parts.next().unwrap_or_default().to_owned();
        let name = parts.nth(1).unwrap_or_default().to_owned();
        match self.pods.get(&(namespace, name)) {
            Some(pod) => whole(pod),
            None => refusal(404),
        }
    }
}

/// As the server writes it: the type first.
fn event(kind: &str, object: &Value) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

fn whole(body: &Value) -> Answer {
    Response::new(Full::from(body.to_string()).boxed_unsync())
}

fn refusal(code: u16) -> Answer {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        _ => "InternalError",
    };
    let mut answer = whole(&json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "message": "not now", "reason": reason, "code": code,
    }));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap();
    answer
}
