//! The apps that are paused and woken, and what the bench writes of them.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Service};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use napwake_api::ManagedWorkload;
use napwake_api::names::signal;
use napwake_api::stamp::Stamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::sights::APP;

/// The image of the tests' app.
const IMAGE: &str = "napwake.test/app:1";

/// Requests of ours to the API server at once.
const AT_ONCE: usize = 8;

/// A namespace of the bench's own, with apps in it.
#[derive(Clone)]
pub(crate) struct Field {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// Each app's Service.
    pub(crate) services: Vec<(String, SocketAddr)>,
}

/// When an app says that it's Ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As soon as it serves.
    AtOnce,
    /// So long after its start, when it has served for a while.
    After(Duration),
    /// Never: no node suits its pods.
    Nowhere,
}

impl Kind {
    fn args(self) -> Vec<String> {
        let mut args = vec!["-mode=http".to_owned()];
        if let Self::After(span) = self {
            args.push(format!("-ready-after={}ms", span.as_millis()));
        }
        args
    }

    /// What is asked whether it's Ready: what callers ask, or what only says that.
    fn probe(self) -> Value {
        match self {
            Self::AtOnce | Self::Nowhere => json!({"path": "/", "port": 8080}),
            Self::After(_) => json!({"path": "/ready", "port": 8081}),
        }
    }
}

impl Kind {
    fn nodes(self) -> Value {
        match self {
            Self::AtOnce | Self::After(_) => json!({}),
            Self::Nowhere => json!({"napwake.dev/bench": "no-such-node"}),
        }
    }
}

pub(crate) fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("app{number:03}")).collect()
}

impl Field {
    /// Makes a namespace and the apps, each with a Service and a ManagedWorkload.
    pub(crate) async fn make(client: Client, names: &[String], kind: Kind) -> Result<Self> {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let wanted = read(json!({"metadata": {"generateName": "bench-"}}))?;
        let made = namespaces.create(&PostParams::default(), &wanted).await;
        let namespace = made.context("make a namespace")?.name_any();
        let mut field = Self {
            client,
            namespace,
            services: Vec::new(),
        };
        let making = stream::iter(names).map(|name| field.make_app(name, kind));
        field.services = making.buffered(AT_ONCE).try_collect().await?;
        Ok(field)
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    async fn make_app(&self, name: &str, kind: Kind) -> Result<(String, SocketAddr)> {
        let doing = || format!("make {name}");
        let params = PostParams::default();
        let service: Service = read(service(name))?;
        let service = self.api::<Service>().create(&params, &service).await;
        let address = service
            .with_context(doing)?
            .spec
            .and_then(|spec| spec.cluster_ip)
            .and_then(|ip| ip.parse::<IpAddr>().ok())
            .context("the Service has no address")?;
        let deployment = read(deployment(name, kind))?;
        let deployments = self.api::<Deployment>();
        let made = deployments.create(&params, &deployment).await;
        made.with_context(doing)?;
        let workload = read(workload(name))?;
        let workloads = self.api::<ManagedWorkload>();
        let made = workloads.create(&params, &workload).await;
        made.with_context(doing)?;
        Ok((name.to_owned(), SocketAddr::new(address, 80)))
    }

    /// Asks for pauses, as people's tooling does.
    pub(crate) async fn pause(&self, clock: Clock, names: &[String]) -> Result<()> {
        self.stamp_all(clock, names, signal::PAUSE_REQUESTED).await
    }

    /// Asks for wakes, as people's tooling does.
    pub(crate) async fn wake(&self, clock: Clock, names: &[String]) -> Result<()> {
        self.stamp_all(clock, names, signal::WAKE_REQUESTED).await
    }

    async fn stamp_all(&self, clock: Clock, names: &[String], key: &str) -> Result<()> {
        let stamps = stream::iter(names).map(|name| self.stamp(clock, name, key));
        stamps.buffer_unordered(AT_ONCE).try_collect().await
    }

    async fn stamp(&self, clock: Clock, name: &str, key: &str) -> Result<()> {
        let stamp = Stamp::now(clock.day()).to_string();
        let patch = Patch::Merge(json!({"metadata": {"annotations": {key: stamp}}}));
        let workloads = self.api::<ManagedWorkload>();
        workloads
            .patch_metadata(name, &PatchParams::default(), &patch)
            .await
            .with_context(|| format!("set {key} of {name}"))?;
        Ok(())
    }
}

pub(crate) fn read<T: DeserializeOwned>(object: Value) -> Result<T> {
    serde_json::from_value(object).context("an object of the bench's own")
}

fn service(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {APP: name}},
        "spec": {"selector": {APP: name}, "ports": [{"port": 80, "targetPort": 8080}]},
    })
}

fn deployment(name: &str, kind: Kind) -> Value {
    let labels = json!({APP: name});
    json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "terminationGracePeriodSeconds": 5,
                "automountServiceAccountToken": false,
                "nodeSelector": kind.nodes(),
                "containers": [{
                    "name": "app", "image": IMAGE, "imagePullPolicy": "IfNotPresent",
                    "args": kind.args(),
                    "readinessProbe": {"httpGet": kind.probe(), "periodSeconds": 1},
                }],
            }},
        },
    })
}

/// Paused when the bench says so, and not before.
fn workload(name: &str) -> Value {
    json!({
        "apiVersion": "napwake.dev/v1alpha1", "kind": "ManagedWorkload",
        "metadata": {"name": name},
        "spec": {
            "targetRef": {"kind": "Deployment", "name": name},
            "idleAfter": "24h", "lookout": "0s",
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_reads_as_what_it_is() {
        assert!(read::<Service>(service("a")).is_ok());
        assert!(read::<ManagedWorkload>(workload("a")).is_ok());
        let kind = Kind::After(Duration::from_secs(4));
        for kind in [Kind::AtOnce, Kind::Nowhere, kind] {
            assert!(read::<Deployment>(deployment("a", kind)).is_ok());
        }
        assert_eq!(kind.args()[1], "-ready-after=4000ms");
    }

    #[test]
    fn names_are_of_one_length() {
        assert_eq!(names(2), ["app000", "app001"]);
    }
}
