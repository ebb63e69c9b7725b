//! The asleep page and its button, over plain HTTP.

use std::time::Duration;

use napwake_api::{names::signal, workload::Phase};
use napwake_testkit::{apps::App, callers, place};
use napwake_tests_browser::{
    Result, SOON, bail,
    browser::{self, Browser, Kind, Page},
    door::{Door, Number},
    ensure, managed,
    seen::Seen,
    site::Site,
    wait,
    workload::{asks, asleep, still_sleeps},
};
use rstest::rstest;

/// How long the story's app takes to be Ready: some reloads of the page.
const STARTS_FOR: &str = "-ready-after=8s";

/// ASK-03, ASK-06, ASK-07, PAGE-06: a person opens the page, presses the button,
/// and sees it wake up. PAGE-05: a reload then reaches the app. TOKEN-01: the
/// button posts to the very address that was opened. ASK-10: the reloads ask for
/// it by GET until the app answers. ASK-72, ASK-74: over plain HTTP the click
/// carries the origin that stands at the top of the page.
#[rstest]
#[tokio::test]
async fn a_click_wakes_and_leads_to_what_was_opened(
    #[values(Kind::Chromium, Kind::Firefox, Kind::WebKit)] kind: Kind,
    #[values(Number::Usual, Number::Other)] number: Number,
) {
    place::with("click", async |place| {
        let app = App::new("web", "http").arg(STARTS_FOR);
        let door = Door::to(&asleep(&place, &app, asks()).await?, number).await?;
        let url = door.url("/x?y=1");
        browser::with(kind, &[], async |browser| {
            browser.open(&url).await?;
            let page = browser.page().await?;
            ensure!(page.is_asleep() && page.url == url, "{page:#?}");
            let shown = format!("{}/x?y=1", door.origin().replace("http://", ""));
            ensure!(page.text.contains(&shown), "{shown} isn't in {page:#?}");
            browser.press().await?;
            let waking = browser.until("the waking-up page", Page::is_waking);
            ensure!(waking.await?.url == url);
            managed::phase(&place, "web", Phase::Running).await?;
            let end = browser.until("the app's page", |page| page.is_of_app("web"));
            ensure!(end.await?.url == url);
            Ok(())
        })
        .await?;
        asked_in_order(&door)
    })
    .await;
}

/// One load, one click with the page's origin, and then reloads: all of `/x?y=1`.
/// PAGE-28: only for the app's page an icon is asked for.
fn asked_in_order(door: &Door) -> Result<()> {
    let mut asked = door.record.all();
    let icon = asked.iter().position(|seen| seen.target == "/favicon.ico");
    asked.truncate(icon.unwrap_or(asked.len()));
    let lines: Vec<_> = asked.iter().map(Seen::line).collect();
    let [load, click, reloads @ ..] = lines.as_slice() else {
        bail!("{lines:?}");
    };
    ensure!(load == "GET /x?y=1" && click == "POST /x?y=1", "{lines:?}");
    let all_same = reloads.iter().all(|line| line == "GET /x?y=1");
    ensure!(reloads.len() > 1 && all_same, "{lines:?}");
    let origin = asked.get(1).and_then(|click| click.header("origin"));
    ensure!(
        origin == Some(&door.origin()),
        "the click's origin is {origin:?}"
    );
    Ok(())
}

/// After the click and the wake, the back button leads to no page that is over,
/// and posts nothing again.
#[rstest]
#[tokio::test]
async fn the_back_button_posts_nothing_again(
    #[values(Kind::Chromium, Kind::Firefox, Kind::WebKit)] kind: Kind,
) {
    place::with("back", async |place| {
        let address = asleep(&place, &App::new("web", "http"), asks()).await?;
        let door = Door::to(&address, Number::Usual).await?;
        let before = Site::of("<!doctype html><title>Before</title>").await?;
        browser::with(kind, &[], async |browser| {
            browser.open(&before.url).await?;
            browser.open(&door.url("/x")).await?;
            browser.press().await?;
            let app = |page: &Page| page.is_of_app("web");
            browser.until("the app's page", app).await?;
            browser.web().back().await?;
            let is_over = |page: &Page| !app(page) && page.title != "Before";
            browser
                .until("a page that isn't over", |page| !is_over(page))
                .await?;
            let lines = door.record.lines();
            let posts = lines.iter().filter(|line| line.starts_with("POST"));
            ensure!(posts.count() == 1, "{lines:?}");
            Ok(())
        })
        .await
    })
    .await;
}

