//! Reading who serves a Service: whose pods its own EndpointSlices call Ready.
//!
//! Neither those slices nor Pods are watched (ROUTE-35). Of Pods only the metadata is
//! read, and only where the slices name any.

use std::collections::{BTreeMap, BTreeSet};

use kube::{Api, Client, ResourceExt, api::ListParams, core::ObjectMeta};
use napwake_api::workload::TargetKind;
use napwake_cluster::{
    plain,
    thin::{EndpointSlice, Pod},
};
use napwake_decide::{
    behind::Owner,
    world::{Map, Service},
};
use tokio::time::timeout;

use super::served::{PATIENCE, is_ready, list_slices, service_of};

/// The label by which a Deployment tells its ReplicaSets, whose names end with it.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// Pods in one page of the list.
const PAGE: u32 = 500;

/// By Service, who serves it; or why that can't be read.
pub(crate) type Serving = Result<BTreeMap<String, BTreeSet<Owner>>, String>;

/// Reads who serves these Services.
pub(crate) async fn read_behind(client: &Client, namespace: &str, services: &[Service]) -> Serving {
    match timeout(PATIENCE, read(client, namespace, services)).await {
        Ok(read) => read.map_err(|error| plain(&error)),
        Err(_) => Err(format!("no answer in {} s", PATIENCE.as_secs())),
    }
}

async fn read(
    client: &Client,
    namespace: &str,
    services: &[Service],
) -> kube::Result<BTreeMap<String, BTreeSet<Owner>>> {
    let names = services
        .iter()
        .map(|service| service.name.clone())
        .collect();
    let slices = list_slices(client, namespace, &names).await?;
    let mut pods = BTreeMap::new();
    let mut serving = BTreeMap::new();
    for service in services {
        let ready = called_ready(&slices, &service.name);
        let selector = selector(&service.selector);
        if ready.pods.is_empty() {
            serving.insert(service.name.clone(), ready.others());
            continue;
        }
        // Most Services of a workload have one selector.
        if !pods.contains_key(&selector) {
            pods.insert(
                selector.clone(),
                list_owners(client, namespace, &selector).await?,
            );
        }
        let owners = pods.get(&selector).into_iter().flatten();
        let owners = owners.filter(|(pod, _)| ready.pods.contains(pod.as_str()));
        let owners = owners.map(|(_, owner)| owner.clone());
        let all = owners.chain(ready.others()).collect();
        serving.insert(service.name.clone(), all);
    }
    Ok(serving)
}

/// What a Service's slices call Ready.
struct CalledReady<'a> {
    /// Pods, by name.
    pods: BTreeSet<&'a str>,
    /// Whether there's anything that is no Pod.
    has_others: bool,
}

impl CalledReady<'_> {
    fn others(&self) -> BTreeSet<Owner> {
        let other = self.has_others.then_some(Owner::Other);
        other.into_iter().collect()
    }
}

fn called_ready<'a>(slices: &'a [EndpointSlice], service: &str) -> CalledReady<'a> {
    let mut named = CalledReady {
        pods: BTreeSet::new(),
        has_others: false,
    };
    let its = slices.iter().filter(|slice| service_of(slice) == service);
    // Without a port nobody is reached.
    let endpoints = its
        .filter(|slice| !slice.ports.is_empty())
        .flat_map(|slice| &slice.endpoints);
    for endpoint in endpoints.filter(|one| is_ready(one.conditions)) {
        match &endpoint.target_ref {
            Some(pod) if pod.kind == "Pod" => {
                named.pods.insert(&pod.name);
            }
            Some(_) | None => named.has_others = true,
        }
    }
    named
}

/// The Pods of that selector, by name, and whose they are. One that isn't among them
/// has gone since the slices were read.
async fn list_owners(
    client: &Client,
    namespace: &str,
    selector: &str,
) -> kube::Result<BTreeMap<String, Owner>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut params = ListParams::default().labels(selector).limit(PAGE);
    let mut owners = BTreeMap::new();
    loop {
        let page = pods.list_metadata(&params).await?;
        let found = page.items.iter();
        owners.extend(found.map(|pod| (pod.name_any(), owner(&pod.metadata))));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(owners),
        }
    }
}

/// Whose a Pod is: its controller's, and of a ReplicaSet that one's Deployment, which
/// the ReplicaSet's name tells.
pub(super) fn owner(pod: &ObjectMeta) -> Owner {
    let owners = pod.owner_references.as_deref().unwrap_or_default();
    let controller = owners.iter().find(|owner| owner.controller == Some(true));
    let Some(controller) = controller.filter(|one| one.api_version.starts_with("apps/")) else {
        return Owner::Other;
    };
    let hash = pod
        .labels
        .as_ref()
        .and_then(|labels| labels.get(TEMPLATE_HASH));
    let deployment = hash.and_then(|hash| {
        let name = controller.name.strip_suffix(hash.as_str())?;
        name.strip_suffix('-')
    });
    match (controller.kind.as_str(), deployment) {
        ("ReplicaSet", Some(name)) => Owner::Target(TargetKind::Deployment, name.to_owned()),
        ("StatefulSet", _) => Owner::Target(TargetKind::StatefulSet, controller.name.clone()),
        _ => Owner::Other,
    }
}

fn selector(labels: &Map) -> String {
    let pairs: Vec<_> = labels
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join(",")
}

#[cfg(test)]
#[path = "behind_tests.rs"]
mod tests;
