//! How many callers are held and passed, and how much is read of them.

use std::{net::SocketAddr, time::Duration};

use napwake_tests_process::{
    Result, SOON,
    caller::{Caller, Ending, GET},
    doorman::Doorman,
    ensure,
    route::{Route, Standing},
    upstream::Upstream,
    wait,
    world::{self, World},
};
use tokio::{io::AsyncWriteExt, task::JoinSet};

use crate::bytes::{filled, sha256};

const HELD_BYTES: &str = "napwake_doorman_held_bytes";
const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// So many callers from one address, each with a request.
async fn callers(world: &World, source: u16, to: SocketAddr, count: usize) -> Result<Vec<Caller>> {
    let mut callers = Vec::with_capacity(count);
    for _ in 0..count {
        callers.push(Caller::calling(world.caller(source), to, GET).await?);
    }
    Ok(callers)
}

/// That another caller is closed at once with nothing sent.
async fn is_closed(world: &World, source: u16, to: SocketAddr) -> Result<()> {
    let mut caller = Caller::connect(world.caller(source), to).await?;
    is_turned_off(&caller.ending(SOON).await?)
}

/// That nothing was sent, and that it ended before its silence was judged, which is
/// after three seconds.
pub(crate) fn is_turned_off(ending: &Ending) -> Result<()> {
    ending.nothing_sent()?;
    ensure!(ending.after < Duration::from_secs(3), "{ending:?}");
    Ok(())
}

/// That another caller is held.
async fn is_held(world: &World, source: u16, to: SocketAddr) -> Result<Caller> {
    let mut caller = Caller::calling(world.caller(source), to, GET).await?;
    caller.is_held_for(Duration::from_millis(300)).await?;
    Ok(caller)
}

async fn routes(world: &World, count: usize) -> Result<Vec<Route<'_>>> {
    let mut routes = Vec::new();
    for number in 0..count {
        routes.push(world.route(&format!("web-{number}")).make().await?);
    }
    Ok(routes)
}

/// LIMIT-01, LIMIT-05: 2048 are held by one doorman, from two sources for eight
/// workloads; the next is closed at once, wherever it comes from and goes to.
#[tokio::test]
async fn a_doorman_holds_2048() {
    napwake_tests_process::raise_open_files();
    world::with("all", async |world| {
        let routes = routes(world, 9).await?;
        let doorman = world.doorman().await?;
        let mut held = Vec::new();
        for route in &routes[..8] {
            for source in 0..2 {
                held.extend(callers(world, source, route.at(&doorman), 128).await?);
            }
        }
        doorman.holds(2048).await?;
        is_closed(world, 2, routes[8].at(&doorman)).await?;
        drop(held.pop());
        doorman.holds(2047).await?;
        is_held(world, 2, routes[8].at(&doorman)).await?;
        Ok(())
    })
    .await;
}

/// LIMIT-02, LIMIT-04, LIMIT-05, LIMIT-31, LIMIT-32: 128 of one source and 256
/// in all are held for one workload, however stuck it is; another workload still
/// takes callers, from the same source too.
#[tokio::test]
async fn a_workload_holds_256_and_128_from_one_source() {
    world::with("workload", async |world| {
        let routes = routes(world, 2).await?;
        let doorman = world.doorman().await?;
        let (to, other) = (routes[0].at(&doorman), routes[1].at(&doorman));
        let mut held = callers(world, 0, to, 128).await?;
        doorman.holds(128).await?;
        is_closed(world, 0, to).await?;
        held.extend(callers(world, 1, to, 100).await?);
        held.extend(callers(world, 2, to, 28).await?);
        doorman.holds(256).await?;
        is_closed(world, 2, to).await?;
        is_closed(world, 3, to).await?;
        held.push(is_held(world, 0, other).await?);
        doorman.holds(257).await
    })
    .await;
}

/// LIMIT-03, LIMIT-05: 1024 are held from one source over all workloads; another
/// source is still taken in.
#[tokio::test]
async fn a_source_has_1024_held() {
    napwake_tests_process::raise_open_files();
    world::with("source", async |world| {
        let routes = routes(world, 9).await?;
        let doorman = world.doorman().await?;
        let mut held = Vec::new();
        for route in &routes[..8] {
            held.extend(callers(world, 0, route.at(&doorman), 128).await?);
        }
        doorman.holds(1024).await?;
        is_closed(world, 0, routes[8].at(&doorman)).await?;
        held.push(is_held(world, 1, routes[8].at(&doorman)).await?);
        doorman.holds(1025).await
    })
    .await;
}

