//! Holding and passing through, on a real cluster.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use napwake_api::{names, workload::Phase};
use napwake_testkit::{
    Context, Result,
    apps::App,
    callers, ensure, managed,
    place::{self, Place},
    wait,
};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::setup;

/// HOLD-01: paused, there are no pods, and no endpoint but the doorman's.
/// HOLD-02: the first request wakes it. HOLD-04: the caller sees one slow,
/// complete answer of the app's own.
#[tokio::test]
async fn the_first_request_wakes_and_is_answered_by_the_app() {
    place::with("first", async |place| {
        setup::asleep(&place, &App::new("web", "http")).await?;
        ensure!(
            place.pods("web").await?.is_empty(),
            "a paused workload has no pods"
        );
        let others = endpoints_not_ours(&place, "web").await?;
        ensure!(
            others.is_empty(),
            "only the doorman's endpoints are left: {others:?}"
        );
        let url = format!("http://{}/", place.address("web").await?);
        let body = callers::curl(&url, &[]).await?.ok()?;
        ensure!(body.starts_with("app web-"), "the app answered: {body:?}");
        managed::phase(&place, "web", Phase::Running).await?;
        Ok(())
    })
    .await;
}

/// Addresses of the Service's slices that Napwake doesn't manage.
async fn endpoints_not_ours(place: &Place, service: &str) -> Result<Vec<String>> {
    let selector = format!(
        "{}={service},{}!={}",
        names::slice::SERVICE_NAME,
        names::slice::MANAGED_BY,
        names::slice::MANAGED_BY_NAPWAKE
    );
    let slices = place
        .api::<EndpointSlice>()
        .list(&ListParams::default().labels(&selector))
        .await?;
    let endpoints = slices.items.into_iter().flat_map(|slice| slice.endpoints);
    Ok(endpoints.flat_map(|endpoint| endpoint.addresses).collect())
}

/// HOLD-11: while it's pausing, a request through the doorman is answered,
/// stamped, and calls the pause off; its pods stay. LIFE-17: one that goes
/// straight to a pod is unseen, and the pause goes on.
#[tokio::test]
async fn a_request_passed_while_pausing_calls_the_pause_off() {
    place::with("calloff", async |place| {
        let app = App::new("web", "http");
        setup::manage(&place, &app, json!({"lookout": "10m"})).await?;
        let pods = names_of(&place).await?;
        managed::annotate(
            &place,
            "web",
            names::signal::PAUSE_REQUESTED,
            &napwake_api::stamp::Stamp::now(managed::now()).to_string(),
        )
        .await?;
        managed::wake_reason(&place, "web", "DoormanRouted").await?;
        let status = managed::status(&place, "web").await?;
        ensure!(
            status.phase == Some(Phase::Pausing),
            "the lookout holds it: {status:?}"
        );

        let pod = place.pods("web").await?.pop().context("its pod runs")?;
        let ip = pod
            .status
            .and_then(|status| status.pod_ip)
            .context("the pod has an address")?;
        callers::curl(&format!("http://{ip}:8080/"), &[])
            .await?
            .ok()?;
        let status = managed::status(&place, "web").await?;
        ensure!(
            status.phase == Some(Phase::Pausing),
            "unseen, the pause goes on"
        );

        let port = doorman_port(&place, "web").await?;
        let doorman = doorman_address(&place, "web").await?;
        let body = callers::curl(&format!("http://{doorman}:{port}/"), &[])
            .await?
            .ok()?;
        ensure!(body.starts_with("app web-"), "the app answered: {body:?}");
        let status = managed::phase(&place, "web", Phase::Running).await?;
        ensure!(status.pause.is_none(), "the pause is over: {status:?}");
        let stamp = managed::annotation(&place, "web", names::signal::LAST_REQUEST).await?;
        ensure!(stamp.is_some(), "the request was stamped");
        ensure!(names_of(&place).await? == pods, "its pods stayed");
        Ok(())
    })
    .await;
}

async fn names_of(place: &Place) -> Result<BTreeSet<Option<String>>> {
    Ok(place
        .pods("web")
        .await?
        .into_iter()
        .map(|pod| pod.metadata.name)
        .collect())
}

/// The doorman port of the workload's only route.
async fn doorman_port(place: &Place, name: &str) -> Result<u16> {
    let status = managed::status(place, name).await?;
    let routes = status.doorman.context("it's routed")?.routes;
    Ok(routes.first().context("it has a route")?.doorman_port)
}

/// An address of a doorman pod, as the Service's slice gives it.
async fn doorman_address(place: &Place, service: &str) -> Result<String> {
    let selector = format!(
        "{}={service},{}={}",
        names::slice::SERVICE_NAME,
        names::slice::MANAGED_BY,
        names::slice::MANAGED_BY_NAPWAKE
    );
    let slices = place
        .api::<EndpointSlice>()
        .list(&ListParams::default().labels(&selector))
        .await?;
    let endpoints = slices.items.into_iter().flat_map(|slice| slice.endpoints);
    let address = endpoints.flat_map(|endpoint| endpoint.addresses).next();
    address.context("the doorman is in the slice")
}

