//! A list and a watch of one kind of object, read no further than needed.
//!
//! Made anew rather than taken from the product: it's the measure, and must be
//! nothing but what any tool would do.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;

use anyhow::{Context as _, Result, bail};
use futures::TryStreamExt as _;
use kube::Client;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::Request;
use napwake_api::ManagedWorkload;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::say;

/// Longer than any run.
const LASTS_S: u32 = 24 * 60 * 60;

/// What is seen of an object.
#[derive(Debug, Clone)]
pub(crate) enum Change<T> {
    Is(T),
    Gone(T),
}

impl<T> Change<T> {
    pub(crate) fn object(&self) -> &T {
        let (Self::Is(object) | Self::Gone(object)) = self;
        object
    }
}

/// An object that says as of when it's seen.
pub(crate) trait Versioned {
    /// Its `resourceVersion`.
    fn version(&self) -> &str;
}

/// Tells of every object below `path` that has these labels, and then of every
/// change. Ends only with an error.
///
/// The API server ends the watch of whoever is too slow for many changes at once, as
/// on a busy machine: then it goes on from where it was.
pub(crate) async fn follow<T>(
    client: Client,
    path: String,
    labels: &str,
    mut tell: impl FnMut(Change<T>),
) -> Result<Infallible>
where
    T: DeserializeOwned + Clone + Versioned,
{
    let request = Request::new(path.as_str());
    let list = request.list(&ListParams::default().labels(labels))?;
    let list: List<T> = client
        .request(list)
        .await
        .with_context(|| format!("list {path}"))?;
    for item in list.items {
        tell(Change::Is(item));
    }
    let params = WatchParams {
        timeout: None,
        bookmarks: false,
        ..WatchParams::default().labels(labels)
    };
    let mut seen = list.metadata.resource_version;
    loop {
        let mut watch = request.watch(&params, &seen)?;
        *watch.uri_mut() = lasting(&watch.uri().to_string())
            .parse()
            .context("a path of our own")?;
        let events = client
            .request_events::<T>(watch)
            .await
            .with_context(|| format!("watch {path}"))?;
        let mut events = pin!(events);
        while let Some(event) = events.try_next().await? {
            let change = match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => Change::Is(object),
                WatchEvent::Deleted(object) => Change::Gone(object),
                WatchEvent::Bookmark(_) => continue,
                WatchEvent::Error(error) => bail!("the watch of {path} failed: {error}"),
            };
            change.object().version().clone_into(&mut seen);
            tell(change);
        }
        say(&format!("the watch of {path} ended, and goes on"));
    }
}

/// The same watch for longer than any run. The client asks for some minutes unless
/// told otherwise, and takes no more; the API server goes by the first of two.
fn lasting(uri: &str) -> String {
    let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
    let kept = query
        .split('&')
        .filter(|part| !part.starts_with("timeoutSeconds="));
    let asked = format!("timeoutSeconds={LASTS_S}");
    let parts: Vec<&str> = kept.chain([asked.as_str()]).collect();
    format!("{path}?{}", parts.join("&"))
}

