//! Browsers, and the waking-up page.

use napwake_api::stamp::RequestKind;
use napwake_gate::places::{Caps, Source};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{answer_to, browser, max_wait, ready_pod, secs, text, wakes, world, world_with};
use crate::tests::{Dial, World, claimant, numbered, read};
use crate::wake::{Asker, How};

const NAVIGATES: &str = "Sec-Fetch-Mode: navigate\r\n";

fn stamps(world: &World) -> Vec<String> {
    let stamp =
        |patch: &Value| patch["metadata"]["annotations"]["napwake.dev/last-request"].clone();
    let stamps = world.cluster.stamps();
    let stamps = stamps.iter().map(stamp);
    stamps
        .map(|stamp| stamp.as_str().unwrap_or_default().to_owned())
        .collect()
}

fn pages(world: &World) -> String {
    world.metric("napwake_doorman_answers_total{answer=\"waking_page\"}")
}

/// PAGE-01, PAGE-02, PAGE-03, PAGE-11, PAGE-12, PAGE-13, PAGE-22, PAGE-23,
/// PAGE-24, PAGE-25: whoever opens a page gets the waking-up page at once, and it
/// wakes.
#[rstest]
#[case::opens("GET /a?b=c", NAVIGATES)]
#[case::looks("HEAD /a?b=c", NAVIGATES)]
#[case::older("GET /a?b=c", "Accept: text/html,*/*;q=0.8\r\n")]
#[tokio::test(start_paused = true)]
async fn a_browser_gets_the_page(#[case] line: &str, #[case] headers: &str) {
    let world = world("Paused", []);
    let page = answer_to(&world, &browser(line, headers, "")).await;
    assert!(
        page.starts_with("HTTP/1.1 503 Service Unavailable\r\n"),
        "{page}"
    );
    for header in [
        "Cache-Control: no-store",
        "Retry-After: 3",
        "X-Robots-Tag: noindex",
    ] {
        assert!(page.contains(&format!("\r\n{header}\r\n")), "{page}");
    }
    let says_so = page.contains("is waking up") && page.contains("/a?b=c");
    assert_eq!(says_so, !line.starts_with("HEAD"), "{page}");
    world
        .cluster
        .until(|cluster| !cluster.events().is_empty())
        .await;
    world.quiet().await;
    assert_eq!(stamps(&world), ["2026-11-30T10:05:00.000000Z page api"]);
    assert_eq!(pages(&world), "1");
    assert_eq!(wakes(&world, "left"), "", "nobody waited");
    world.ends().await;
}

/// PAGE-14, PAGE-15, PAGE-16, PAGE-17: others of a browser's requests are held.
#[rstest]
#[case::script("GET /", "Sec-Fetch-Mode: cors\r\nAccept: text/html\r\n")]
#[case::api_client("GET /", "Accept: application/json\r\n")]
#[case::anything("GET /", "Accept: */*\r\n")]
#[case::post("POST /", "Sec-Fetch-Mode: navigate\r\nContent-Length: 0\r\n")]
#[case::websocket("GET /", "Sec-Fetch-Mode: navigate\r\nUpgrade: websocket\r\n")]
#[tokio::test(start_paused = true)]
async fn everything_else_is_held(#[case] line: &str, #[case] headers: &str) {
    is_held(world("Paused", [Dial::Accept]), &browser(line, headers, "")).await;
}

/// PAGE-34: a workload that turned the page off has browsers held like others.
#[tokio::test(start_paused = true)]
async fn without_the_page_a_browser_is_held() {
    let more = json!({ "spec": { "wake": { "page": false } } });
    let world = world_with("Paused", &more, [Dial::Accept]);
    is_held(world, &browser("GET /", NAVIGATES, "")).await;
}

/// Who sends this wakes as any caller does, and is passed on.
async fn is_held(mut world: World, sent: &[u8]) {
    let caller = world.say(sent).await;
    world.pass(secs(5)).await;
    assert_eq!(stamps(&world), ["2026-11-30T10:05:00.000000Z request api"]);
    ready_pod(&world);
    let mut backend = world.backend().await;
    assert_eq!(read(&mut backend, sent.len()).await, sent);
    drop((caller, backend));
    world.quiet().await;
    assert_eq!(pages(&world), "");
    world.ends().await;
}

/// LIMIT-17, LIMIT-19: over the rate of wakes a browser gets the page all the same, and
/// the wake waits until it is allowed.
#[tokio::test(start_paused = true)]
async fn over_the_rate_a_browser_gets_the_page() {
    let world = world("Paused", []);
    let asker = Asker {
        source: Source::from(std::net::IpAddr::from([192, 0, 2, 7])),
        kind: RequestKind::Request,
        how: How::Waits,
    };
    for number in 0..30 {
        world.put(claimant("Paused", "Routed", &numbered(number)));
        let route = world.route(20_100 + number);
        let until = Instant::now() + secs(120);
        world.doorman.wakes.ask(&route, asker, until);
    }
    let page = answer_to(&world, &browser("GET /", NAVIGATES, "")).await;
    assert!(page.contains("is waking up"), "{page}");
    let wakes_api = |stamp: &String| stamp.ends_with(" page api");
    assert!(!stamps(&world).iter().any(wakes_api));
    world.pass(secs(2)).await;
    assert!(stamps(&world).iter().any(wakes_api));
    world.ends().await;
}

