//! Browsers, and the waking-up page.

use std::{net::SocketAddr, path::Path, time::Duration};

use jiff::SignedDuration;
use napwake_api::{stamp::RequestKind, workload::Phase};
use napwake_tests_process::{
    Context, Result, SOON,
    caller::{Caller, GET},
    ensure, managed,
    nginx::Nginx,
    route::{Route, Standing},
    upstream::{PAGE, Upstream, Visit},
    wait,
    world::{self, World},
};
use rstest::rstest;
use serde_json::json;
use tokio::time::Instant;

use crate::{
    browsers::{Answer, FIREFOX, HOST, NAVIGATES, answer, asking, opening},
    bytes::client_hello,
    verdicts::each_wakes,
};

/// What is said of a stamp.
async fn kind(route: &Route<'_>) -> Result<RequestKind> {
    Ok(route.stamped().await?.kind)
}

/// PAGE-01, PAGE-02, PAGE-03, PAGE-07, PAGE-09, PAGE-10, PAGE-11, PAGE-22,
/// PAGE-23, PAGE-24, PAGE-25, PAGE-30, PAGE-31, SET-12: whoever opens a page is
/// given the waking-up page though no pod is ever Ready, and that wakes. It shows
/// the address and names nothing of the cluster.
#[tokio::test]
async fn a_browser_gets_the_page_and_wakes() {
    world::with("page", async |world| {
        let route = world.route("quiet-otter").of("brisk-heron").make().await?;
        let doorman = world.doorman().await?;
        let path = "/a?b=c&d=e";
        let page = answer(world.caller(0), route.at(&doorman), &opening(path)).await?;
        page.is_waking_page()?;
        ensure!(page.header("X-Robots-Tag") == "noindex", "{page:?}");
        ensure!(page.body.contains(HOST), "{page:?}");
        ensure!(page.body.contains("/a?b=c&#38;d=e"), "{page:?}");
        ensure!(!page.body.contains("<script"), "{page:?}");
        ensure!(!page.body.contains("has been starting for"), "{page:?}");
        let policy = page.header("Content-Security-Policy");
        let parts: Vec<_> = policy.split("; ").collect();
        ensure!(parts.contains(&"default-src 'none'"), "{policy}");
        ensure!(parts.contains(&"img-src data:"), "{policy}");
        ensure!(!policy.contains("script-src"), "{policy}");
        let namespace = world.place.namespace.as_str();
        page.names_none_of(&[namespace, "quiet-otter", "brisk-heron"])?;
        ensure!(kind(&route).await? == RequestKind::Page, "{page:?}");
        world.told("WokenByRequest", 1).await?;
        let counted = [("answer", "waking_page")];
        doorman
            .until_metric("napwake_doorman_answers_total", &counted, 1.0)
            .await?;
        doorman.holds(0).await
    })
    .await;
}

/// PAGE-12, PAGE-13, PAGE-19, CLASS-41: a HEAD and an older browser get it as
/// well, a scanner that passes for one too, and the same bytes get the same
/// wherever they come from.
#[tokio::test]
async fn whoever_opens_a_page_gets_it() {
    world::with("opens", async |world| {
        let route = world.route("web").make().await?;
        let doorman = world.doorman().await?;
        let to = route.at(&doorman);
        let page = answer(world.caller(0), to, &opening("/")).await?;
        let head = answer(
            world.caller(0),
            to,
            &asking("HEAD /", FIREFOX, NAVIGATES, ""),
        )
        .await?;
        head.is("503 Service Unavailable")?;
        ensure!(head.body.is_empty(), "{head:?}");
        for name in ["Content-Length", "Retry-After", "Content-Security-Policy"] {
            ensure!(head.header(name) == page.header(name), "{head:?} {page:?}");
        }
        let older = ["Accept: text/html,application/xhtml+xml"];
        answer(world.caller(0), to, &asking("GET /", FIREFOX, &older, ""))
            .await?
            .is_waking_page()?;
        let scans = asking("GET /wp-login.php", FIREFOX, NAVIGATES, "");
        let here = answer(world.caller(0), to, &scans).await?;
        let there = answer(world.caller(1), to, &scans).await?;
        here.is_waking_page()?;
        ensure!(here.body == there.body, "{here:?} {there:?}");
        Ok(())
    })
    .await;
}

