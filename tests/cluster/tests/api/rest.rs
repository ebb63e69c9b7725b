//! Doorman ports that drain and rest before anybody else gets them.

use std::{ops::RangeInclusive, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use napwake_api::{ManagedWorkload, ManagedWorkloadStatus, stamp, workload::RouteState};
use napwake_testkit::{
    Context, Result,
    apps::App,
    bail, ensure,
    managed::{self, PATIENCE},
    place::Place,
    wait,
};
use serde_json::json;

use crate::setup::{self, Stage, Target, course, doormen, pods, slices};

/// The doorman ports that are free here.
const FREE: [u16; 2] = [20_000, 20_001];

/// How soon one that lacks ports asks again, and some.
const ASKS_AGAIN: Duration = Duration::from_secs(45);

/// ROUTE-65: with every doorman port in use a workload isn't routed, and says so;
/// awake, nothing of that is left (ROUTE-77). DRAIN-21, DRAIN-22, OBS-18: a port
/// rests for a minute after its drain, as the status says, and no other workload gets it
/// before. DRAIN-23: a leader that is elected meanwhile goes by that. DRAIN-24: a
/// ManagedWorkload that is deleted stays until the minute is over. T-130: with its
/// workload gone, too, its routes go at once.
#[tokio::test]
async fn ports_rest_before_others_get_them() {
    setup::bare("rest", async |world| {
        all_ports_rest(&world.place, FREE[1] + 1..=29_999).await?;
        let mut stage = Stage::begin(world, &[]).await?;
        let place = &world.place;
        let apps = ["wakes", "goes", "lacks", "waits"].map(|name| App::new(name, "http"));
        let made = apps.iter().map(|app| stage.managed(app));
        let made = futures::future::try_join_all(made).await?;
        let [wakes, goes, lacks, waits] = &made[..] else {
            bail!("not as many as asked for: {made:?}");
        };
        course::sleep(place, wakes).await?;
        course::sleep(place, goes).await?;
        lacks_a_port(place, lacks).await?;
        course::wake(place, lacks).await?;
        course::reason(place, &lacks.name, "NotPaused").await?;

        let first = let_go(place, goes).await?;
        let second = wake_and_drain(place, wakes).await?;
        stage.operator.replace(&[]).await?;
        lacks_a_port(place, lacks).await?;
        lacks_a_port(place, waits).await?;
        let ends = [first, second];
        tokio::try_join!(
            stays_until(place, &goes.name, first.1),
            gets_one_after(place, &lacks.name, &ends),
            gets_one_after(place, &waits.name, &ends),
        )?;
        Ok(())
    })
    .await;
}

/// Makes ManagedWorkloads whose doorman ports rest for long, as the statuses of
/// those that had them say. There are several, since big ones take long to write.
async fn all_ports_rest(place: &Place, ports: RangeInclusive<u16>) -> Result<()> {
    let ports: Vec<_> = ports.collect();
    let holders = ports.chunks(500).enumerate();
    let holders = holders.map(|(number, ports)| they_rest(place, number, ports));
    futures::future::try_join_all(holders).await?;
    Ok(())
}

async fn they_rest(place: &Place, number: usize, ports: &[u16]) -> Result<()> {
    let name = format!("holder-{number}");
    managed::manage(place, "Deployment", &name, json!({})).await?;
    let until = stamp::render(managed::now() + SignedDuration::from_hours(1));
    let resting = ports
        .iter()
        .map(|port| json!({"port": port, "until": until}));
    let status = json!({"status": {"doorman": {"resting": resting.collect::<Vec<_>>()}}});
    let (api, params) = (place.api::<ManagedWorkload>(), PatchParams::default());
    let written = api
        .patch_status(&name, &params, &Patch::Merge(&status))
        .await;
    written.with_context(|| format!("write that the ports of {name} rest"))?;
    Ok(())
}

/// Pauses it, and sees that there's no port for it.
async fn lacks_a_port(place: &Place, target: &Target) -> Result<()> {
    course::pause(place, target).await?;
    let found = course::reason(place, &target.name, "NoFreePort").await?;
    ensure!(found.status == "False", "{found:?}");
    ensure!(
        slices::of(place, &target.name).await?.is_empty(),
        "it's routed"
    );
    Ok(())
}

/// A port, and until when it rests.
type Rest = (u16, Timestamp);

/// Deletes a workload that sleeps, and its ManagedWorkload.
async fn let_go(place: &Place, target: &Target) -> Result<Rest> {
    target.delete().await?;
    let deleted = managed::now();
    course::delete(place, &target.name).await?;
    let rest = until_resting(place, &target.name).await?;
    lasts(60, deleted, rest.1)?;
    let left = place.api::<ManagedWorkload>().get(&target.name).await?;
    ensure!(left.metadata.deletion_timestamp.is_some(), "{left:#?}");
    Ok(rest)
}

/// Wakes a workload, and waits until its port rests.
async fn wake_and_drain(place: &Place, target: &Target) -> Result<Rest> {
    let awake = managed::now();
    course::wake(place, target).await?;
    let drains = until_draining(place, &target.name).await?;
    lasts(30, awake, drains)?;
    let rest = until_resting(place, &target.name).await?;
    lasts(60, drains, rest.1)?;
    Ok(rest)
}

/// Sees that what ends at `end` lasts for so many seconds, where it began after
/// `start` and before now.
fn lasts(seconds: i64, start: Timestamp, end: Timestamp) -> Result<()> {
    let began = end - SignedDuration::from_secs(seconds);
    let is_right = start <= began && began <= managed::now();
    ensure!(
        is_right,
        "from {start} it doesn't last {seconds} s until {end}"
    );
    Ok(())
}

/// T-86: a ManagedWorkload that is deleted while its workload sleeps has it woken
/// first, then drains its route, then rests. DRAIN-24: it stays for all of that.
#[tokio::test]
async fn deleting_one_that_sleeps_wakes_it_first() {
    setup::with("deleting", async |stage| {
        let place = stage.place();
        let target = stage.managed(&App::new("web", "http")).await?;
        course::sleep(place, &target).await?;
        course::delete(place, "web").await?;
        target.is_started().await?;
        ensure!(
            slices::of(place, "web").await?.len() == 1,
            "it's routed until a pod is Ready"
        );
        target.starts().await?;
        slices::until(place, "web", 0).await?;
        let drains = until_draining(place, "web").await?;
        let (_, rests) = until_resting(place, "web").await?;
        lasts(60, drains, rests)?;
        stays_until(place, "web", rests).await?;
        ensure!(target.replicas().await? == 1, "it's awake");
        Ok(())
    })
    .await;
}

/// T-130: what sleeps in a namespace that is deleted isn't in the way once its
/// ports have rested.
#[tokio::test]
async fn a_namespace_may_go_once_its_ports_have_rested() {
    // Its Lease would go with the namespace, too.
    let alone = ["--leader-elect=false"];
    setup::with_flags("namespace", &alone, async |stage| {
        let place = stage.place();
        let target = stage.managed(&App::new("web", "http")).await?;
        course::sleep(place, &target).await?;
        let namespaces: Api<Namespace> = Api::all(place.client.clone());
        let params = DeleteParams::default();
        let deleted = managed::now();
        namespaces.delete(&place.namespace, &params).await?;
        // Pods go before all else, and no kubelet ends the doorman's.
        pods::end(place, doormen::FIRST).await?;
        let (_, rests) = until_resting(place, "web").await?;
        lasts(60, deleted, rests)?;
        ensure!(slices::of(place, "web").await?.is_empty(), "it's routed");
        stays_until(place, "web", rests).await?;
        Ok(())
    })
    .await;
}

/// Waits until its route drains, and says until when.
async fn until_draining(place: &Place, name: &str) -> Result<Timestamp> {
    let until = |status: &ManagedWorkloadStatus| {
        let mut routes = status.doorman.iter().flat_map(|doorman| &doorman.routes);
        let draining = routes.find(|route| route.state == RouteState::Draining)?;
        Some(draining.draining_until.as_ref()?.0)
    };
    let what = format!("the route of {name} to drain");
    let probe = || managed::status(place, name);
    let status = wait::until(&what, PATIENCE, probe, |status| until(status).is_some()).await?;
    until(&status).context("until when it drains")
}

/// Waits until its port rests.
async fn until_resting(place: &Place, name: &str) -> Result<Rest> {
    let rest = |status: &ManagedWorkloadStatus| {
        let resting = status.doorman.as_ref()?.resting.first()?;
        Some((resting.port, resting.until.0))
    };
    let what = format!("the port of {name} to rest");
    let probe = || managed::status(place, name);
    let status = wait::until(&what, PATIENCE, probe, |status| rest(status).is_some()).await?;
    rest(&status).context("the port that rests")
}

/// Waits until it has a port, and sees that this one's rest is over.
async fn gets_one_after(place: &Place, name: &str, rests: &[Rest]) -> Result<()> {
    let last = rests.iter().map(|rest| rest.1).max().context("a rest")?;
    let bound = left(last) + ASKS_AGAIN;
    let probe = || async {
        let ports = course::doorman_ports(&managed::status(place, name).await?);
        Ok((managed::now(), ports))
    };
    let what = format!("{name} to get a port");
    let (at, ports) = wait::until(&what, bound, probe, |(_, ports)| !ports.is_empty()).await?;
    let rest = rests.iter().find(|rest| ports == [rest.0]);
    let rest = rest.with_context(|| format!("{name} has {ports:?}, none of {rests:?}"))?;
    ensure!(at >= rest.1, "{name} has {rest:?} at {at}");
    course::reason(place, name, "DoormanRouted").await?;
    Ok(())
}

/// Sees that it's there until that time, and waits until it's gone.
async fn stays_until(place: &Place, name: &str, time: Timestamp) -> Result<()> {
    let probe = || async { Ok((managed::now(), course::is_there(place, name).await?)) };
    let bound = left(time) + PATIENCE;
    let what = format!("{name} to go");
    let (at, _) = wait::until(&what, bound, probe, |(_, is_there)| !is_there).await?;
    ensure!(at >= time, "{name} is gone at {at}, before {time}");
    Ok(())
}

/// How long it is until then.
fn left(time: Timestamp) -> Duration {
    let left = time.duration_since(managed::now());
    Duration::try_from(left).unwrap_or_default()
}
