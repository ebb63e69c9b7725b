//! EndpointSlices that Napwake may not write, or that others write, too.

use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::discovery::v1::{EndpointPort, EndpointSlice};
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use napwake_api::names::slice as names;
use napwake_testkit::{
    Context, Result, apps::App, ensure, managed, managed::PATIENCE, place::Place, wait,
};
use napwake_tests_process::{api_way::Request, operator::Operator};
use serde_json::{Value, json};
use tokio::{task::JoinSet, time::Instant};

use crate::{
    rights,
    setup::{self, Stage, course, doormen, events, slices},
};

/// As in `failures`.
const ON_TIME: Duration = Duration::from_secs(25);

/// When slices were made or written over so far.
fn tries(stage: &Stage<'_>) -> Vec<Instant> {
    let writes = stage.operator.writes();
    let is_try = |one: &&Request| one.method != "DELETE" && one.path.contains("/endpointslices");
    writes.iter().filter(is_try).map(|one| one.at).collect()
}

async fn until_tried(stage: &Stage<'_>, count: usize) -> Result<Vec<Instant>> {
    let what = format!("{count} writes of a slice");
    let probe = || async { Ok(tries(stage)) };
    wait::until(&what, PATIENCE, probe, |tries| tries.len() >= count).await
}

/// That none of the tries came in a race: at least 4.9 s apart.
fn took_their_time(tries: &[Instant]) -> Result<()> {
    let gaps: Vec<_> = tries.windows(2).map(|two| two[1] - two[0]).collect();
    let is_patient = gaps.iter().all(|gap| *gap > Duration::from_millis(4_900));
    ensure!(is_patient, "{gaps:?}");
    Ok(())
}

/// Pauses it on time and meets `RoutingFailed` with this in its message, and one
/// warning of it.
async fn is_refused(stage: &Stage<'_>, target: &setup::Target, says: &str) -> Result<()> {
    let place = stage.place();
    let asked = Instant::now();
    course::pause(place, target).await?;
    let took = asked.elapsed();
    ensure!(took < ON_TIME, "paused after {took:?}");
    let failed = course::reason(place, &target.name, "RoutingFailed").await?;
    ensure!(failed.status == "False", "{failed:?}");
    ensure!(failed.message.contains(says), "{failed:?}");
    let told = events::until(place, &target.name, "RoutingFailed", 1).await?;
    ensure!(told[0].type_.as_deref() == Some("Warning"), "{told:#?}");
    Ok(())
}

/// ROUTE-38, ROUTE-39, ROUTE-70, ROUTE-73, ROUTE-74: without the right to write
/// slices nothing is held up, and the condition has the API server's words.
#[tokio::test]
async fn a_slice_that_rights_refuse_is_told_of() {
    setup::bare("no-right", async |world| {
        let spared = (
            "discovery.k8s.io",
            "endpointslices",
            &["create", "patch"][..],
        );
        let user = rights::give_without(&world.place, "operator", spared).await?;
        let stage = Stage {
            world,
            doorman: doormen::start(world).await?,
            operator: Operator::start_as(world, &user, &[]).await?,
        };
        let target = stage.managed(&App::new("web", "http")).await?;
        is_refused(&stage, &target, "cannot create resource \"endpointslices\"").await?;
        took_their_time(&until_tried(&stage, 3).await?)?;
        course::wake(stage.place(), &target).await?;
        course::reason(stage.place(), "web", "NotPaused").await?;
        Ok(())
    })
    .await;
}

/// Admission as the operator sees it: what it's answered, and what the watch shows,
/// isn't what it wrote. ROUTE-38, ROUTE-70, ROUTE-74: it writes that again with a
/// backoff, holds up no pause and says what is altered. ROUTE-14: awake, the slice
/// goes at once.
#[tokio::test]
async fn a_slice_that_admission_alters_is_not_fought_over() {
    setup::with("altered", async |stage| {
        let place = stage.place();
        let way = stage.operator.way();
        way.lie(
            "\"conditions\":{\"ready\":true",
            "\"conditions\":{\"ready\":null",
        )?;
        let target = stage.managed(&App::new("web", "http")).await?;
        is_refused(stage, &target, "its endpoints").await?;
        took_their_time(&until_tried(stage, 3).await?)?;
        slices::until(place, "web", 1).await?;
        course::wake(place, &target).await?;
        slices::until(place, "web", 0).await?;
        course::reason(place, "web", "NotPaused").await?;
        Ok(())
    })
    .await;
}

/// Somebody who writes this into every slice of Napwake's as soon as it says
/// something else.
const THEIRS: &str = "example.com/theirs";