/// LIMIT-30: the source is the connection's peer; a header changes nothing.
#[tokio::test]
async fn no_header_changes_the_source() {
    world::with("forged", async |world| {
        let route = world.route("web").make().await?;
        let doorman = world.doorman().await?;
        let to = route.at(&doorman);
        let mut held = Vec::new();
        for number in 0..128 {
            let forged = format!(
                "GET / HTTP/1.1\r\nHost: app.example\r\nX-Forwarded-For: 192.0.2.{number}\r\n\
                 Forwarded: for=192.0.2.{number}\r\nX-Real-IP: 192.0.2.{number}\r\n\r\n"
            );
            held.push(Caller::calling(world.caller(0), to, forged.as_bytes()).await?);
        }
        doorman.holds(128).await?;
        is_closed(world, 0, to).await?;
        let from = format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {}\r\n\r\n",
            world.caller(0)
        );
        let mut other = Caller::calling(world.caller(1), to, from.as_bytes()).await?;
        other.is_held_for(Duration::from_millis(300)).await?;
        route.stamped().await?;
        let stamped = route.last_request_from().await?;
        ensure!(stamped == Some(world.caller(0).to_string()), "{stamped:?}");
        Ok(())
    })
    .await;
}

/// A route with a Ready pod that greets and then listens.
async fn greeted<'a>(world: &'a World, max_wait: &str) -> Result<(Route<'a>, Upstream, Doorman)> {
    napwake_tests_process::raise_open_files();
    let route = world.route("web").max_wait(max_wait).make().await?;
    let upstream = Upstream::greeting(world.pod(0), "hi\n").await?;
    route
        .backend("web-1", world.pod(0), Standing::Ready)
        .await?;
    Ok((route, upstream, world.doorman().await?))
}

/// So many callers from one address that were passed on.
async fn passed(world: &World, source: u16, to: SocketAddr, count: usize) -> Result<Vec<Caller>> {
    let mut callers = Vec::with_capacity(count);
    for _ in 0..count {
        let mut caller = Caller::connect(world.caller(source), to).await?;
        caller.expect(b"hi\n").await?;
        callers.push(caller);
    }
    Ok(callers)
}

/// LIMIT-06, LIMIT-07, LIMIT-08: 512 of one source pass at once, and 1024 in all;
/// the next are held until one of those ends.
#[tokio::test]
async fn a_doorman_passes_1024_and_512_from_one_source() {
    world::with("passed", async |world| {
        let (route, upstream, doorman) = greeted(world, "1m").await?;
        let to = route.at(&doorman);
        let mut first = passed(world, 0, to, 512).await?;
        let mut second = Caller::connect(world.caller(0), to).await?;
        second.is_held_for(Duration::from_millis(300)).await?;
        let mut others = passed(world, 1, to, 512).await?;
        doorman.passes(1024).await?;
        let mut third = Caller::connect(world.caller(2), to).await?;
        third.is_held_for(Duration::from_millis(300)).await?;
        ensure!(upstream.count() == 1024, "{} came", upstream.count());
        drop(others.pop());
        third.expect(b"hi\n").await?;
        second.is_held_for(Duration::from_millis(100)).await?;
        drop(first.pop());
        second.expect(b"hi\n").await?;
        doorman.passes(1024).await
    })
    .await;
}

/// LIMIT-09: one that gets no place to pass by `maxWait` is closed, with nothing
/// sent.
#[tokio::test]
async fn without_a_place_to_pass_it_ends_at_max_wait() {
    world::with("noplace", async |world| {
        let (route, _upstream, doorman) = greeted(world, "3s").await?;
        let to = route.at(&doorman);
        let _passed = passed(world, 0, to, 512).await?;
        let mut caller = Caller::calling(world.caller(0), to, GET).await?;
        let ending = caller.ending(SOON).await?;
        ending.nothing_sent()?;
        let after = ending.after;
        ensure!(after > Duration::from_millis(2_950), "{after:?}");
        Ok(())
    })
    .await;
}

/// Sends as much as is taken, in a task of its own.
/// It resets its connection where the task ends, which is seen however much of
/// what it sent was read.
fn upload(uploads: &mut JoinSet<Result<()>>, caller: Caller, bytes: std::sync::Arc<Vec<u8>>) {
    uploads.spawn(async move {
        caller.will_reset()?;
        let (_reading, mut writing) = caller.split();
        writing.write_all(&bytes).await?;
        // The connection stays open.
        std::future::pending::<Result<()>>().await
    });
}

/// Waits until the doorman has read this much and no more comes for a while.
async fn reads_up_to(doorman: &Doorman, least: usize, most: usize) -> Result<()> {
    let read = || async {
        let bytes = doorman.metric(HELD_BYTES, &[]).await?;
        Ok(format!("{bytes:.0}").parse::<usize>()?)
    };
    let what = format!("{least} to {most} bytes read");
    wait::until(&what, 3 * SOON, read, |bytes| {
        (least..=most).contains(bytes)
    })
    .await?;
    wait::throughout(&what, Duration::from_secs(1), read, |bytes| {
        (least..=most).contains(bytes)
    })
    .await
}