/// AWAY-15: whatever a person does in a browser, errors included, nobody is turned away:
/// of all requests only a program's is counted.
#[rstest]
#[tokio::test]
async fn a_person_is_never_turned_away(
    #[values(Kind::Chromium, Kind::Firefox, Kind::WebKit)] kind: Kind,
) {
    place::with("person", async |place| {
        let app = App::new("web", "http").arg(STARTS_FOR);
        let door = Door::to(&asleep(&place, &app, asks()).await?, Number::Usual).await?;
        browser::with(kind, &[], async |browser| {
            errs(browser, &door).await?;
            let program = callers::curl(&door.url("/x"), &["-i"]).await?.ok()?;
            ensure!(program.starts_with("HTTP/1.1 503 "), "{program}");
            let count = || managed::annotation(&place, "web", signal::TURNED_AWAY);
            wait::until("a count", SOON, count, Option::is_some).await?;
            browser.open(&door.url("/x")).await?;
            browser.press().await?;
            browser
                .until("the app's page", |page| page.is_of_app("web"))
                .await?;
            Ok(())
        })
        .await?;
        let awake = managed::phase(&place, "web", Phase::Running).await?;
        let away = awake.turned_away.map(|told| told.requests);
        ensure!(away == Some(1), "{away:?} were turned away");
        Ok(())
    })
    .await;
}

/// Opens the page and all that can go wrong on it: a form of the app's that was left
/// open, a button that has run out, and another site's.
async fn errs(browser: &Browser, door: &Door) -> Result<()> {
    let url = door.url("/x");
    browser.open(&url).await?;
    browser.web().refresh().await?;
    let login = "const form = document.createElement('form');
        form.method = 'post';
        form.action = '/login';
        form.innerHTML = '<input name=user value=me><button>Log in</button>';
        document.querySelector('main').replaceChildren(form);";
    browser.run(login, Vec::new()).await?;
    browser.click("form button").await?;
    let asked = |page: &Page| page.url.ends_with("/login") && page.is_asleep();
    browser.until("the login's answer", asked).await?;
    let forget = "document.querySelector('form input').value = 'none';";
    browser.run(forget, Vec::new()).await?;
    browser.press().await?;
    browser.until("the refusal", Page::is_refusal).await?;
    let site = Site::of(&crate::form(&url, &browser.token().await?)).await?;
    browser.open(&site.url).await?;
    browser.click("button").await?;
    browser.until("the refusal", Page::is_refusal).await?;
    Ok(())
}

/// ASK-35: a headless browser under its own name gets no button, and wakes nothing.
#[tokio::test]
async fn a_headless_browser_is_a_robot() {
    place::with("headless", async |place| {
        let address = asleep(&place, &App::new("web", "http"), asks()).await?;
        let door = Door::to(&address, Number::Usual).await?;
        browser::with(Kind::HeadlessChromium, &[], async |browser| {
            browser.open(&door.url("/x")).await?;
            let page = browser.page().await?;
            ensure!(page.text.contains("asleep"), "{page:#?}");
            ensure!(browser.all("button").await?.is_empty(), "{page:#?}");
            let seen = door.record.all();
            let agent = seen.first().and_then(|seen| seen.header("user-agent"));
            let is_own = agent.is_some_and(|agent| agent.contains("HeadlessChrome/"));
            ensure!(is_own, "it calls itself {agent:?}");
            still_sleeps(&place, "web").await
        })
        .await
    })
    .await;
}

mod long {
    use super::*;

    /// ASK-55: an untouched tab asks again about once a minute. TOKEN-11: and
    /// then has a fresh token, with which it still wakes.
    #[rstest]
    #[tokio::test]
    async fn an_untouched_tab_keeps_fresh(#[values(Kind::Chromium)] kind: Kind) {
        place::with("untouched", async |place| {
            let app = App::new("web", "http");
            let door = Door::to(&asleep(&place, &app, asks()).await?, Number::Usual).await?;
            browser::with(kind, &[], async |browser| {
                browser.open(&door.url("/x")).await?;
                let first = browser.token().await?;
                // Longer than a token is good for.
                let minutes = 12;
                let reloaded = async || Ok(door.record.count("GET /x"));
                let what = "a reload each minute";
                let bound = Duration::from_secs(70 * minutes);
                let enough = 1 + usize::try_from(minutes)?;
                wait::until(what, bound, reloaded, |count| *count >= enough).await?;
                let times: Vec<_> = door.record.all().iter().map(|seen| seen.at).collect();
                let too_early = times
                    .windows(2)
                    .find(|pair| pair[1] - pair[0] < Duration::from_secs(58));
                ensure!(too_early.is_none(), "{too_early:?}");
                let fresh = browser.until("the page", Page::is_asleep);
                fresh.await?;
                ensure!(
                    browser.token().await? != first,
                    "the token is the first one"
                );
                browser.press().await?;
                managed::phase(&place, "web", Phase::Running).await?;
                Ok(())
            })
            .await
        })
        .await;
    }
}
