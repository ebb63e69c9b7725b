//! EndpointSlices that can't be written.

use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use napwake_api::names;
use napwake_testkit::{Context, Result, apps::App, ensure, managed::PATIENCE, wait};
use napwake_tests_process::api_way::Request;
use serde_json::json;
use tokio::time::Instant;

use crate::setup::{self, Stage, course, events, refusal, slices};

/// A pause that waits for nothing takes a few seconds: 3 s in which slices
/// settle, and what a busy machine needs.
const ON_TIME: Duration = Duration::from_secs(25);

/// ROUTE-70: a refused write gives the reason `RoutingFailed`, with what the API
/// server said. ROUTE-73: a warning comes with it. ROUTE-38: the pause goes on as
/// if nothing were wrong. ROUTE-74: it's tried again after 5 s, then after longer,
/// and succeeds once nothing refuses it.
#[tokio::test]
async fn a_refused_slice_is_tried_again_and_holds_up_no_pause() {
    setup::with("refused", async |stage| {
        let place = stage.place();
        let target = stage.managed(&App::new("web", "http")).await?;
        refusal::begin(place).await?;
        let asked = Instant::now();
        course::pause(place, &target).await?;
        ensure!(
            asked.elapsed() < ON_TIME,
            "paused after {:?}",
            asked.elapsed()
        );
        let failed = course::reason(place, "web", "RoutingFailed").await?;
        ensure!(failed.status == "False", "{failed:?}");
        ensure!(failed.message.contains(refusal::MESSAGE), "{failed:?}");
        let told = events::until(place, "web", "RoutingFailed", 1).await?;
        ensure!(told[0].type_.as_deref() == Some("Warning"), "{told:#?}");

        let tries = until_tried(stage, 3).await?;
        let gaps: Vec<_> = tries.windows(2).map(|two| two[1] - two[0]).collect();
        let after_5 = Duration::from_millis(4_900)..Duration::from_millis(9_900);
        let after_10 = Duration::from_millis(9_900)..Duration::from_millis(19_900);
        ensure!(after_5.contains(&gaps[0]), "{gaps:?}");
        ensure!(after_10.contains(&gaps[1]), "{gaps:?}");
        refusal::end(place).await?;
        let routed = course::reason(place, "web", "DoormanRouted").await?;
        ensure!(routed.status == "True", "{routed:?}");
        slices::until(place, "web", 1).await?;
        Ok(())
    })
    .await;
}

/// When each of the first so many tries to make a slice was made.
async fn until_tried(stage: &Stage<'_>, count: usize) -> Result<Vec<Instant>> {
    let is_try = |write: &&Request| write.method == "POST" && write.path.contains("endpointslices");
    let tries = || async {
        let writes = stage.operator.writes();
        let tries = writes.iter().filter(is_try).map(|write| write.at);
        Ok(tries.collect::<Vec<_>>())
    };
    let what = format!("{count} tries to make a slice");
    wait::until(&what, PATIENCE, tries, |tries| tries.len() >= count).await
}

/// ROUTE-39: nor does it hold up a wake. ROUTE-77: nothing of it is left then.
#[tokio::test]
async fn a_refused_slice_holds_up_no_wake() {
    setup::with("wakes", async |stage| {
        let place = stage.place();
        let target = stage.managed(&App::new("web", "http")).await?;
        refusal::begin(place).await?;
        course::pause(place, &target).await?;
        course::reason(place, "web", "RoutingFailed").await?;
        let asked = Instant::now();
        course::wake(place, &target).await?;
        ensure!(
            asked.elapsed() < ON_TIME,
            "awake after {:?}",
            asked.elapsed()
        );
        course::reason(place, "web", "NotPaused").await?;
        Ok(())
    })
    .await;
}

/// The name that Napwake gives the slice of a Service `api` in IPv4.
const TAKEN: &str = "api-o0c3922427e";

/// ROUTE-71: somebody else's slice under the doorman's name gives the reason
/// `RoutingFailed`. ROUTE-72: it's neither written over nor deleted, through a
/// pause and a wake. ROUTE-73: a warning comes with it.
#[tokio::test]
async fn a_foreign_slice_is_left_alone() {
    setup::with("foreign", async |stage| {
        let place = stage.place();
        let target = stage.managed(&App::new("api", "http")).await?;
        let foreign: EndpointSlice = place
            .create(json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {"name": TAKEN, "labels": {
                    names::slice::SERVICE_NAME: "api", names::slice::MANAGED_BY: "somebody.example",
                }},
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["192.0.2.1"]}],
                "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
            }))
            .await?;
        course::pause(place, &target).await?;
        let failed = course::reason(place, "api", "RoutingFailed").await?;
        ensure!(failed.status == "False", "{failed:?}");
        ensure!(failed.message.contains(TAKEN), "{failed:?}");
        let told = events::until(place, "api", "RoutingFailed", 1).await?;
        ensure!(told[0].type_.as_deref() == Some("Warning"), "{told:#?}");
        course::wake(place, &target).await?;
        course::reason(place, "api", "NotPaused").await?;
        let found = place.api::<EndpointSlice>().get_opt(TAKEN).await?;
        ensure!(
            found.context("it's still there")? == foreign,
            "it has changed"
        );
        Ok(())
    })
    .await;
}
