//! What most tests begin with: an app, its Service, its ManagedWorkload. And
//! what most of them do next: one request.

use std::collections::BTreeSet;

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::Service,
};
use kube::ResourceExt;
use napwake_api::workload::Phase;
use napwake_testkit::{
    Result,
    apps::{App, Kind, service},
    callers::{self, Ended},
    ensure, managed,
    place::Place,
    wait,
};
use serde_json::{Value, json};

/// Makes a workload alone.
pub(crate) async fn create(place: &Place, kind: Kind, manifest: Value) -> Result<()> {
    match kind {
        Kind::Deployment => drop(place.create::<Deployment>(manifest).await?),
        Kind::StatefulSet => drop(place.create::<StatefulSet>(manifest).await?),
    }
    Ok(())
}

/// Makes the app's workload alone.
pub(crate) async fn start(place: &Place, app: &App) -> Result<()> {
    create(place, app.kind, app.manifest()).await
}

/// Makes a ManagedWorkload for it, and waits until it runs.
pub(crate) async fn run(place: &Place, app: &App, spec: Value) -> Result<()> {
    managed::manage(place, &format!("{:?}", app.kind), &app.name, spec).await?;
    managed::phase(place, &app.name, Phase::Running).await?;
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
    place.create::<Service>(manifest).await?;
    run(place, app, spec).await
}

/// As [`manage`], and then paused and routed.
pub(crate) async fn asleep(place: &Place, app: &App) -> Result<()> {
    manage(place, app, json!({})).await?;
    managed::pause_routed(place, &app.name).await
}

/// The names of the app's pods, those that are leaving too.
pub(crate) async fn pod_names(place: &Place, app: &str) -> Result<BTreeSet<String>> {
    let pods = place.pods(app).await?;
    Ok(pods.iter().map(ResourceExt::name_any).collect())
}

/// How many replicas the workload is told to have.
pub(crate) async fn replicas(place: &Place, app: &App) -> Result<Option<i32>> {
    Ok(match app.kind {
        Kind::Deployment => {
            let found = place.api::<Deployment>().get(&app.name).await?;
            found.spec.and_then(|spec| spec.replicas)
        }
        Kind::StatefulSet => {
            let found = place.api::<StatefulSet>().get(&app.name).await?;
            found.spec.and_then(|spec| spec.replicas)
        }
    })
}

/// An address as it stands in a URL.
pub(crate) fn host(address: &str) -> String {
    if address.contains(':') {
        format!("[{address}]")
    } else {
        address.to_owned()
    }
}

/// The URL of a path at the Service's first cluster address.
pub(crate) async fn url(place: &Place, service: &str, path: &str) -> Result<String> {
    let address = place.address(service).await?;
    Ok(format!("http://{}{path}", host(&address)))
}

/// Makes one request to the Service `name`, which the app of that name must
/// answer itself.
pub(crate) async fn request(place: &Place, name: &str) -> Result<Ended> {
    request_to(&url(place, name, "/").await?, name).await
}

/// Makes one request to the URL, which the app of that name must answer itself.
pub(crate) async fn request_to(url: &str, name: &str) -> Result<Ended> {
    let ended = callers::curl(url, &[]).await?;
    let body = ended.clone().ok()?;
    ensure!(
        body.starts_with(&format!("app {name}-")),
        "not the app's own answer: {ended:?}"
    );
    Ok(ended)
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
