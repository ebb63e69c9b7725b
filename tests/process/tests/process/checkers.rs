//! Probes, scrapers and uptime monitors.

use std::time::Duration;

use napwake_tests_process::{
    SOON,
    caller::Caller,
    ensure,
    hosts::{Family, Host},
    world,
};
use rstest::rstest;

use crate::verdicts::{answered, each_wakes, is_answer, none_wakes, only_now_it_wakes, request};

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
/// `(compatible;`. COMPAT-04, COMPAT-05: other load balancers' checks get 503, and what
/// they send on nevertheless is held and wakes.
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

/// CLASS-12, CLASS-13, CLASS-14, CLASS-37, COMPAT-06: Google Cloud's load balancers get 200
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