/// Sets them going, until they are dropped.
fn rival(place: &Place) -> JoinSet<()> {
    let place = place.clone();
    let ours = format!("{}={}", names::MANAGED_BY, names::MANAGED_BY_NAPWAKE);
    let config = watcher::Config::default().labels(&ours);
    let mut rival = JoinSet::new();
    rival.spawn(async move {
        let slices = watcher(place.api::<EndpointSlice>(), config).default_backoff();
        let mut slices = std::pin::pin!(slices.applied_objects());
        while let Some(slice) = slices.next().await {
            if let Ok(slice) = slice {
                rewrite(&place, &slice).await;
            }
        }
    });
    rival
}

async fn rewrite(place: &Place, slice: &EndpointSlice) {
    let mut ports = slice.ports.clone().unwrap_or_default();
    let is_theirs = |port: &EndpointPort| port.app_protocol.as_deref() == Some(THEIRS);
    if ports.iter().all(is_theirs) {
        return;
    }
    for port in &mut ports {
        port.app_protocol = Some(THEIRS.to_owned());
    }
    // One that is gone by now is none of their business.
    let patched = patch_slice(place, &slice.name_any(), json!({"ports": ports})).await;
    drop(patched);
}

async fn patch_slice(place: &Place, name: &str, patch: Value) -> Result<()> {
    let api = place.api::<EndpointSlice>();
    let params = PatchParams::default();
    api.patch(name, &params, &Patch::Merge(patch)).await?;
    Ok(())
}

/// ROUTE-38, ROUTE-70, ROUTE-73, ROUTE-74: nor is there a race with somebody who
/// alters slices afterwards: the condition says what is altered, and goes on saying so
/// until a slice holds.
#[tokio::test]
async fn a_slice_that_somebody_else_alters_is_not_fought_over() {
    setup::with("rival", async |stage| {
        let place = stage.place();
        let target = stage.managed(&App::new("web", "http")).await?;
        let rival = rival(place);
        is_refused(stage, &target, "its ports").await?;
        took_their_time(&until_tried(stage, 3).await?)?;
        drop(rival);
        let routed = course::reason(place, "web", "DoormanRouted").await?;
        ensure!(routed.status == "True", "{routed:?}");
        Ok(())
    })
    .await;
}

/// Labels and annotations of others stay, and nothing is written because of them,
/// or over them. What is changed of Napwake's own is put right at once.
#[tokio::test]
async fn what_others_add_stays_and_a_slip_is_mended() {
    setup::with("added", async |stage| {
        let place = stage.place();
        let target = stage.managed(&App::new("web", "http")).await?;
        course::sleep(place, &target).await?;
        let slice = slices::until(place, "web", 1).await?.remove(0);
        let name = slice.name_any();
        let before = tries(stage).len();
        let added = json!({"labels": {"team": "a"}, "annotations": {"team.example/a": "b"}});
        patch_slice(place, &name, json!({"metadata": added})).await?;
        let quiet = Duration::from_secs(12);
        let probe = || async { Ok(tries(stage).len()) };
        wait::throughout("nothing written", quiet, probe, |count| *count == before).await?;

        patch_slice(place, &name, json!({"endpoints": []})).await?;
        let probe = || slices::of(place, "web");
        let is_mended =
            |found: &Vec<EndpointSlice>| found.len() == 1 && found[0].endpoints == slice.endpoints;
        let mended = wait::until("it to be mended", PATIENCE, probe, is_mended).await?;
        ensure!(mended[0].labels().contains_key("team"), "{mended:#?}");
        ensure!(mended[0].uid() == slice.uid(), "{mended:#?}");
        let told = events::about(place, "web", "RoutingFailed").await?;
        ensure!(told.is_empty(), "{told:#?}");
        let routed = course::reason(place, "web", "DoormanRouted").await?;
        ensure!(routed.status == "True", "{routed:?}");
        Ok(())
    })
    .await;
}

/// A write that somebody was ahead of is decided anew from what stands then, and is
/// no failure.
#[tokio::test]
async fn a_conflict_is_decided_anew() {
    setup::with("conflict", async |stage| {
        let place = stage.place();
        let target = stage.managed(&App::new("web", "http")).await?;
        course::sleep(place, &target).await?;
        let slice = slices::until(place, "web", 1).await?.remove(0);
        let before = tries(stage).len();
        stage.operator.way().hold_patches();
        let _second = doormen::start_second(stage.world).await?;
        until_tried(stage, before + 1).await?;
        let added = json!({"metadata": {"labels": {"team": "a"}}});
        patch_slice(place, &slice.name_any(), added).await?;
        stage.operator.way().mend();
        let both = |found: &Vec<EndpointSlice>| {
            found.len() == 1 && slices::addresses(&found[0]).len() == 2
        };
        let probe = || slices::of(place, "web");
        let found = wait::until("both doormen in it", PATIENCE, probe, both).await?;
        ensure!(found[0].labels().contains_key("team"), "{found:#?}");
        let told = events::about(place, "web", "RoutingFailed").await?;
        ensure!(told.is_empty(), "{told:#?}");
        let status = managed::status(place, "web").await?;
        status.doorman.context("it's routed still")?;
        Ok(())
    })
    .await;
}