/// HOLD-28: the caller gives up waiting at maxWait, the wake goes on, and a
/// second call is served. LIFE-21: nothing is rolled back by the time-out.
#[tokio::test]
async fn the_wake_goes_on_after_the_caller_timed_out() {
    place::with("timeout", async |place| {
        let app = App::new("slow", "http").arg("-ready-after=15s");
        setup::manage(&place, &app, json!({"wake": {"maxWait": "4s"}})).await?;
        managed::pause(&place, "slow").await?;
        let url = format!("http://{}/", place.address("slow").await?);
        let first = callers::curl(&url, &[]).await?;
        ensure!(
            first.code == Some(52) || first.code == Some(56),
            "no answer: {first:?}"
        );
        ensure!(
            first.took < Duration::from_secs(8),
            "closed at maxWait: {first:?}"
        );
        managed::phase(&place, "slow", Phase::Running).await?;
        let body = callers::curl(&url, &[]).await?.ok()?;
        ensure!(
            body.starts_with("app slow-"),
            "the second call is served: {body:?}"
        );
        Ok(())
    })
    .await;
}

/// HOLD-30: the pod sees a doorman pod as the source of held connections.
/// HOLD-31: once it has run for a while, it sees its callers themselves.
/// NET-01: the doorman dials from Napwake's namespace.
#[tokio::test]
async fn held_requests_come_from_the_doorman_and_later_ones_do_not() {
    place::with("peer", async |place| {
        setup::asleep(&place, &App::new("web", "http")).await?;
        let doormen = doormen(&place).await?;
        let url = format!("http://{}/peer", place.address("web").await?);
        let peer = callers::curl(&url, &[]).await?.ok()?;
        ensure!(
            doormen.contains(peer.trim()),
            "{peer:?} is one of {doormen:?}"
        );
        managed::wake_reason(&place, "web", "NotPaused").await?;
        let direct = wait::until(
            "callers to reach the pod by themselves",
            Duration::from_mins(1),
            async || Ok(callers::curl(&url, &[]).await?.ok()?),
            |peer| !doormen.contains(peer.trim()),
        )
        .await?;
        ensure!(!direct.is_empty(), "the pod saw somebody");
        Ok(())
    })
    .await;
}

async fn doormen(place: &Place) -> Result<BTreeSet<String>> {
    let api: kube::Api<k8s_openapi::api::core::v1::Pod> =
        kube::Api::namespaced(place.client.clone(), "napwake-system");
    let selector = format!("{}={}", names::pod::CONTROL_PLANE, names::pod::DOORMAN);
    let pods = api.list(&ListParams::default().labels(&selector)).await?;
    let ips = pods.items.into_iter().filter_map(|pod| pod.status?.pod_ip);
    Ok(ips.collect())
}

/// HOLD-40: from outside: asleep, held, resuming, Ready, passed, running.
/// LIFE-01: pausing, route added, pods stopped, paused. LIFE-02: stamp,
/// resuming, Running, route removed. LIFE-03, LIFE-04: the stamp wakes, and
/// the idle clock shows it.
#[tokio::test]
async fn a_pause_and_a_wake_go_in_order() {
    place::with("order", async |place| {
        let app = App::new("web", "http").arg("-ready-after=3s");
        setup::manage(&place, &app, json!({})).await?;
        let before = managed::now();
        let status = managed::pause(&place, "web").await?;
        let pause = status.pause.clone().context("it is in a pause")?;
        let routed = pause.routed_at.context("its route stood")?;
        let scaled = pause.scaled_at.context("it was scaled")?;
        let paused = pause.paused_at.context("its pods went")?;
        ensure!(
            pause.started_at.0 >= before,
            "the pause began after it was asked for"
        );
        ensure!(
            pause.started_at < routed && routed < scaled && scaled <= paused,
            "{status:?}"
        );

        let address = place.address("web").await?;
        let mut socket = tokio::net::TcpStream::connect((address.as_str(), 80)).await?;
        socket
            .write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")
            .await?;
        managed::phase(&place, "web", Phase::Resuming).await?;
        let mut byte = [0];
        let early = tokio::time::timeout(Duration::from_millis(500), socket.read(&mut byte)).await;
        ensure!(
            early.is_err(),
            "while it resumes, the request is held: {early:?}"
        );
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await?;
        ensure!(
            answer.starts_with("HTTP/1.1 200 OK\r\n"),
            "the app answered: {answer:?}"
        );
        let status = managed::phase(&place, "web", Phase::Running).await?;
        let clock = status.clock.context("the clock is set")?;
        let source = napwake_api::workload::ActivitySource::Request;
        ensure!(clock.last_activity_source == source, "{clock:?}");
        managed::wake_reason(&place, "web", "NotPaused").await?;
        Ok(())
    })
    .await;
}

/// HOLD-41: the first Ready pod is enough, though two of three never get Ready.
#[tokio::test]
async fn one_ready_pod_is_enough() {
    place::with("one", async |place| {
        let app = App::new("trio", "http")
            .stateful()
            .replicas(3)
            .arg("-ready-host=-0");
        setup::asleep(&place, &app).await?;
        let url = format!("http://{}/", place.address("trio").await?);
        let body = callers::curl(&url, &[]).await?.ok()?;
        ensure!(
            body == "app trio-0\n",
            "the only Ready pod answered: {body:?}"
        );
        managed::phase(&place, "trio", Phase::Running).await?;
        Ok(())
    })
    .await;
}
