//! A Deployment or StatefulSet whose controller, and whose pods' kubelet, the
//! test is. It's the EndpointSlice controller of their Services, too. Pods belong to
//! them as a cluster's do: a Deployment's to its ReplicaSet.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use k8s_openapi::api::{
    apps::v1::ReplicaSet,
    core::v1::{Pod, Service},
};
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use napwake_testkit::{Context, Result, apps::Kind, managed::PATIENCE, place::Place, wait};
use napwake_tests_process::route::Standing;
use serde_json::{Value, json};

use super::pods;

/// Where its pods are said to be: nobody is.
const NOWHERE: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];

/// The label by which a ReplicaSet tells its pods.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// A workload.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    place: Place,
    kind: Kind,
    pub(crate) name: String,
}

impl Target {
    /// Makes it, with as many Ready pods as it asks for.
    pub(crate) async fn make(place: &Place, kind: Kind, manifest: Value) -> Result<Self> {
        let object: DynamicObject = serde_json::from_value(manifest)?;
        let target = Self {
            place: place.clone(),
            kind,
            name: object.name_any(),
        };
        let made = target.api().create(&PostParams::default(), &object).await;
        let made = made.with_context(|| format!("make the workload {}", target.name))?;
        if kind == Kind::Deployment {
            replica_set(place, &target.name, &made).await?;
        }
        target.start_pods().await?;
        target.is_named().await?;
        target.report().await?;
        Ok(target)
    }

