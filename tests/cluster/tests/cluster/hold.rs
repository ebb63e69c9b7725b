//! Holding and passing through, on a real cluster.

use std::{collections::BTreeSet, time::Duration};

use napwake_api::{
    names,
    workload::{ActivitySource, Phase},
};
use napwake_testkit::{
    Context, Result,
    apps::App,
    callers, ensure, managed,
    place::{self, Place},
    wait,
};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    kept::Kept,
    own::{Own, Part},
    setup, slices,
};

/// HOLD-01: paused, there are no pods, and no endpoint but the doorman's.
/// HOLD-02: the first request wakes it. HOLD-04: the caller sees one slow,
/// complete answer of the app's own.
#[tokio::test]
async fn the_first_request_wakes_and_is_answered_by_the_app() {
    place::with("first", async |place| {
        setup::asleep(&place, &App::new("web", "http")).await?;
        let pods = setup::pod_names(&place, "web").await?;
        ensure!(pods.is_empty(), "a paused workload has no pods: {pods:?}");
        // The EndpointSlice controller follows a moment after the last pod has gone.
        let what = "no endpoint but the doorman's";
        let others = || slices::others(&place, "web");
        wait::until(what, managed::PATIENCE, others, BTreeSet::is_empty).await?;
        let doormen = slices::doormen(&place, "web").await?;
        ensure!(!doormen.is_empty(), "no doorman's either");
        setup::request(&place, "web").await?;
        managed::phase(&place, "web", Phase::Running).await?;
        Ok(())
    })
    .await;
}

/// HOLD-11: while it's pausing, a request through the doorman is answered,
/// stamped, and calls the pause off; its pods stay. LIFE-17: one that goes
/// straight to a pod is unseen, and the pause goes on.
#[tokio::test]
async fn a_request_passed_while_pausing_calls_the_pause_off() {
    place::with("calloff", async |place| {
        let app = App::new("web", "http");
        setup::manage(&place, &app, json!({"lookout": "10m"})).await?;
        let pods = setup::pod_names(&place, "web").await?;
        managed::ask_to_pause(&place, "web").await?;
        managed::wake_reason(&place, "web", "DoormanRouted").await?;
        managed::phase(&place, "web", Phase::Pausing).await?;

        let pod = place.pods("web").await?.pop().context("its pod runs")?;
        let ip = pod.status.and_then(|status| status.pod_ip);
        let ip = ip.context("the pod has an address")?;
        setup::request_to(&format!("http://{ip}:8080/"), "web").await?;
        let status = managed::status(&place, "web").await?;
        ensure!(status.phase == Some(Phase::Pausing), "unseen: {status:?}");

        let routes = status.doorman.context("it's routed")?.routes;
        let port = routes.first().context("it has a route")?.doorman_port;
        let routed_to = slices::doormen(&place, "web").await?;
        let doorman = routed_to.first().context("the doorman is in the slice")?;
        setup::request_to(&format!("http://{doorman}:{port}/"), "web").await?;
        let status = managed::phase(&place, "web", Phase::Running).await?;
        ensure!(status.pause.is_none(), "the pause is over: {status:?}");
        let stamp = managed::annotation(&place, "web", names::signal::LAST_REQUEST).await?;
        ensure!(stamp.is_some(), "the request was stamped");
        ensure!(setup::pod_names(&place, "web").await? == pods, "they stay");
        Ok(())
    })
    .await;
}

/// HOLD-28, COMPAT-17: the caller gives up waiting at maxWait with an empty
/// reply or a reset, the wake goes on, and a second call is served. LIFE-21:
/// nothing is rolled back by the time-out.
#[tokio::test]
async fn the_wake_goes_on_after_the_caller_timed_out() {
    place::with("timeout", async |place| {
        let app = App::new("slow", "http").arg("-ready-after=15s");
        setup::manage(&place, &app, json!({"wake": {"maxWait": "4s"}})).await?;
        managed::pause_routed(&place, "slow").await?;
        let first = callers::curl(&setup::url(&place, "slow", "/").await?, &[]).await?;
        let gave_up = first.code == Some(52) || first.code == Some(56);
        ensure!(gave_up, "no answer: {first:?}");
        ensure!(first.took < Duration::from_secs(8), "{first:?}");
        managed::phase(&place, "slow", Phase::Running).await?;
        setup::request(&place, "slow").await?;
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
        let url = setup::url(&place, "web", "/peer").await?;
        let peer = async || Ok(callers::curl(&url, &[]).await?.ok()?.trim().to_owned());
        let held = peer().await?;
        ensure!(doormen.contains(&held), "{held:?} isn't of {doormen:?}");
        managed::wake_reason(&place, "web", "NotPaused").await?;
        let what = "callers to reach the pod by themselves";
        let is_direct = |peer: &String| !doormen.contains(peer);
        wait::until(what, Duration::from_mins(1), peer, is_direct).await?;
        Ok(())
    })
    .await;
}

