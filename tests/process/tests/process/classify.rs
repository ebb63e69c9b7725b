//! What callers of a paused workload get, by their first bytes.

use std::time::Duration;

use napwake_api::stamp::RequestKind;
use napwake_tests_process::{
    Result, SOON,
    caller::{Caller, Ending, GET, How},
    doorman::Doorman,
    ensure,
    hosts::{Family, Host},
    route::{Route, Standing},
    upstream::Upstream,
    wait,
    world::{self, World},
};
use rstest::rstest;

use crate::bytes::{HTTP2_PREFACE, SSL_REQUEST, client_hello, filled, postgres_startup};

/// A request of this method for this path by this User-Agent.
fn request(method: &str, path: &str, agent: &str) -> Vec<u8> {
    let length = if method == "POST" {
        "Content-Length: 0\r\n"
    } else {
        ""
    };
    format!("{method} {path} HTTP/1.1\r\nHost: app.example\r\nUser-Agent: {agent}\r\n{length}\r\n")
        .into_bytes()
}

/// Calls and reads the answer to its end.
async fn answered(world: &World, to: std::net::SocketAddr, bytes: &[u8]) -> Result<Ending> {
    let mut caller = Caller::calling(world.caller(0), to, bytes).await?;
    let ending = caller.ending(SOON).await?;
    ensure!(
        ending.how == How::Closed,
        "a reset may lose the answer: {ending:?}"
    );
    Ok(ending)
}

/// That an answer has this status, isn't to be stored, and closes.
fn is_answer(ending: &Ending, status: &str) -> Result<()> {
    let text = ending.text();
    ensure!(
        text.starts_with(&format!("HTTP/1.1 {status}\r\n")),
        "{text}"
    );
    ensure!(text.contains("\r\nConnection: close\r\n"), "{text}");
    ensure!(text.contains("\r\nCache-Control: no-store\r\n"), "{text}");
    Ok(())
}

/// Each of these is held and wakes, in a world with one route for each.
async fn each_wakes(flags: &[&str], callers: &[Vec<u8>]) {
    for chunk in callers.chunks(8) {
        world::with("wakes", async |world| {
            let mut routes = Vec::new();
            for number in 0..chunk.len() {
                routes.push(world.route(&format!("web-{number}")).make().await?);
            }
            let doorman = world.doorman_with(flags).await?;
            let mut held = Vec::new();
            for (route, bytes) in routes.iter().zip(chunk) {
                held.push(Caller::calling(world.caller(0), route.at(&doorman), bytes).await?);
            }
            for ((route, caller), bytes) in routes.iter().zip(&mut held).zip(chunk) {
                let stamped = route.stamped().await;
                let text = String::from_utf8_lossy(bytes);
                ensure!(stamped.is_ok(), "nothing was woken by {text:?}");
                caller.is_held_for(Duration::from_millis(50)).await?;
            }
            Ok(())
        })
        .await;
    }
}

/// Each of these is answered with this status, and none wakes: not even a
/// moment later, when another request does.
async fn none_wakes(flags: &[&str], status: &str, callers: &[Vec<u8>]) {
    world::with("checks", async |world| {
        let route = world.route("web").make().await?;
        let doorman = world.doorman_with(flags).await?;
        for bytes in callers {
            let ending = answered(world, route.at(&doorman), bytes).await?;
            let text = String::from_utf8_lossy(bytes).into_owned();
            is_answer(&ending, status).map_err(|error| error.context(text))?;
        }
        only_now_it_wakes(world, &route, &doorman).await
    })
    .await;
}

/// Nothing has been written of this route; now a request is, as the only one.
async fn only_now_it_wakes(world: &World, route: &Route<'_>, doorman: &Doorman) -> Result<()> {
    let mut caller = Caller::calling(world.caller(5), route.at(doorman), GET).await?;
    route.stamped().await?;
    caller.is_held_for(Duration::from_millis(100)).await?;
    let from = route.last_request_from().await?;
    ensure!(from == Some(world.caller(5).to_string()), "{from:?}");
    let stamps = world.api.stamps(&world.place.namespace);
    ensure!(stamps.len() == 1, "{stamps:?}");
    let events = world.told("WokenByRequest", 1).await?;
    ensure!(events.len() == 1, "{events:?}");
    Ok(())
}

