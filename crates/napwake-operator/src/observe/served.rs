//! Reading which Services have a Ready pod, in the slices that the EndpointSlice
//! controller writes for them.
//!
//! Those aren't watched: they are as many as the cluster's Services, and who
//! serves one is only asked for a moment of each wake (ROUTE-35).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kube::{Api, Client, api::ListParams};
use napwake_api::{names::slice as names, workload::IpFamily};
use napwake_cluster::{
    plain,
    thin::{AddressType, Conditions, EndpointSlice},
};
use napwake_decide::Seen;
use tokio::time::timeout;

/// How long the API server may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// By Service, the families in which a pod of its is Ready.
pub(crate) type Served = BTreeMap<String, BTreeSet<IpFamily>>;

/// Reads who serves these Services.
pub(crate) async fn read_served(
    client: &Client,
    namespace: &str,
    services: &BTreeSet<String>,
) -> Seen<Served> {
    match timeout(PATIENCE, list_slices(client, namespace, services)).await {
        Ok(Ok(slices)) => Seen::Known(served(&slices)),
        Ok(Err(error)) => Seen::Unknown(plain(&error)),
        Err(_) => Seen::Unknown(format!("no answer in {} s", PATIENCE.as_secs())),
    }
}

/// The slices that the EndpointSlice controller writes for these Services.
pub(super) async fn list_slices(
    client: &Client,
    namespace: &str,
    services: &BTreeSet<String>,
) -> kube::Result<Vec<EndpointSlice>> {
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), namespace);
    let services: Vec<_> = services.iter().map(String::as_str).collect();
    let theirs = format!(
        "{}={},{} in ({})",
        names::MANAGED_BY,
        names::MANAGED_BY_CONTROLLER,
        names::SERVICE_NAME,
        services.join(",")
    );
    let params = ListParams::default().labels(&theirs);
    slices.list(&params).await.map(|list| list.items)
}

/// The Service that a slice is of.
pub(super) fn service_of(slice: &EndpointSlice) -> &str {
    slice.label(names::SERVICE_NAME)
}

fn served(slices: &[EndpointSlice]) -> Served {
    let mut served = Served::new();
    for slice in slices {
        let family = match slice.address_type {
            AddressType::IPv4 => IpFamily::IPv4,
            AddressType::IPv6 => IpFamily::IPv6,
            AddressType::Other => continue,
        };
        let mut endpoints = slice.endpoints.iter();
        // Without a port nobody is reached.
        if !slice.ports.is_empty() && endpoints.any(|one| is_ready(one.conditions)) {
            let service = service_of(slice).to_owned();
            served.entry(service).or_default().insert(family);
        }
    }
    served
}

/// T-73: by `serving`, and by `ready` where that's absent.
pub(super) fn is_ready(conditions: Conditions) -> bool {
    let serves = conditions.serving.or(conditions.ready);
    serves == Some(true) && conditions.terminating != Some(true)
}

#[cfg(test)]
#[path = "served_tests.rs"]
mod tests;