/// PAGE-37, T-62, T-112: the page is given whatever becomes of the wake, which is
/// tried on though nobody waits.
#[tokio::test(start_paused = true)]
async fn the_page_does_not_wait_for_the_wake() {
    let world = world("Paused", []);
    world.cluster.refuse_stamps([500, 500]);
    let page = answer_to(&world, &browser("GET /", NAVIGATES, "")).await;
    assert!(page.contains("is waking up"), "{page}");
    world.pass(secs(2)).await;
    world.pass(secs(2)).await;
    assert_eq!(stamps(&world).len(), 3);
    world
        .cluster
        .until(|cluster| !cluster.events().is_empty())
        .await;
    world.ends().await;
}

/// PAGE-08, PAGE-09, T-121, ASK-46: once it is Resuming the page says for how
/// long, and wakes nothing; in Ask as well.
#[rstest]
#[case::asleep("Paused", "Request", "was asleep, and is starting now", 1)]
#[case::waking(
    "Resuming",
    "Request",
    "for <time datetime=\"PT20S\">20 seconds</time>",
    0
)]
#[case::asked_for("Resuming", "Ask", "for <time datetime=\"PT20S\">20 seconds</time>", 0)]
#[tokio::test(start_paused = true)]
async fn the_page_says_for_how_long(
    #[case] phase: &str,
    #[case] mode: &str,
    #[case] says: &str,
    #[case] written: usize,
) {
    let more = json!({
        "spec": { "wake": { "mode": mode } },
        "status": { "resume": { "startedAt": "2026-11-30T10:04:40Z", "source": "request" } },
    });
    let world = world_with(phase, &more, []);
    let page = answer_to(&world, &browser("GET /", NAVIGATES, "")).await;
    assert!(page.contains(says), "{page}");
    world.pass(secs(1)).await;
    assert_eq!(stamps(&world).len(), written);
    world.ends().await;
}

/// T-79: in the drain a browser gets the page, and wakes nothing.
#[tokio::test(start_paused = true)]
async fn in_the_drain_a_browser_gets_the_page() {
    let world = world("Paused", []);
    world.put(claimant("Paused", "Draining", &json!({})));
    let page = answer_to(&world, &browser("GET /", NAVIGATES, "")).await;
    assert!(page.contains("is waking up"), "{page}");
    world.pass(secs(1)).await;
    assert_eq!(stamps(&world), [""; 0]);
    world.ends().await;
}

/// T-08: a post with the button's field gets the page as well, whoever sends it,
/// and is never handed to the app.
#[tokio::test(start_paused = true)]
async fn a_button_pressed_while_it_wakes() {
    let world = world("Resuming", []);
    let form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 15\r\n";
    let page = answer_to(&world, &browser("POST /", form, "napwake-wake=ab")).await;
    assert!(page.contains("is waking up"), "{page}");
    world.pass(secs(1)).await;
    assert_eq!(stamps(&world), [""; 0]);
    world.ends().await;
}

/// T-61: with a pod Ready and no place to pass, a browser gets the page and
/// whoever else waits; nothing is woken, and who waits is passed when a place
/// frees.
#[tokio::test(start_paused = true)]
async fn in_a_crowd_a_browser_gets_the_page() {
    let caps = Caps {
        passed_per_source: 1,
        ..Caps::default()
    };
    let mut world = World::with_caps([Dial::Accept, Dial::Accept], caps);
    world.put(claimant("Paused", "Routed", &max_wait("60s")));
    ready_pod(&world);
    let first = world.call().await;
    let first = (first, world.backend().await);

    let sent = browser("GET /", NAVIGATES, "");
    let (start, rest) = sent.split_at(20);
    let mut caller = world.say(start).await;
    world.pass(secs(1)).await;
    tokio::io::AsyncWriteExt::write_all(&mut caller, rest)
        .await
        .unwrap();
    let page = text(&mut caller).await;
    assert!(page.contains("is waking up"), "{page}");
    drop(caller);

    let probe = world
        .say(b"GET / HTTP/1.1\r\nUser-Agent: kube-probe/1.30\r\n\r\n")
        .await;
    world.pass(secs(5)).await;
    assert_eq!(world.cluster.stamps().len(), 0, "a pod is Ready");
    drop(first);
    let backend = world.backend().await;
    drop((probe, backend));
    world.quiet().await;
    assert_eq!(pages(&world), "1");
    world.ends().await;
}
