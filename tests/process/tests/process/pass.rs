//! Callers that find a Ready pod: passed at once, whatever they send.

use std::time::Duration;

use napwake_api::workload::Phase;
use napwake_tests_process::{
    Result,
    caller::{Caller, GET},
    doorman::Doorman,
    ensure,
    route::{Route, Standing},
    upstream::{PAGE, Upstream},
    world::{self, World},
};
use rstest::rstest;

const PROBE: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: app\r\nUser-Agent: kube-probe/1.30\r\n\r\n";
const GOOGLE: &[u8] = b"GET / HTTP/1.1\r\nHost: app\r\nUser-Agent: GoogleHC/1.0\r\n\r\n";
const HIDDEN: &[u8] = b"GET /.env HTTP/1.1\r\nHost: app.example\r\nUser-Agent: curl/8.5.0\r\n\r\n";

/// A route in this phase with a Ready pod, and a doorman that knows of both.
async fn ready_in(world: &World, phase: Phase) -> Result<(Route<'_>, Doorman)> {
    let route = world.route("web").phase(phase).make().await?;
    route
        .backend("web-1", world.pod(0), Standing::Ready)
        .await?;
    let doorman = world.doorman().await?;
    Ok((route, doorman))
}

/// HOLD-07, HOLD-08, HOLD-09, HOLD-10: a silent caller that finds a Ready pod
/// gets the server's greeting at once, whether the workload is pausing, waking,
/// or paused with the pod of another behind the same Service; nothing is woken.
#[rstest]
#[case::pausing(Phase::Pausing)]
#[case::waking(Phase::Resuming)]
#[case::of_another_workload(Phase::Paused)]
#[case::running(Phase::Running)]
#[tokio::test]
async fn a_ready_pod_speaks_first(#[case] phase: Phase) {
    world::with("first", async |world| {
        let _upstream = Upstream::greeting(world.pod(0), "220 welcome\r\n").await?;
        let (route, doorman) = ready_in(world, phase).await?;
        let mut caller = Caller::connect(world.caller(0), route.at(&doorman)).await?;
        caller.expect(b"220 welcome\r\n").await?;
        // A caller whose silence speaks first, after 3 s, is held until then.
        let held = "napwake_doorman_wait_seconds_count";
        let count = doorman.metric(held, &[("result", "served")]).await?;
        ensure!(count < 0.5, "it was held");
        caller.send(b"EHLO app\r\n").await?;
        caller.expect(b"EHLO app\r\n").await?;
        if phase != Phase::Pausing {
            caller.is_held_for(Duration::from_millis(500)).await?;
            let stamps = world.api.stamps(&world.place.namespace);
            ensure!(stamps.is_empty(), "{stamps:?}");
        }
        Ok(())
    })
    .await;
}

/// HOLD-06: on a passed connection nothing is looked at any more: a hidden file
/// and a health check in later requests reach the pod byte for byte.
#[tokio::test]
async fn later_requests_are_not_looked_at() {
    world::with("later", async |world| {
        let route = world.route("web").make().await?;
        let upstream = Upstream::web(world.pod(0)).await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        route.stamped().await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        caller.expect(PAGE.as_bytes()).await?;
        for later in [HIDDEN, PROBE, GOOGLE] {
            caller.send(later).await?;
            caller.expect(PAGE.as_bytes()).await?;
        }
        let sent = [GET, HIDDEN, PROBE, GOOGLE].concat();
        let received = upstream.received(sent.len()).await?;
        ensure!(received == sent, "{:?}", String::from_utf8_lossy(&received));
        Ok(())
    })
    .await;
}

/// HOLD-12, CLASS-23: while the workload pauses, checks and hidden files reach
/// its Ready pod, and the pause goes on; another request then calls it off.
#[tokio::test]
async fn checks_pass_a_pausing_workload_and_leave_its_pause() {
    world::with("checks", async |world| {
        let upstream = Upstream::web(world.pod(0)).await?;
        let (route, doorman) = ready_in(world, Phase::Pausing).await?;
        for check in [PROBE, GOOGLE, HIDDEN] {
            let mut caller = Caller::calling(world.caller(0), route.at(&doorman), check).await?;
            caller.expect(PAGE.as_bytes()).await?;
        }
        let came: Vec<_> = upstream
            .visits()
            .into_iter()
            .map(|visit| visit.bytes)
            .collect();
        ensure!(came == [PROBE, GOOGLE, HIDDEN], "{came:?}");
        let before = world.api.stamps(&world.place.namespace);
        ensure!(before.is_empty(), "{before:?}");
        let mut caller = Caller::calling(world.caller(1), route.at(&doorman), GET).await?;
        caller.expect(PAGE.as_bytes()).await?;
        route.stamped().await?;
        // What the checks might have written would have come by now.
        let after = world.api.stamps(&world.place.namespace);
        ensure!(after.len() == 1, "{after:?}");
        let from = route.last_request_from().await?;
        ensure!(from == Some(world.caller(1).to_string()), "{from:?}");
        Ok(())
    })
    .await;
}

/// A silent caller that was passed on while the workload pauses calls the pause
/// off after three seconds, as it would have woken it (T-03).
#[tokio::test]
async fn silence_calls_a_pause_off_after_three_seconds() {
    world::with("silent", async |world| {
        let _upstream = Upstream::greeting(world.pod(0), "hello\n").await?;
        let (route, doorman) = ready_in(world, Phase::Pausing).await?;
        let mut caller = Caller::connect(world.caller(0), route.at(&doorman)).await?;
        caller.expect(b"hello\n").await?;
        route.stamped().await?;
        let stamps = world.api.stamps(&world.place.namespace);
        let after = stamps[0].at - caller.connected();
        ensure!(
            after > Duration::from_millis(2_950),
            "stamped after {after:?}"
        );
        Ok(())
    })
    .await;
}

/// A pod that leaves while the workload pauses isn't Ready, though it still
/// serves: the caller is held, which calls the pause off (T-74).
#[tokio::test]
async fn a_leaving_pod_takes_nobody() {
    world::with("leaving", async |world| {
        let route = world.route("web").phase(Phase::Pausing).make().await?;
        let old = Upstream::web(world.pod(0)).await?;
        let new = Upstream::web(world.pod(1)).await?;
        route
            .backend("web-1", world.pod(0), Standing::Terminating)
            .await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        route.stamped().await?;
        caller.is_held_for(Duration::from_millis(300)).await?;
        route
            .backend("web-2", world.pod(1), Standing::Ready)
            .await?;
        caller.expect(PAGE.as_bytes()).await?;
        ensure!(
            (old.count(), new.count()) == (0, 1),
            "the leaving pod was dialed"
        );
        Ok(())
    })
    .await;
}

/// CLASS-23: once a pod is Ready, the doorman gives no answer of its own.
#[rstest]
#[case::probe(PROBE)]
#[case::google(GOOGLE)]
#[case::hidden(HIDDEN)]
#[tokio::test]
async fn checks_reach_a_ready_pod(#[case] check: &'static [u8]) {
    world::with("reach", async |world| {
        let upstream = Upstream::web(world.pod(0)).await?;
        let (route, doorman) = ready_in(world, Phase::Resuming).await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), check).await?;
        caller.expect(PAGE.as_bytes()).await?;
        let received = upstream.received(check.len()).await?;
        ensure!(received == check, "{received:?}");
        let metrics = doorman.metric("napwake_doorman_answers_total", &[]).await?;
        ensure!(metrics < 0.5, "{metrics} answers of the doorman's own");
        Ok(())
    })
    .await;
}
