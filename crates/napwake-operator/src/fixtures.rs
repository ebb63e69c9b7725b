//! Objects and an API server for tests.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::{Request, Response};
use kube::{Client, client::Body};
use napwake_api::{
    ManagedWorkload,
    names::{opt, slice},
    settings::Defaults,
    workload::TargetKind,
};
use napwake_cluster::{events::Events, thin as common};
use napwake_decide::{Ports, world::WorkloadKey};
use napwake_kit::{clock::Clock, metrics::Registry};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tower_test::mock;

use crate::{
    apply::{Applier, SliceQueue},
    metrics::OperatorMetrics,
    observe::{
        DoormanService, Index,
        convert::{
            self, ObservedNamespace, ObservedPod, ObservedService, ObservedSlice, ObservedTarget,
            ObservedWorkload,
        },
        thin,
    },
    probe::Prober,
    shared::Shared,
    tell::{Telling, teller},
};

pub(crate) const NAMESPACE: &str = "ns";
/// Napwake's own.
pub(crate) const SYSTEM: &str = "napwake-system";
pub(crate) const DOORMAN: &str = "napwake-doorman";

pub(crate) fn key(name: &str) -> WorkloadKey {
    WorkloadKey {
        namespace: NAMESPACE.to_owned(),
        name: name.to_owned(),
    }
}

pub(crate) fn named(name: &str) -> (String, String) {
    (NAMESPACE.to_owned(), name.to_owned())
}

pub(crate) fn index() -> Index {
    let doorman = DoormanService::Named {
        namespace: SYSTEM.to_owned(),
        name: DOORMAN.to_owned(),
    };
    Index::new(doorman, Defaults::default(), Ports::default())
}

/// Puts `patch` over `base`, object by object.
fn merged(mut base: Value, patch: Value) -> Value {
    match (&mut base, patch) {
        (Value::Object(base), Value::Object(patch)) => {
            for (key, value) in patch {
                let known = base.remove(&key).unwrap_or(Value::Null);
                base.insert(key, merged(known, value));
            }
        }
        (base, patch) => *base = patch,
    }
    base
}

/// A ManagedWorkload of a Deployment of the same name, as JSON.
pub(crate) fn workload_json(name: &str, version: u32, patch: Value) -> Value {
    let base = json!({
        "apiVersion": "napwake.dev/v1alpha1",
        "kind": "ManagedWorkload",
        "metadata": {
            "namespace": NAMESPACE,
            "name": name,
            "uid": format!("mw-{name}"),
            "resourceVersion": version.to_string(),
            "generation": 1,
            "creationTimestamp": "2026-11-30T10:00:00Z",
        },
        "spec": {"targetRef": {"kind": "Deployment", "name": name}},
    });
    merged(base, patch)
}

pub(crate) fn workload(name: &str, version: u32, patch: Value) -> Arc<ObservedWorkload> {
    let object: ManagedWorkload =
        serde_json::from_value(workload_json(name, version, patch)).unwrap();
    Arc::new(convert::workload(object))
}

/// What opting in puts on a ManagedWorkload.
pub(crate) fn made_by_label(name: &str) -> Value {
    json!({"metadata": {
        "labels": {opt::OPTED_IN: "true"},
        "ownerReferences": [{
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": name,
            "uid": format!("deployment-{name}"),
        }],
    }})
}

/// A status with one route, for port 80 of that Service.
pub(crate) fn routed(phase: &str, service: &str, doorman_port: u16) -> Value {
    json!({"status": {
        "phase": phase,
        "doorman": {"routes": [{
            "service": service,
            "port": {"name": "http", "number": 80},
            "doormanPort": doorman_port,
            "families": ["IPv4"],
            "state": "Routed",
        }], "resting": []},
    }})
}

/// A Deployment with one Ready replica, whose pods are labeled `app: <name>`.
pub(crate) fn deployment_json(name: &str, version: u32, patch: Value) -> Value {
    let base = json!({
        "metadata": {
            "namespace": NAMESPACE,
            "name": name,
            "uid": format!("deployment-{name}"),
            "resourceVersion": version.to_string(),
            "generation": 1,
        },
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "a", "readinessProbe": {}}]},
            },
        },
        "status": {"replicas": 1, "readyReplicas": 1, "observedGeneration": 1},
    });
    merged(base, patch)
}

