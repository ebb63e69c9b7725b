//! Holding a caller until a pod is Ready, and what it then gets.

use std::time::Duration;

use napwake_tests_process::{
    Result, SOON,
    caller::{Caller, GET},
    ensure,
    hosts::{Family, Host},
    knocks::Knocks,
    route::Standing,
    upstream::{Deaf, PAGE, PORT, Upstream},
    wait, world,
};
use rstest::rstest;
use serde_json::json;

use crate::bytes::{filled, sha256};

/// HOLD-03, HOLD-15: a request is held with nothing sent back until a pod is
/// Ready, which the doorman sees by itself, and answered on the same connection.
#[rstest]
#[case(Family::V4)]
#[case(Family::V6)]
#[tokio::test]
async fn a_request_is_held_until_a_pod_is_ready(#[case] family: Family) {
    world::with("hold", async |world| {
        let route = world.route("web").make().await?;
        let pod = Host::Pod(0).at(world.block, family);
        let upstream = Upstream::web(pod).await?;
        route.backend("web-1", pod, Standing::NotReady).await?;
        let doorman = world.doorman().await?;
        let from = Host::Caller(0).at(world.block, family);
        let mut caller = Caller::calling(from, doorman.at(family, route.port), GET).await?;
        route.stamped().await?;
        caller.is_held_for(Duration::from_millis(500)).await?;
        ensure!(upstream.count() == 0, "no pod is Ready yet");
        route.backend("web-1", pod, Standing::Ready).await?;
        caller.expect(PAGE.as_bytes()).await?;
        let visits = upstream.visits();
        ensure!(visits.len() == 1 && visits[0].bytes == GET, "{visits:?}");
        Ok(())
    })
    .await;
}

/// HOLD-13, HOLD-14, HOLD-32, OBS-23, OBS-24: nothing is written before the
/// caller has sent something; then both annotations are, once for all callers,
/// and nothing else.
#[tokio::test]
async fn the_first_bytes_are_stamped_once() {
    world::with("stamp", async |world| {
        let route = world.route("web").make().await?;
        let doorman = world.doorman().await?;
        let mut first = Caller::connect(world.caller(0), route.at(&doorman)).await?;
        first.is_held_for(Duration::from_secs(1)).await?;
        let stamps = || world.api.stamps(&world.place.namespace);
        ensure!(stamps().is_empty(), "{:?}", stamps());
        first.send(GET).await?;
        let stamp = route.stamped().await?;
        ensure!(stamp.service.as_deref() == Some("web"), "{stamp:?}");
        let from = route.last_request_from().await?;
        ensure!(from == Some(world.caller(0).to_string()), "{from:?}");
        let mut second = Caller::calling(world.caller(1), route.at(&doorman), GET).await?;
        second.is_held_for(Duration::from_millis(500)).await?;
        first.is_held_for(Duration::from_millis(10)).await?;
        let written = stamps();
        ensure!(
            written.len() == 1 && written[0].method == "PATCH",
            "{written:?}"
        );
        let body = json!({"metadata": {"annotations": {
            "napwake.dev/last-request": stamp.to_string(),
            "napwake.dev/last-request-from": world.caller(0),
        }}});
        ensure!(written[0].body == body, "{}", written[0].body);
        Ok(())
    })
    .await;
}

