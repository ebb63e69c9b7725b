//! `kubectl napwake` against a real API server, with a real operator behind it.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Service;
use kube::api::{DeleteParams, Patch, PatchParams};
use napwake_api::{ManagedWorkload, names::signal, workload::Phase};
use napwake_testkit::{
    Context, Result,
    apps::App,
    callers::{self, Ended},
    ensure, managed,
    place::Place,
    wait,
};
use rstest::rstest;
use serde_json::json;

use crate::setup::{self, HTTP, Stage, course};

/// The plugin's program.
fn plugin() -> Result<PathBuf> {
    let program = std::env::var("NAPWAKE_PROGRAM").context("NAPWAKE_PROGRAM must be set")?;
    // Both are built into one folder.
    Ok(Path::new(&program).with_file_name("kubectl-napwake"))
}

/// Runs the plugin in the test's namespace.
pub(crate) async fn napwake(place: &Place, args: &[&str]) -> Result<Ended> {
    let plugin = plugin()?;
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

/// What is being deleted is woken, and not paused any more: `pause` says so at
/// once. And it says where there is none of that name.
#[tokio::test]
async fn a_pause_that_will_never_be_is_refused_at_once() {
    setup::with("plugin-deleted", async |stage| {
        let place = stage.place();
        stage
            .managed_alone(&App::new("web", "http"), json!({}))
            .await?;
        let missing = napwake(place, &["pause", "wob", "--wait"]).await?;
        ensure!(missing.code == Some(1), "{missing:?}");
        ensure!(missing.err.contains("none of that name"), "{missing:?}");

        let workloads = place.api::<ManagedWorkload>();
        let finalizers = async |finalizers: &[&str]| {
            let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
            workloads
                .patch("web", &PatchParams::default(), &patch)
                .await
        };
        finalizers(&["example.com/stays"]).await?;
        workloads.delete("web", &DeleteParams::default()).await?;
        let refused = napwake(place, &["pause", "web", "--wait"]).await;
        finalizers(&[]).await?;
        let refused = refused?;
        ensure!(refused.code == Some(1), "{refused:?}");
        ensure!(refused.err.contains("is being deleted"), "{refused:?}");
        Ok(())
    })
    .await;
}

/// What kubectl asks to complete `kubectl napwake`: this program by another name
/// offers the names of the namespace that the line gives.
#[tokio::test]
async fn names_complete_where_the_line_looks() {
    setup::with("plugin-names", async |stage| {
        let place = stage.place();
        for name in ["web", "worker"] {
            stage
                .managed_alone(&App::new(name, "http"), json!({}))
                .await?;
        }
        let folder = tempfile::tempdir()?;
        let name = folder.path().join("kubectl_complete-napwake");
        std::os::unix::fs::symlink(plugin()?, &name)?;
        let name = name.to_str().context("a path")?;
        let line = ["wake", "-n", &place.namespace, "w"];
        // It offers nothing while the API server is slow.
        let offered = || async { callers::run(name, &line).await?.ok() };
        let is_all = |offered: &String| offered == "web\nworker\n:4\n";
        wait::until("both names", managed::PATIENCE, offered, is_all).await?;
        let line = ["wake", "--namespace", "default", "w"];
        let offered = callers::run(name, &line).await?.ok()?;
        ensure!(offered == ":4\n", "{offered}");
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
