//! Whom a request wakes, and how often: workloads that share a Service, ones
//! that need no waking, callers that come in crowds.

use std::time::Duration;

use napwake_api::workload::Phase;
use napwake_tests_process::{
    SOON,
    caller::{Caller, GET},
    ensure,
    hosts::{Family, Host},
    route::Standing,
    upstream::{PAGE, Upstream},
    wait, world,
};
use rstest::rstest;

/// A crowd of callers at two doormen is stamped once by each at most, and told
/// once; all are served.
#[tokio::test]
async fn a_crowd_wakes_once() {
    world::with("crowd", async |world| {
        let route = world.route("web").make().await?;
        let upstream = Upstream::web(world.pod(0)).await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let (one, two) = (world.doorman().await?, world.second_doorman().await?);
        let mut callers = Vec::new();
        for number in 0..200 {
            let doorman = if number % 2 == 0 { &one } else { &two };
            let from = world.caller(number % 4);
            callers.push(Caller::calling(from, route.at(doorman), GET).await?);
        }
        route.stamped().await?;
        one.holds(100).await?;
        two.holds(100).await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        for caller in &mut callers {
            caller.expect(PAGE.as_bytes()).await?;
        }
        ensure!(upstream.count() == 200, "{} came", upstream.count());
        let stamps = world.api.stamps(&world.place.namespace);
        ensure!(stamps.len() <= 2, "{stamps:?}");
        let told = world.told("WokenByRequest", 1).await?;
        ensure!(told.len() == 1, "{told:?}");
        Ok(())
    })
    .await;
}

/// One Service before two paused workloads, of which one asks: a request wakes
/// the other and is held for either (T-75).
#[tokio::test]
async fn workloads_behind_one_service_wake_together() {
    world::with("shared", async |world| {
        let first = world.route("one").of("shop").make().await?;
        let second = world
            .route("two")
            .of("shop")
            .at_port_of(&first)
            .make()
            .await?;
        let asking = world
            .route("asks")
            .of("shop")
            .at_port_of(&first)
            .asking()
            .make()
            .await?;
        let _upstream = Upstream::web(world.pod(0)).await?;
        second
            .backend("two-1", world.pod(0), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), first.at(&doorman), GET).await?;
        for route in [&first, &second] {
            let stamp = route.stamped().await?;
            ensure!(stamp.service.as_deref() == Some("shop"), "{stamp:?}");
        }
        second
            .backend("two-1", world.pod(0), Standing::Ready)
            .await?;
        caller.expect(PAGE.as_bytes()).await?;
        let asked = asking.last_request().await?;
        ensure!(asked.is_none(), "one that asks was woken: {asked:?}");
        Ok(())
    })
    .await;
}

/// A workload that wakes already or runs, though its route still stands, is
/// waited for and not stamped (T-124).
#[rstest]
#[case(Phase::Resuming)]
#[case(Phase::Running)]
#[tokio::test]
async fn nothing_is_stamped_where_nothing_sleeps(#[case] phase: Phase) {
    world::with("awake", async |world| {
        let route = world.route("web").phase(phase).make().await?;
        let _upstream = Upstream::web(world.pod(0)).await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        caller.is_held_for(Duration::from_secs(1)).await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        caller.expect(PAGE.as_bytes()).await?;
        let stamps = world.api.stamps(&world.place.namespace);
        ensure!(stamps.is_empty(), "{stamps:?}");
        Ok(())
    })
    .await;
}

/// Whoever is held while the workload runs, and sees it pause again, wakes it.
#[tokio::test]
async fn one_that_is_held_when_a_pause_begins_wakes() {
    world::with("begins", async |world| {
        let route = world.route("web").phase(Phase::Resuming).make().await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        caller.is_held_for(Duration::from_millis(500)).await?;
        route.enters(&doorman, Phase::Paused).await?;
        route.stamped().await?;
        caller.is_held_for(Duration::from_millis(100)).await
    })
    .await;
}

/// Each pause is woken from anew: a stamp of the last one doesn't count.
#[tokio::test]
async fn each_pause_is_woken_from() {
    world::with("pauses", async |world| {
        let route = world.route("web").make().await?;
        let doorman = world.doorman().await?;
        let mut last = None;
        for round in 1..=3 {
            let _caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
            let stamp = wait::until(
                "another stamp",
                SOON,
                || route.last_request(),
                |stamp| stamp.is_some() && *stamp != last,
            )
            .await?;
            last = stamp;
            let stamps = world.api.stamps(&world.place.namespace);
            ensure!(stamps.len() == round, "{stamps:?}");
            route.enters(&doorman, Phase::Paused).await?;
        }
        Ok(())
    })
    .await;
}

/// HOLD-32: the caller's address over IPv6, as people write it.
#[tokio::test]
async fn an_ipv6_caller_is_named() {
    world::with("from6", async |world| {
        let route = world.route("web").make().await?;
        let doorman = world.doorman().await?;
        let from = Host::Caller(0).at(world.block, Family::V6);
        let to = doorman.at(Family::V6, route.port);
        let _caller = Caller::calling(from, to, GET).await?;
        route.stamped().await?;
        let named = route.last_request_from().await?;
        ensure!(named == Some(from.to_string()), "{named:?}");
        Ok(())
    })
    .await;
}

/// A doorman that is killed loses its callers; the one that starts in its place
/// holds and passes the next, whatever was missed meanwhile.
#[tokio::test]
async fn a_new_doorman_takes_over() {
    world::with("takeover", async |world| {
        let route = world.route("web").make().await?;
        let _upstream = Upstream::web(world.pod(0)).await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        let mut lost = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        route.stamped().await?;
        drop(doorman);
        lost.ending(SOON).await?.nothing_sent()?;
        let other = world.route("other").make().await?;
        let doorman = world.doorman().await?;
        let mut next = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        next.is_held_for(Duration::from_millis(300)).await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        next.expect(PAGE.as_bytes()).await?;
        let _another = Caller::calling(world.caller(0), other.at(&doorman), GET).await?;
        other.stamped().await?;
        Ok(())
    })
    .await;
}

/// A port that something else has keeps no other route from its callers, and is
/// opened once it's free (T-113).
#[tokio::test]
async fn a_taken_port_is_tried_again() {
    world::with("taken", async |world| {
        let taken = world.route("taken").make().await?;
        let other = world.route("other").make().await?;
        let host = Host::Doorman(0).at(world.block, Family::V4);
        let squatter = tokio::net::TcpListener::bind((host, taken.port)).await?;
        let doorman = world.doorman().await?;
        let _caller = Caller::calling(world.caller(0), other.at(&doorman), GET).await?;
        other.stamped().await?;
        drop(squatter);
        doorman.listens(taken.port).await?;
        let _next = Caller::calling(world.caller(0), taken.at(&doorman), GET).await?;
        taken.stamped().await?;
        Ok(())
    })
    .await;
}

/// OBS-09: where the Deployment is gone, the event says so (T-110).
#[tokio::test]
async fn a_target_that_is_gone_is_told() {
    world::with("gone", async |world| {
        let route = world.route("web").max_wait("2s").make().await?;
        route
            .write_status(serde_json::json!({"status": {"conditions": [{
                "type": "TargetAvailable", "status": "False", "reason": "TargetNotFound",
                "message": "no Deployment web", "lastTransitionTime": "2026-11-30T00:00:00Z",
            }]}}))
            .await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        caller.ending(SOON).await?.nothing_sent()?;
        let told = world.told("RequestNotServed", 1).await?;
        ensure!(told[0].contains("is gone"), "{told:?}");
        Ok(())
    })
    .await;
}
