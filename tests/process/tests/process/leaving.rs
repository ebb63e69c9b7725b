//! Callers that give up while they are held.

use std::time::Duration;

use napwake_tests_process::{
    SOON,
    caller::{Caller, GET, How},
    ensure,
    route::Standing,
    upstream::{PAGE, Upstream},
    world,
};
use rstest::rstest;

use crate::{
    bytes::{client_hello, filled, postgres_startup},
    limits::is_turned_off,
};

/// HOLD-33, HOLD-34, field case 33: a caller that closed is never passed on,
/// whatever it speaks; its place is free at once, the wake goes on, and nobody
/// is told of a request that wasn't served.
#[rstest]
#[case::http(GET.to_vec())]
#[case::postgres(postgres_startup())]
#[case::tls(client_hello())]
#[case::anything(filled(3_000, 34))]
#[tokio::test]
async fn one_that_closes_is_gone(#[case] bytes: Vec<u8>) {
    world::with("closes", async |world| {
        let route = world.route("web").make().await?;
        let upstream = Upstream::web(world.pod(0)).await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        let caller = Caller::calling(world.caller(0), route.at(&doorman), &bytes).await?;
        route.stamped().await?;
        doorman.holds(1).await?;
        drop(caller);
        doorman.holds(0).await?;
        let left = &[("result", "left"), ("workload", "web")];
        doorman
            .until_metric("napwake_doorman_wakes_total", left, 1.0)
            .await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        let mut next = Caller::calling(world.caller(1), route.at(&doorman), GET).await?;
        next.expect(PAGE.as_bytes()).await?;
        let visits = upstream.visits();
        ensure!(visits.len() == 1 && visits[0].bytes == GET, "{visits:?}");
        let told = world.events("RequestNotServed").await?;
        ensure!(told.is_empty(), "{told:?}");
        Ok(())
    })
    .await;
}

/// HOLD-35: a caller that shuts its sending side alone is dropped at once with
/// nothing sent, and never reaches a pod.
#[tokio::test]
async fn one_that_shuts_its_sending_side_is_dropped() {
    world::with("shuts", async |world| {
        let route = world.route("web").make().await?;
        let upstream = Upstream::web(world.pod(0)).await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        route.stamped().await?;
        caller.shut().await?;
        let ending = caller.ending(SOON).await?;
        ending.nothing_sent()?;
        doorman.holds(0).await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        let mut next = Caller::calling(world.caller(1), route.at(&doorman), GET).await?;
        next.expect(PAGE.as_bytes()).await?;
        ensure!(upstream.count() == 1, "{:?}", upstream.visits());
        Ok(())
    })
    .await;
}

/// HOLD-36, LIMIT-02, LIMIT-05: with 256 held for one workload another is closed
/// at once; as soon as one has left, another is taken in.
#[tokio::test]
async fn the_place_of_one_that_leaves_is_free_at_once() {
    world::with("places", async |world| {
        let route = world.route("web").make().await?;
        let other = world.route("other").make().await?;
        let doorman = world.doorman().await?;
        let to = route.at(&doorman);
        let mut held = Vec::new();
        for number in 0..256 {
            held.push(Caller::calling(world.caller(number % 3), to, GET).await?);
        }
        doorman.holds(256).await?;
        let mut refused = Caller::connect(world.caller(3), to).await?;
        is_turned_off(&refused.ending(SOON).await?)?;
        let mut elsewhere = Caller::calling(world.caller(0), other.at(&doorman), GET).await?;
        elsewhere.is_held_for(Duration::from_millis(200)).await?;
        drop(elsewhere);
        doorman.holds(256).await?;
        drop(held.pop());
        doorman.holds(255).await?;
        let mut next = Caller::calling(world.caller(3), to, GET).await?;
        next.is_held_for(Duration::from_millis(300)).await?;
        doorman.holds(256).await?;
        let over = &[("result", "over_limit"), ("workload", "web")];
        doorman
            .until_metric("napwake_doorman_wakes_total", over, 1.0)
            .await
    })
    .await;
}

/// A caller that resets its connection has left, too.
#[tokio::test]
async fn one_that_resets_is_gone() {
    world::with("resets", async |world| {
        let route = world.route("web").make().await?;
        let upstream = Upstream::web(world.pod(0)).await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        let caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        route.stamped().await?;
        doorman.holds(1).await?;
        caller.reset()?;
        doorman.holds(0).await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        let mut next = Caller::calling(world.caller(1), route.at(&doorman), GET).await?;
        next.expect(PAGE.as_bytes()).await?;
        ensure!(upstream.count() == 1, "{:?}", upstream.visits());
        Ok(())
    })
    .await;
}

/// Once passed on, each side may shut its sending side: the other direction
/// lives on.
#[tokio::test]
async fn half_closing_is_relayed_once_it_was_passed() {
    world::with("half", async |world| {
        let route = world.route("tcp").make().await?;
        let _upstream = Upstream::serve(world.pod(0), |mut guest| async move {
            let mut count = 0;
            loop {
                let piece = guest.read().await?;
                if piece.is_empty() {
                    return guest.write(format!("{count} bytes").as_bytes()).await;
                }
                count += piece.len();
            }
        })
        .await?;
        route
            .backend("tcp-1", world.pod(0), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), b"12345").await?;
        route.stamped().await?;
        route
            .backend("tcp-1", world.pod(0), Standing::Ready)
            .await?;
        doorman.passes(1).await?;
        caller.send(b"67890").await?;
        caller.shut().await?;
        let ending = caller.ending(SOON).await?;
        ensure!(
            ending.how == How::Closed && ending.bytes == b"10 bytes",
            "{ending:?}"
        );
        Ok(())
    })
    .await;
}
