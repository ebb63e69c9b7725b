//! The lifecycle on a real cluster: what wakes, what is managed.

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::Namespace,
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use napwake_api::{
    ManagedWorkload,
    names::{opt, signal},
    stamp::Stamp,
    workload::{ActivitySource, Phase},
};
use napwake_testkit::{
    Context, Result,
    apps::{App, Kind, service},
    callers, ensure, managed,
    place::{self, Place},
};
use rstest::rstest;
use serde_json::{Value, json};

use crate::setup;

async fn wake_by_annotation(place: &Place, key: &str) -> Result<()> {
    managed::annotate(place, "web", key, &Stamp::now(managed::now()).to_string()).await
}

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
        wake_by_annotation(&place, key).await?;
        let status = managed::phase(&place, "web", Phase::Running).await?;
        let clock = status.clock.context("the clock is set")?;
        ensure!(clock.last_activity_source == source, "{clock:?}");
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
        setup::manage(&place, &App::new("web", "http"), spec).await?;
        managed::pause(&place, "web").await?;
        managed::wake_reason(&place, "web", "DoormanRouted").await?;
        scale(&place, 2).await?;
        managed::phase(&place, "web", Phase::Running).await?;
        managed::wake_reason(&place, "web", "NotPaused").await?;
        let replicas = place
            .api::<Deployment>()
            .get("web")
            .await?
            .spec
            .and_then(|s| s.replicas);
        ensure!(
            replicas == Some(2),
            "it keeps what it was given: {replicas:?}"
        );
        Ok(())
    })
    .await;
}

/// LIFE-15: behind a headless Service it isn't routed, and an activity
/// annotation wakes it.
#[tokio::test]
async fn an_activity_annotation_wakes_what_is_behind_a_headless_service() {
    place::with("headless", async |place| {
        setup::start(&place, &App::new("web", "http")).await?;
        let mut headless = service("web", "web", &[("", 80, 8080)], &["IPv4"]);
        headless["spec"]["clusterIP"] = json!("None");
        place
            .create::<k8s_openapi::api::core::v1::Service>(headless)
            .await?;
        managed::manage(&place, "Deployment", "web", json!({})).await?;
        managed::phase(&place, "web", Phase::Running).await?;
        managed::pause(&place, "web").await?;
        managed::wake_reason(&place, "web", "NoServices").await?;
        wake_by_annotation(&place, signal::ACTIVITY).await?;
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
        managed::pause(&place, "web").await?;
        managed::wake_reason(&place, "web", "DoormanRouted").await?;
        let url = format!("http://{}/", place.address("web").await?);
        let body = callers::curl(&url, &[]).await?.ok()?;
        ensure!(body.starts_with("app web-"), "{body:?}");
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
    place
        .create::<k8s_openapi::api::core::v1::Service>(services)
        .await?;
    let mut manifest = app.manifest();
    if how == OptIn::WorkloadLabel {
        manifest["metadata"]["labels"][opt::MANAGED] = json!("true");
    } else {
        label_namespace(place, opt::MANAGED).await?;
    }
    manifest["metadata"]["annotations"]["napwake.dev/lookout"] = json!("0s");
    match app.kind {
        Kind::Deployment => {
            place.create::<Deployment>(manifest).await?;
        }
        Kind::StatefulSet => {
            place.create::<StatefulSet>(manifest).await?;
        }
    }
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
    napwake_testkit::wait::until(
        "the ManagedWorkload to be made",
        managed::PATIENCE,
        async || {
            Ok(place
                .api::<ManagedWorkload>()
                .get_opt("web")
                .await?
                .is_some())
        },
        |there| *there,
    )
    .await?;
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
