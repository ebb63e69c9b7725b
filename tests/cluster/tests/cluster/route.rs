//! Routes on a real cluster: what callers see while a workload pauses and wakes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use napwake_api::{names::signal, workload::Phase};
use napwake_testkit::{
    Context, Result,
    apps::{App, service},
    callers, ensure, managed, place,
};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::setup;

/// ROUTE-05, ROUTE-06: the Service doesn't change through a pause and a wake.
/// ROUTE-11: a request over each address of a dual-stack Service wakes.
#[tokio::test]
async fn a_dual_stack_service_wakes_over_both_families_and_stays_as_it_is() {
    place::with("dual", async |place| {
        let app = App::new("web", "http");
        setup::manage_over(&place, &app, json!({}), &["IPv4", "IPv6"]).await?;
        let before = place.api::<Service>().get("web").await?;
        let addresses = place.addresses("web").await?;
        ensure!(addresses.len() == 2, "it has both: {addresses:?}");
        for address in addresses {
            managed::pause(&place, "web").await?;
            managed::wake_reason(&place, "web", "DoormanRouted").await?;
            let host = if address.contains(':') {
                format!("[{address}]")
            } else {
                address
            };
            let body = callers::curl(&format!("http://{host}/"), &[]).await?.ok()?;
            ensure!(body.starts_with("app web-"), "{body:?}");
            managed::phase(&place, "web", Phase::Running).await?;
        }
        let after = place.api::<Service>().get("web").await?;
        ensure!(
            before.resource_version() == after.resource_version(),
            "{after:?}"
        );
        Ok(())
    })
    .await;
}

/// ROUTE-13: constant new connections while it's paused again and again: each
/// pause is called off, and no connection is refused or lost.
#[tokio::test]
async fn no_connection_is_refused_while_it_pauses() {
    const ROUNDS: usize = 3;
    place::with("refused", async |place| {
        let app = App::new("web", "http").arg("-serve-on=3s");
        setup::manage(&place, &app, json!({})).await?;
        let address = format!("{}:80", place.address("web").await?);
        setup::until_it_answers(&address).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut calls = tokio::task::JoinSet::new();
        calls.spawn(call_until(address, stop.clone()));
        for _ in 0..ROUNDS {
            let stamp = napwake_api::stamp::Stamp::now(managed::now()).to_string();
            managed::annotate(&place, "web", signal::PAUSE_REQUESTED, &stamp).await?;
            managed::wake_reason(&place, "web", "DoormanRouted").await?;
            managed::wake_reason(&place, "web", "NotPaused").await?;
        }
        stop.store(true, Ordering::Relaxed);
        let ended = calls.join_next().await.context("the caller was started")?;
        let answered = ended.context("the caller ran")??;
        ensure!(answered >= ROUNDS, "{answered} calls were answered");
        Ok(())
    })
    .await;
}

/// Calls every 50 ms, each over a connection of its own, until told to stop.
/// Fails with the first call that isn't answered by the app.
async fn call_until(address: String, stop: Arc<AtomicBool>) -> Result<usize> {
    let mut tick = tokio::time::interval(Duration::from_millis(50));
    let mut calls = tokio::task::JoinSet::new();
    while !stop.load(Ordering::Relaxed) && calls.len() < 4000 {
        tick.tick().await;
        calls.spawn(call(address.clone()));
    }
    let mut answered = 0;
    while let Some(call) = calls.join_next().await {
        call.context("a call ran")??;
        answered += 1;
    }
    Ok(answered)
}

async fn call(address: String) -> Result<()> {
    let mut socket = tokio::net::TcpStream::connect(&address)
        .await
        .context("connect")?;
    socket
        .write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")
        .await?;
    let mut answer = String::new();
    let read = tokio::time::timeout(Duration::from_mins(1), socket.read_to_string(&mut answer));
    read.await
        .context("no answer within 60 s")?
        .context("read the answer")?;
    ensure!(
        answer.starts_with("HTTP/1.1 200"),
        "not the app's answer: {answer:?}"
    );
    Ok(())
}

/// ROUTE-26: a port in `doorman-ignore-ports` fails while the workload is
/// paused and works while it runs. CLASS-38, CLASS-39: a check of it is
/// refused and wakes nothing.
#[tokio::test]
async fn an_ignored_port_is_refused_while_it_is_paused() {
    place::with("ignored", async |place| {
        setup::start(&place, &App::new("web", "http")).await?;
        let ports = [("http", 80, 8080), ("ready", 81, 8081)];
        let mut manifest = service("web", "web", &ports, &["IPv4"]);
        manifest["metadata"]["annotations"]["napwake.dev/doorman-ignore-ports"] = json!("ready");
        place.create::<Service>(manifest).await?;
        managed::manage(&place, "Deployment", "web", json!({})).await?;
        managed::phase(&place, "web", Phase::Running).await?;
        let address = place.address("web").await?;
        setup::until_it_answers(&format!("{address}:81")).await?;
        let check = format!("http://{address}:81/ready");
        callers::curl(&check, &[]).await?.ok()?;
        managed::pause(&place, "web").await?;
        managed::wake_reason(&place, "web", "DoormanRouted").await?;
        let refused = callers::curl(&check, &[]).await?;
        ensure!(refused.code == Some(7), "curl can't connect: {refused:?}");
        let status = managed::status(&place, "web").await?;
        ensure!(
            status.phase == Some(Phase::Paused),
            "nothing woke: {status:?}"
        );
        Ok(())
    })
    .await;
}