/// CLASS-01, CLASS-02, CLASS-03, CLASS-35: an unknown HTTP caller, a TLS
/// handshake and the first message of a database protocol are held and wake.
#[tokio::test]
async fn what_may_be_a_caller_wakes() {
    let callers = [
        request("GET", "/", "curl/8.5.0"),
        client_hello(),
        SSL_REQUEST.to_vec(),
        postgres_startup(),
        b"*1\r\n$4\r\nPING\r\n".to_vec(),
        b"PING\r\n".to_vec(),
        HTTP2_PREFACE.to_vec(),
        request("GET", "/metrics", "AcmeScrape/1"),
    ];
    each_wakes(&[], &callers).await;
}

/// CLASS-04, CLASS-05: a caller that stays silent wakes after three seconds, and
/// not before.
#[tokio::test]
async fn silence_speaks_after_three_seconds() {
    world::with("silence", async |world| {
        let route = world.route("mail").make().await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::connect(world.caller(0), route.at(&doorman)).await?;
        let stamp = route.stamped().await?;
        ensure!(stamp.kind == RequestKind::Request, "{stamp:?}");
        caller.is_held_for(Duration::from_millis(100)).await?;
        let stamps = world.api.stamps(&world.place.namespace);
        let after = stamps[0].at - caller.connected();
        ensure!(
            after > Duration::from_millis(2_900),
            "woken after {after:?}"
        );
        ensure!(
            after < Duration::from_millis(4_500),
            "woken after {after:?}"
        );
        Ok(())
    })
    .await;
}

