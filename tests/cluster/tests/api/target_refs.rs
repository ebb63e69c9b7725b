//! Whether the endpoints of slices name the doorman's pods.

use k8s_openapi::api::{
    core::v1::{Namespace, Service},
    discovery::v1::Endpoint,
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use napwake_testkit::{Result, apps::App, ensure, managed::PATIENCE, place::Place, wait};
use serde_json::{Value, json};

use crate::setup::{self, HTTP, Stage, Target, course, slices};

/// T-132: by default they do, and don't as long as a label of the Namespace or of the
/// Service says that it's in Istio's ambient mesh. The slice is rewritten in place.
#[tokio::test]
async fn the_mesh_takes_the_references_off() {
    setup::with("ambient", async |stage| {
        let place = stage.place();
        asleep(stage).await?;
        let before = until_named(place, true).await?;
        for labeled in [Labeled::Namespace, Labeled::Service] {
            label(place, labeled, json!("ambient")).await?;
            until_named(place, false).await?;
            label(place, labeled, Value::Null).await?;
            let after = until_named(place, true).await?;
            ensure!(after == before, "made anew: {before:?} {after:?}");
        }
        Ok(())
    })
    .await;
}

/// T-132: never, if a flag says so; and a request wakes as it does otherwise.
#[tokio::test]
async fn a_flag_takes_the_references_off() {
    let flags = ["--endpoint-target-ref=none"];
    setup::with_flags("unnamed", &flags, async |stage| {
        let target = asleep(stage).await?;
        until_named(stage.place(), false).await?;
        course::wake(stage.place(), &target).await?;
        slices::until(stage.place(), "web", 0).await?;
        Ok(())
    })
    .await;
}

async fn asleep(stage: &Stage<'_>) -> Result<Target> {
    stage.serve("web", "web", &[HTTP], &["IPv4"]).await?;
    let app = App::new("web", "http");
    let target = stage.managed_alone(&app, json!({})).await?;
    course::sleep(stage.place(), &target).await?;
    Ok(target)
}

/// Waits until the only slice of the Service names pods, or names none; the node is
/// named either way. Gives the slice's uid.
async fn until_named(place: &Place, is_named: bool) -> Result<Option<String>> {
    let what = format!("endpoints that name their pods: {is_named}");
    let probe = || slices::until(place, "web", 1);
    let found = wait::until(&what, PATIENCE, probe, |found| {
        let endpoints = &found[0].endpoints;
        let is_so =
            |one: &Endpoint| one.target_ref.is_some() == is_named && one.node_name.is_some();
        !endpoints.is_empty() && endpoints.iter().all(is_so)
    });
    Ok(found.await?[0].metadata.uid.clone())
}

/// What carries the label.
#[derive(Clone, Copy, Debug)]
enum Labeled {
    Namespace,
    Service,
}

async fn label(place: &Place, labeled: Labeled, mode: Value) -> Result<()> {
    let labels = json!({"metadata": {"labels": {"istio.io/dataplane-mode": mode}}});
    let (params, patch) = (PatchParams::default(), Patch::Merge(labels));
    match labeled {
        Labeled::Namespace => {
            let api: Api<Namespace> = Api::all(place.client.clone());
            api.patch(&place.namespace, &params, &patch).await?;
        }
        Labeled::Service => {
            let api = place.api::<Service>();
            api.patch("web", &params, &patch).await?;
        }
    }
    Ok(())
}
