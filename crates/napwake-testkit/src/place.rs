//! A namespace of a test's own, looked into when the test fails.

use std::future::Future;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Event, Namespace, Pod, Service};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, PostParams},
};
use napwake_api::ManagedWorkload;
use serde::de::DeserializeOwned;
use serde_json::json;

/// A namespace of a test's own and a client that may do everything.
#[derive(Clone)]
pub struct Place {
    /// As the cluster's administrator.
    pub client: Client,
    /// The namespace's name.
    pub namespace: String,
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl Place {
    /// Makes a namespace whose name begins with `label`.
    pub async fn make(label: &str) -> Result<Self> {
        let client = Client::try_default()
            .await
            .context("KUBECONFIG must name the test cluster")?;
        let wanted: Namespace = serde_json::from_value(json!({
            "metadata": {"generateName": format!("{label}-"), "labels": {"napwake.dev/test": label}},
        }))?;
        let api: Api<Namespace> = Api::all(client.clone());
        let made = api
            .create(&PostParams::default(), &wanted)
            .await
            .context("make a namespace")?;
        Ok(Self {
            client,
            namespace: made.name_any(),
        })
    }

    /// The objects of kind `K` in it.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Makes an object from JSON.
    pub async fn create<K>(&self, object: serde_json::Value) -> Result<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + serde::Serialize
            + std::fmt::Debug,
        K::DynamicType: Default,
    {
        let typed: K = serde_json::from_value(object.clone())
            .with_context(|| format!("a test's own object: {object}"))?;
        let made = self.api::<K>().create(&PostParams::default(), &typed).await;
        made.with_context(|| format!("create {object}"))
    }

    /// The cluster addresses of a Service, one for each family.
    pub async fn addresses(&self, service: &str) -> Result<Vec<String>> {
        let found = self
            .api::<Service>()
            .get(service)
            .await
            .context("read the Service")?;
        let spec = found.spec.unwrap_or_default();
        Ok(spec.cluster_ips.unwrap_or_default())
    }

    /// The first cluster address of a Service.
    pub async fn address(&self, service: &str) -> Result<String> {
        self.addresses(service)
            .await?
            .into_iter()
            .next()
            .context("the Service has no address")
    }

    /// The pods labeled `app: <app>`, terminating ones included.
    pub async fn pods(&self, app: &str) -> Result<Vec<Pod>> {
        let labeled = ListParams::default().labels(&format!("app={app}"));
        Ok(self
            .api::<Pod>()
            .list(&labeled)
            .await
            .context("list pods")?
            .items)
    }

    /// Removes it with everything in it, without waiting.
    pub async fn remove(&self) {
        let api: Api<Namespace> = Api::all(self.client.clone());
        if let Err(error) = api
            .delete(&self.namespace, &DeleteParams::background())
            .await
        {
            eprintln!("namespace {} stays behind: {error}", self.namespace);
        }
    }

    /// Prints what one needs to understand a failure.
    async fn tell(&self) {
        eprintln!("--- namespace {} ---", self.namespace);
        self.tell_all::<ManagedWorkload>("ManagedWorkloads").await;
        self.tell_all::<Service>("Services").await;
        self.tell_all::<k8s_openapi::api::discovery::v1::EndpointSlice>("EndpointSlices")
            .await;
        self.tell_all::<Pod>("Pods").await;
        let events = self.api::<Event>().list(&ListParams::default()).await;
        for event in events.map(|list| list.items).unwrap_or_default() {
            eprintln!(
                "event {} {} {}: {}",
                event.involved_object.kind.unwrap_or_default(),
                event.involved_object.name.unwrap_or_default(),
                event.reason.unwrap_or_default(),
                event.message.unwrap_or_default(),
            );
        }
    }

    async fn tell_all<K>(&self, title: &str)
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + serde::Serialize
            + std::fmt::Debug,
        K::DynamicType: Default,
    {
        let listed = self.api::<K>().list(&ListParams::default()).await;
        for mut object in listed.map(|list| list.items).unwrap_or_default() {
            object.meta_mut().managed_fields = None;
            let text = serde_json::to_string(&object).unwrap_or_default();
            eprintln!("{title}: {text}");
        }
    }
}

/// Runs `test` in a namespace of its own, tells what was in it if the test
/// fails, and removes it.
pub async fn with<F, T>(label: &str, test: F)
where
    F: FnOnce(Place) -> T,
    T: Future<Output = Result<()>>,
{
    let place = match Place::make(label).await {
        Ok(place) => place,
        Err(error) => panic!("{error:#}"),
    };
    let outcome = test(place.clone()).await;
    if let Err(error) = &outcome {
        // First, where a cut output still has it.
        eprintln!("{error:#}");
        place.tell().await;
    }
    place.remove().await;
    if let Err(error) = outcome {
        panic!("{error:#}");
    }
}