/// PAGE-14, PAGE-15, PAGE-16, PAGE-17, PAGE-18, PAGE-21: whatever isn't a page
/// that is opened is held, and wakes.
#[tokio::test]
async fn everything_else_is_held() {
    let padding = format!("X-Padding: {}", "x".repeat(16 * 1024));
    let get = |headers: &[&str]| asking("GET /", FIREFOX, headers, "");
    let callers = [
        get(&["Sec-Fetch-Mode: cors", "Accept: text/html"]),
        get(&["Sec-Fetch-Mode: no-cors"]),
        get(&["Sec-Fetch-Mode: same-origin"]),
        get(&["Accept: application/json"]),
        get(&["Accept: */*"]),
        asking(
            "POST /",
            FIREFOX,
            &["Sec-Fetch-Mode: navigate", "Content-Length: 3"],
            "a=b",
        ),
        get(&[
            "Sec-Fetch-Mode: navigate",
            "Connection: Upgrade",
            "Upgrade: websocket",
        ]),
        get(&[&padding, "Sec-Fetch-Mode: navigate"]),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"*1\r\n$4\r\nPING\r\n".to_vec(),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
    ];
    each_wakes(&[], &callers).await;
}

/// PAGE-20, PAGE-21: 16 KiB of headers are read to decide; of longer ones these
/// decide, at once.
#[tokio::test]
async fn the_first_16_kib_decide() {
    world::with("headers", async |world| {
        let route = world.route("web").make().await?;
        let doorman = world.doorman().await?;
        let to = route.at(&doorman);
        let padding = format!("X-Padding: {}", "x".repeat(15_000));
        let late = asking(
            "GET /",
            FIREFOX,
            &[&padding, "Sec-Fetch-Mode: navigate"],
            "",
        );
        answer(world.caller(0), to, &late).await?.is_waking_page()?;
        let cookie = format!("Cookie: {}", "x".repeat(30 * 1024));
        let long = asking("GET /", FIREFOX, &["Sec-Fetch-Mode: navigate", &cookie], "");
        answer(world.caller(0), to, &long).await?.is_waking_page()
    })
    .await;
}

/// PAGE-34, SET-12: one that turned the page off has browsers held, and the app
/// answers them in one go.
#[tokio::test]
async fn without_the_page_browsers_are_held() {
    world::with("off", async |world| {
        let route = world.route("web").without_page().make().await?;
        let _upstream = Upstream::web(world.pod(0)).await?;
        let doorman = world.doorman().await?;
        let mut caller =
            Caller::calling(world.caller(0), route.at(&doorman), &opening("/")).await?;
        ensure!(
            kind(&route).await? == RequestKind::Request,
            "no page is given"
        );
        caller.is_held_for(Duration::from_millis(200)).await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        caller.expect(PAGE.as_bytes()).await
    })
    .await;
}

/// PAGE-36: in Ask the setting changes nothing.
#[tokio::test]
async fn without_the_page_one_that_asks_still_asks() {
    world::with("offask", async |world| {
        world.put_wake_key().await?;
        let route = world.route("web").asking().without_page().make().await?;
        let doorman = world.doorman().await?;
        let to = route.at(&doorman);
        let page = answer(world.caller(0), to, &opening("/")).await?;
        page.is_asleep_page("200 OK")?;
        let click = crate::browsers::clicking(&page.token()?);
        answer(world.caller(0), to, &click).await?.is_waking_page()
    })
    .await;
}

/// PAGE-08, ASK-45, ASK-46, ASK-47: once it is Resuming the page says for how
/// long, in Ask too, where the rest is held then.
#[rstest]
#[case(false)]
#[case(true)]
#[tokio::test]
async fn the_page_says_for_how_long(#[case] asks: bool) {
    world::with("since", async |world| {
        let draft = world.route("web").phase(Phase::Resuming);
        let draft = if asks { draft.asking() } else { draft };
        let route = draft.make().await?;
        let since = managed::now() - SignedDuration::from_mins(3);
        let resume = json!({"startedAt": napwake_api::stamp::render(since), "source": "request"});
        route
            .write_status(json!({"status": {"resume": resume}}))
            .await?;
        let upstream = Upstream::web(world.pod(0)).await?;
        let doorman = world.doorman().await?;
        let to = route.at(&doorman);
        let first = answer(world.caller(0), to, &opening("/")).await?;
        first.is_waking_page()?;
        let said = seconds(&first.body);
        ensure!(said >= 180, "{said} s said: {first:?}");
        let probe = || async {
            let next = answer(world.caller(0), to, &opening("/")).await?;
            Ok(seconds(&next.body))
        };
        wait::until("a longer time", SOON, probe, |later| *later > said).await?;
        let mut held = Caller::calling(world.caller(0), to, GET).await?;
        held.is_held_for(Duration::from_millis(200)).await?;
        let mut over_tls = Caller::calling(world.caller(1), to, &client_hello()).await?;
        over_tls.is_held_for(Duration::from_millis(200)).await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        held.expect(PAGE.as_bytes()).await?;
        let passed = async || Ok(upstream.visits());
        let is_tls = |visits: &Vec<Visit>| visits.iter().any(|one| one.bytes == client_hello());
        wait::until("the handshake to be passed", SOON, passed, is_tls).await?;
        let stamps = world.api.stamps(&world.place.namespace);
        ensure!(stamps.is_empty(), "{stamps:?}");
        Ok(())
    })
    .await;
}

