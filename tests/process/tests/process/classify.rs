//! What callers of a paused workload get, by their first bytes.

use std::time::Duration;

use futures::future::try_join_all;
use napwake_api::stamp::RequestKind;
use napwake_tests_process::{
    Result, SOON, caller::Caller, ensure, route::Standing, upstream::Upstream, wait, world,
};
use rstest::rstest;

use crate::bytes::{HTTP2_PREFACE, SSL_REQUEST, client_hello, filled, postgres_startup};
use crate::verdicts::{answered, each_wakes, is_answer, none_wakes, only_now_it_wakes, request};

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

/// How late within the three seconds: with time left for a busy machine.
const LATE: Duration = Duration::from_secs(2);

/// Sees that nothing comes until so long after its connection began.
async fn is_silent_for(caller: &mut Caller, span: Duration) -> Result<()> {
    let left = span.saturating_sub(caller.connected().elapsed());
    caller.is_held_for(left).await
}

/// Field case 51: one that speaks just before the three seconds are over has
/// spoken: it is judged by what it says.
#[tokio::test]
async fn one_that_speaks_late_has_spoken() {
    world::with("late", async |world| {
        let route = world.route("web").make().await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::connect(world.caller(0), route.at(&doorman)).await?;
        is_silent_for(&mut caller, LATE).await?;
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
        for silent in [Duration::ZERO, Duration::from_secs(1), LATE] {
            let callers = (0..33).map(|_| Caller::connect(world.caller(0), to));
            let mut callers = try_join_all(callers).await?;
            is_silent_for(&mut callers[0], silent).await?;
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
        Ok(())
    })
    .await;
}
