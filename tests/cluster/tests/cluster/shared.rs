//! Services that several workloads stand behind.

use k8s_openapi::api::core::v1::Service;
use napwake_api::workload::Phase;
use napwake_testkit::{
    Result,
    apps::{App, service},
    callers, ensure, managed,
    place::{self, Place},
};
use serde_json::json;

use crate::setup;

/// The two workloads.
const STABLE: &str = "stable";
const CANARY: &str = "canary";

/// Makes both workloads and the Service `web` before the pods of both.
async fn share(place: &Place) -> Result<[App; 2]> {
    let apps = [STABLE, CANARY].map(|name| App::new(name, "http"));
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
