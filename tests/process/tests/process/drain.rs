//! Stopping doormen and draining routes.

use std::{net::SocketAddr, time::Duration};

use napwake_api::{agreed::ROUTE_DRAIN, workload::Phase};
use napwake_tests_process::{
    Result, SOON,
    caller::{Caller, GET},
    ensure,
    route::Standing,
    upstream::{PAGE, Upstream},
    wait,
    world::{self, World},
};
use rstest::rstest;
use tokio::time::Instant;

/// DRAIN-04: a doorman that is told to stop isn't Ready any more, long before it
/// ends. (That it's so from the signal itself is shown in `napwake_kit`.)
#[tokio::test]
async fn one_that_stops_is_not_ready() {
    world::with("notready", async |world| {
        let doorman = world.doorman().await?;
        ensure!(doorman.readiness().await?, "it was Ready");
        doorman.stop()?;
        let probe = || doorman.readiness();
        wait::until("not being Ready", SOON, probe, |ready| !ready).await?;
        Ok(())
    })
    .await;
}

/// DRAIN-11: a doorman that was told to stop goes on taking callers in, holds
/// and wakes, and passes them on.
#[tokio::test]
async fn one_that_stops_goes_on_holding() {
    world::with("stopping", async |world| {
        let route = world.route("web").make().await?;
        let _upstream = Upstream::web(world.pod(0)).await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let mut doorman = world.doorman().await?;
        let mut before = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        route.stamped().await?;
        doorman.stop()?;
        wait::until(
            "not being Ready",
            SOON,
            || doorman.readiness(),
            |ready| !ready,
        )
        .await?;
        let mut after = Caller::calling(world.caller(1), route.at(&doorman), GET).await?;
        after.is_held_for(Duration::from_millis(500)).await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        before.expect(PAGE.as_bytes()).await?;
        after.expect(PAGE.as_bytes()).await?;
        let running = doorman.ended(Duration::from_millis(200)).await;
        ensure!(running.is_err(), "it has ended: {running:?}");
        Ok(())
    })
    .await;
}

/// DRAIN-18, DRAIN-19: while the route drains, callers are passed to a Ready pod
/// and held for one, and nothing is woken; its port closes in the end, and who was
/// taken in stays. So it is where the workload runs again, and where it is paused and
/// this route alone was given up.
#[rstest]
#[case(Phase::Running)]
#[case(Phase::Paused)]
#[tokio::test]
async fn a_draining_route_passes_and_wakes_nothing(#[case] phase: Phase) {
    world::with("drain", async |world| {
        let route = world.route("web").make().await?;
        let _upstream = Upstream::greeting(world.pod(0), "hi\n").await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        let doorman = world.doorman().await?;
        route.drains(&doorman, phase).await?;
        let mut passed = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        passed.expect(b"hi\n").await?;
        passed.expect(GET).await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let mut stray = not_passed(world, route.at(&doorman)).await?;
        stray.send(GET).await?;
        stray.is_held_for(Duration::from_millis(800)).await?;
        let stamps = world.api.stamps(&world.place.namespace);
        ensure!(stamps.is_empty(), "{stamps:?}");
        doorman.closes(route.port).await?;
        let refused = Caller::is_refused(world.caller(0), route.at(&doorman)).await?;
        ensure!(refused, "its port is closed");
        passed.send(b"still here").await?;
        passed.expect(b"still here").await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        stray.expect(b"hi\n").await?;
        stray.expect(GET).await?;
        let stamps = world.api.stamps(&world.place.namespace);
        ensure!(stamps.is_empty(), "{stamps:?}");
        Ok(())
    })
    .await;
}

/// A caller that no pod greets: the first to come after the doorman has seen that
/// none is Ready.
async fn not_passed(world: &World, to: SocketAddr) -> Result<Caller> {
    let deadline = Instant::now() + SOON;
    loop {
        let mut caller = Caller::connect(world.caller(1), to).await?;
        match caller.is_held_for(Duration::from_millis(200)).await {
            Ok(()) => return Ok(caller),
            Err(error) => ensure!(Instant::now() < deadline, "{error}"),
        }
    }
}

/// A route that pauses again while it drains is served as before, and wakes
/// (T-78).
#[tokio::test]
async fn a_drain_ends_where_the_workload_pauses_again() {
    world::with("again", async |world| {
        let route = world.route("web").make().await?;
        let doorman = world.doorman().await?;
        route.drains(&doorman, Phase::Running).await?;
        route.enters(&doorman, Phase::Paused).await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        route.stamped().await?;
        // Beyond what was the drain's end.
        let beyond = ROUTE_DRAIN.get() + Duration::from_secs(1);
        caller.is_held_for(beyond).await?;
        doorman.listens(route.port).await
    })
    .await;
}

/// A caller of a workload whose ManagedWorkload is deleted is held on, and passed
/// once a pod is Ready; nothing can be woken (T-111).
#[tokio::test]
async fn a_deleted_workload_drains() {
    world::with("deleted", async |world| {
        let route = world.route("web").make().await?;
        let _upstream = Upstream::web(world.pod(0)).await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::connect(world.caller(0), route.at(&doorman)).await?;
        route.drop_workload().await?;
        // What came later is seen later.
        let later = world.route("later").make().await?;
        doorman.listens(later.port).await?;
        caller.send(GET).await?;
        caller.is_held_for(Duration::from_millis(500)).await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        caller.expect(PAGE.as_bytes()).await
    })
    .await;
}

mod long {
    use napwake_tests_process::caller::How;

