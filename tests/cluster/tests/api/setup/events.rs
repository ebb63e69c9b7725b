//! Events about the test's objects.

use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use napwake_testkit::{Result, managed::PATIENCE, place::Place, wait};

/// Those about an object of this name for this reason.
pub(crate) async fn about(place: &Place, name: &str, reason: &str) -> Result<Vec<Event>> {
    let mut all = place
        .api::<Event>()
        .list(&ListParams::default())
        .await?
        .items;
    all.retain(|event| {
        event.involved_object.name.as_deref() == Some(name)
            && event.reason.as_deref() == Some(reason)
    });
    Ok(all)
}

/// Waits until there are so many.
pub(crate) async fn until(
    place: &Place,
    name: &str,
    reason: &str,
    count: usize,
) -> Result<Vec<Event>> {
    let what = format!("{count} events {reason} about {name}");
    let probe = || about(place, name, reason);
    wait::until(&what, PATIENCE, probe, |found| found.len() == count).await
}
