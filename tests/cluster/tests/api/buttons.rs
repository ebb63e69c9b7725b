//! The asleep page's button, from the doorman's page to what the operator does.

use std::net::SocketAddr;

use jiff::SignedDuration;
use napwake_api::{
    ManagedWorkloadStatus,
    names::signal,
    stamp::{LastRequest, RequestKind},
    workload::Phase,
};
use napwake_testkit::{Context, Result, apps::App, ensure, managed, place::Place, wait};
use napwake_tests_process::{SOON, caller::Caller, hosts::Family};
use rstest::rstest;
use serde_json::json;

use crate::setup::{self, HTTP, Stage, course};

/// What a person's browser is answered over HTTPS.
async fn browses(stage: &Stage<'_>, to: SocketAddr, line: &str, rest: &str) -> Result<String> {
    let request = format!(
        "{line} HTTP/1.1\r\nHost: staging.example.com\r\n\
         User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0\r\n\
         Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-User: ?1\r\n{rest}"
    );
    let from = stage.world.caller(0);
    let mut caller = Caller::calling(from, to, request.as_bytes()).await?;
    Ok(caller.ending(SOON).await?.text())
}

/// What the page's button posts, once there is one: the doorman reads its key first.
async fn button(stage: &Stage<'_>, to: SocketAddr) -> Result<String> {
    let page = || browses(stage, to, "GET /", "\r\n");
    let token = |page: &String| {
        let (_, rest) = page.split_once("name=\"napwake-wake\" value=\"")?;
        let (token, _) = rest.split_once('"')?;
        Some(token.to_owned())
    };
    let is_there = |page: &String| token(page).is_some();
    let page = wait::until("a page with a button", SOON * 3, page, is_there).await?;
    token(&page).context("its button")
}

/// Presses that button.
async fn press(stage: &Stage<'_>, to: SocketAddr, token: &str) -> Result<()> {
    let form = format!("napwake-wake={token}");
    let rest = format!(
        "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    let page = browses(stage, to, "POST /", &rest).await?;
    ensure!(page.contains("is waking up"), "{page}");
    Ok(())
}

/// Waits until it is pausing and routed; its doorman port.
async fn is_pausing(place: &Place) -> Result<u16> {
    let is_it = |status: &ManagedWorkloadStatus| {
        status.phase == Some(Phase::Pausing) && !course::doorman_ports(status).is_empty()
    };
    let status = || managed::status(place, "web");
    let status = wait::until("a pause with a port", managed::PATIENCE, status, is_it).await?;
    let ports = course::doorman_ports(&status);
    ports.first().copied().context("a port")
}

/// That it was stamped for a click just now, and an event says that a person asked.
async fn a_person_asked(stage: &Stage<'_>) -> Result<()> {
    let stamp = managed::annotation(stage.place(), "web", signal::LAST_REQUEST).await?;
    let stamp: LastRequest = stamp.context("a stamp")?.parse()?;
    let ago = managed::now().duration_since(stamp.stamp.at());
    let is_now = ago.abs() < SignedDuration::try_from(managed::PATIENCE)?;
    ensure!(stamp.kind == RequestKind::Click && is_now, "{stamp:?}");
    let told = stage.world.told("WokenByRequest", 1).await?;
    ensure!(
        told == ["A person asked at Service web to wake it"],
        "{told:?}"
    );
    Ok(())
}

/// TOKEN-09, TOKEN-10: the button of a page that was shown while the workload pauses
/// calls the pause off, or wakes it once it is paused. ASK-06, ASK-08, ASK-09: the
/// click is stamped with its time, and an event says that a person asked. AWAY-15:
/// nobody was turned away.
#[rstest]
#[case::calls_the_pause_off("10m", Phase::Pausing)]
#[case::wakes("0s", Phase::Paused)]
#[tokio::test]
async fn a_page_shown_while_it_pauses_has_its_button(
    #[case] lookout: &str,
    #[case] pressed: Phase,
) {
    setup::with("button", async |stage| {
        let place = stage.place();
        stage.world.put_wake_key().await?;
        stage.serve("web", "web", &[HTTP], &["IPv4"]).await?;
        let spec = json!({"wake": {"mode": "Ask"}, "lookout": lookout});
        let app = App::new("web", "http").replicas(2);
        let target = stage.managed_alone(&app, spec).await?;
        course::ask_to_pause(place, "web").await?;
        let to = stage.doorman.at(Family::V4, is_pausing(place).await?);
        let token = button(stage, to).await?;
        let shown = managed::status(place, "web").await?;
        ensure!(shown.phase == Some(Phase::Pausing), "{shown:#?}");
        if pressed == Phase::Paused {
            target.stops().await?;
            managed::phase(place, "web", Phase::Paused).await?;
        }
        press(stage, to, &token).await?;
        a_person_asked(stage).await?;
        if pressed == Phase::Paused {
            managed::phase(place, "web", Phase::Resuming).await?;
            target.starts().await?;
        }
        let awake = course::awake(place, "web").await?;
        ensure!(target.replicas().await? == 2, "as many as before");
        let turned_away = awake.turned_away.map_or(0, |told| told.requests);
        ensure!(turned_away == 0, "{turned_away} were turned away");
        Ok(())
    })
    .await;
}