/// HOLD-16: of a pod that isn't Ready, one that is leaving and one that is
/// Ready, only the last gets the connection.
#[tokio::test]
async fn only_a_ready_pod_gets_it() {
    world::with("only", async |world| {
        let route = world.route("web").make().await?;
        let mut upstreams = Vec::new();
        for number in 0..3 {
            upstreams.push(Upstream::web(world.pod(number)).await?);
        }
        route
            .backend("starting", world.pod(0), Standing::NotReady)
            .await?;
        route
            .backend("leaving", world.pod(1), Standing::Terminating)
            .await?;
        route
            .backend("ready", world.pod(2), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        let mut callers = Vec::new();
        for _ in 0..12 {
            callers.push(Caller::calling(world.caller(0), route.at(&doorman), GET).await?);
        }
        route.stamped().await?;
        route
            .backend("ready", world.pod(2), Standing::Ready)
            .await?;
        for caller in &mut callers {
            caller.expect(PAGE.as_bytes()).await?;
        }
        let counts: Vec<_> = upstreams.iter().map(Upstream::count).collect();
        ensure!(counts == [0, 0, 12], "{counts:?}");
        Ok(())
    })
    .await;
}

/// HOLD-17: 700 KiB sent while held, and as much after it was passed, arrive
/// complete, in order and once.
#[rstest]
#[case(Family::V4)]
#[case(Family::V6)]
#[tokio::test]
async fn what_was_sent_arrives_as_it_was_sent(#[case] family: Family) {
    world::with("bytes", async |world| {
        let route = world.route("bulk").make().await?;
        let pod = Host::Pod(0).at(world.block, family);
        let upstream = Upstream::listening(pod).await?;
        route.backend("bulk-1", pod, Standing::NotReady).await?;
        let doorman = world.doorman().await?;
        let from = Host::Caller(0).at(world.block, family);
        let (held, later) = (filled(700 * 1024, 1), filled(700 * 1024, 2));
        let mut caller = Caller::calling(from, doorman.at(family, route.port), &held).await?;
        doorman
            .until_metric("napwake_doorman_held_bytes", &[], 700.0 * 1024.0)
            .await?;
        route.backend("bulk-1", pod, Standing::Ready).await?;
        upstream.visited(1).await?;
        caller.send(&later).await?;
        let received = upstream.received(held.len() + later.len()).await?;
        let sent = [held, later].concat();
        ensure!(
            sha256(&received) == sha256(&sent),
            "{} bytes differ",
            received.len()
        );
        ensure!(upstream.count() == 1, "it came more than once");
        Ok(())
    })
    .await;
}

/// HOLD-38: an odd head arrives as it was sent.
#[tokio::test]
async fn the_head_arrives_as_it_was_sent() {
    let odd: &[u8] =
        b"GET /%7Ea//b?x=1&&y HTTP/1.1\r\nuSeR-aGeNt:\tcurl/8.5.0  \r\nX-B: 2\r\nX-A:1\r\n\
        X-B:  3\r\nhOST: app.example\r\nX-Empty:\r\nx-a: 1\r\n\r\n";
    world::with("odd", async |world| {
        let route = world.route("web").make().await?;
        let upstream = Upstream::web(world.pod(0)).await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), odd).await?;
        route.stamped().await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        caller.expect(PAGE.as_bytes()).await?;
        let received = upstream.received(odd.len()).await?;
        ensure!(received == odd, "{:?}", String::from_utf8_lossy(&received));
        Ok(())
    })
    .await;
}

/// HOLD-20, field case 38: the app's own 503 is relayed as it is, and the
/// request isn't sent twice.
#[tokio::test]
async fn an_error_of_the_app_is_its_own() {
    let answer = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: 13\r\n\r\nmigrating ...";
    let post: &[u8] = b"POST /pay HTTP/1.1\r\nHost: app.example\r\nContent-Length: 4\r\n\r\nonce";
    world::with("own503", async |world| {
        let route = world.route("web").make().await?;
        let upstream = Upstream::answering(world.pod(0), answer).await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), post).await?;
        route.stamped().await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        caller.expect(answer.as_bytes()).await?;
        let mut next = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        next.expect(answer.as_bytes()).await?;
        let visits = upstream.visited(2).await?;
        ensure!(visits.len() == 2 && visits[0].bytes == post, "{visits:?}");
        Ok(())
    })
    .await;
}

/// HOLD-21, field case 24: a Ready pod that refuses is tried again every second,
/// and the caller gets one slow answer.
#[tokio::test]
async fn a_refusing_pod_is_tried_every_second() {
    world::with("refuse", async |world| {
        let route = world.route("web").make().await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        let knocks = Knocks::count_at((world.pod(0), PORT).into()).await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        wait::until("five tries", SOON, || knocks.so_far(), |count| *count >= 5).await?;
        let took = caller.connected().elapsed();
        ensure!(
            took > Duration::from_millis(3_900),
            "five tries in {took:?}"
        );
        caller.is_held_for(Duration::from_millis(100)).await?;
        let _upstream = Upstream::web(world.pod(0)).await?;
        let before = knocks.so_far().await?;
        caller.expect(PAGE.as_bytes()).await?;
        let more = knocks.so_far().await? - before;
        ensure!(more <= 1, "{more} tries after it listened");
        Ok(())
    })
    .await;
}

