//! The waking-up page, over plain HTTP.

use std::time::Duration;

use napwake_testkit::{apps::App, place};
use napwake_tests_browser::{
    SOON,
    browser::{self, Kind},
    door::{Door, Number},
    ensure,
    site::Site,
    wait,
    workload::{asleep, asleep_for_good},
};
use rstest::rstest;
use serde_json::json;

/// PAGE-02: the page says that it's starting. PAGE-04: an untouched tab asks again
/// about every three seconds, not sooner.
/// PAGE-28: its icon is drawn in the page, and nobody asks for one, as for a page
/// without one.
#[rstest]
#[tokio::test]
async fn it_reloads_every_three_seconds(
    #[values(Kind::Chromium, Kind::Firefox, Kind::WebKit)] kind: Kind,
) {
    place::with("reload", async |place| {
        let address = asleep_for_good(&place, &App::new("web", "http"), json!({})).await?;
        let door = Door::to(&address, Number::Usual).await?;
        let plain = Site::of("<!doctype html><title>Without an icon</title>").await?;
        browser::with(kind, &[], async |browser| {
            browser.open(&plain.url).await?;
            let icons = async || Ok(plain.record.count("GET /favicon.ico"));
            wait::until("a request for an icon", SOON, icons, |count| *count > 0).await?;

            browser.open(&door.url("/x?y=1")).await?;
            let page = browser.page().await?;
            let says = "is waking up";
            ensure!(page.is_waking() && page.text.contains(says), "{page:#?}");
            let count = async || Ok(door.record.count("GET /x?y=1"));
            let bound = Duration::from_mins(1);
            wait::until("five loads", bound, count, |count| *count >= 5).await?;
            let asked = door.record.all();
            for pair in asked.windows(2) {
                let between = pair[1].at - pair[0].at;
                ensure!(between > Duration::from_millis(2900), "{between:?}");
            }
            let others = asked.iter().find(|seen| seen.line() != "GET /x?y=1");
            ensure!(others.is_none(), "{others:?}");
            Ok(())
        })
        .await
    })
    .await;
}

/// PAGE-30: it reloads in a browser that runs no scripts, and shows the app when it is
/// up.
#[tokio::test]
async fn it_reloads_without_scripts() {
    place::with("scriptless", async |place| {
        let app = App::new("web", "http").arg("-ready-after=8s");
        let address = asleep(&place, &app, json!({})).await?;
        let door = Door::to(&address, Number::Usual).await?;
        let script = "<title>Still</title><script>document.title = 'Ran'</script>";
        let scripted = Site::of(script).await?;
        browser::with(Kind::ScriptlessChromium, &[], async |browser| {
            browser.open(&scripted.url).await?;
            let page = browser.page().await?;
            ensure!(page.title == "Still", "a script ran: {page:#?}");

            browser.open(&door.url("/")).await?;
            let page = browser.page().await?;
            ensure!(page.is_waking(), "{page:#?}");
            browser
                .until("the app", |page| page.is_of_app("web"))
                .await?;
            Ok(())
        })
        .await
    })
    .await;
}
