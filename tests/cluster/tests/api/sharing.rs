//! Services before the pods of several workloads, one of which is paused.

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use napwake_api::{ManagedWorkloadStatus, names::signal};
use napwake_testkit::{
    Context, Result,
    apps::{App, Kind, service},
    ensure, managed,
    place::Place,
    wait,
};
use napwake_tests_process::route::Standing;
use serde_json::json;
use tokio::time::Instant;

use crate::setup::{self, HTTP, Stage, Target, course, pods, slices};

/// Where a pod of nobody's is said to be.
const ELSEWHERE: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 9));

/// What the condition says of the Service `both`.
const SAYS: &str = "Service both isn't routed: another workload's Ready pods serve it";

/// ROUTE-28, ROUTE-30, ROUTE-41: what another workload's Ready pods serve isn't routed,
/// whether Napwake manages that one or not, and the condition says so; no doorman port is
/// taken for it. Nothing is held up by it. With a second Service that is routed it's True.
/// ROUTE-31: once the other is paused too, it's routed. ROUTE-28: it's routed no more
/// once that one is awake. ROUTE-76, ROUTE-77: awake, the problem stays.
#[tokio::test]
async fn what_other_pods_serve_is_left_to_them() {
    setup::with("served", async |stage| {
        let place = stage.place();
        share(place).await?;
        let stable = in_tier(stage, "stable").await?;
        let canary = in_tier(stage, "canary").await?;
        manage(place, &canary).await?;

        let asleep = course::pause(place, &canary).await?;
        is_left_out(place).await?;
        ensure!(asleep.doorman.is_none(), "it takes no port: {asleep:#?}");
        course::wake(place, &canary).await?;
        let kept = course::reason(place, "canary", "ServedByOtherPods").await?;
        let expected = format!("at its last pause: {SAYS}");
        ensure!(kept.message == expected, "{kept:?}");

        // The same with a Service of its own, and `stable` managed.
        stage.serve("canary", "canary", &[HTTP], &["IPv4"]).await?;
        canary.is_named().await?;
        manage(place, &stable).await?;
        let asleep = course::sleep(place, &canary).await?;
        let routed = course::reason(place, "canary", "DoormanRouted").await?;
        let expected = format!("requests are held and wake the workload; {SAYS}");
        ensure!(routed.message == expected, "{routed:?}");
        ensure!(course::doorman_ports(&asleep).len() == 1, "{asleep:#?}");

        course::sleep(place, &stable).await?;
        slices::until(place, "both", 1).await?;
        managed::ask_to_wake(place, "stable").await?;
        stable.starts().await?;
        course::awake(place, "stable").await?;
        slices::until(place, "both", 0).await?;
        ensure!(
            slices::of(place, "canary").await?.len() == 1,
            "it sleeps on"
        );
        let stamp = managed::annotation(place, "canary", signal::LAST_REQUEST).await?;
        ensure!(stamp.is_none(), "nobody asked for it: {stamp:?}");
        Ok(())
    })
    .await;
}

/// ROUTE-33: once the other pods are all gone, it's routed within 30 seconds. ROUTE-36:
/// until then it's read once every 30 seconds.
#[tokio::test]
async fn it_is_routed_once_the_other_pods_are_gone() {
    setup::with("gone", async |stage| {
        let place = stage.place();
        share(place).await?;
        let canary = in_tier(stage, "canary").await?;
        // Nothing that is watched tells of this one.
        pods::make(place, "bare", &json!({"tier": "web"}), &[]).await?;
        pods::endpoint(place, "both", "bare", ELSEWHERE, Standing::Ready).await?;
        manage(place, &canary).await?;
        course::pause(place, &canary).await?;
        is_left_out(place).await?;

        let first = reads(stage);
        let next = more_reads_than(stage, first.len()).await?;
        ensure!(next.len() == first.len() + 1, "once: {next:?}");
        let between = next[first.len()] - next[first.len() - 1];
        let expected = Duration::from_secs(28)..Duration::from_secs(31);
        ensure!(expected.contains(&between), "{between:?} between two reads");

        pods::end(place, "bare").await?;
        let gone = Instant::now();
        slices::until(place, "both", 1).await?;
        // Not when the test sees the slice but when it was made.
        let made = made(stage).context("the operator made the slice")?;
        let took = made - gone;
        ensure!(took <= Duration::from_secs(30), "it took {took:?}");
        course::reason(place, "canary", "DoormanRouted").await?;
        Ok(())
    })
    .await;
}

/// When the operator has read the Service's own slices so far.
fn reads(stage: &Stage<'_>) -> Vec<Instant> {
    let its = "kubernetes.io%2Fservice-name+in+%28both%29";
    let asked = stage.operator.way().asked();
    let reads = asked.into_iter().filter(|one| one.path.contains(its));
    reads.map(|one| one.at).collect()
}

/// When the operator first made a slice.
fn made(stage: &Stage<'_>) -> Option<Instant> {
    let mut writes = stage.operator.writes().into_iter();
    let made = writes.find(|one| one.method == "POST" && one.path.contains("/endpointslices"));
    Some(made?.at)
}

async fn more_reads_than(stage: &Stage<'_>, count: usize) -> Result<Vec<Instant>> {
    let probe = async || Ok(reads(stage));
    let bound = Duration::from_secs(35);
    wait::until("it to be read again", bound, probe, |found| {
        found.len() > count
    })
    .await
}

/// The Service before every pod labeled `tier: web`.
async fn share(place: &Place) -> Result<()> {
    let mut manifest = service("both", "any", &[HTTP], &["IPv4"]);
    manifest["spec"]["selector"] = json!({"tier": "web"});
    place.create::<Service>(manifest).await?;
    Ok(())
}

/// A workload whose pods carry that label, not managed yet.
async fn in_tier(stage: &Stage<'_>, name: &str) -> Result<Target> {
    let mut manifest = App::new(name, "http").manifest();
    manifest["spec"]["template"]["metadata"]["labels"]["tier"] = json!("web");
    Target::make(stage.place(), Kind::Deployment, manifest).await
}

async fn manage(place: &Place, target: &Target) -> Result<ManagedWorkloadStatus> {
    managed::manage(place, target.kind_name(), &target.name, json!({})).await?;
    course::awake(place, &target.name).await
}

/// Whether `canary` says that other pods serve the Service, and nothing is written to
/// that.
async fn is_left_out(place: &Place) -> Result<()> {
    let found = course::reason(place, "canary", "ServedByOtherPods").await?;
    ensure!(
        found.status == "False" && found.message == SAYS,
        "{found:?}"
    );
    let slices = slices::of(place, "both").await?;
    ensure!(slices.is_empty(), "{slices:#?}");
    Ok(())
}