/// HOLD-22, OBS-06, OBS-09: the tries end at `maxWait`, with nothing sent, and
/// an event says that the pods can't be connected to.
#[tokio::test]
async fn the_tries_end_at_max_wait() {
    world::with("refuse", async |world| {
        let route = world.route("web").max_wait("3s").make().await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        let ending = caller.ending(SOON).await?;
        ending.nothing_sent()?;
        ends_after(&ending, 3)?;
        let told = world.told("RequestNotServed", 1).await?;
        ensure!(told[0].contains("can't connect"), "{told:?}");
        let result = &[("result", "unreachable"), ("workload", "web")];
        doorman
            .until_metric("napwake_doorman_wakes_total", result, 1.0)
            .await
    })
    .await;
}

/// HOLD-27, OBS-06, OBS-07, OBS-08, OBS-09: with no Ready pod by `maxWait` the
/// connection is closed with nothing sent, and an event names the Service, the
/// wait and the reason.
#[tokio::test]
async fn without_a_ready_pod_it_ends_at_max_wait() {
    world::with("never", async |world| {
        let route = world.route("shop").max_wait("3s").make().await?;
        route
            .backend("shop-1", world.pod(0), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        let ending = caller.ending(SOON).await?;
        ending.nothing_sent()?;
        ends_after(&ending, 3)?;
        let told = world.told("RequestNotServed", 1).await?;
        for part in ["Service shop", "3s", "no pod was Ready"] {
            ensure!(told[0].contains(part), "{part} isn't in {told:?}");
        }
        let result = &[("result", "timed_out"), ("workload", "shop")];
        doorman
            .until_metric("napwake_doorman_wakes_total", result, 1.0)
            .await
    })
    .await;
}

/// HOLD-29: a Ready pod that can't be reached at all: closed at `maxWait`, with
/// nothing sent.
#[tokio::test]
async fn a_pod_that_drops_packets_ends_it_at_max_wait() {
    world::with("drop", async |world| {
        let route = world.route("web").max_wait("3s").make().await?;
        let _deaf = Deaf::begin(world.pod(0)).await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        let knocks = Knocks::count_at((world.pod(0), PORT).into()).await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        let ending = caller.ending(SOON).await?;
        ending.nothing_sent()?;
        ends_after(&ending, 3)?;
        ensure!(knocks.so_far().await? > 0, "nobody tried to reach it");
        Ok(())
    })
    .await;
}

/// HOLD-39: whoever sent it, a request wakes: robots, tools, no name at all.
#[tokio::test]
async fn every_request_wakes_whoever_sent_it() {
    let agents = [
        "User-Agent: Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)\r\n",
        "User-Agent: curl/8.5.0\r\n",
        "User-Agent: python-requests/2.32.3\r\n",
        "User-Agent: \r\n",
        "",
    ];
    world::with("whoever", async |world| {
        let mut routes = Vec::new();
        for number in 0..agents.len() {
            routes.push(world.route(&format!("web-{number}")).make().await?);
        }
        let doorman = world.doorman().await?;
        let mut callers = Vec::new();
        for (route, agent) in routes.iter().zip(agents) {
            let request = format!("GET / HTTP/1.1\r\nHost: app.example\r\n{agent}\r\n");
            let to = route.at(&doorman);
            callers.push(Caller::calling(world.caller(0), to, request.as_bytes()).await?);
        }
        for (route, caller) in routes.iter().zip(&mut callers) {
            route.stamped().await?;
            caller.is_held_for(Duration::from_millis(100)).await?;
        }
        Ok(())
    })
    .await;
}

/// That it ended after so many seconds and not before. (That it isn't later but for
/// a busy machine's delay is shown on a paused clock.)
fn ends_after(ending: &napwake_tests_process::caller::Ending, seconds: u64) -> Result<()> {
    let early = Duration::from_millis(50);
    ensure!(
        ending.after + early >= Duration::from_secs(seconds),
        "{ending:?}"
    );
    Ok(())
}

mod long {
    use super::*;

    /// HOLD-26: by default a connection is held for two minutes.
    #[tokio::test]
    async fn a_connection_is_held_for_two_minutes() {
        world::with("default", async |world| {
            let route = world.route("web").make().await?;
            let doorman = world.doorman().await?;
            let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
            let ending = caller.ending(Duration::from_secs(130)).await?;
            ending.nothing_sent()?;
            ends_after(&ending, 120)
        })
        .await;
    }
}
