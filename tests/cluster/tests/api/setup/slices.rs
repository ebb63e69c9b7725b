//! The EndpointSlices that Napwake writes.

use std::collections::BTreeSet;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{ResourceExt, api::ListParams};
use napwake_api::names::slice as names;
use napwake_testkit::{Result, managed::PATIENCE, place::Place, wait};

/// Those of a Service.
pub(crate) async fn of(place: &Place, service: &str) -> Result<Vec<EndpointSlice>> {
    let mut all = all(place).await?;
    all.retain(|slice| slice.labels().get(names::SERVICE_NAME) == Some(&service.to_owned()));
    Ok(all)
}

/// All of the namespace, by their names.
pub(crate) async fn all(place: &Place) -> Result<Vec<EndpointSlice>> {
    let ours = format!("{}={}", names::MANAGED_BY, names::MANAGED_BY_NAPWAKE);
    let api = place.api::<EndpointSlice>();
    Ok(api.list(&ListParams::default().labels(&ours)).await?.items)
}

/// Waits until a Service has so many.
pub(crate) async fn until(
    place: &Place,
    service: &str,
    count: usize,
) -> Result<Vec<EndpointSlice>> {
    let what = format!("{service} to have {count} EndpointSlices of Napwake's");
    let probe = || of(place, service);
    wait::until(&what, PATIENCE, probe, |found| found.len() == count).await
}

/// The addresses that a slice names.
pub(crate) fn addresses(slice: &EndpointSlice) -> BTreeSet<String> {
    let endpoints = slice.endpoints.iter();
    endpoints
        .flat_map(|one| one.addresses.iter().cloned())
        .collect()
}

/// The names and numbers of its ports, in its order.
pub(crate) fn ports(slice: &EndpointSlice) -> Vec<(String, i32)> {
    let ports = slice.ports.iter().flatten();
    ports
        .map(|port| {
            (
                port.name.clone().unwrap_or_default(),
                port.port.unwrap_or_default(),
            )
        })
        .collect()
}

/// The names of the ports in any slice of a Service.
pub(crate) async fn port_names(place: &Place, service: &str) -> Result<BTreeSet<String>> {
    let found = of(place, service).await?;
    Ok(found.iter().flat_map(ports).map(|(name, _)| name).collect())
}
