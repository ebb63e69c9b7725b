//! Whether people can use the pages who don't see them, or have no pointer.

use std::fs;

use napwake_api::workload::Phase;
use napwake_testkit::{apps::App, place};
use napwake_tests_browser::{
    Context, Result,
    browser::{self, Browser, Kind, Page},
    ensure, managed,
    workload::{asks, asleep, asleep_for_good},
};
use rstest::rstest;
use serde_json::json;

/// Both pages, and the asleep page as a refusal, break none of the rules that can
/// be checked without a person, but one: PAGE-04 and ASK-55 want them to reload
/// by themselves.
#[tokio::test]
async fn the_pages_break_no_rule_of_accessibility() {
    place::with("access", async |place| {
        let asking = asleep(&place, &App::new("asking", "http"), asks()).await?;
        let waking = asleep_for_good(&place, &App::new("waking", "http"), json!({})).await?;
        browser::with(Kind::Chromium, &[], async |browser| {
            browser.open(&format!("http://{asking}/x")).await?;
            judge(browser, "Asleep").await?;
            let forget = "document.querySelector('form input').value = 'none';";
            browser.run(forget, Vec::new()).await?;
            browser.press().await?;
            browser.until("the refusal", Page::is_refusal).await?;
            judge(browser, "Not woken").await?;
            browser.open(&format!("http://{waking}/x")).await?;
            judge(browser, "Waking up").await
        })
        .await
    })
    .await;
}

async fn judge(browser: &Browser, title: &str) -> Result<()> {
    let page = browser.page().await?;
    ensure!(page.title.starts_with(title), "{page:#?}");
    let axe = std::env::var("NAPWAKE_AXE").context("set by `cargo xtask test`")?;
    browser.run(&fs::read_to_string(axe)?, Vec::new()).await?;
    let judge = "axe.run().then(arguments[arguments.length - 1]);";
    let judged = browser.run_until_it_calls(judge, Vec::new()).await?;
    let broken = judged["violations"].as_array().context("a list")?;
    let ids: Vec<_> = broken.iter().map(|rule| rule["id"].clone()).collect();
    ensure!(ids == [json!("meta-refresh")], "{title}: {broken:#?}");
    let passed = judged["passes"].as_array().map_or(0, Vec::len);
    ensure!(passed > 10, "{title}: only {passed} rules were checked");
    Ok(())
}

/// ASK-03: the button is pressed without a pointer, too: it's the first thing
/// that Tab leads to.
#[rstest]
#[tokio::test]
async fn the_button_is_pressed_by_keyboard(#[values(Kind::Chromium, Kind::Firefox)] kind: Kind) {
    place::with("keyboard", async |place| {
        let address = asleep(&place, &App::new("web", "http"), asks()).await?;
        browser::with(kind, &[], async |browser| {
            browser.open(&format!("http://{address}/x")).await?;
            let tab = browser.web().action_chain().send_keys("\u{e004}");
            tab.perform().await?;
            let focused = "return document.activeElement.textContent;";
            let focused = browser.run(focused, Vec::new()).await?;
            ensure!(
                focused.as_str() == Some("Wake it"),
                "Tab leads to {focused}"
            );
            let enter = browser.web().action_chain().send_keys("\u{e007}");
            enter.perform().await?;
            managed::phase(&place, "web", Phase::Running).await?;
            Ok(())
        })
        .await
    })
    .await;
}
