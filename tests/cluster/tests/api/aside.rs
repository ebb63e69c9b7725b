//! Workloads that Napwake leaves alone, and what it undoes before.

use napwake_api::{condition::ConditionType, workload::Phase};
use napwake_testkit::{Result, apps::App, ensure, managed};
use serde_json::{Value, json};

use crate::setup::{self, Stage, course, slices};

/// T-136: a workload that is taken out while it sleeps, or taken over by another
/// controller, gets its pods back and loses its routes; `TargetAvailable` says
/// why. One that is suspended stays as it is, and is taken up again later.
#[tokio::test]
async fn what_is_kept_out_while_it_sleeps_is_woken_first() {
    setup::with("aside", async |stage| {
        let ignored = json!({"metadata": {"annotations": {"napwake.dev/ignore": "true"}}});
        let owned = json!({"metadata": {"ownerReferences": [{
            "apiVersion": "db.example/v1", "kind": "Cluster", "name": "main", "uid": "1",
            "controller": true,
        }]}});
        tokio::try_join!(
            Box::pin(is_let_go(stage, "ignored", &ignored, "Ignored")),
            Box::pin(is_let_go(stage, "owned", &owned, "OwnedByController")),
            Box::pin(is_suspended(stage)),
        )?;
        let kind = ConditionType::TargetAvailable;
        let owned = course::condition_is(stage.place(), "owned", kind, "OwnedByController").await?;
        ensure!(owned.message.contains("Cluster main"), "{owned:?}");
        Ok(())
    })
    .await;
}

async fn is_let_go(stage: &Stage<'_>, name: &str, change: &Value, reason: &str) -> Result<()> {
    let place = stage.place();
    let target = stage.managed(&App::new(name, "http").replicas(2)).await?;
    course::sleep(place, &target).await?;
    target.patch(change.clone()).await?;
    target.is_started().await?;
    ensure!(target.replicas().await? == 2, "{name}: as many as before");
    target.starts().await?;
    slices::until(place, name, 0).await?;
    let kind = ConditionType::TargetAvailable;
    let found = course::condition_is(place, name, kind, reason).await?;
    ensure!(found.status == "False", "{found:?}");
    Ok(())
}

async fn is_suspended(stage: &Stage<'_>) -> Result<()> {
    let place = stage.place();
    let target = stage.managed(&App::new("suspended", "http")).await?;
    course::sleep(place, &target).await?;
    let changed = managed::respec(place, "suspended", json!({"suspend": true})).await?;
    managed::observed(place, "suspended", changed).await?;
    slices::until(place, "suspended", 0).await?;
    ensure!(target.replicas().await? == 0, "it stays as it is");
    managed::respec(place, "suspended", json!({"suspend": false})).await?;
    managed::phase(place, "suspended", Phase::Paused).await?;
    course::reason(place, "suspended", "DoormanRouted").await?;
    course::wake(place, &target).await?;
    Ok(())
}

/// Of two ManagedWorkloads with one target the older manages it, and the other
/// says so. (Of two made in one second it's the one whose name comes first.)
#[tokio::test]
async fn the_older_of_two_manages_the_workload() {
    setup::with("twice", async |stage| {
        let place = stage.place();
        let target = stage.managed(&App::new("web", "http")).await?;
        let second = json!({"targetRef": {"kind": "Deployment", "name": "web"}});
        managed::manage(place, "Deployment", "web-2", second).await?;
        let kind = ConditionType::TargetAvailable;
        let found = course::condition_is(place, "web-2", kind, "AlreadyManaged").await?;
        ensure!(
            found.status == "False" && found.message.contains("web"),
            "{found:?}"
        );
        course::sleep(place, &target).await?;
        managed::ask_to_wake(place, "web-2").await?;
        let changed = managed::respec(place, "web-2", json!({"idleAfter": "2h"})).await?;
        managed::observed(place, "web-2", changed).await?;
        ensure!(
            target.replicas().await? == 0,
            "the younger one wakes nothing"
        );
        course::wake(place, &target).await?;
        Ok(())
    })
    .await;
}

/// A ManagedWorkload that has never been paused goes at once (T-86).
#[tokio::test]
async fn one_that_was_never_paused_goes_at_once() {
    setup::with("never", async |stage| {
        let place = stage.place();
        stage.managed(&App::new("web", "http")).await?;
        course::delete(place, "web").await?;
        ensure!(!course::is_there(place, "web").await?, "it stays");
        Ok(())
    })
    .await;
}
