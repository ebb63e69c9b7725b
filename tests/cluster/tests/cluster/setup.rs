//! What most tests begin with: an app, its Service, its ManagedWorkload.

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::Service,
};
use kube::{Api, api::PostParams};
use napwake_api::workload::Phase;
use napwake_testkit::{
    Result,
    apps::{App, Kind, service},
    managed,
    place::Place,
    wait,
};
use serde_json::{Value, json};

/// Makes the workload alone.
pub(crate) async fn start(place: &Place, app: &App) -> Result<()> {
    match app.kind {
        Kind::Deployment => drop(place.create::<Deployment>(app.manifest()).await?),
        Kind::StatefulSet => drop(place.create::<StatefulSet>(app.manifest()).await?),
    }
    Ok(())
}

/// Makes the workload, a Service on port 80 of the same name, and a
/// ManagedWorkload, and waits until it runs.
pub(crate) async fn manage(place: &Place, app: &App, spec: Value) -> Result<()> {
    manage_over(place, app, spec, &["IPv4"]).await
}

/// As [`manage`], with a Service of these IP families.
pub(crate) async fn manage_over(
    place: &Place,
    app: &App,
    spec: Value,
    families: &[&str],
) -> Result<()> {
    start(place, app).await?;
    let manifest = service(&app.name, &app.name, &[("", 80, 8080)], families);
    let api: Api<Service> = place.api();
    api.create(&PostParams::default(), &serde_json::from_value(manifest)?)
        .await?;
    managed::manage(place, &format!("{:?}", app.kind), &app.name, spec).await?;
    managed::phase(place, &app.name, Phase::Running).await?;
    Ok(())
}

/// As [`manage`], and then paused and routed.
pub(crate) async fn asleep(place: &Place, app: &App) -> Result<()> {
    manage(place, app, json!({})).await?;
    managed::pause(place, &app.name).await?;
    managed::wake_reason(place, &app.name, "DoormanRouted").await?;
    Ok(())
}

/// Waits until something accepts connections there: kube-proxy follows a
/// Service a moment after its pods are Ready.
pub(crate) async fn until_it_answers(address: &str) -> Result<()> {
    let what = format!("{address} to accept connections");
    wait::until(
        &what,
        managed::PATIENCE,
        async || Ok(tokio::net::TcpStream::connect(address).await.is_ok()),
        |accepted| *accepted,
    )
    .await?;
    Ok(())
}