    /// `Deployment` or `StatefulSet`.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self.kind {
            Kind::Deployment => "Deployment",
            Kind::StatefulSet => "StatefulSet",
        }
    }

    fn api(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("apps", "v1", self.kind_name());
        let resource = ApiResource::from_gvk(&kind);
        let place = &self.place;
        Api::namespaced_with(place.client.clone(), &place.namespace, &resource)
    }

    /// As it is at the API server.
    pub(crate) async fn get(&self) -> Result<DynamicObject> {
        let found = self.api().get(&self.name).await;
        found.with_context(|| format!("read the workload {}", self.name))
    }

    /// How many pods it asks for.
    pub(crate) async fn replicas(&self) -> Result<i64> {
        let found = self.get().await?;
        found.data["spec"]["replicas"]
            .as_i64()
            .context("its replicas")
    }

    /// Changes parts of it.
    pub(crate) async fn patch(&self, patch: Value) -> Result<()> {
        let (api, params) = (self.api(), PatchParams::default());
        let patched = api.patch(&self.name, &params, &Patch::Merge(&patch)).await;
        patched.with_context(|| format!("write {patch} to {}", self.name))?;
        Ok(())
    }

    /// Deletes it, and ends its pods.
    pub(crate) async fn delete(&self) -> Result<()> {
        let params = DeleteParams::default();
        let deleted = self.api().delete(&self.name, &params).await;
        deleted.with_context(|| format!("delete the workload {}", self.name))?;
        self.end_pods().await
    }

    /// Waits until it asks for no pods.
    pub(crate) async fn is_stopped(&self) -> Result<()> {
        let what = format!("{} to be scaled to 0", self.name);
        wait::until(&what, PATIENCE, || self.replicas(), |count| *count == 0).await?;
        Ok(())
    }

    /// Waits until it asks for pods.
    pub(crate) async fn is_started(&self) -> Result<()> {
        let what = format!("{} to be scaled up", self.name);
        wait::until(&what, PATIENCE, || self.replicas(), |count| *count > 0).await?;
        Ok(())
    }

    /// Ends its pods once it asks for none.
    pub(crate) async fn stops(&self) -> Result<()> {
        self.is_stopped().await?;
        self.end_pods().await?;
        self.report().await
    }

    /// Gives it Ready pods once it asks for some.
    pub(crate) async fn starts(&self) -> Result<()> {
        self.is_started().await?;
        self.start_pods().await?;
        self.is_named().await?;
        self.report().await
    }

    /// The same, and its Services' slices don't name them yet: see
    /// [`Target::is_named`].
    pub(crate) async fn starts_unnamed(&self) -> Result<()> {
        self.is_started().await?;
        self.start_pods().await?;
        self.report().await
    }

    /// Writes its first pod into the slices of the Services that select it, as the
    /// EndpointSlice controller does once that is Ready.
    pub(crate) async fn is_named(&self) -> Result<()> {
        if self.replicas().await? == 0 {
            return Ok(());
        }
        let found = self.get().await?;
        let labels = &found.data["spec"]["template"]["metadata"]["labels"];
        let services = self.place.api::<Service>();
        let services = services.list(&ListParams::default()).await?.items;
        for service in services.iter().filter(|one| selects(one, labels)) {
            let families = service.spec.iter().flat_map(|spec| &spec.ip_families);
            for family in families.flatten() {
                let [v4, v6] = NOWHERE;
                let address = if family == "IPv6" { v6 } else { v4 };
                let (service, pod) = (service.name_any(), self.first_pod());
                pods::endpoint(&self.place, &service, &pod, address, Standing::Ready).await?;
            }
        }
        Ok(())
    }

    async fn start_pods(&self) -> Result<()> {
        let target = self.get().await?;
        let (owner, hash) = (self.owner(&target).await?, hash(&target));
        for number in 0..self.replicas().await? {
            let name = format!("{}-{number}", self.name);
            let labels = &target.data["spec"]["template"]["metadata"]["labels"];
            let mut metadata = json!({"name": name, "labels": labels, "ownerReferences": [owner]});
            metadata["labels"][TEMPLATE_HASH] = json!(hash);
            pods::make_as(&self.place, &name, &metadata, &[]).await?;
            pods::stands(&self.place, &name, Standing::Ready).await?;
        }
        Ok(())
    }

    async fn end_pods(&self) -> Result<()> {
        let at_once = DeleteParams::default().grace_period(0);
        let pods = self.place.api::<Pod>();
        let deleted = pods.delete_collection(&at_once, &self.its_pods()).await;
        deleted.with_context(|| format!("end the pods of {}", self.name))?;
        pods::unname(&self.place, &self.first_pod()).await
    }

    fn first_pod(&self) -> String {
        format!("{}-0", self.name)
    }

    /// What its pods belong to.
    async fn owner(&self, target: &DynamicObject) -> Result<Value> {
        let (kind, name, uid) = match self.kind {
            Kind::StatefulSet => ("StatefulSet", self.name.clone(), target.uid()),
            Kind::Deployment => {
                let name = format!("{}-{}", self.name, hash(target));
                let found = self.place.api::<ReplicaSet>().get(&name).await;
                let found = found.with_context(|| format!("read the ReplicaSet {name}"))?;
                ("ReplicaSet", name, found.uid())
            }
        };
        Ok(controller(kind, &name, uid.as_deref()))
    }

    fn its_pods(&self) -> ListParams {
        ListParams::default().labels(&format!("app={}", self.name))
    }

    /// Writes the status that its controller would write: its pods, counted.
    pub(crate) async fn report(&self) -> Result<()> {
        let pods = self.place.pods(&self.name).await?;
        let is_ready = |pod: &&Pod| {
            let conditions = pod.status.as_ref().and_then(|one| one.conditions.as_ref());
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|one| one.type_ == "Ready" && one.status == "True")
        };
        let status = json!({
            "replicas": pods.len(),
            "readyReplicas": pods.iter().filter(is_ready).count(),
            "observedGeneration": self.get().await?.metadata.generation,
        });
        let patch = Patch::Merge(json!({"status": status}));
        let (api, params) = (self.api(), PatchParams::default());
        let written = api.patch_status(&self.name, &params, &patch).await;
        written.with_context(|| format!("write the status of {}", self.name))?;
        Ok(())
    }
}

/// The ReplicaSet of a Deployment, which nobody looks after.
async fn replica_set(place: &Place, name: &str, deployment: &DynamicObject) -> Result<()> {
    let owner = controller("Deployment", name, deployment.metadata.uid.as_deref());
    let mut spec = json!({"replicas": 0});
    for field in ["selector", "template"] {
        spec[field] = deployment.data["spec"][field].clone();
    }
    let name = format!("{name}-{}", hash(deployment));
    let metadata = json!({"name": name, "ownerReferences": [owner]});
    let replica_set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec,
    });
    place.create::<ReplicaSet>(replica_set).await?;
    Ok(())
}

/// What tells the pods of a Deployment from those of one that had its name before.
fn hash(deployment: &DynamicObject) -> String {
    deployment
        .uid()
        .unwrap_or_default()
        .chars()
        .take(8)
        .collect()
}

fn controller(kind: &str, name: &str, uid: Option<&str>) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true,
    })
}

/// Whether a Service selects pods with these labels.
fn selects(service: &Service, labels: &Value) -> bool {
    let none = BTreeMap::new();
    let selector = service
        .spec
        .as_ref()
        .and_then(|spec| spec.selector.as_ref());
    let mut wanted = selector.unwrap_or(&none).iter();
    selector.is_some() && wanted.all(|(name, value)| labels[name] == json!(value))
}
