//! A Service's EndpointSlices, by who manages them.

use std::collections::BTreeSet;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use napwake_api::names::slice::{MANAGED_BY, MANAGED_BY_NAPWAKE, SERVICE_NAME};
use napwake_testkit::{Context, Result, place::Place};

/// Napwake's in the whole namespace.
pub(crate) async fn ours(place: &Place) -> Result<Vec<EndpointSlice>> {
    list(place, &format!("{MANAGED_BY}={MANAGED_BY_NAPWAKE}")).await
}

/// Where Napwake's slices send the Service's callers.
pub(crate) async fn doormen(place: &Place, service: &str) -> Result<BTreeSet<String>> {
    let ours = format!("{MANAGED_BY}={MANAGED_BY_NAPWAKE},{SERVICE_NAME}={service}");
    Ok(addresses(list(place, &ours).await?))
}

/// Where all other slices send them.
pub(crate) async fn others(place: &Place, service: &str) -> Result<BTreeSet<String>> {
    let others = format!("{MANAGED_BY}!={MANAGED_BY_NAPWAKE},{SERVICE_NAME}={service}");
    Ok(addresses(list(place, &others).await?))
}

async fn list(place: &Place, selector: &str) -> Result<Vec<EndpointSlice>> {
    let api = place.api::<EndpointSlice>();
    let listed = api.list(&ListParams::default().labels(selector)).await;
    Ok(listed.context("list EndpointSlices")?.items)
}

fn addresses(slices: Vec<EndpointSlice>) -> BTreeSet<String> {
    let endpoints = slices.into_iter().flat_map(|slice| slice.endpoints);
    endpoints.flat_map(|endpoint| endpoint.addresses).collect()
}
