//! The doorman without its API server.

use std::time::Duration;

use napwake_tests_process::{
    SOON,
    caller::{Caller, GET},
    ensure,
    route::Standing,
    upstream::{PAGE, Upstream},
    wait, world,
};

/// A caller that comes while the API server can't be reached is held; once it
/// can, the wake is stamped and the caller served (T-112).
#[tokio::test]
async fn callers_are_held_until_it_is_back() {
    world::with("away", async |world| {
        let route = world.route("web").make().await?;
        let _upstream = Upstream::web(world.pod(0)).await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        world.api.cut();
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        caller.is_held_for(Duration::from_secs(3)).await?;
        ensure!(
            route.last_request().await?.is_none(),
            "stamped through a cut way"
        );
        world.api.mend();
        route.stamped().await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        let page = caller.read(PAGE.len(), 2 * SOON).await?;
        ensure!(page == PAGE.as_bytes(), "{page:?}");
        Ok(())
    })
    .await;
}

/// A stamp that can't be written is tried again every two seconds, and written
/// once (T-112).
#[tokio::test]
async fn a_stamp_is_tried_every_two_seconds() {
    world::with("lost", async |world| {
        let route = world.route("web").make().await?;
        let doorman = world.doorman().await?;
        world.api.lose_patches();
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        let stamps = || async { Ok(world.api.stamps(&world.place.namespace)) };
        let tries = wait::until("three tries", SOON, stamps, |tries| tries.len() >= 3).await?;
        for pair in tries.windows(2) {
            let pause = pair[1].at - pair[0].at;
            let least = Duration::from_millis(1_900);
            ensure!(pause > least, "tried again after {pause:?}");
        }
        world.api.mend();
        route.stamped().await?;
        let before = world.api.stamps(&world.place.namespace).len();
        caller.is_held_for(Duration::from_millis(2_500)).await?;
        let after = world.api.stamps(&world.place.namespace).len();
        ensure!(
            before == after,
            "{before} tries before, {after} after it was stamped"
        );
        Ok(())
    })
    .await;
}

/// If it stays away, the caller is held until `maxWait` and closed with nothing
/// sent; later callers wake.
#[tokio::test]
async fn the_hold_ends_at_max_wait_all_the_same() {
    world::with("staysaway", async |world| {
        let route = world.route("web").max_wait("3s").make().await?;
        let doorman = world.doorman().await?;
        world.api.cut();
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        let ending = caller.ending(SOON).await?;
        ending.nothing_sent()?;
        ensure!(ending.after > Duration::from_millis(2_950), "{ending:?}");
        world.api.mend();
        let _next = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        route.stamped().await?;
        Ok(())
    })
    .await;
}

/// Connections that pass through don't need the API server, and what changed
/// while it was away is seen once it's back.
#[tokio::test]
async fn passed_connections_live_on() {
    world::with("liveson", async |world| {
        let route = world.route("web").make().await?;
        let _upstream = Upstream::echoing(world.pod(0)).await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), b"before").await?;
        caller.expect(b"before").await?;
        world.api.cut();
        caller.send(b"meanwhile").await?;
        caller.expect(b"meanwhile").await?;
        ensure!(doorman.readiness().await?, "it stays Ready");
        let later = world.route("later").make().await?;
        world.api.mend();
        caller.send(b"after").await?;
        caller.expect(b"after").await?;
        let open = || napwake_tests_process::hosts::is_listened_on(later.at(&doorman));
        wait::until("the later route's port", 3 * SOON, open, |is| *is).await?;
        Ok(())
    })
    .await;
}
