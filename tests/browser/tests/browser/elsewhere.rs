//! Other sites, and what they can do to a page of the doorman's: nothing. Over
//! plain HTTP, where browsers say least.

use std::time::Duration;

use napwake_api::workload::Phase;
use napwake_testkit::{apps::App, place};
use napwake_tests_browser::{
    Result, SOON,
    browser::{self, Browser, Kind, Page},
    door::{Door, Number},
    ensure, managed,
    site::Site,
    wait,
    workload::{asks, asleep, asleep_for_good, run, still_sleeps},
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rstest::rstest;
use serde_json::json;

/// TOKEN-15, ASK-59: in another site's frame the asleep page stays empty, so
/// nobody presses its button by mistake. The waking-up page, which has none, shows.
#[rstest]
#[tokio::test]
async fn no_other_site_shows_the_asleep_page_in_a_frame(
    #[values(Kind::Chromium, Kind::Firefox, Kind::WebKit)] kind: Kind,
) {
    place::with("frame", async |place| {
        let asking = asleep(&place, &App::new("asking", "http"), asks()).await?;
        let waking = asleep_for_good(&place, &App::new("waking", "http"), json!({})).await?;
        let asking = Door::to(&asking, Number::Usual).await?;
        let waking = Door::to(&waking, Number::Usual).await?;
        browser::with(kind, &[], async |browser| {
            let shown = framed(browser, &waking).await?;
            ensure!(shown.contains("is waking up"), "the frame shows {shown:?}");
            let shown = framed(browser, &asking).await?;
            ensure!(!shown.contains("asleep"), "the frame shows {shown:?}");
            Ok(())
        })
        .await?;
        still_sleeps(&place, "asking").await
    })
    .await;
}

/// What another site's frame shows of the door's page.
async fn framed(browser: &Browser, door: &Door) -> Result<String> {
    let page = format!("<!doctype html><iframe src='{}'></iframe>", door.url("/x"));
    let site = Site::of(&page).await?;
    browser.open(&site.url).await?;
    let asked = async || Ok(door.record.count("GET /x"));
    wait::until("the frame's page to be asked for", SOON, asked, |count| {
        *count > 0
    })
    .await?;
    browser.only("iframe").await?.enter_frame().await?;
    let shown = browser.page().await;
    browser.web().enter_default_frame().await?;
    // Some browsers let nobody look into what they show instead.
    Ok(shown.map(|page| page.text).unwrap_or_default())
}

/// TOKEN-13, ASK-16: another site's page that posts the button's own token wakes
/// nothing, even at a person's click.
#[rstest]
#[tokio::test]
async fn another_sites_form_wakes_nothing(
    #[values(Kind::Chromium, Kind::Firefox, Kind::WebKit)] kind: Kind,
) {
    place::with("foreign", async |place| {
        let address = asleep(&place, &App::new("web", "http"), asks()).await?;
        let door = Door::to(&address, Number::Usual).await?;
        let url = door.url("/x");
        browser::with(kind, &[], async |browser| {
            browser.open(&url).await?;
            let site = Site::of(&crate::form(&url, &browser.token().await?)).await?;
            browser.open(&site.url).await?;
            browser.click("button").await?;
            let refused = browser.until("the answer", Page::is_refusal).await?;
            let says = "the click came from another address";
            ensure!(refused.text.contains(says), "{refused:#?}");
            still_sleeps(&place, "web").await
        })
        .await
    })
    .await;
}

/// ASK-58: the form posts to no other site, whatever has changed it. ASK-56: a
/// script that found its way in doesn't run, and the page's own does: it keeps
/// the button from a second press. PAGE-31, ASK-57: nor is another site's image
/// asked for. ASK-74: a way out says nothing of where it was.
#[rstest]
#[tokio::test]
async fn nothing_gets_out_of_the_page(
    #[values(Kind::Chromium, Kind::Firefox, Kind::WebKit)] kind: Kind,
) {
    place::with("out", async |place| {
        let address = asleep(&place, &App::new("web", "http"), asks()).await?;
        let door = Door::to(&address, Number::Usual).await?;
        let site = Site::of("<!doctype html><title>Elsewhere</title>").await?;
        browser::with(kind, &[], async |browser| {
            browser.open(&door.url("/x")).await?;
            let inject = "const script = document.createElement('script');
                script.textContent = 'document.title = \"injected\"';
                const image = document.createElement('img');
                image.src = arguments[0] + 'image';
                document.body.append(script, image);
                document.querySelector('form').action = arguments[0] + 'form';";
            browser.run(inject, vec![json!(site.url)]).await?;
            browser.press().await?;
            let disabled = "return document.querySelector('form button').disabled;";
            let disabled = browser.run(disabled, Vec::new()).await?;
            ensure!(disabled == json!(true), "the page's own script didn't run");
            ensure!(browser.page().await?.is_asleep(), "it's another page");

            let leave = "const link = document.createElement('a');
                link.href = arguments[0] + 'link';
                link.textContent = 'out';
                document.querySelector('main').prepend(link);";
            browser.run(leave, vec![json!(site.url)]).await?;
            browser.click("main a").await?;
            let left = browser.until("the other site", |page| page.title == "Elsewhere");
            left.await?;
            let seen = site.record.all();
            let lines = site.record.lines();
            ensure!(
                lines.first().is_some_and(|line| line == "GET /link"),
                "{lines:?}"
            );
            let referer = seen.first().and_then(|seen| seen.header("referer"));
            ensure!(referer.is_none(), "it says {referer:?}");
            let others = lines
                .iter()
                .any(|line| line.contains("image") || line.contains("form"));
            ensure!(!others, "{lines:?}");
            still_sleeps(&place, "web").await
        })
        .await
    })
    .await;
}

/// ASK-04: a page that is fetched ahead of a click, by another site or by the
/// app's own page, wakes nothing. The click on the button then does.
#[rstest]
#[tokio::test]
async fn what_is_fetched_ahead_wakes_nothing(#[values(Kind::Chromium)] kind: Kind) {
    place::with("ahead", async |place| {
        let app = App::new("web", "http");
        let door = Door::to(&run(&place, &app, asks()).await?, Number::Usual).await?;
        browser::with(kind, &[], async |browser| {
            let rules = r#"{"prerender": [{"urls": ["/ahead"], "eagerness": "moderate"}]}"#;
            let html = format!(
                "<!doctype html><title>Mine</title><a href=/ahead>ahead</a>\
                 <script type=speculationrules>{rules}</script>"
            );
            browser.open(&door.url(&app_page(&html, ""))).await?;
            managed::pause_routed(&place, "web").await?;
            let link = browser.only("a").await?;
            let hover = browser.web().action_chain().move_to_element_center(&link);
            hover.perform().await?;
            let purpose = ahead(&door, "GET /ahead").await?;
            ensure!(purpose == "prefetch;prerender", "{purpose:?}");
            still_sleeps(&place, "web").await?;

            let html = format!(
                "<!doctype html><link rel=prefetch href='{}'>",
                door.url("/link")
            );
            browser.open(&Site::of(&html).await?.url).await?;
            let purpose = ahead(&door, "GET /link").await?;
            ensure!(purpose == "prefetch", "{purpose:?}");
            still_sleeps(&place, "web").await?;

            browser.open(&door.url("/ahead")).await?;
            browser.press().await?;
            managed::phase(&place, "web", Phase::Running).await?;
            Ok(())
        })
        .await
    })
    .await;
}

/// Waits until that is asked for, and gives what it's said to be for.
async fn ahead(door: &Door, line: &str) -> Result<String> {
    let asked = async || Ok(door.record.all());
    let is_there =
        |all: &Vec<napwake_tests_browser::seen::Seen>| all.iter().any(|seen| seen.line() == line);
    let all = wait::until(line, SOON, asked, is_there).await?;
    let seen = all.iter().find(|seen| seen.line() == line);
    let purpose = seen.and_then(|seen| seen.header("sec-purpose"));
    Ok(purpose.unwrap_or("nothing").to_owned())
}

/// PAGE-32: a page that the app served without `Cache-Control` comes from the
/// browser's cache, and the doorman sees nothing. PAGE-33: one with `no-cache` is
/// asked for, and the waking-up page shows.
#[rstest]
#[tokio::test]
async fn a_page_in_the_browsers_cache_misses_the_doorman(
    #[values(Kind::Chromium, Kind::Firefox, Kind::WebKit)] kind: Kind,
) {
    place::with("cached", async |place| {
        let app = App::new("web", "http").arg("-ready-after=4s");
        let door = Door::to(&run(&place, &app, json!({})).await?, Number::Usual).await?;
        let elsewhere = Site::of("<!doctype html><title>Elsewhere</title>").await?;
        let html = "<!doctype html><title>Mine</title><link rel=icon href='data:,'>";
        let [cached, asked] = ["", "no-cache"].map(|cache| app_page(html, cache));
        browser::with(kind, &[], async |browser| {
            for path in [&cached, &asked] {
                browser.open(&door.url(path)).await?;
                ensure!(browser.page().await?.title == "Mine");
            }
            browser.open(&elsewhere.url).await?;
            managed::pause_routed(&place, "web").await?;
            let before = door.record.all().len();
            browser.open(&door.url(&cached)).await?;
            ensure!(browser.page().await?.title == "Mine");
            let lines = door.record.lines();
            ensure!(lines.len() == before, "it was asked for: {lines:?}");
            still_sleeps(&place, "web").await?;

            browser.open(&door.url(&asked)).await?;
            browser.until("the waking-up page", Page::is_waking).await?;
            let bound = Duration::from_mins(1);
            browser
                .within(bound, "the app's page", |page| page.title == "Mine")
                .await?;
            Ok(())
        })
        .await
    })
    .await;
}

/// The path at which the app serves this HTML, with these words on caching.
fn app_page(html: &str, cache: &str) -> String {
    let html = utf8_percent_encode(html, NON_ALPHANUMERIC);
    format!("/page?cache={cache}&html={html}")
}