pub(crate) fn deployment(name: &str, version: u32, patch: Value) -> Arc<ObservedTarget> {
    let object: thin::Deployment =
        serde_json::from_value(deployment_json(name, version, patch)).unwrap();
    Arc::new(convert::target(TargetKind::Deployment, object.0))
}

pub(crate) fn namespace(version: u32, patch: Value) -> Arc<ObservedNamespace> {
    let base = json!({"metadata": {
        "name": NAMESPACE,
        "uid": "namespace",
        "resourceVersion": version.to_string(),
    }});
    let object: common::Namespace = serde_json::from_value(merged(base, patch)).unwrap();
    Arc::new(convert::namespace(object))
}

/// A Service with port 80 for the pods labeled `app: <app>`.
pub(crate) fn service(name: &str, app: &str, version: u32, patch: Value) -> Arc<ObservedService> {
    any_service(
        NAMESPACE,
        name,
        version,
        merged(selecting("app", app), patch),
    )
}

/// The doorman's own Service.
pub(crate) fn doorman_service() -> Arc<ObservedService> {
    any_service(SYSTEM, DOORMAN, 1, selecting("control-plane", "doorman"))
}

fn selecting(label: &str, value: &str) -> Value {
    json!({"spec": {"selector": {label: value}}})
}

fn any_service(namespace: &str, name: &str, version: u32, patch: Value) -> Arc<ObservedService> {
    let base = json!({
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": format!("service-{name}"),
            "resourceVersion": version.to_string(),
        },
        "spec": {
            "clusterIP": "10.96.0.1",
            "ipFamilies": ["IPv4"],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        },
    });
    let object: common::Service = serde_json::from_value(merged(base, patch)).unwrap();
    Arc::new(convert::service(object))
}

pub(crate) fn slice_json(name: &str, service: &str, version: u32, patch: Value) -> Value {
    let base = json!({
        "metadata": {
            "namespace": NAMESPACE,
            "name": name,
            "uid": format!("slice-{name}"),
            "resourceVersion": version.to_string(),
            "labels": {
                slice::SERVICE_NAME: service,
                slice::MANAGED_BY: slice::MANAGED_BY_NAPWAKE,
            },
            "ownerReferences": [{
                "apiVersion": "v1",
                "kind": "Service",
                "name": service,
                "uid": format!("service-{service}"),
                "controller": true,
            }],
        },
        "addressType": "IPv4",
        "endpoints": [{
            "addresses": ["10.1.0.1"],
            "conditions": {"ready": true, "serving": true, "terminating": false},
        }],
        "ports": [{"name": "http", "port": 20_000, "protocol": "TCP"}],
    });
    merged(base, patch)
}

pub(crate) fn slice(name: &str, service: &str, version: u32, patch: Value) -> Arc<ObservedSlice> {
    let object = serde_json::from_value(slice_json(name, service, version, patch)).unwrap();
    Arc::new(convert::slice(object))
}

/// A Ready doorman pod.
pub(crate) fn doorman_pod(name: &str, version: u32, patch: Value) -> Arc<ObservedPod> {
    let base = json!({
        "metadata": {
            "namespace": SYSTEM,
            "name": name,
            "uid": format!("pod-{name}"),
            "resourceVersion": version.to_string(),
            "labels": {"control-plane": "doorman"},
        },
        "spec": {"nodeName": "n1"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "podIPs": [{"ip": "10.1.0.1"}, {"ip": "fd00::1"}],
        },
    });
    let object: common::Pod = serde_json::from_value(merged(base, patch)).unwrap();
    Arc::new(convert::pod(object))
}

/// A call that was made.
#[derive(Debug)]
pub(crate) struct Call {
    /// Method and path, without the query.
    pub(crate) line: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) content_type: String,
    pub(crate) body: Value,
}

