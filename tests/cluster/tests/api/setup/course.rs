//! The course of pauses and wakes, with the test in the controllers' place.

use kube::api::DeleteParams;
use napwake_api::{
    ManagedWorkload, ManagedWorkloadStatus,
    condition::{self, ConditionType},
    names::signal,
    stamp::Stamp,
    workload::{Condition, Phase},
};
use napwake_testkit::{Context, Result, ensure, managed, managed::PATIENCE, place::Place, wait};

use super::Target;

/// Waits until it's Running and was first looked at.
pub(crate) async fn awake(place: &Place, name: &str) -> Result<ManagedWorkloadStatus> {
    managed::phase(place, name, Phase::Running).await
}

/// Asks for a pause.
pub(crate) async fn ask_to_pause(place: &Place, name: &str) -> Result<()> {
    let stamp = Stamp::now(managed::now()).to_string();
    managed::annotate(place, name, signal::PAUSE_REQUESTED, &stamp).await
}

/// Pauses it and lets its pods go.
pub(crate) async fn pause(place: &Place, target: &Target) -> Result<ManagedWorkloadStatus> {
    ask_to_pause(place, &target.name).await?;
    target.stops().await?;
    managed::phase(place, &target.name, Phase::Paused).await
}

/// Pauses several at the same time.
pub(crate) async fn pause_all(place: &Place, targets: &[Target]) -> Result<()> {
    let all = targets.iter().map(|target| pause(place, target));
    futures::future::try_join_all(all).await?;
    Ok(())
}

/// Pauses it, and waits until it is routed.
pub(crate) async fn sleep(place: &Place, target: &Target) -> Result<ManagedWorkloadStatus> {
    pause(place, target).await?;
    let routed = reason(place, &target.name, "DoormanRouted").await?;
    ensure!(routed.status == "True", "{routed:?}");
    managed::status(place, &target.name).await
}

/// Asks for a wake and gives it Ready pods.
pub(crate) async fn wake(place: &Place, target: &Target) -> Result<ManagedWorkloadStatus> {
    managed::ask_to_wake(place, &target.name).await?;
    target.starts().await?;
    awake(place, &target.name).await
}

/// Wakes several at the same time.
pub(crate) async fn wake_all(place: &Place, targets: &[Target]) -> Result<()> {
    let all = targets.iter().map(|target| wake(place, target));
    futures::future::try_join_all(all).await?;
    Ok(())
}

/// Waits until its condition of this type has this reason.
pub(crate) async fn condition_is(
    place: &Place,
    name: &str,
    kind: ConditionType,
    reason: &str,
) -> Result<Condition> {
    let what = format!("{kind:?} of {name} to be {reason}");
    let is_it = |status: &ManagedWorkloadStatus| {
        condition::get(&status.conditions, kind).is_some_and(|known| known.reason == reason)
    };
    let status = wait::until(&what, PATIENCE, || managed::status(place, name), is_it).await?;
    condition::get(&status.conditions, kind)
        .cloned()
        .context("the condition")
}

/// Waits until its `WakeOnRequest` has this reason.
pub(crate) async fn reason(place: &Place, name: &str, reason: &str) -> Result<Condition> {
    condition_is(place, name, ConditionType::WakeOnRequest, reason).await
}

/// The doorman ports of its routes.
pub(crate) fn doorman_ports(status: &ManagedWorkloadStatus) -> Vec<u16> {
    let routes = status.doorman.iter().flat_map(|doorman| &doorman.routes);
    routes.map(|route| route.doorman_port).collect()
}

/// Deletes the ManagedWorkload.
pub(crate) async fn delete(place: &Place, name: &str) -> Result<()> {
    let workloads = place.api::<ManagedWorkload>();
    let deleted = workloads.delete(name, &DeleteParams::default()).await;
    deleted.with_context(|| format!("delete the ManagedWorkload {name}"))?;
    Ok(())
}

/// Whether there is such a ManagedWorkload.
pub(crate) async fn is_there(place: &Place, name: &str) -> Result<bool> {
    let found = place.api::<ManagedWorkload>().get_opt(name).await?;
    Ok(found.is_some())
}
