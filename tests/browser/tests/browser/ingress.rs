//! Both pages behind an ingress that ends TLS and speaks HTTP/2 with browsers.

use napwake_api::workload::Phase;
use napwake_testkit::{
    apps::App,
    place::{self, Place},
};
use napwake_tests_browser::{
    Result,
    browser::{self, Kind, Page},
    ensure,
    ingress::{HOST, Ingress},
    managed,
    site::Site,
    workload::{asks, asleep, still_sleeps},
};
use rstest::rstest;
use serde_json::{Value, json};

/// Takes a path's prefix off on the way to the Service.
fn without_prefix(prefix: &str) -> Value {
    json!({"pathRewritePolicy": {"replacePrefix": [{"prefix": prefix, "replacement": "/"}]}})
}

/// A sleeping workload that asks, behind an ingress that does `more` on the way.
async fn asleep_behind(place: &Place, more: Value) -> Result<Ingress> {
    asleep(place, &App::new("web", "http"), asks()).await?;
    let ingress = Ingress::start(place).await?;
    ingress.serve(place, "web", "/", more).await?;
    Ok(ingress)
}

/// ASK-79, ASK-80: with HTTP/2 and HTTPS up to the ingress, and HTTP/1.1 behind
/// it, page and click work, by way of the waking-up page (PAGE-06). TOKEN-02: with a
/// prefix taken off on the way, too.
#[rstest]
#[tokio::test]
async fn a_click_wakes_behind_https_and_http2(
    #[values(Kind::Chromium, Kind::Firefox, Kind::WebKit)] kind: Kind,
) {
    place::with("https", async |place| {
        let app = App::new("web", "http").arg("-ready-after=8s");
        asleep(&place, &app, asks()).await?;
        let ingress = Ingress::start(&place).await?;
        let more = without_prefix("/team-a");
        ingress.serve(&place, "web", "/team-a", more).await?;
        let url = format!("https://{HOST}/team-a/x?y=1");
        browser::with(kind, &ingress.hosts(), async |browser| {
            browser.open(&url).await?;
            let page = browser.page().await?;
            ensure!(page.is_asleep() && page.url == url, "{page:#?}");
            browser.press().await?;
            let waking = browser.until("the waking-up page", Page::is_waking);
            ensure!(waking.await?.url == url);
            let end = browser.until("the app's page", |page| page.is_of_app("web"));
            ensure!(end.await?.url == url);
            Ok(())
        })
        .await?;
        managed::phase(&place, "web", Phase::Running).await?;
        let click = "POST /team-a/x?y=1 HTTP/2 503";
        let is_all = |log: &[String]| {
            let mut after = log.iter().skip_while(|line| *line != click);
            after.any(|line| line == "GET /team-a/x?y=1 HTTP/2 200")
        };
        let log = ingress.log_until(is_all).await?;
        let posts = log.iter().filter(|line| line.starts_with("POST"));
        ensure!(posts.count() == 1, "{log:?}");
        Ok(())
    })
    .await;
}

/// ASK-73: behind a proxy that passes on another `Host`, the page has another
/// address than the browser knows. Over plain HTTP the click wakes nothing then;
/// over HTTPS it wakes.
#[rstest]
#[tokio::test]
async fn a_proxy_that_rewrites_the_host_needs_https(
    #[values(Kind::Chromium, Kind::Firefox, Kind::WebKit)] kind: Kind,
) {
    place::with("rewritten", async |place| {
        let host = json!([{"name": "Host", "value": "inner.napwake.test"}]);
        let more = json!({"requestHeadersPolicy": {"set": host}});
        let ingress = asleep_behind(&place, more).await?;
        browser::with(kind, &ingress.hosts(), async |browser| {
            browser.open(&format!("http://{HOST}/x")).await?;
            browser.press().await?;
            let refused = browser.until("the answer", Page::is_refusal).await?;
            let says = "the click came from another address";
            ensure!(refused.text.contains(says), "{refused:#?}");
            still_sleeps(&place, "web").await?;

            browser.open(&format!("https://{HOST}/x")).await?;
            browser.press().await?;
            let end = browser.until("the app's page", |page| page.is_of_app("web"));
            ensure!(end.await?.url == format!("https://{HOST}/x"));
            Ok(())
        })
        .await
    })
    .await;
}

/// ASK-76: a script that submits the form wakes nothing. It waits until what a
/// person did before counts no more: five seconds, in both.
#[rstest]
#[tokio::test]
async fn a_script_that_submits_the_form_wakes_nothing(
    #[values(Kind::Chromium, Kind::Firefox)] kind: Kind,
) {
    place::with("script", async |place| {
        let ingress = asleep_behind(&place, json!({})).await?;
        browser::with(kind, &ingress.hosts(), async |browser| {
            browser.open(&format!("https://{HOST}/x")).await?;
            let submit = "setTimeout(() => document.querySelector('form').submit(), 7000);";
            browser.run(submit, Vec::new()).await?;
            let refused = browser.until("the answer", Page::is_refusal).await?;
            let says = "didn’t say that a person pressed the button";
            ensure!(refused.text.contains(says), "{refused:#?}");
            still_sleeps(&place, "web").await
        })
        .await
    })
    .await;
}

