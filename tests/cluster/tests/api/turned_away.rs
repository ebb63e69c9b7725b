//! What the doorman turned away, from its annotation to the status and the plugin.

use std::{net::SocketAddr, time::Duration};

use jiff::Timestamp;
use napwake_api::{ManagedWorkloadStatus, names::signal};
use napwake_testkit::{Context, Result, apps::App, ensure, managed, place::Place, wait};
use napwake_tests_process::{
    SOON,
    caller::{Caller, GET},
    hosts::Family,
};
use serde_json::json;

use crate::{
    plugin::napwake,
    setup::{self, HTTP, Stage, course},
};

/// A doorman writes what it counts after five seconds, and a minute after that.
const A_MINUTE: Duration = Duration::from_secs(75);

/// When the pause under way began.
fn began(status: &ManagedWorkloadStatus) -> Result<Timestamp> {
    Ok(status.pause.as_ref().context("a pause")?.started_at.0)
}

/// Waits until the status says that so many of that pause were turned away.
async fn says(place: &Place, name: &str, pause: Timestamp, requests: i64) -> Result<()> {
    let what = format!("{requests} turned away by {name} since {pause}");
    let is_it = |status: &ManagedWorkloadStatus| {
        status
            .turned_away
            .as_ref()
            .is_some_and(|told| (told.paused_at.0, told.requests) == (pause, requests))
    };
    wait::until(&what, A_MINUTE, || managed::status(place, name), is_it).await?;
    Ok(())
}

/// So many requests of somebody's that are turned away.
async fn turns_away(stage: &Stage<'_>, to: SocketAddr, count: u16) -> Result<()> {
    for number in 0..count {
        let from = stage.world.caller(number);
        let mut caller = Caller::calling(from, to, GET).await?;
        let answer = caller.ending(SOON).await?.text();
        ensure!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }
    Ok(())
}

/// AWAY-01, AWAY-07, AWAY-08, AWAY-09, AWAY-10, AWAY-11, AWAY-12, AWAY-13, AWAY-16,
/// AWAY-17, OBS-16, T-97: what the doorman counts is in the status, of the pause
/// under way or the last one, and `status` lists those that turned requests away.
#[tokio::test]
async fn what_was_turned_away_is_in_the_status() {
    setup::with("away", async |stage| {
        let place = stage.place();
        stage.serve("web", "web", &[HTTP], &["IPv4"]).await?;
        let asks = json!({"wake": {"mode": "Ask"}});
        let target = stage.managed_alone(&App::new("web", "http"), asks).await?;
        let fine = stage.managed(&App::new("fine", "http")).await?;
        course::sleep(place, &fine).await?;
        let asleep = course::sleep(place, &target).await?;
        let first = began(&asleep)?;
        says(place, "web", first, 0).await?;
        let port = *course::doorman_ports(&asleep).first().context("a port")?;
        turns_away(stage, stage.doorman.at(Family::V4, port), 5).await?;
        says(place, "web", first, 5).await?;
        let told = managed::annotation(place, "web", signal::TURNED_AWAY).await?;
        ensure!(told.is_some(), "the doorman's own count");
        let shown = napwake(place, &["status"]).await?.ok()?;
        let (_, listed) = shown
            .split_once("Turned requests away:\n")
            .with_context(|| shown.clone())?;
        ensure!(listed.starts_with("  web: 5 in this pause\n"), "{shown}");
        ensure!(!listed.contains("fine"), "{shown}");
        ensure!(
            listed.contains("a monitor, a webhook or another service"),
            "{shown}"
        );

        course::wake(place, &target).await?;
        says(place, "web", first, 5).await?;
        let shown = napwake(place, &["status"]).await?.ok()?;
        ensure!(shown.contains("web: 5 in its last pause"), "{shown}");

        let asleep = course::sleep(place, &target).await?;
        says(place, "web", began(&asleep)?, 0).await?;
        let shown = napwake(place, &["status"]).await?.ok()?;
        ensure!(!shown.contains("Turned requests away"), "{shown}");
        Ok(())
    })
    .await;
}
