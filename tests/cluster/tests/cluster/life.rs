//! The lifecycle on a real cluster: what wakes, what is managed.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Service},
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use napwake_api::{
    ManagedWorkload,
    names::{opt, signal},
    workload::{ActivitySource, Phase},
};
use napwake_testkit::{
    Result,
    apps::{App, service},
    ensure, managed,
    place::{self, Place},
    wait,
};
use rstest::rstest;
use serde_json::{Value, json};

use crate::setup;

async fn scale(place: &Place, replicas: i32) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    place
        .api::<Deployment>()
        .patch_scale("web", &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// LIFE-07, LIFE-08: asking, it wakes by tooling's annotation and by an
/// activity annotation all the same. TOKEN-29, TOKEN-31: whatever the mode.
#[rstest]
#[case(signal::WAKE_REQUESTED, "Ask", ActivitySource::Command)]
#[case(signal::ACTIVITY, "Ask", ActivitySource::Annotation)]
#[case(signal::WAKE_REQUESTED, "Request", ActivitySource::Command)]
#[case(signal::ACTIVITY, "Request", ActivitySource::Annotation)]
#[tokio::test]
async fn annotations_wake(#[case] key: &str, #[case] mode: &str, #[case] source: ActivitySource) {
    place::with("annotation", async |place| {
        let spec = json!({"wake": {"mode": mode}});
        setup::manage(&place, &App::new("web", "http"), spec).await?;
        managed::pause(&place, "web").await?;
        managed::stamp(&place, "web", key).await?;
        let status = managed::phase(&place, "web", Phase::Running).await?;
        let found = status.clock.map(|clock| clock.last_activity_source);
        ensure!(found == Some(source), "{found:?}");
        Ok(())
    })
    .await;
}

/// LIFE-09: something else scales it up while it's paused: it goes to Running
/// with the replicas it was given, and its route goes.
#[tokio::test]
async fn a_scale_up_by_someone_else_wakes() {
    place::with("scale", async |place| {
        let spec = json!({"wake": {"mode": "Ask"}});
        let app = App::new("web", "http");
        setup::manage(&place, &app, spec).await?;
        managed::pause_routed(&place, "web").await?;
        scale(&place, 2).await?;
        managed::phase(&place, "web", Phase::Running).await?;
        managed::wake_reason(&place, "web", "NotPaused").await?;
        let replicas = setup::replicas(&place, &app).await?;
        ensure!(replicas == Some(2), "not what it was given: {replicas:?}");
        Ok(())
    })
    .await;
}

/// LIFE-15: behind a headless Service it isn't routed, and an activity
/// annotation wakes it.
#[tokio::test]
async fn an_activity_annotation_wakes_what_is_behind_a_headless_service() {
    place::with("headless", async |place| {
        let app = App::new("web", "http");
        setup::start(&place, &app).await?;
        let mut headless = service("web", "web", &[("", 80, 8080)], &["IPv4"]);
        headless["spec"]["clusterIP"] = json!("None");
        place.create::<Service>(headless).await?;
        setup::run(&place, &app, json!({})).await?;
        managed::pause(&place, "web").await?;
        managed::wake_reason(&place, "web", "NoServices").await?;
        managed::stamp(&place, "web", signal::ACTIVITY).await?;
        managed::phase(&place, "web", Phase::Running).await?;
        Ok(())
    })
    .await;
}

/// How a workload is opted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OptIn {
    Object,
    WorkloadLabel,
    NamespaceLabel,
}

/// LIFE-18: a ManagedWorkload of its own, a label on it, a label on its
/// namespace: all three give a working route and wake. LIFE-20: for both kinds.
/// SET-01, SET-29: nothing else is configured.
#[rstest]
#[case(OptIn::Object, App::new("web", "http").stateful())]
#[case(OptIn::WorkloadLabel, App::new("web", "http"))]
#[case(OptIn::WorkloadLabel, App::new("web", "http").stateful())]
#[case(OptIn::NamespaceLabel, App::new("web", "http"))]
#[tokio::test]
async fn every_way_to_opt_in_gives_a_route_and_a_wake(#[case] how: OptIn, #[case] app: App) {
    place::with("optin", async |place| {
        opt_in(&place, how, &app).await?;
        managed::phase(&place, "web", Phase::Running).await?;
        managed::pause_routed(&place, "web").await?;
        setup::request(&place, "web").await?;
        managed::phase(&place, "web", Phase::Running).await?;
        Ok(())
    })
    .await;
}

async fn opt_in(place: &Place, how: OptIn, app: &App) -> Result<()> {
    if how == OptIn::Object {
        return setup::manage(place, app, json!({})).await;
    }
    let services = service("web", "web", &[("", 80, 8080)], &["IPv4"]);
    place.create::<Service>(services).await?;
    let mut manifest = app.manifest();
    if how == OptIn::WorkloadLabel {
        manifest["metadata"]["labels"][opt::MANAGED] = json!("true");
    } else {
        label_namespace(place, opt::MANAGED).await?;
    }
    manifest["metadata"]["annotations"]["napwake.dev/lookout"] = json!("0s");
    setup::create(place, app.kind, manifest).await?;
    wait_for_object(place).await
}

async fn label_namespace(place: &Place, key: &str) -> Result<()> {
    let api: Api<Namespace> = Api::all(place.client.clone());
    let patch: Value = json!({"metadata": {"labels": {key: "true"}}});
    api.patch(
        &place.namespace,
        &PatchParams::default(),
        &Patch::Merge(&patch),
    )
    .await?;
    Ok(())
}

async fn wait_for_object(place: &Place) -> Result<()> {
    let what = "the ManagedWorkload to be made";
    let probe = async || Ok(place.api::<ManagedWorkload>().get_opt("web").await?);
    wait::until(what, managed::PATIENCE, probe, Option::is_some).await?;
    Ok(())
}

/// LIFE-19: `napwake.dev/ignore` keeps a workload out of an opted-in namespace.
#[tokio::test]
async fn ignore_keeps_a_workload_out() {
    place::with("ignore", async |place| {
        label_namespace(&place, opt::MANAGED).await?;
        let mut ignored = App::new("left", "http").manifest();
        ignored["metadata"]["annotations"][opt::IGNORE] = json!("true");
        place.create::<Deployment>(ignored).await?;
        setup::start(&place, &App::new("web", "http")).await?;
        wait_for_object(&place).await?;
        let left = place.api::<ManagedWorkload>().get_opt("left").await?;
        ensure!(left.is_none(), "the ignored one isn't managed: {left:?}");
        Ok(())
    })
    .await;
}