/// CLASS-06, field case 51: the silent caller is passed on, and the server's
/// greeting arrives intact.
#[tokio::test]
async fn a_silent_caller_gets_the_greeting() {
    world::with("greeting", async |world| {
        let route = world.route("mail").make().await?;
        let _upstream = Upstream::greeting(world.pod(0), "220 mail ESMTP\r\n").await?;
        route
            .backend("mail-1", world.pod(0), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::connect(world.caller(0), route.at(&doorman)).await?;
        route.stamped().await?;
        route
            .backend("mail-1", world.pod(0), Standing::Ready)
            .await?;
        caller.expect(b"220 mail ESMTP\r\n").await?;
        caller.send(b"NOOP\r\n").await?;
        caller.expect(b"NOOP\r\n").await
    })
    .await;
}

/// Field case 51: one that speaks just before the three seconds are over has
/// spoken: it is judged by what it says.
#[tokio::test]
async fn one_that_speaks_late_has_spoken() {
    world::with("late", async |world| {
        let route = world.route("web").make().await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::connect(world.caller(0), route.at(&doorman)).await?;
        caller.is_held_for(Duration::from_millis(2_500)).await?;
        caller
            .send(&request("GET", "/ready", "kube-probe/1.34"))
            .await?;
        is_answer(&caller.ending(SOON).await?, "503 Service Unavailable")?;
        only_now_it_wakes(world, &route, &doorman).await
    })
    .await;
}

/// CLASS-07: connecting and closing, at once or within the three seconds, does
/// nothing.
#[tokio::test]
async fn connecting_and_closing_wakes_nothing() {
    world::with("knock", async |world| {
        let route = world.route("web").make().await?;
        let doorman = world.doorman().await?;
        let to = route.at(&doorman);
        for wait in [0, 1_000, 2_500] {
            let mut callers = Vec::new();
            for _ in 0..33 {
                callers.push(Caller::connect(world.caller(0), to).await?);
            }
            callers[0].is_held_for(Duration::from_millis(wait)).await?;
            drop(callers);
            doorman.holds(0).await?;
        }
        let counted = doorman
            .metric("napwake_doorman_wakes_total", &[("workload", "web")])
            .await?;
        ensure!(counted < 0.5, "{counted} were counted");
        only_now_it_wakes(world, &route, &doorman).await
    })
    .await;
}

/// CLASS-08, CLASS-09, CLASS-10, CLASS-11: a known checker gets 503 and a close,
/// a HEAD the same without the body, and a thousand of them wake nothing.
#[tokio::test]
async fn checkers_get_503_and_wake_nothing() {
    world::with("checkers", async |world| {
        let route = world.route("web").make().await?;
        let doorman = world.doorman().await?;
        let to = route.at(&doorman);
        let get = answered(world, to, &request("GET", "/healthz", "Prometheus/2.53")).await?;
        is_answer(&get, "503 Service Unavailable")?;
        let head = answered(world, to, &request("HEAD", "/healthz", "Prometheus/2.53")).await?;
        is_answer(&head, "503 Service Unavailable")?;
        let (get, head) = (get.text(), head.text());
        let headers = |text: &str| text.split("\r\n\r\n").next().unwrap_or_default().to_owned();
        ensure!(headers(&get) == headers(&head), "{get}\n{head}");
        ensure!(
            head.ends_with("\r\n\r\n") && !get.ends_with("\r\n\r\n"),
            "{get}\n{head}"
        );
        let check = request("GET", "/metrics", "Prometheus/2.53");
        for _ in 0..20 {
            let checks = (0..50).map(|_| answered(world, to, &check));
            for ending in futures::future::try_join_all(checks).await? {
                is_answer(&ending, "503 Service Unavailable")?;
            }
        }
        only_now_it_wakes(world, &route, &doorman).await
    })
    .await;
}

/// CLASS-24, CLASS-25, CLASS-26, CLASS-27, CLASS-28, CLASS-31, CLASS-37: each
/// built-in prefix, with a version, on GET and HEAD; and right after
/// `(compatible;`.
#[tokio::test]
async fn each_known_checker_is_known() {
    let agents = [
        "kube-probe/1.30",
        "Prometheus/2.53.0",
        "Blackbox Exporter/0.25.0",
        "vm_promscrape",
        "GrafanaAgent/v0.42",
        "Alloy/v1.4.2",
        "OpenTelemetry Collector/0.110",
        "otelcol-contrib/0.110",
        "Datadog Agent/7.57",
        "Datadog/Synthetics",
        "ELB-HealthChecker/2.0",
        "Amazon-Route53-Health-Check-Service (ref 1234)",
        "GoogleStackdriverMonitoring-UptimeChecks(https://cloud.google.com/monitoring)",
        "Envoy/HC",
        "Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)",
        "Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)",
        "NewRelicPinger/1.0 (1234567)",
        "Uptime-Kuma/1.23.13",
        "Gatus/1.0",
        "Mozilla/5.0 (compatible; Gatus/5)",
    ];
    let callers: Vec<_> = agents
        .iter()
        .flat_map(|agent| ["GET", "HEAD"].map(|method| request(method, "/", agent)))
        .collect();
    none_wakes(&[], "503 Service Unavailable", &callers).await;
}

/// CLASS-12, CLASS-13, CLASS-14, CLASS-37: Google Cloud's load balancers get 200
/// and wake nothing; a request after them does.
#[tokio::test]
async fn google_health_checks_get_200() {
    let check = |method| request(method, "/", "GoogleHC/1.0");
    let callers: Vec<_> = (0..50)
        .flat_map(|_| [check("GET"), check("HEAD")])
        .collect();
    none_wakes(&[], "200 OK", &callers).await;
}

/// CLASS-26, CLASS-29, CLASS-30: what only resembles a checker is a caller.
#[tokio::test]
async fn what_resembles_a_checker_wakes() {
    let agents = [
        "Datadog/Other",
        "Prometheus-x",
        "Nagios/4.5",
        "curl/8 kube-probe/1.30",
        "KUBE-PROBE/1.30",
        "Mozilla/5.0 (compatible; GoogleHC/1.0)",
        "Mozilla/5.0 (X11; Gatus/5)",
    ];
    let callers: Vec<_> = agents
        .iter()
        .map(|agent| request("GET", "/", agent))
        .collect();
    each_wakes(&[], &callers).await;
}

const ADDED: [&str; 2] = [
    "--health-check-user-agent=MyCorpMonitor/",
    "--health-check-user-agent=status-checker",
];

/// CLASS-15, CLASS-31, CLASS-33: added prefixes are known as well, whatever the
/// path, and right after `(compatible;` too.
#[tokio::test]
async fn added_checkers_are_known() {
    let callers = [
        request("GET", "/", "MyCorpMonitor/3.1"),
        request("HEAD", "/any/path?at=all", "MyCorpMonitor/"),
        request("GET", "/", "status-checker"),
        request("GET", "/", "status-checker 2 (in-house)"),
        request("GET", "/", "Mozilla/5.0 (compatible; MyCorpMonitor/3.1)"),
    ];
    none_wakes(&ADDED, "503 Service Unavailable", &callers).await;
}

/// CLASS-16, CLASS-17: another method of a checker carries data, so it is held
/// and wakes.
#[tokio::test]
async fn other_methods_of_checkers_wake() {
    let callers = [
        request("POST", "/api/v1/write", "Prometheus/2.53"),
        request("PUT", "/", "Prometheus/2.53"),
        request("DELETE", "/", "kube-probe/1.30"),
        request("OPTIONS", "/", "Prometheus/2.53"),
        request("POST", "/", "MyCorpMonitor/3"),
        request("POST", "/", "GoogleHC/1.0"),
    ];
    each_wakes(&ADDED, &callers).await;
}

/// CLASS-32, CLASS-33: an added prefix counts on every route, and the same bytes
/// get the same answer from wherever they come.
#[tokio::test]
async fn checkers_are_known_on_every_route_from_everywhere() {
    world::with("everywhere", async |world| {
        let first = world.route("web").make().await?;
        let second = world.route("other").named("http").make().await?;
        let doorman = world.doorman_with(&ADDED).await?;
        let check = request("GET", "/", "MyCorpMonitor/3.1");
        let mut answers = Vec::new();
        for to in [first.at(&doorman), second.at(&doorman)] {
            for number in 0..3 {
                let mut caller = Caller::calling(world.caller(number), to, &check).await?;
                answers.push(caller.ending(SOON).await?.text());
            }
        }
        ensure!(answers[0].starts_with("HTTP/1.1 503 "), "{answers:?}");
        ensure!(
            answers.iter().all(|answer| *answer == answers[0]),
            "{answers:?}"
        );
        only_now_it_wakes(world, &first, &doorman).await
    })
    .await;
}

/// CLASS-18, CLASS-19, CLASS-21, CLASS-22, CLASS-41: a hidden file isn't found,
/// at any depth, whoever asks, and wakes nothing.
#[tokio::test]
async fn hidden_files_are_not_found() {
    let browser = b"GET /.env HTTP/1.1\r\nHost: app.example\r\nUser-Agent: Mozilla/5.0 (X11) Firefox/132.0\r\n\
        Sec-Fetch-Mode: navigate\r\nAccept: text/html\r\n\r\n";
    let mut callers: Vec<_> = [
        "/.env",
        "/.git/config",
        "/.aws/credentials",
        "/app/.git/HEAD",
        "/a/b/.htpasswd",
        "/.env?x=1",
        "/%2eenv",
        "/app/.well-known/x",
    ]
    .iter()
    .map(|path| request("GET", path, "Mozilla/5.0 (X11; Linux x86_64)"))
    .collect();
    callers.push(browser.to_vec());
    callers.push(request("POST", "/.env", "kube-probe/1.30"));
    none_wakes(&[], "404 Not Found", &callers).await;
}

/// CLASS-22: hidden files aren't found in Ask either, by browsers neither.
#[tokio::test]
async fn hidden_files_are_not_found_where_it_asks() {
    world::with("hidden", async |world| {
        let route = world.route("web").asking().make().await?;
        let doorman = world.doorman().await?;
        let browser = b"GET /.env HTTP/1.1\r\nHost: app.example\r\nUser-Agent: Mozilla/5.0 (X11) Firefox/132.0\r\n\
            Sec-Fetch-Mode: navigate\r\nAccept: text/html\r\n\r\n";
        is_answer(&answered(world, route.at(&doorman), browser).await?, "404 Not Found")
    })
    .await;
}

/// CLASS-19, CLASS-20, CLASS-41: dots elsewhere hide nothing, `/.well-known/` is
/// no hidden file, and other scanners wake, whatever they claim to be.
#[tokio::test]
async fn what_is_not_hidden_wakes() {
    let callers = [
        request("GET", "/a.b/c", "curl/8.5.0"),
        request("GET", "/file.env", "curl/8.5.0"),
        request("GET", "/.well-known/acme-challenge/x", "acme/1"),
        request("GET", "/.well-known/.env", "curl/8.5.0"),
        request("GET", "/?next=/.env", "curl/8.5.0"),
        request("GET", "/wp-login.php", "sqlmap/1.8"),
        request("POST", "/wp-login.php", "Mozilla/5.0 (X11; Linux x86_64)"),
    ];
    each_wakes(&[], &callers).await;
}

/// Field case 48: a kubelet's probe in every shape it comes in is answered and
/// closed, so that a second request on its connection isn't answered as one.
#[rstest]
#[case::split(&["GET /ready HTTP/1.1\r\nHost: a\r\nUser-Ag", "ent: kube-probe/1.34\r\n\r\n"])]
#[case::kept_alive(&[
    "GET /ready HTTP/1.1\r\nHost: a\r\nUser-Agent: kube-probe/1.34\r\nConnection: keep-alive\r\n\r\n",
    "GET /app HTTP/1.1\r\nHost: a\r\n\r\n",
])]
#[case::old(&["GET /ready HTTP/1.0\r\nUser-Agent: kube-probe/1.34\r\n\r\n"])]
#[tokio::test]
async fn a_probe_in_any_shape_is_answered_once(#[case] pieces: &[&str]) {
    world::with("probe", async |world| {
        let route = world.route("web").make().await?;
        let doorman = world.doorman().await?;
        for family in [Family::V4, Family::V6] {
            let from = Host::Caller(0).at(world.block, family);
            let mut caller = Caller::connect(from, doorman.at(family, route.port)).await?;
            for piece in pieces {
                caller.send(piece.as_bytes()).await?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let ending = caller.ending(SOON).await?;
            is_answer(&ending, "503 Service Unavailable")?;
            ensure!(
                ending.text().matches("HTTP/1.1").count() == 1,
                "{}",
                ending.text()
            );
        }
        only_now_it_wakes(world, &route, &doorman).await
    })
    .await;
}

/// Field case 48: a probe with 4 KiB of headers, one byte at a time.
#[tokio::test]
async fn a_probe_may_be_long_and_slow() {
    world::with("slow", async |world| {
        let route = world.route("web").make().await?;
        let doorman = world.doorman().await?;
        let padding = "x".repeat(4_000);
        let probe = format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-Padding: {padding}\r\nUser-Agent: kube-probe/1.34\r\n\r\n"
        );
        let mut caller = Caller::connect(world.caller(0), route.at(&doorman)).await?;
        caller.send_slowly(probe.as_bytes(), Duration::from_micros(200)).await?;
        is_answer(&caller.ending(SOON).await?, "503 Service Unavailable")?;
        only_now_it_wakes(world, &route, &doorman).await
    })
    .await;
}

/// Bytes that can't begin a request are judged at once, however few; a request's
/// first bytes that stop there are judged after three seconds (T-43).
#[rstest]
#[case::no_request(filled(7, 43), 0)]
#[case::unfinished(b"GET / HTTP/1.1\r\nHost: app".to_vec(), 3)]
#[tokio::test]
async fn an_unfinished_head_is_judged_in_time(#[case] bytes: Vec<u8>, #[case] seconds: u64) {
    world::with("unfinished", async |world| {
        let route = world.route("web").make().await?;
        let doorman = world.doorman().await?;
        let caller = Caller::calling(world.caller(0), route.at(&doorman), &bytes).await?;
        let probe = || async { Ok(world.api.stamps(&world.place.namespace)) };
        let stamps = wait::until("a stamp", SOON, probe, |stamps| !stamps.is_empty()).await?;
        let after = stamps[0].at - caller.connected();
        let least = Duration::from_secs(seconds);
        ensure!(
            after + Duration::from_millis(50) > least,
            "woken after {after:?}"
        );
        ensure!(
            after < least + Duration::from_millis(1_500),
            "woken after {after:?}"
        );
        Ok(())
    })
    .await;
}
