//! A workload that asks before it wakes: its button, and what it turns away.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use napwake_api::{ManagedWorkloadStatus, names::signal, workload::Phase};
use napwake_testkit::{
    Context, Result,
    apps::{App, service},
    callers, ensure, managed,
    place::{self, Place},
    wait,
};
use rstest::rstest;
use serde_json::{Value, json};

use crate::setup;

/// What a person's browser says over HTTPS.
const BROWSER: [&str; 8] = [
    "-A",
    "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0",
    "-H",
    "Sec-Fetch-Site: same-origin",
    "-H",
    "Sec-Fetch-Mode: navigate",
    "-H",
    "Sec-Fetch-User: ?1",
];

/// A doorman writes what it counts after five seconds, and a minute after that.
const A_MINUTE: Duration = Duration::from_secs(75);

fn asks() -> Value {
    json!({"wake": {"mode": "Ask"}})
}

/// What is answered, its head and its body.
async fn ask(url: &str, more: &[&str]) -> Result<String> {
    callers::curl(url, &[&["-i"], more].concat()).await?.ok()
}

/// What the page's button posts, once the page is there and has one.
async fn button(url: &str) -> Result<String> {
    let page = async || Ok(token(&ask(url, &BROWSER).await?));
    let found = wait::until("a button", managed::PATIENCE, page, Option::is_some).await?;
    found.context("a button")
}

fn token(page: &str) -> Option<String> {
    let (_, rest) = page.split_once("name=\"napwake-wake\" value=\"")?;
    let (token, _) = rest.split_once('"')?;
    Some(token.to_owned())
}

/// Presses that button.
async fn press(url: &str, token: &str) -> Result<String> {
    let form = format!("napwake-wake={token}");
    ask(url, &[&BROWSER[..], &["--data-raw", &form]].concat()).await
}

/// Presses the button of a page that was shown while pods still served: new connections
/// go to them or to the doorman until none is Ready, and those to them press nothing.
async fn press_beside_pods(url: &str, token: &str) -> Result<String> {
    let press = async || press(url, token).await;
    let isnt_the_apps = |page: &String| !page.contains("\napp web-");
    wait::until(
        "an answer by the doorman",
        managed::PATIENCE,
        press,
        isnt_the_apps,
    )
    .await
}

/// Whether so many of the pause that began then were turned away.
fn counts(status: &ManagedWorkloadStatus, pause: Timestamp, requests: i64) -> bool {
    let told = status.turned_away.as_ref();
    told.is_some_and(|told| (told.paused_at.0, told.requests) == (pause, requests))
}

/// Pauses it, and gives when the pause began.
async fn pause(place: &Place) -> Result<Timestamp> {
    managed::pause_routed(place, "web").await?;
    let status = managed::status(place, "web").await?;
    Ok(status.pause.context("a pause")?.started_at.0)
}

/// Waits until so many of that pause were turned away.
async fn until_it_counts(place: &Place, pause: Timestamp, requests: i64) -> Result<()> {
    let what = format!("{requests} turned away since {pause}");
    let status = || managed::status(place, "web");
    let is_it = |status: &ManagedWorkloadStatus| counts(status, pause, requests);
    wait::until(&what, A_MINUTE, status, is_it).await?;
    Ok(())
}

/// TOKEN-05, AWAY-09, AWAY-10: what one pause turned away is still told once it's awake
/// again, and the next pause begins with a count of its own. The first one's button wakes
/// nothing in the next.
#[tokio::test]
async fn each_pause_has_a_button_and_a_count_of_its_own() {
    place::with("each", async |place| {
        setup::manage(&place, &App::new("web", "http"), asks()).await?;
        let url = setup::url(&place, "web", "/").await?;
        let first = pause(&place).await?;
        let old = button(&url).await?;
        for _ in 0..3 {
            let away = ask(&url, &[]).await?;
            let is_away = away.starts_with("HTTP/1.1 503 ") && away.contains("is asleep");
            ensure!(is_away, "{away}");
        }
        until_it_counts(&place, first, 3).await?;
        managed::ask_to_wake(&place, "web").await?;
        let awake = managed::phase(&place, "web", Phase::Running).await?;
        ensure!(counts(&awake, first, 3), "{awake:#?}");

        let second = pause(&place).await?;
        ensure!(second > first, "{second} isn't another pause");
        until_it_counts(&place, second, 0).await?;
        let page = press(&url, &old).await?;
        let has_run_out =
            page.starts_with("HTTP/1.1 403 ") && page.contains("may have been open too long");
        ensure!(has_run_out, "{page}");
        let stamp = managed::annotation(&place, "web", signal::LAST_REQUEST).await?;
        ensure!(stamp.is_none(), "it was asked to wake: {stamp:?}");
        let status = managed::status(&place, "web").await?;
        ensure!(status.phase == Some(Phase::Paused), "{status:#?}");
        Ok(())
    })
    .await;
}

/// TOKEN-09, TOKEN-10: a page is shown while its last pod leaves. Its button calls the
/// pause off, or wakes the workload once it is paused.
#[rstest]
#[case::calls_the_pause_off(Phase::Pausing)]
#[case::wakes(Phase::Paused)]
#[tokio::test]
async fn a_page_shown_while_it_pauses_has_its_button(#[case] pressed: Phase) {
    place::with("button", async |place| {
        let app = App::new("web", "http").arg("-serve-on=20s");
        let mut manifest = app.manifest();
        manifest["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(30);
        setup::create(&place, app.kind, manifest).await?;
        let manifest = service("web", "web", &[("", 80, 8080)], &["IPv4"]);
        place.create::<Service>(manifest).await?;
        setup::run(&place, &app, asks()).await?;
        let url = setup::url(&place, "web", "/").await?;
        managed::ask_to_pause(&place, "web").await?;
        let token = button(&url).await?;
        let shown = managed::status(&place, "web").await?;
        ensure!(shown.phase == Some(Phase::Pausing), "{shown:#?}");
        managed::phase(&place, "web", pressed).await?;
        let page = press_beside_pods(&url, &token).await?;
        ensure!(page.contains("is waking up"), "{page}");
        managed::phase(&place, "web", Phase::Running).await?;
        setup::request(&place, "web").await?;
        let awake = managed::status(&place, "web").await?;
        let away = awake.turned_away.map_or(0, |told| told.requests);
        ensure!(away == 0, "{away} were turned away");
        Ok(())
    })
    .await;
}
