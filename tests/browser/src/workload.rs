//! Workloads that a test opens in a browser.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::api::{Patch, PatchParams};
use napwake_api::workload::Phase;
use napwake_testkit::{
    Context, Result,
    apps::{App, service},
    ensure, managed,
    place::Place,
};
use serde_json::{Value, json};

/// What the spec says where the doorman asks before it wakes.
pub fn asks() -> Value {
    json!({"wake": {"mode": "Ask"}})
}

/// Makes the app, its Service on port 80 and its ManagedWorkload, and waits until
/// it runs. Gives the Service's address.
pub async fn run(place: &Place, app: &App, spec: Value) -> Result<String> {
    let name = &app.name;
    place.create::<Deployment>(app.manifest()).await?;
    let manifest = service(name, name, &[("", 80, 8080)], &["IPv4"]);
    place.create::<Service>(manifest).await?;
    managed::manage(place, "Deployment", name, spec).await?;
    managed::phase(place, name, Phase::Running).await?;
    place.address(name).await
}

/// As [`run`], and then paused and routed.
pub async fn asleep(place: &Place, app: &App, spec: Value) -> Result<String> {
    let address = run(place, app, spec).await?;
    managed::pause_routed(place, &app.name).await?;
    Ok(address)
}

/// As [`asleep`], and once it's woken none of its pods gets Ready.
pub async fn asleep_for_good(place: &Place, app: &App, spec: Value) -> Result<String> {
    let address = asleep(place, app, spec).await?;
    let never = App::clone(app).arg("-never-ready").manifest();
    let patch = Patch::Strategic(json!({"spec": {"template": never["spec"]["template"]}}));
    let api = place.api::<Deployment>();
    let patched = api.patch(&app.name, &PatchParams::default(), &patch).await;
    patched.with_context(|| format!("change the pods of {}", app.name))?;
    Ok(address)
}

/// Sees that nothing has asked the workload to wake.
pub async fn still_sleeps(place: &Place, name: &str) -> Result<()> {
    let stamp = napwake_api::names::signal::LAST_REQUEST;
    let stamp = managed::annotation(place, name, stamp).await?;
    ensure!(stamp.is_none(), "{name} was asked to wake: {stamp:?}");
    let phase = managed::status(place, name).await?.phase;
    ensure!(phase == Some(Phase::Paused), "{name} is {phase:?}");
    Ok(())
}
