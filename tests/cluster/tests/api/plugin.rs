//! `kubectl napwake` against a real API server, with a real operator behind it.

use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams};
use napwake_api::{names::signal, workload::Phase};
use napwake_testkit::{
    Context, Result,
    apps::App,
    callers::{self, Ended},
    ensure, managed,
    place::Place,
};
use rstest::rstest;
use serde_json::json;

use crate::setup::{self, HTTP, Stage, course};

/// Runs the plugin in the test's namespace.
async fn napwake(place: &Place, args: &[&str]) -> Result<Ended> {
    let program = std::env::var("NAPWAKE_PROGRAM").context("NAPWAKE_PROGRAM must be set")?;
    // Both are built into one folder.
    let plugin = std::path::Path::new(&program).with_file_name("kubectl-napwake");
    let plugin = plugin.to_str().context("the plugin's path")?;
    let mut all = vec!["--namespace", &place.namespace];
    all.extend(args);
    callers::run(plugin, &all).await
}

/// CLI-01, TOKEN-30: `wake` sets the annotation by which tooling wakes, and that
/// wakes the workload whatever its wake setting. `pause` pauses it. Both wait
/// where they are told to.
#[rstest]
#[case::request("Request")]
#[case::ask("Ask")]
#[tokio::test]
async fn wake_and_pause_do_what_they_say(#[case] mode: &str) {
    setup::with("plugin", async |stage| {
        let place = stage.place();
        let spec = json!({"wake": {"mode": mode}});
        stage.serve("web", "web", &[HTTP], &["IPv4"]).await?;
        let target = stage.managed_alone(&App::new("web", "http"), spec).await?;
        let pausing = napwake(place, &["pause", "web", "--wait"]);
        let (paused, stopped) = tokio::join!(pausing, target.stops());
        stopped?;
        paused?.ok()?;
        managed::phase(place, "web", Phase::Paused).await?;

        let waiting = napwake(place, &["wake", "web", "--wait", "--timeout", "1s"]).await?;
        ensure!(waiting.code == Some(3), "no pod is Ready yet: {waiting:?}");
        let stamp = managed::annotation(place, "web", signal::WAKE_REQUESTED).await?;
        ensure!(stamp.is_some(), "the annotation is set");
        target.starts().await?;
        napwake(place, &["wake", "web", "--wait"]).await?.ok()?;
        managed::phase(place, "web", Phase::Running).await?;
        Ok(())
    })
    .await;
}

/// CLI-03: `status` lists under `Needs attention` a workload whose reason stayed
/// from its last pause, and no longer after a clean one.
#[tokio::test]
async fn status_lists_what_needs_attention() {
    setup::with("attention", async |stage| {
        let place = stage.place();
        let mut local = napwake_testkit::apps::service("web", "web", &[HTTP], &["IPv4"]);
        local["spec"]["internalTrafficPolicy"] = json!("Local");
        place.create::<Service>(local).await?;
        let target = stage
            .managed_alone(&App::new("web", "http"), json!({}))
            .await?;
        stage.managed(&App::new("fine", "http")).await?;
        course::pause(place, &target).await?;
        course::wake(place, &target).await?;
        course::reason(place, "web", "NodeLocalTraffic").await?;
        let needy = needy(stage).await?;
        ensure!(needy.len() == 1, "{needy:?}");
        ensure!(
            needy[0].starts_with("web: NodeLocalTraffic: at its last pause: "),
            "{needy:?}"
        );

        let mended = Patch::Merge(json!({"spec": {"internalTrafficPolicy": "Cluster"}}));
        let services = place.api::<Service>();
        services
            .patch("web", &PatchParams::default(), &mended)
            .await?;
        course::sleep(place, &target).await?;
        course::wake(place, &target).await?;
        course::reason(place, "web", "NotPaused").await?;
        let needy = self::needy(stage).await?;
        ensure!(needy.is_empty(), "{needy:?}");
        Ok(())
    })
    .await;
}

/// What stands under `Needs attention`.
async fn needy(stage: &Stage<'_>) -> Result<Vec<String>> {
    let shown = napwake(stage.place(), &["status"]).await?.ok()?;
    ensure!(shown.contains("web") && shown.contains("fine"), "{shown}");
    let needy = shown.split_once("Needs attention:\n").map(|(_, rest)| rest);
    let lines = needy.unwrap_or_default().lines();
    Ok(lines.map(|line| line.trim().to_owned()).collect())
}
