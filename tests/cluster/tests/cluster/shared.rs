//! Services that several workloads stand behind.

use k8s_openapi::api::core::v1::Service;
use napwake_api::{names::signal, workload::Phase};
use napwake_testkit::{
    Result,
    apps::{App, service},
    callers, ensure, managed,
    place::{self, Place},
};
use serde_json::json;

use crate::{setup, slices, steady};

/// The two workloads.
const STABLE: &str = "stable";
const CANARY: &str = "canary";

/// Makes both workloads and the Service `web` before the pods of both.
async fn share(place: &Place) -> Result<[App; 2]> {
    let apps = [STABLE, CANARY].map(|name| App::new(name, "http").arg("-serve-on=3s"));
    for app in &apps {
        let mut manifest = app.manifest();
        manifest["spec"]["template"]["metadata"]["labels"]["behind"] = json!("web");
        setup::create(place, app.kind, manifest).await?;
    }
    let mut manifest = service("web", "web", &[("", 80, 8080)], &["IPv4"]);
    manifest["spec"]["selector"] = json!({"behind": "web"});
    place.create::<Service>(manifest).await?;
    Ok(apps)
}

/// ROUTE-28, ROUTE-29: while a canary is paused beside a stable workload whose pods are
/// Ready, traffic goes to those: no request is refused, none wakes it, and none crosses
/// the doorman, as no slice sends any there. ROUTE-30: the condition says so.
#[tokio::test]
async fn a_canary_is_paused_beside_a_stable_workload() {
    place::with("canary", async |place| {
        for app in share(&place).await? {
            setup::run(&place, &app, json!({})).await?;
        }
        let address = format!("{}:80", place.address("web").await?);
        setup::until_it_answers(&address).await?;
        let pause = managed::pause(&place, CANARY);
        let (answered, asleep) = steady::REQUESTS.during(&address, pause).await?;
        ensure!(answered > 0, "somebody called");
        ensure!(asleep.doorman.is_none(), "it was never routed: {asleep:#?}");
        managed::wake_reason(&place, CANARY, "ServedByOtherPods").await?;
        let url = setup::url(&place, "web", "/").await?;
        for _ in 0..20 {
            let body = callers::curl(&url, &[]).await?.ok()?;
            ensure!(body.starts_with("app stable-"), "{body:?}");
        }
        let doormen = slices::doormen(&place, "web").await?;
        ensure!(doormen.is_empty(), "{doormen:?}");
        let stamp = managed::annotation(&place, CANARY, signal::LAST_REQUEST).await?;
        ensure!(stamp.is_none(), "a request woke it: {stamp:?}");
        Ok(())
    })
    .await;
}

/// ROUTE-31, ROUTE-32: with every workload behind it paused, the Service is
/// routed, and one request wakes them all.
#[tokio::test]
async fn one_request_wakes_all_that_are_behind_it() {
    place::with("all", async |place| {
        for app in share(&place).await? {
            setup::run(&place, &app, json!({})).await?;
        }
        for name in [STABLE, CANARY] {
            managed::pause(&place, name).await?;
        }
        for name in [STABLE, CANARY] {
            managed::wake_reason(&place, name, "DoormanRouted").await?;
        }
        let url = setup::url(&place, "web", "/").await?;
        let body = callers::curl(&url, &[]).await?.ok()?;
        ensure!(body.starts_with("app "), "{body:?}");
        for name in [STABLE, CANARY] {
            managed::phase(&place, name, Phase::Running).await?;
        }
        Ok(())
    })
    .await;
}