/// LIMIT-21: at most 1 MiB is read of one held caller, beside its first 8 KiB.
#[tokio::test]
async fn a_mebibyte_is_read_of_one_caller() {
    world::with("one", async |world| {
        let route = world.route("web").make().await?;
        let doorman = world.doorman().await?;
        let caller = Caller::connect(world.caller(0), route.at(&doorman)).await?;
        let mut uploads = JoinSet::new();
        upload(&mut uploads, caller, filled(16 * MIB, 21).into());
        reads_up_to(&doorman, MIB, MIB + 8 * KIB).await
    })
    .await;
}

/// LIMIT-22, LIMIT-23, LIMIT-25, LIMIT-29: 32 MiB are read of all held callers
/// together; a new request is still read and one that gives up is noticed; what
/// some free, others get.
#[tokio::test]
async fn thirty_two_mebibytes_are_read_of_all() {
    const UPLOADS: usize = 40;
    world::with("pool", async |world| {
        let route = world.route("web").make().await?;
        let doorman = world.doorman().await?;
        let to = route.at(&doorman);
        let body = std::sync::Arc::new(filled(2 * MIB, 22));
        let mut uploads = JoinSet::new();
        for _ in 0..UPLOADS {
            let caller = Caller::connect(world.caller(0), to).await?;
            upload(&mut uploads, caller, std::sync::Arc::clone(&body));
        }
        let most = 32 * MIB + UPLOADS * 8 * KIB;
        reads_up_to(&doorman, 32 * MIB, most).await?;
        // LIMIT-23: judged by headers that end after 4 KiB.
        let padding = "x".repeat(4_000);
        let probe =
            format!("GET / HTTP/1.1\r\nX: {padding}\r\nUser-Agent: kube-probe/1.34\r\n\r\n");
        let mut checker = Caller::calling(world.caller(1), to, probe.as_bytes()).await?;
        let answer = checker.ending(SOON).await?.text();
        ensure!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        // LIMIT-29
        let ordinary = Caller::calling(world.caller(1), to, GET).await?;
        doorman.holds(41).await?;
        drop(ordinary);
        doorman.holds(40).await?;
        // LIMIT-25
        let mut more = JoinSet::new();
        for _ in 0..10 {
            let caller = Caller::connect(world.caller(1), to).await?;
            upload(&mut more, caller, std::sync::Arc::clone(&body));
        }
        uploads.abort_all();
        while uploads.join_next().await.is_some() {}
        doorman.holds(10).await?;
        reads_up_to(&doorman, 10 * MIB, 10 * MIB + 10 * 8 * KIB).await
    })
    .await;
}

/// HOLD-37: one that leaves in the middle of a body that can't be read is let go
/// once the body could be, and never reaches a pod.
#[tokio::test]
async fn one_that_leaves_within_a_body_is_let_go_once_it_is_read() {
    world::with("within", async |world| {
        let route = world.route("web").make().await?;
        let upstream = Upstream::greeting(world.pod(0), "hi\n").await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        let to = route.at(&doorman);
        let body = std::sync::Arc::new(filled(2 * MIB, 37));
        let mut uploads = JoinSet::new();
        for _ in 0..40 {
            let caller = Caller::connect(world.caller(0), to).await?;
            upload(&mut uploads, caller, std::sync::Arc::clone(&body));
        }
        reads_up_to(&doorman, 32 * MIB, 32 * MIB + 40 * 8 * KIB).await?;
        let leaving = Caller::calling(world.caller(1), to, &body[..100 * KIB]).await?;
        doorman.holds(41).await?;
        drop(leaving);
        uploads.abort_all();
        while uploads.join_next().await.is_some() {}
        doorman.holds(0).await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        let mut next = Caller::connect(world.caller(2), to).await?;
        next.expect(b"hi\n").await?;
        ensure!(upstream.count() == 1, "{} came", upstream.count());
        Ok(())
    })
    .await;
}

/// LIMIT-24: a body larger than what is read while held waits in the network and
/// then flows on whole.
#[tokio::test]
async fn a_larger_body_flows_on_whole() {
    world::with("whole", async |world| {
        let route = world.route("web").make().await?;
        let upstream = Upstream::listening(world.pod(0)).await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        let body = filled(10 * MIB, 24);
        let caller = Caller::connect(world.caller(0), route.at(&doorman)).await?;
        let mut uploads = JoinSet::new();
        upload(&mut uploads, caller, body.clone().into());
        reads_up_to(&doorman, MIB, MIB + 8 * KIB).await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        let received = upstream.received(body.len()).await?;
        ensure!(
            sha256(&received) == sha256(&body),
            "{} bytes differ",
            received.len()
        );
        doorman.until_metric(HELD_BYTES, &[], 0.0).await
    })
    .await;
}
