//! A workload that asks before it wakes: who gets its page, who is turned away,
//! and what is counted.

use napwake_tests_process::{
    Result, SOON,
    caller::{Caller, GET, How},
    doorman::Doorman,
    ensure, managed,
    route::Route,
    wait,
    world::{self, World},
};

use crate::browsers::{
    Answer, CHROME, CLICKS, FIREFOX, HOST, NAVIGATES, answer, asking, clicking, form, opening,
    posting, with_key,
};

const AWAY: &str = "napwake_doorman_wakes_total";

/// How many were turned away so far.
async fn away(doorman: &Doorman) -> Result<f64> {
    doorman.metric(AWAY, &[("result", "turned_away")]).await
}

async fn counts(doorman: &Doorman, count: usize) -> Result<()> {
    let count = u32::try_from(count)?;
    doorman
        .until_metric(AWAY, &[("result", "turned_away")], count.into())
        .await
}

/// Nothing was written of it so far; now a click wakes it, and nothing but that.
async fn only_a_click_wakes(world: &World, route: &Route<'_>, doorman: &Doorman) -> Result<()> {
    let before = route.last_request().await?;
    ensure!(before.is_none(), "{before:?}");
    let to = route.at(doorman);
    let page = answer(world.caller(5), to, &opening("/")).await?;
    let click = clicking(&page.token()?);
    answer(world.caller(5), to, &click)
        .await?
        .is_waking_page()?;
    let from = route.last_request_from().await?;
    ensure!(from == Some(world.caller(5).to_string()), "{from:?}");
    Ok(())
}

/// ASK-03, ASK-04, ASK-24, ASK-25, ASK-26, ASK-27, ASK-48, ASK-51, ASK-52, ASK-53,
/// ASK-54, ASK-56, ASK-57, ASK-58, ASK-59, ASK-60, ASK-62, ASK-72, ASK-78,
/// AWAY-04, AWAY-15: a browser gets the asleep page with its button, whatever it
/// posts that is no click; that wakes nothing, and nobody is turned away.
#[tokio::test]
async fn a_person_gets_the_asleep_page() {
    world::with("asleep", async |world| {
        let draft = world.route("quiet-otter").of("brisk-heron").asking();
        let (route, doorman, to) = with_key(world, draft).await?;
        let largest = "x".repeat(1_024);
        let chunked = asking(
            "POST /login",
            FIREFOX,
            &[
                "Content-Type: application/x-www-form-urlencoded",
                "Transfer-Encoding: chunked",
            ],
            &format!("12c\r\n{}\r\n0\r\n\r\n", "x".repeat(300)),
        );
        let pages = [
            opening("/a?b=c"),
            asking("GET /a?b=c", FIREFOX, &["Sec-Fetch-Mode: navigate"], ""),
            asking("GET /a?b=c", CHROME, &["Accept: text/html"], ""),
            posting("/login", FIREFOX, NAVIGATES, "user=a&pass=b"),
            posting("/login", FIREFOX, &[], &largest),
            posting("/login", FIREFOX, &[], ""),
            chunked,
        ];
        for bytes in &pages {
            let page = answer(world.caller(0), to, bytes).await?;
            page.is_asleep_page("200 OK")?;
            is_as_described(world, &page)?;
        }
        for _ in 0..50 {
            answer(world.caller(0), to, &opening("/"))
                .await?
                .is_asleep_page("200 OK")?;
        }
        ensure!(away(&doorman).await? < 0.5, "a person was turned away");
        only_a_click_wakes(world, &route, &doorman).await?;
        ensure!(away(&doorman).await? < 0.5, "a person was turned away");
        Ok(())
    })
    .await;
}

/// The asleep page's headers and heading, and that it gives nothing away.
fn is_as_described(world: &World, page: &Answer) -> Result<()> {
    let headers = [
        ("X-Robots-Tag", "noindex"),
        ("Referrer-Policy", "same-origin"),
        ("X-Frame-Options", "DENY"),
    ];
    for (name, value) in headers {
        ensure!(page.header(name) == value, "{name}: {page:?}");
    }
    let policy = page.header("Content-Security-Policy");
    let parts: Vec<_> = policy.split("; ").collect();
    for part in [
        "default-src 'none'",
        "img-src data:",
        "form-action 'self'",
        "frame-ancestors 'none'",
    ] {
        ensure!(parts.contains(&part), "{part}: {policy}");
    }
    for part in ["style-src 'sha256-", "script-src 'sha256-"] {
        ensure!(
            parts.iter().any(|own| own.starts_with(part)),
            "{part}: {policy}"
        );
    }
    let heading = page.body.split_once("<h1>").map(|(_, rest)| rest);
    let heading = heading.and_then(|rest| rest.split_once("</h1>"));
    let heading = heading.map(|(heading, _)| heading).unwrap_or_default();
    ensure!(heading.contains(HOST), "{heading}");
    let namespace = world.place.namespace.as_str();
    page.names_none_of(&[namespace, "quiet-otter", "brisk-heron"])
}

