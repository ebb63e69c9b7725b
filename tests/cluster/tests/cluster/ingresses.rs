//! Ingresses and gateways in front: they read EndpointSlices, and so find the doorman
//! like any other endpoint.

use k8s_openapi::api::{core::v1::Namespace, networking::v1::Ingress as IngressObject};
use kube::{Api, ResourceExt};
use napwake_api::workload::Phase;
use napwake_testkit::{
    Context, Result,
    apps::App,
    ensure,
    ingress::{GATEWAY, GATEWAY_PORT, HOST, Ingress, Speaks},
    managed,
    place::{self, Place},
};
use serde_json::{Value, json};

use crate::setup;

/// How a browser asks for a page.
const BROWSER: [&str; 4] = [
    "--user-agent",
    "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0",
    "--header",
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
];

/// An Ingress before the Service `web`, for whoever serves `host`.
fn before_web() -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "front"},
        "spec": {"rules": [{"host": HOST, "http": {"paths": [{
            "path": "/", "pathType": "Prefix",
            "backend": {"service": {"name": "web", "port": {"number": 80}}},
        }]}}]},
    })
}

/// Asks through what stands in front, and is answered by the app.
async fn ask(front: &Ingress, url: &str) -> Result<()> {
    let answer = front.curl(url, &["--max-time", "90"]).await?;
    let is_answered = answer.contains(" 200") && answer.contains("app web-");
    ensure!(is_answered, "not the app's own answer: {answer}");
    Ok(())
}

/// The app answers, is paused, wakes by a request, and answers again, twice over.
async fn wakes_through(place: &Place, front: &Ingress, url: &str) -> Result<()> {
    for round in 1..=2 {
        ask(front, url)
            .await
            .with_context(|| format!("awake, {round}"))?;
        managed::pause_routed(place, "web").await?;
        let woken = ask(front, url).await;
        woken
            .inspect_err(|_| front.tell())
            .with_context(|| format!("asleep, {round}"))?;
        managed::phase(place, "web", Phase::Running).await?;
        managed::wake_reason(place, "web", "NotPaused").await?;
    }
    ask(front, url).await
}

/// COMPAT-01, ROUTE-08: an Ingress that is served by Contour reaches the doorman, and
/// stays as it is through pauses and wakes.
#[tokio::test]
async fn an_unchanged_ingress_serves_wakes_and_serves_again() {
    place::with("ingress", async |place| {
        setup::manage(&place, &App::new("web", "http"), json!({})).await?;
        let front = Ingress::start(&place).await?;
        let made = place.create::<IngressObject>(before_web()).await?;
        let url = format!("http://{HOST}/");
        front.until_served(&url).await?;
        wakes_through(&place, &front, &url).await?;
        let after = place.api::<IngressObject>().get("front").await?;
        ensure!(after.spec == made.spec, "{after:?}");
        ensure!(after.annotations() == made.annotations(), "{after:?}");
        Ok(())
    })
    .await;
}

/// The test's namespace, as the owner of something.
async fn namespace(place: &Place) -> Result<Value> {
    let api: Api<Namespace> = Api::all(place.client.clone());
    let found = api.get(&place.namespace).await?;
    Ok(json!({
        "apiVersion": "v1", "kind": "Namespace",
        "name": place.namespace, "uid": found.metadata.uid,
    }))
}

/// COMPAT-02: a Gateway's HTTPRoute, served by Contour, reaches the doorman.
#[tokio::test]
async fn a_gateways_route_serves_wakes_and_serves_again() {
    place::with("gateway", async |place| {
        setup::manage(&place, &App::new("web", "http"), json!({})).await?;
        let front = Ingress::start_for(&place, Speaks::Gateway).await?;
        let class = format!("{}-front", place.namespace);
        let owner = namespace(&place).await?;
        let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
            {
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass",
                // It's in no namespace, and goes with this one.
                "metadata": {"name": class, "ownerReferences": [owner]},
                "spec": {"controllerName": "projectcontour.io/gateway-controller"},
            },
            {
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway",
                "metadata": {"name": GATEWAY, "namespace": place.namespace},
                "spec": {
                    "gatewayClassName": class,
                    "listeners": [{"name": "http", "protocol": "HTTP", "port": 80}],
                },
            },
            {
                "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                "metadata": {"name": "web", "namespace": place.namespace},
                "spec": {
                    "parentRefs": [{"name": GATEWAY}],
                    "hostnames": [HOST],
                    "rules": [{"backendRefs": [{"name": "web", "port": 80}]}],
                },
            },
        ]});
        let url = format!("http://{HOST}:{GATEWAY_PORT}/");
        front.serve_by(&objects, &url).await?;
        wakes_through(&place, &front, &url).await
    })
    .await;
}

/// COMPAT-16: an Ingress speaks HTTP/1.1 with its backends unless told otherwise, so
/// that a browser is asked before it wakes, and the click wakes.
#[tokio::test]
async fn a_browser_is_asked_behind_an_ingress_as_it_comes() {
    place::with("asked", async |place| {
        let ask = json!({"wake": {"mode": "Ask"}});
        setup::manage(&place, &App::new("web", "http"), ask).await?;
        managed::pause_routed(&place, "web").await?;
        let front = Ingress::start(&place).await?;
        place.create::<IngressObject>(before_web()).await?;
        let url = format!("http://{HOST}/");
        front.until_served(&url).await?;
        let page = front.curl(&url, &BROWSER).await?;
        let head = page.lines().next().unwrap_or_default();
        let is_page = head.contains(" 200") && page.contains("<button");
        ensure!(is_page, "not the asleep page: {head}");
        let phase = managed::status(&place, "web").await?.phase;
        ensure!(phase == Some(Phase::Paused), "it's {phase:?}");
        Ok(())
    })
    .await;
}