/// How long a page says that it has been starting.
fn seconds(page: &str) -> u64 {
    let said = page.split_once("<time datetime=\"PT");
    let said = said.and_then(|(_, rest)| rest.split_once("S\""));
    said.and_then(|(seconds, _)| seconds.parse().ok())
        .unwrap_or(0)
}

/// PAGE-37, T-62: the page is given though the burst of wakes is used up, and the
/// wake follows though nobody waits for it.
#[tokio::test]
async fn the_page_is_given_over_the_wake_cap() {
    world::with("burst", async |world| {
        let first = world.route("web-0").of("shop").make().await?;
        let mut routes = Vec::new();
        for number in 1..31 {
            let name = format!("web-{number}");
            let draft = world.route(&name).of("shop").at_port_of(&first);
            routes.push(draft.make().await?);
        }
        routes.push(first);
        let doorman = world.doorman().await?;
        let asked = Instant::now();
        answer(world.caller(0), routes[0].at(&doorman), &opening("/"))
            .await?
            .is_waking_page()?;
        doorman.holds(0).await?;
        for route in &routes {
            route.stamped().await?;
        }
        // The last one came when the allowance did, two seconds after the others were
        // let through, however late those came here.
        let stamps = world.api.stamps(&world.place.namespace);
        let last = stamps.iter().map(|request| request.at).max();
        let after = last.context("a stamp")? - asked;
        ensure!(after > Duration::from_millis(1_900), "all within {after:?}");
        Ok(())
    })
    .await;
}

/// PAGE-03, T-109: the first reload after a pod is Ready reaches the app.
#[tokio::test]
async fn a_reload_reaches_the_app() {
    world::with("reload", async |world: &World| {
        let route = world.route("web").make().await?;
        let _upstream = Upstream::web(world.pod(0)).await?;
        let doorman = world.doorman().await?;
        let to = route.at(&doorman);
        for _ in 0..3 {
            answer(world.caller(0), to, &opening("/"))
                .await?
                .is_waking_page()?;
        }
        let stamps = world.api.stamps(&world.place.namespace);
        ensure!(stamps.len() <= 1, "{stamps:?}");
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        let probe = || async {
            let mut caller = Caller::calling(world.caller(0), to, &opening("/")).await?;
            Ok(caller.read_head(SOON).await?.starts_with("HTTP/1.1 200 "))
        };
        wait::until("the app's page", SOON, probe, |is_app| *is_app).await?;
        Ok(())
    })
    .await;
}

/// PAGE-26: a caching proxy in front, which keeps whatever may be kept, keeps no
/// page: the app's is seen at once, and is kept.
#[tokio::test]
async fn a_cache_does_not_keep_the_page() {
    world::with("cache", async |world| {
        let route = world.route("web").make().await?;
        let _upstream = Upstream::web(world.pod(0)).await?;
        let doorman = world.doorman().await?;
        let front = SocketAddr::new(world.caller(0), 8080);
        let _cache = cache(world.api.folder(), front, route.at(&doorman)).await?;
        let opens = closing(&opening("/"));
        let probe = || answer(world.caller(1), front, &opens);
        for _ in 0..2 {
            let page = probe().await?;
            ensure!(page.status == "503 Service Unavailable", "{page:?}");
            ensure!(page.header("X-Cache") == "MISS", "{page:?}");
        }
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        let is_app = |page: &Answer| page.status == "200 OK";
        wait::until("the app's page", SOON, probe, is_app).await?;
        let kept = probe().await?;
        ensure!(
            kept.header("X-Cache") == "HIT",
            "the cache keeps nothing: {kept:?}"
        );
        Ok(())
    })
    .await;
}

/// The same request on a connection that ends with its answer.
fn closing(request: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(request);
    text.replacen("\r\n", "\r\nConnection: close\r\n", 1)
        .into_bytes()
}

/// An nginx that caches what may be cached.
async fn cache(folder: &Path, at: SocketAddr, to: SocketAddr) -> Result<Nginx> {
    let pages = folder.join("cache");
    let http = format!(
        "proxy_cache_path {} keys_zone=pages:1m;\n\
         server {{ listen {at}; location / {{\n\
         proxy_pass http://{to}; proxy_cache pages; proxy_cache_valid any 10m;\n\
         add_header X-Cache $upstream_cache_status always;\n\
         }} }}",
        pages.display()
    );
    Nginx::start(folder, &http).await
}