#[derive(Deserialize)]
struct List<T> {
    metadata: ListMeta,
    items: Vec<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Meta {
    pub(crate) name: String,
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    pub(crate) namespace: String,
    #[serde(default)]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(default)]
    deletion_timestamp: Option<String>,
}

impl Meta {
    /// Whether it's deleted already.
    pub(crate) fn leaves(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}

impl Versioned for Pod {
    fn version(&self) -> &str {
        &self.metadata.resource_version
    }
}

impl Versioned for Deployment {
    fn version(&self) -> &str {
        &self.metadata.resource_version
    }
}

impl Versioned for Slice {
    fn version(&self) -> &str {
        &self.metadata.resource_version
    }
}

impl Versioned for ManagedWorkload {
    fn version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or("")
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Pod {
    pub(crate) metadata: Meta,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct PodStatus {
    #[serde(rename = "podIP")]
    address: Option<IpAddr>,
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Debug, Clone, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Pod {
    /// Its address, if it's Ready and stays.
    pub(crate) fn ready(&self) -> Option<IpAddr> {
        let is_ready =
            |condition: &Condition| condition.kind == "Ready" && condition.status == "True";
        let ready = self.status.conditions.iter().any(is_ready);
        self.status
            .address
            .filter(|_| ready && !self.metadata.leaves())
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Deployment {
    pub(crate) metadata: Meta,
    spec: DeploymentSpec,
}

#[derive(Debug, Clone, Deserialize)]
struct DeploymentSpec {
    #[serde(default)]
    replicas: i32,
}

impl Deployment {
    /// Whether pods are asked for.
    pub(crate) fn wants_pods(&self) -> bool {
        self.spec.replicas > 0
    }
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Slice {
    pub(crate) metadata: Meta,
    /// Go writes an empty list as null.
    endpoints: Option<Vec<Endpoint>>,
}

#[derive(Debug, Clone, Deserialize)]
struct Endpoint {
    #[serde(default)]
    addresses: Vec<IpAddr>,
    #[serde(default)]
    conditions: EndpointConditions,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct EndpointConditions {
    #[serde(default)]
    ready: bool,
}

impl Slice {
    /// Whether it names an endpoint that is Ready.
    pub(crate) fn is_ready(&self) -> bool {
        let endpoints = self.endpoints.iter().flatten();
        endpoints.into_iter().any(|one| one.conditions.ready)
    }

    /// The addresses that it names, Ready or not.
    pub(crate) fn addresses(&self) -> BTreeSet<IpAddr> {
        let endpoints = self.endpoints.iter().flatten();
        endpoints.flat_map(|one| &one.addresses).copied().collect()
    }

    /// Whether it names no endpoint.
    pub(crate) fn is_empty(&self) -> bool {
        self.endpoints.iter().flatten().next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_watch_lasts_longer_than_any_run_whatever_the_client_asks_for() {
        let params = WatchParams::default().labels("a=b");
        let watch = Request::new("/api/v1/pods").watch(&params, "1").unwrap();
        let uri = lasting(&watch.uri().to_string());
        assert_eq!(uri.matches("timeoutSeconds=").count(), 1, "{uri}");
        assert!(uri.contains("timeoutSeconds=86400"), "{uri}");
        assert!(uri.contains("labelSelector=a%3Db"), "{uri}");
    }

    #[test]
    fn a_pod_is_ready_by_its_condition_until_it_leaves() {
        let mut object = json!({"metadata": {"name": "a"}, "status": {"podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}]}});
        let ready = |object: &serde_json::Value| {
            serde_json::from_value::<Pod>(object.clone())
                .unwrap()
                .ready()
        };
        assert_eq!(ready(&object), Some("10.0.0.1".parse().unwrap()));
        object["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        assert_eq!(ready(&object), None);
        assert_eq!(ready(&json!({"metadata": {"name": "a"}})), None);
    }

    #[test]
    fn a_slice_without_endpoints_may_say_null() {
        let slice = |endpoints: serde_json::Value| {
            let object = json!({"metadata": {"name": "a"}, "endpoints": endpoints});
            serde_json::from_value::<Slice>(object).unwrap()
        };
        assert!(slice(json!(null)).is_empty());
        let unready = slice(json!([{"conditions": {"ready": false}}]));
        assert!(!unready.is_empty() && !unready.is_ready());
        assert!(slice(json!([{"conditions": {"ready": true}}])).is_ready());
    }

    #[test]
    fn a_deployment_of_none_leaves_its_replicas_out_or_says_zero() {
        let wants = |spec: serde_json::Value| {
            let object = json!({"metadata": {"name": "a"}, "spec": spec});
            serde_json::from_value::<Deployment>(object)
                .unwrap()
                .wants_pods()
        };
        assert!(!wants(json!({})) && !wants(json!({"replicas": 0})));
        assert!(wants(json!({"replicas": 1})));
    }
}