/// The addresses of the doorman's pods.
async fn doormen(place: &Place) -> Result<BTreeSet<String>> {
    let pods = Own::of(place).pods(Part::Doorman).await?;
    let ips = pods.into_iter().filter_map(|pod| pod.status?.pod_ip);
    Ok(ips.collect())
}

/// HOLD-40: from outside: asleep, held, resuming, Ready, passed, running.
/// LIFE-01: pausing, route added, pods stopped, paused. LIFE-02: stamp,
/// resuming, Running, route removed. LIFE-03, LIFE-04, OBS-03: the stamp wakes,
/// and the idle clock shows it.
#[tokio::test]
async fn a_pause_and_a_wake_go_in_order() {
    place::with("order", async |place| {
        let app = App::new("web", "http").arg("-ready-after=8s");
        setup::manage(&place, &app, json!({})).await?;
        let before = managed::now();
        let status = managed::pause(&place, "web").await?;
        let pause = status.pause.clone().context("it is in a pause")?;
        let routed = pause.routed_at.context("its route stood")?;
        let scaled = pause.scaled_at.context("it was scaled")?;
        let paused = pause.paused_at.context("its pods went")?;
        let begun = pause.started_at;
        ensure!(begun.0 >= before, "it began before it was asked for");
        let in_order = begun < routed && routed < scaled && scaled <= paused;
        ensure!(in_order, "{status:?}");

        let address = place.address("web").await?;
        let mut socket = tokio::net::TcpStream::connect((address.as_str(), 80)).await?;
        socket
            .write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")
            .await?;
        managed::phase(&place, "web", Phase::Resuming).await?;
        let mut byte = [0];
        let early = tokio::time::timeout(Duration::from_millis(500), socket.read(&mut byte)).await;
        ensure!(early.is_err(), "it isn't held while resuming: {early:?}");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await?;
        let is_the_apps = answer.starts_with("HTTP/1.1 200 OK\r\n");
        ensure!(is_the_apps, "not the app's answer: {answer:?}");
        let status = managed::phase(&place, "web", Phase::Running).await?;
        let source = status.clock.map(|clock| clock.last_activity_source);
        ensure!(source == Some(ActivitySource::Request), "{source:?}");
        managed::wake_reason(&place, "web", "NotPaused").await?;
        Ok(())
    })
    .await;
}

/// HOLD-41: the first Ready pod is enough, though two of three never get Ready.
#[tokio::test]
async fn one_ready_pod_is_enough() {
    place::with("one", async |place| {
        let app = App::new("trio", "http").stateful().replicas(3);
        setup::asleep(&place, &app.arg("-ready-host=-0")).await?;
        let ended = setup::request(&place, "trio").await?;
        ensure!(ended.out == "app trio-0\n", "not the Ready pod: {ended:?}");
        managed::phase(&place, "trio", Phase::Running).await?;
        Ok(())
    })
    .await;
}

mod long {
    use super::*;

    /// DRAIN-26: a long-lived caller is let go five minutes after the route
    /// began to drain, and comes back to the pod itself.
    #[tokio::test]
    async fn a_long_lived_caller_comes_back_to_the_pod_itself() {
        place::with("longlived", async |place| {
            setup::asleep(&place, &App::new("web", "http")).await?;
            let doormen = doormen(&place).await?;
            let address = place.address("web").await?;
            let mut caller = Kept::connect(&address, 80).await?;
            let peer = caller.get("/peer").await?.line();
            ensure!(doormen.contains(&peer), "{peer:?} isn't of {doormen:?}");
            managed::wake_reason(&place, "web", "NotPaused").await?;
            let draining = tokio::time::Instant::now();
            let six_minutes = Duration::from_mins(6);
            tokio::time::timeout(six_minutes, caller.end()).await??;
            let took = draining.elapsed();
            ensure!(took > Duration::from_secs(290), "let go after {took:?}");

            let mut caller = Kept::connect(&address, 80).await?;
            let peer = caller.get("/peer").await?.line();
            ensure!(!doormen.contains(&peer), "{peer:?} is a doorman");
            Ok(())
        })
        .await;
    }
}