/// An API server that is told what to answer, call by call.
pub(crate) struct Server {
    handle: mock::Handle<Request<Body>, Response<Body>>,
    patience: Duration,
    /// Whoever made the call that was taken last.
    waiting: Option<mock::SendResponse<Response<Body>>>,
}

/// A client, and the server that it calls.
pub(crate) fn api() -> (Client, Server) {
    let (service, handle) = mock::pair();
    let server = Server {
        handle,
        patience: Duration::from_secs(1),
        waiting: None,
    };
    (Client::new(service, "default"), server)
}

impl Server {
    /// Waits longer for each call.
    pub(crate) fn patient(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Answers the next call, which must come soon.
    pub(crate) async fn answer(&mut self, code: u16, body: Value) -> Call {
        let call = self.take().await;
        self.reply(code, &body);
        call
    }

    /// Answers the next call with an error, as the API server writes one.
    pub(crate) async fn refuse(&mut self, code: u16, reason: &str) -> Call {
        let call = self.take().await;
        self.decline(code, reason);
        call
    }

    /// The next call, which must come soon, and is answered later.
    pub(crate) async fn take(&mut self) -> Call {
        let next = timeout(self.patience, self.handle.next_request());
        let (request, send) = next.await.expect("a call in time").unwrap();
        self.waiting = Some(send);
        Call::read(request).await
    }

    /// Answers the call that was taken.
    pub(crate) fn reply(&mut self, code: u16, body: &Value) {
        let body = serde_json::to_vec(body).unwrap();
        let response = Response::builder().status(code).body(Body::from(body));
        let waiting = self.waiting.take().expect("a call");
        waiting.send_response(response.unwrap());
    }

    /// The same, with an error.
    pub(crate) fn decline(&mut self, code: u16, reason: &str) {
        let status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "code": code,
            "reason": reason,
            "message": format!("because of {reason}"),
        });
        self.reply(code, &status);
    }

    /// Takes the next call and says nothing, for as long as what is returned with
    /// it lives.
    pub(crate) async fn be_silent(&mut self) -> (Call, impl Sized + use<>) {
        let next = timeout(self.patience, self.handle.next_request());
        let (request, send) = next.await.expect("a call in time").unwrap();
        (Call::read(request).await, send)
    }

    /// Checks that no more calls come, once every client is dropped.
    pub(crate) async fn done(mut self) {
        if let Some((request, _)) = self.handle.next_request().await {
            panic!("one call too many: {:?}", Call::read(request).await);
        }
    }
}

impl Call {
    async fn read(request: Request<Body>) -> Self {
        let (head, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap();
        let query = head.uri.query().unwrap_or_default();
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let content_type = head.headers.get(http::header::CONTENT_TYPE);
        Self {
            line: format!("{} {}", head.method, head.uri.path()),
            query: pairs
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            content_type: content_type
                .map(|value| value.to_str().unwrap().to_owned())
                .unwrap_or_default(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        }
    }
}

/// When tests with a clock that stands still happen.
pub(crate) const NOW: &str = "2026-11-30T12:00:00Z";

/// One that writes with that client, over that index; what it tells nobody says.
pub(crate) fn applier(client: &Client, index: Index) -> Applier {
    applier_telling(client, index).0
}

/// The same, and what says its events.
pub(crate) fn applier_telling(client: &Client, index: Index) -> (Applier, Telling) {
    let (clock, _) = Clock::manual(NOW.parse().unwrap());
    let shared = Arc::new(Shared::new(index));
    let metrics = OperatorMetrics::register(&mut Registry::default());
    let (teller, telling) = teller(Arc::new(events(client)));
    let prober = Prober::new(Arc::clone(&shared), clock.clone(), CancellationToken::new());
    let applier = Applier {
        client: client.clone(),
        slices: SliceQueue::new(metrics.slices_waiting.clone()),
        prober: Arc::new(prober),
        teller,
        shared,
        clock,
        metrics,
    };
    (applier, telling)
}

/// Events by that client.
pub(crate) fn events(client: &Client) -> Events {
    let (clock, _) = Clock::manual(NOW.parse().unwrap());
    Events::new(client, clock, "napwake.dev/operator", "operator-1")
}