    use super::*;

    /// DRAIN-11, DRAIN-12, DRAIN-13: a doorman that was told to stop takes
    /// callers in for 15 s and refuses them then; what it has may go on until
    /// 25 s, when it cuts the rest and ends.
    #[tokio::test]
    async fn a_doorman_ends_in_steps() {
        world::with("steps", async |world| {
            let route = world.route("web").make().await?;
            let _upstream = Upstream::echoing(world.pod(0)).await?;
            route
                .backend("web-1", world.pod(0), Standing::Ready)
                .await?;
            let other = world.route("stuck").make().await?;
            let mut doorman = world.doorman().await?;
            let to = route.at(&doorman);
            let mut open = Caller::calling(world.caller(0), to, b"open").await?;
            open.expect(b"open").await?;
            let mut ending = Caller::calling(world.caller(0), to, b"first").await?;
            ending.expect(b"first").await?;
            let told = Instant::now();
            doorman.stop()?;
            for second in [1, 7, 14] {
                tokio::time::sleep_until(told + Duration::from_secs(second)).await;
                let mut caller = Caller::calling(world.caller(0), to, b"new").await?;
                caller.expect(b"new").await?;
            }
            let mut held = Caller::calling(world.caller(0), other.at(&doorman), GET).await?;
            other.stamped().await?;
            doorman.closes(route.port).await?;
            ensure!(
                Caller::is_refused(world.caller(0), to).await?,
                "a new one is refused"
            );
            tokio::time::sleep_until(told + Duration::from_secs(23)).await;
            ending.send(b"last").await?;
            ending.expect(b"last").await?;
            drop(ending);
            held.is_held_for(Duration::from_millis(500)).await?;
            let status = doorman.ended(SOON).await?;
            let after = told.elapsed();
            ensure!(status.success(), "{status}");
            let least = Duration::from_millis(24_900);
            ensure!(after > least, "it ended after {after:?}");
            held.ending(SOON).await?.nothing_sent()?;
            open.ending(SOON).await?.nothing_sent()?;
            Ok(())
        })
        .await;
    }

    /// T-84: a wake that isn't written yet when its caller is cut goes on, and the
    /// doorman ends once it is written.
    #[tokio::test]
    async fn a_wake_goes_on_though_its_caller_is_cut() {
        world::with("lastwake", async |world| {
            let route = world.route("web").make().await?;
            let mut doorman = world.doorman().await?;
            world.api.lose_patches();
            let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
            let stamps = || async { Ok(world.api.stamps(&world.place.namespace)) };
            wait::until("a try", SOON, stamps, |tries| !tries.is_empty()).await?;
            doorman.stop()?;
            caller.ending(4 * SOON).await?.nothing_sent()?;
            world.api.mend();
            route.stamped().await?;
            let status = doorman.ended(SOON).await?;
            ensure!(status.success(), "{status}");
            Ok(())
        })
        .await;
    }

    /// DRAIN-17, DRAIN-18, DRAIN-19: a route that is removed is served for 30 s,
    /// waking nothing, and its port is closed then.
    #[tokio::test]
    async fn a_removed_route_is_served_for_thirty_seconds() {
        world::with("removed", async |world| {
            let route = world.route("web").make().await?;
            let _upstream = Upstream::web(world.pod(0)).await?;
            route
                .backend("web-1", world.pod(0), Standing::Ready)
                .await?;
            let doorman = world.doorman().await?;
            route.leaves(&doorman).await?;
            let removed = Instant::now();
            let to = route.at(&doorman);
            for second in [1, 15, 29] {
                tokio::time::sleep_until(removed + Duration::from_millis(second * 1_000 - 300))
                    .await;
                let mut caller = Caller::calling(world.caller(0), to, GET).await?;
                caller.expect(PAGE.as_bytes()).await?;
            }
            doorman.closes(route.port).await?;
            ensure!(
                Caller::is_refused(world.caller(0), to).await?,
                "a new one is refused"
            );
            let stamps = world.api.stamps(&world.place.namespace);
            ensure!(stamps.is_empty(), "{stamps:?}");
            Ok(())
        })
        .await;
    }

    /// DRAIN-25, LIMIT-28: a connection that passes through is closed five
    /// minutes after its route began to drain, however busy it is.
    #[tokio::test]
    async fn a_passed_connection_ends_five_minutes_into_the_drain() {
        world::with("five", async |world| {
            let route = world.route("web").make().await?;
            let _upstream = Upstream::echoing(world.pod(0)).await?;
            route
                .backend("web-1", world.pod(0), Standing::Ready)
                .await?;
            let doorman = world.doorman().await?;
            let mut caller = Caller::calling(world.caller(0), route.at(&doorman), b"begin").await?;
            caller.expect(b"begin").await?;
            route.leaves(&doorman).await?;
            let removed = Instant::now();
            for minute in 1..5 {
                tokio::time::sleep_until(removed + Duration::from_secs(minute * 60 - 2)).await;
                caller.send(b"tick").await?;
                caller.expect(b"tick").await?;
            }
            tokio::time::sleep_until(removed + Duration::from_secs(297)).await;
            caller.send(b"late").await?;
            caller.expect(b"late").await?;
            let ending = caller.ending(SOON).await?;
            let after = removed.elapsed();
            ensure!(
                ending.how == How::Closed || ending.bytes.is_empty(),
                "{ending:?}"
            );
            let least = Duration::from_secs(298);
            ensure!(after > least, "it ended after {after:?}");
            Ok(())
        })
        .await;
    }
}