/// Requests of those who are no person's browser that opens a page.
fn strangers() -> Vec<Vec<u8>> {
    let get = |agent: &str, headers: &[&str]| asking("GET /", agent, headers, "");
    let bingbot = "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)";
    let google = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
    let headless = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) \
        HeadlessChrome/130.0.0.0 Safari/537.36";
    let json = ["Content-Type: application/json", "Content-Length: 2"];
    let upload = [
        "Content-Type: multipart/form-data; boundary=x",
        "Content-Length: 5",
    ];
    let length_and_chunks = [
        "Content-Type: application/x-www-form-urlencoded",
        "Content-Length: 3",
        "Transfer-Encoding: chunked",
    ];
    vec![
        GET.to_vec(),
        get("python-requests/2.32", &[]),
        get("Go-http-client/1.1", NAVIGATES),
        get("", NAVIGATES),
        get(google, &["Accept: text/html"]),
        get("facebookexternalhit/1.1", &["Accept: text/html"]),
        get(bingbot, NAVIGATES),
        get(headless, NAVIGATES),
        get("Mozilla/5.0 zgrab/0.x", NAVIGATES),
        get("Mozilla/5.0 (compatible; Nmap Scripting Engine)", NAVIGATES),
        get("Mozilla/5.0 (compatible; Nuclei)", NAVIGATES),
        get("Opera/9.80", NAVIGATES),
        get(FIREFOX, &[]),
        get(FIREFOX, &["Sec-Fetch-Mode: cors", "Accept: text/html"]),
        get(FIREFOX, &["Sec-Fetch-Mode: navigate", "Upgrade: websocket"]),
        asking("HEAD /", FIREFOX, NAVIGATES, ""),
        asking("POST /hook", "GitHub-Hookshot/1", &json, "{}"),
        asking("POST /", FIREFOX, &upload, "--x--"),
        asking("POST /", FIREFOX, &length_and_chunks, "a=b"),
        asking("POST /", "Prometheus/2.53", &json, "{}"),
        posting("/", FIREFOX, &[], &"x".repeat(1_025)),
        posting("/", FIREFOX, &["Sec-Fetch-Mode: cors"], "a=b"),
        posting("/", "curl/8.5.0", CLICKS, &form(&"x".repeat(64))),
    ]
}

/// ASK-01, ASK-02, ASK-05, ASK-28, ASK-29, ASK-30, ASK-32, ASK-33, ASK-34, ASK-35,
/// ASK-36, ASK-37, ASK-38, ASK-39, ASK-40, ASK-41, ASK-49, ASK-50, ASK-65, ASK-78,
/// ASK-84, AWAY-01, AWAY-02, AWAY-14: everybody else is told that it is asleep and
/// how to wake it, wakes nothing, and is counted as it happens.
#[tokio::test]
async fn everybody_else_is_turned_away() {
    world::with("away", async |world| {
        let draft = world.route("quiet-otter").of("brisk-heron").asking();
        let (route, doorman, to) = with_key(world, draft).await?;
        for (number, bytes) in strangers().iter().enumerate() {
            let away = answer(world.caller(0), to, bytes).await?;
            away.is("503 Service Unavailable")?;
            ensure!(away.header("Retry-After") == "300", "{away:?}");
            ensure!(
                away.header("Content-Type").starts_with("text/plain"),
                "{away:?}"
            );
            let is_head = bytes.starts_with(b"HEAD");
            for text in ["is asleep", "kubectl napwake wake"] {
                ensure!(away.body.contains(text) != is_head, "{away:?}");
            }
            let namespace = world.place.namespace.as_str();
            away.names_none_of(&[namespace, "quiet-otter", "brisk-heron"])?;
            counts(&doorman, number + 1).await?;
        }
        only_a_click_wakes(world, &route, &doorman).await
    })
    .await;
}