/// TOKEN-13, ASK-14: another site's page that posts the button's own token over
/// HTTPS wakes nothing, even at a person's click.
#[rstest]
#[tokio::test]
async fn another_sites_form_wakes_nothing(
    #[values(Kind::Chromium, Kind::Firefox, Kind::WebKit)] kind: Kind,
) {
    place::with("foreign", async |place| {
        let ingress = asleep_behind(&place, json!({})).await?;
        let url = format!("https://{HOST}/x");
        browser::with(kind, &ingress.hosts(), async |browser| {
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

/// ASK-75: a spider that reads the page and posts its token wakes nothing, though
/// it calls itself a browser.
#[rstest]
#[tokio::test]
async fn a_spider_that_posts_the_token_wakes_nothing(#[values("http", "https")] scheme: &str) {
    place::with("spider", async |place| {
        let ingress = asleep_behind(&place, json!({})).await?;
        let url = format!("{scheme}://{HOST}/x");
        let agent = [
            "--user-agent",
            crate::FIREFOX,
            "--header",
            "Accept: text/html",
        ];
        let page = ingress.curl(&url, &agent).await?;
        let (_, field) = page.split_once("value=\"").unwrap_or_default();
        let (token, _) = field.split_once('"').unwrap_or_default();
        ensure!(!token.is_empty(), "no token in {page}");
        let form = format!("napwake-wake={token}");
        let post = [&agent[..], &["--data-urlencode", &form]].concat();
        let answer = ingress.curl(&url, &post).await?;
        ensure!(answer.contains("your browser doesn’t say"), "{answer}");
        still_sleeps(&place, "web").await
    })
    .await;
}

/// PAGE-27: the page answers at once, so a proxy that waits for a shorter time
/// than the app takes to start is no matter to a browser. A script's request is
/// held, and the proxy gives up on it.
#[rstest]
#[tokio::test]
async fn a_proxys_timeout_is_no_matter(#[values(Kind::Chromium)] kind: Kind) {
    place::with("timeout", async |place| {
        let app = App::new("web", "http").arg("-ready-after=12s");
        asleep(&place, &app, json!({})).await?;
        let ingress = Ingress::start(&place).await?;
        let more = json!({"timeoutPolicy": {"response": "3s"}});
        ingress.serve(&place, "web", "/", more).await?;
        let held = ingress.curl(&format!("https://{HOST}/held"), &[]).await?;
        ensure!(held.starts_with("HTTP/2 504"), "{held}");
        browser::with(kind, &ingress.hosts(), async |browser| {
            browser.open(&format!("https://{HOST}/x")).await?;
            browser
                .until("the app's page", |page| page.is_of_app("web"))
                .await?;
            Ok(())
        })
        .await?;
        let is_all = |log: &[String]| log.iter().any(|line| line == "GET /x HTTP/2 200");
        let log = ingress.log_until(is_all).await?;
        let opened = log.iter().filter(|line| line.starts_with("GET /x "));
        let failed: Vec<_> = opened.filter(|line| line.ends_with("504")).collect();
        ensure!(failed.is_empty(), "{log:?}");
        let waited = log
            .iter()
            .any(|line| line.starts_with("GET /x ") && line.ends_with("503"));
        ensure!(waited, "the page was never shown: {log:?}");
        Ok(())
    })
    .await;
}

mod long {
    use std::time::Duration;

    use super::*;

    /// ASK-61: of two tabs, one is clicked in. The other goes on to the app by its
    /// own reload, within a minute of the app's first answer.
    #[rstest]
    #[tokio::test]
    async fn the_other_tab_follows_by_itself(#[values(Kind::Chromium, Kind::Firefox)] kind: Kind) {
        place::with("tabs", async |place| {
            let ingress = asleep_behind(&place, json!({})).await?;
            browser::with(kind, &ingress.hosts(), async |browser| {
                let web = browser.web();
                browser.open(&format!("https://{HOST}/other")).await?;
                ensure!(browser.page().await?.is_asleep());
                let other = web.window().await?;
                let tab = web.new_tab().await?;
                web.switch_to_window(tab).await?;
                browser.open(&format!("https://{HOST}/x")).await?;
                browser.press().await?;
                browser
                    .until("the app's page", |page| page.is_of_app("web"))
                    .await?;
                web.switch_to_window(other).await?;
                let bound = Duration::from_secs(90);
                let end = browser.within(bound, "the app's page", |page| page.is_of_app("web"));
                ensure!(end.await?.url == format!("https://{HOST}/other"));
                Ok(())
            })
            .await
        })
        .await;
    }
}
