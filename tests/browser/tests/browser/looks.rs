//! What the pages look like: their own style, and nothing that a browser refuses.

use napwake_testkit::{apps::App, place};
use napwake_tests_browser::{
    Result, SOON,
    browser::{self, Browser, Kind, Page},
    door::{Door, Number},
    ensure,
    site::Site,
    wait,
    workload::{asks, asleep, asleep_for_good},
};
use rstest::rstest;
use serde_json::{Value, json};

/// PAGE-29, ASK-56: each page's own style applies, and the asleep page's own script. On
/// Chromium's console nothing is said against the pages, reloads and refusals included.
/// PAGE-31: another site's image isn't asked for, of which the console does tell.
#[rstest]
#[tokio::test]
async fn the_pages_own_style_applies(
    #[values(Kind::Chromium, Kind::Firefox, Kind::WebKit)] kind: Kind,
) {
    place::with("looks", async |place| {
        let asking = asleep(&place, &App::new("asking", "http"), asks()).await?;
        let waking = asleep_for_good(&place, &App::new("waking", "http"), json!({})).await?;
        let asking = Door::to(&asking, Number::Usual).await?;
        let waking = Door::to(&waking, Number::Usual).await?;
        let elsewhere = Site::of("<!doctype html>").await?;
        browser::with(kind, &[], async |browser| {
            browser.open(&asking.url("/x")).await?;
            is_styled(browser, "Asleep").await?;
            let forget = "document.querySelector('form input').value = 'none';";
            browser.run(forget, Vec::new()).await?;
            browser.press().await?;
            browser.until("the refusal", Page::is_refusal).await?;
            is_styled(browser, "Not woken").await?;
            says_that_it_is_pressed(browser).await?;

            browser.open(&waking.url("/x")).await?;
            is_styled(browser, "Waking up").await?;
            until_it_reloads(&waking).await?;
            if kind == Kind::Chromium {
                let complaints = complaints(browser).await?;
                ensure!(complaints.is_empty(), "{complaints:#?}");
            }
            let inject = "document.createElement('img').src = arguments[0];";
            browser.run(inject, vec![json!(elsewhere.url)]).await?;
            until_it_reloads(&waking).await?;
            let asked = elsewhere.record.lines();
            ensure!(asked.is_empty(), "{asked:?}");
            if kind == Kind::Chromium {
                let complaints = complaints(browser).await?;
                let is_told = |one: &String| one.contains("Content Security Policy");
                ensure!(complaints.iter().any(is_told), "{complaints:#?}");
            }
            Ok(())
        })
        .await
    })
    .await;
}

/// Waits until the page was asked for once more.
async fn until_it_reloads(door: &Door) -> Result<()> {
    let before = door.record.count("GET /x");
    let loads = async || Ok(door.record.count("GET /x"));
    wait::until("a reload", SOON, loads, |count| *count > before).await?;
    Ok(())
}

/// What Chromium's console was told of the pages, but for their statuses.
async fn complaints(browser: &Browser) -> Result<Vec<String>> {
    let told = browser.console().await?;
    let others = told.iter().filter(|one| !is_a_status(one));
    Ok(others.map(Value::to_string).collect())
}

/// Chromium tells of each page whose status is no success. Ours aren't, on purpose.
fn is_a_status(told: &Value) -> bool {
    let words = told["message"].as_str().unwrap_or_default();
    told["source"] == "network" && words.contains("the server responded with a status of")
}

/// That the button says so once it's pressed, and can't be pressed twice.
async fn says_that_it_is_pressed(browser: &Browser) -> Result<()> {
    let press = "document.forms[0].dispatchEvent(new Event('submit', {bubbles: true}));
        const button = document.querySelector('button');
        return [button.textContent, button.disabled];";
    let button = browser.run(press, Vec::new()).await?;
    ensure!(button == json!(["Waking…", true]), "{button}");
    Ok(())
}

/// That the page's style sheet applies: no browser's own makes the page's body a column,
/// and the state in its heading a line of its own. What is pressed is as high as a
/// finger needs it, in pixels.
async fn is_styled(browser: &Browser, title: &str) -> Result<()> {
    let page = browser.page().await?;
    ensure!(page.title.starts_with(title), "{page:#?}");
    let look = "const style = (selector) => getComputedStyle(document.querySelector(selector));
        return [style('body').flexDirection, style('.state').display, style('.mark').fill];";
    let looks = browser.run(look, Vec::new()).await?;
    ensure!(
        looks == json!(["column", "block", "none"]),
        "{title}: {looks}"
    );
    let low = "const high = (one) => one.getBoundingClientRect().height;
        return [...document.querySelectorAll('a, button')].map(high).filter((it) => it < 44);";
    let low = browser.run(low, Vec::new()).await?;
    ensure!(low == json!([]), "{title}: {low}");
    Ok(())
}