/// ASK-31, ASK-78: JSON for who asks for it, which names nothing of the cluster.
#[tokio::test]
async fn a_client_that_asks_for_json_gets_it() {
    world::with("json", async |world| {
        let draft = world.route("quiet-otter").of("brisk-heron").asking();
        let route = draft.make().await?;
        let doorman = world.doorman().await?;
        let asks = asking("GET /", "curl/8.5.0", &["Accept: application/json"], "");
        let away = answer(world.caller(0), route.at(&doorman), &asks).await?;
        away.is("503 Service Unavailable")?;
        ensure!(
            away.header("Content-Type") == "application/json",
            "{away:?}"
        );
        let body: serde_json::Value = serde_json::from_str(&away.body)?;
        ensure!(body["error"] == "asleep", "{body}");
        let namespace = world.place.namespace.as_str();
        away.names_none_of(&[namespace, "quiet-otter", "brisk-heron"])?;
        Ok(())
    })
    .await;
}

/// ASK-42, ASK-43, ASK-82, ASK-83, AWAY-03, T-46, T-47, T-55, T-57: what isn't
/// HTTP is closed with nothing sent, and counted; who sent nothing isn't.
#[tokio::test]
async fn what_is_not_http_is_closed() {
    world::with("closed", async |world| {
        let draft = world.route("web").asking();
        let (route, doorman, to) = with_key(world, draft).await?;
        let others: [&[u8]; 6] = [
            b"\x00\x00\x00\x08\x04\xd2\x16\x2f",
            b"*1\r\n$4\r\nPING\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\nGET / HTTP/1.1\r\n\r\n",
            b"",
        ];
        for (number, bytes) in others.iter().enumerate() {
            let mut caller = Caller::calling(world.caller(0), to, bytes).await?;
            caller.ending(SOON).await?.nothing_sent()?;
            counts(&doorman, (number + 1).min(5)).await?;
        }
        drop(Caller::connect(world.caller(0), to).await?);
        only_a_click_wakes(world, &route, &doorman).await?;
        counts(&doorman, 5).await
    })
    .await;
}

/// ASK-44, AWAY-05, CLASS-22: probes, health checks and hidden files are answered
/// as for any workload, and aren't counted.
#[tokio::test]
async fn checkers_are_answered_as_anywhere() {
    world::with("checks", async |world| {
        let draft = world.route("web").asking();
        let (route, doorman, to) = with_key(world, draft).await?;
        for (line, agent, status) in [
            ("GET /", "kube-probe/1.34", "503 Service Unavailable"),
            ("GET /", "GoogleHC/1.0", "200 OK"),
            ("GET /.env", FIREFOX, "404 Not Found"),
        ] {
            let told = answer(world.caller(0), to, &asking(line, agent, NAVIGATES, "")).await?;
            told.is(status)?;
            ensure!(told.header("Retry-After").is_empty(), "{told:?}");
        }
        only_a_click_wakes(world, &route, &doorman).await?;
        ensure!(away(&doorman).await? < 0.5, "a checker was counted");
        Ok(())
    })
    .await;
}

/// ASK-85, SET-02, T-102: by default a request is held and wakes; the mode may
/// change at any time, for those who come then.
#[tokio::test]
async fn the_mode_counts_for_those_who_come() {
    world::with("mode", async |world| {
        let draft = world.route("web");
        let (route, _doorman, to) = with_key(world, draft).await?;
        let mut held = Caller::calling(world.caller(0), to, GET).await?;
        route.stamped().await?;
        let asks = serde_json::json!({"wake": {"mode": "Ask"}});
        managed::respec(&world.place, "web", asks).await?;
        let probe = || async {
            let mut caller = Caller::calling(world.caller(1), to, GET).await?;
            match caller
                .is_held_for(std::time::Duration::from_millis(300))
                .await
            {
                Ok(()) => Ok(false),
                Err(_) => Ok(caller.ending(SOON).await?.how == How::Closed),
            }
        };
        wait::until("others to be turned away", SOON, probe, |is| *is).await?;
        held.is_held_for(std::time::Duration::from_millis(100))
            .await
    })
    .await;
}

/// T-53, ASK-72: HTTP/1.0 without a host is served too; its page shows the path.
#[tokio::test]
async fn http_1_0_is_served() {
    world::with("old", async |world| {
        let draft = world.route("web").asking();
        let (_route, _doorman, to) = with_key(world, draft).await?;
        let old =
            format!("GET /old HTTP/1.0\r\nUser-Agent: {FIREFOX}\r\nAccept: text/html\r\n\r\n");
        let page = answer(world.caller(0), to, old.as_bytes()).await?;
        page.is_asleep_page("200 OK")?;
        ensure!(page.header("Transfer-Encoding").is_empty(), "{page:?}");
        ensure!(page.body.contains("/old"), "{page:?}");
        Ok(())
    })
    .await;
}
