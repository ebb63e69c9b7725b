//! Cases from the field: what broke others that do a part of this job.

use std::{io, sync::Arc, time::Duration};

use napwake_api::workload::Phase;
use napwake_tests_process::{
    Result, SOON,
    caller::{Caller, GET},
    ensure,
    knocks::Knocks,
    route::Standing,
    upstream::{Deaf, PAGE, PORT, Upstream},
    wait, world,
};
use rstest::rstest;
use tokio::{sync::Semaphore, task::JoinSet};

use crate::bytes::{HTTP2_PREFACE, filled, sha256};

/// Case 23: a wake within a second of a pause, the old pods still leaving, one
/// of them with no conditions at all: only the new pod is dialed, and a refusal
/// of its leads back to waiting.
#[tokio::test]
async fn old_pods_that_leave_take_nobody() {
    world::with("case23", async |world| {
        let route = world.route("web").make().await?;
        let old = Upstream::web(world.pod(0)).await?;
        let older = Upstream::web(world.pod(1)).await?;
        route
            .backend("old", world.pod(0), Standing::Terminating)
            .await?;
        route
            .pod("older", &[world.pod(1)], Standing::NotReady)
            .await?;
        let mut endpoint = route.endpoint("older", world.pod(1), Standing::NotReady);
        endpoint["conditions"] = serde_json::json!({});
        route
            .write_slice("older", route.slice_of(true, 8_080, &[endpoint]))
            .await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        route.stamped().await?;
        // Ready, and not listening yet.
        route.backend("new", world.pod(2), Standing::Ready).await?;
        caller.is_held_for(Duration::from_millis(1_500)).await?;
        let new = Upstream::web(world.pod(2)).await?;
        caller.expect(PAGE.as_bytes()).await?;
        let counts = [&old, &older, &new].map(Upstream::count);
        ensure!(counts == [0, 0, 1], "{counts:?}");
        Ok(())
    })
    .await;
}

/// Case 24: where one Ready pod refuses, another Ready one is tried at once.
#[tokio::test]
async fn another_ready_pod_is_tried_at_once() {
    world::with("case24", async |world| {
        let route = world.route("web").make().await?;
        let upstream = Upstream::web(world.pod(1)).await?;
        route
            .backend("refuses", world.pod(0), Standing::Ready)
            .await?;
        route
            .backend("listens", world.pod(1), Standing::Ready)
            .await?;
        let refused = Knocks::count_at((world.pod(0), PORT).into()).await?;
        let doorman = world.doorman().await?;
        for _ in 0..6 {
            let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
            caller.expect(PAGE.as_bytes()).await?;
        }
        ensure!(upstream.count() == 6, "{}", upstream.count());
        // None waited for its next round, in a second, to try the other.
        let refused = refused.so_far().await?;
        ensure!(refused <= 6, "{refused} tries were refused");
        Ok(())
    })
    .await;
}

/// Case 28: where the first pod drops packets, the second is reached all the same.
/// (That it costs a second is shown on a paused clock.)
#[tokio::test]
async fn a_deaf_pod_keeps_nobody_from_another() {
    world::with("case28", async |world| {
        let route = world.route("web").make().await?;
        let _deaf = Deaf::begin(world.pod(0)).await?;
        let upstream = Upstream::web(world.pod(1)).await?;
        route.backend("deaf", world.pod(0), Standing::Ready).await?;
        route
            .backend("hears", world.pod(1), Standing::Ready)
            .await?;
        let doorman = world.doorman().await?;
        for _ in 0..6 {
            let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
            caller.expect(PAGE.as_bytes()).await?;
        }
        ensure!(upstream.count() == 6, "{}", upstream.count());
        Ok(())
    })
    .await;
}

/// Case 36: a pod so far away that connecting takes more than a second is
/// reached all the same. (The kernel answers the second SYN, a second later.)
#[tokio::test]
async fn a_far_pod_is_reached() {
    world::with("case36", async |world| {
        let route = world.route("web").make().await?;
        let deaf = Deaf::begin(world.pod(0)).await?;
        let knocks = Knocks::count_at((world.pod(0), PORT).into()).await?;
        route.backend("far", world.pod(0), Standing::Ready).await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        wait::until(
            "the first SYN",
            SOON,
            || knocks.so_far(),
            |count| *count > 0,
        )
        .await?;
        let _upstream = deaf
            .listen(|mut guest| async move {
                guest.head().await?;
                guest.write(PAGE.as_bytes()).await
            })
            .await?;
        caller.expect(PAGE.as_bytes()).await?;
        let took = caller.connected().elapsed();
        ensure!(
            took > Duration::from_millis(900),
            "reached after {took:?}, by its first SYN"
        );
        Ok(())
    })
    .await;
}

/// Case 26: after a wake, the first answer of 100 MB arrives exact, then what
/// drips, though the route is removed in the middle of it.
#[tokio::test]
async fn the_first_answer_is_never_cut_short() {
    const BULK: usize = 100 * 1_000 * 1_000;
    const DRIPS: usize = 20;
    world::with("case26", async |world| {
        let route = world.route("web").make().await?;
        let bulk = Arc::new(filled(BULK, 26));
        let served = Arc::clone(&bulk);
        let _upstream = Upstream::serve(world.pod(0), move |mut guest| {
            let bulk = Arc::clone(&served);
            async move {
                guest.head().await?;
                guest.write(&bulk).await?;
                for _ in 0..DRIPS {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    guest.write(&bulk[..1_000]).await?;
                }
                Ok(())
            }
        })
        .await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        route.stamped().await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        let first = caller.read(BULK / 2, 3 * SOON).await?;
        route.drains(&doorman, Phase::Running).await?;
        doorman.closes(route.port).await?;
        let rest = caller.ending(3 * SOON).await?;
        let got = [first, rest.bytes].concat();
        let drip = bulk[..1_000].repeat(DRIPS);
        let wanted = [bulk.as_slice(), drip.as_slice()].concat();
        ensure!(
            got.len() == wanted.len(),
            "{} of {} bytes",
            got.len(),
            wanted.len()
        );
        ensure!(sha256(&got) == sha256(&wanted), "bytes differ");
        Ok(())
    })
    .await;
}

/// How a body is framed.
#[derive(Clone, Copy, Debug)]
enum Framing {
    Length,
    Chunked,
}

fn post(number: usize, body: &[u8], framing: Framing) -> Vec<u8> {
    let head = format!("POST /{number} HTTP/1.1\r\nHost: app.example\r\n");
    match framing {
        Framing::Length => {
            let length = format!("Content-Length: {}\r\n\r\n", body.len());
            [head.as_bytes(), length.as_bytes(), body].concat()
        }
        Framing::Chunked => {
            let mut bytes = [head.as_bytes(), b"Transfer-Encoding: chunked\r\n\r\n"].concat();
            for chunk in body.chunks(100_000) {
                bytes.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
                bytes.extend([chunk, b"\r\n"].concat());
            }
            bytes.extend(b"0\r\n\r\n");
            bytes
        }
    }
}

/// Case 32: bodies of every size and framing, from callers fast and slow, reach
/// the pod as they were sent, after it refused several times; what is kept of
/// them stays within the bound.
#[tokio::test]
async fn bodies_arrive_whole_after_refusals() {
    const MIB: usize = 1024 * 1024;
    world::with("case32", async |world| {
        let route = world.route("web").make().await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        let doorman = world.doorman().await?;
        let mut posts = Vec::new();
        for size in [0, 1, MIB - 1, MIB + 1, 40 * MIB] {
            for framing in [Framing::Length, Framing::Chunked] {
                posts.push(post(posts.len(), &filled(size, 32), framing));
            }
        }
        let mut sending: JoinSet<Result<Caller>> = JoinSet::new();
        for bytes in posts.clone() {
            let mut caller = Caller::connect(world.caller(0), route.at(&doorman)).await?;
            sending.spawn(async move {
                let (slow, fast) = bytes.split_at(40);
                caller.send_slowly(slow, Duration::from_millis(20)).await?;
                caller.send(fast).await?;
                Ok(caller)
            });
        }
        let refused = || async { Ok(doorman.log().matches("no pod took the connection").count()) };
        wait::until("refusals", 3 * SOON, refused, |count| {
            *count >= 3 * posts.len()
        })
        .await?;
        let kept = doorman.metric("napwake_doorman_held_bytes", &[]).await?;
        ensure!(kept < 33.0 * 1_048_576.0, "{kept} bytes are kept");
        let upstream = Upstream::listening(world.pod(0)).await?;
        let mut callers = Vec::new();
        while let Some(sent) = sending.join_next().await {
            callers.push(sent??);
        }
        let whole: usize = posts.iter().map(Vec::len).sum();
        let received = || async {
            Ok(upstream
                .visits()
                .iter()
                .map(|visit| visit.bytes.len())
                .sum::<usize>())
        };
        wait::until("all bodies", 3 * SOON, received, |bytes| *bytes == whole).await?;
        let mut got: Vec<_> = upstream
            .visits()
            .iter()
            .map(|visit| sha256(&visit.bytes))
            .collect();
        let mut wanted: Vec<_> = posts.iter().map(|bytes| sha256(bytes)).collect();
        got.sort_unstable();
        wanted.sort_unstable();
        ensure!(got == wanted, "some differ");
        Ok(())
    })
    .await;
}

/// Case 65: clients of HTTP/2 that give up waiting for the server's settings and
/// connect again leave nothing behind, wake once, and are served in the end.
#[tokio::test]
async fn abandoned_http2_connections_leave_nothing_behind() {
    world::with("case65", async |world| {
        let route = world.route("grpc").make().await?;
        let _upstream = Upstream::echoing(world.pod(0)).await?;
        route
            .backend("grpc-1", world.pod(0), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        for round in 0..10 {
            let to = route.at(&doorman);
            let mut caller = Caller::calling(world.caller(0), to, HTTP2_PREFACE).await?;
            caller.is_held_for(Duration::from_millis(100)).await?;
            if round == 0 {
                route.stamped().await?;
            }
            drop(caller);
            doorman.holds(0).await?;
        }
        route
            .backend("grpc-1", world.pod(0), Standing::Ready)
            .await?;
        let mut caller =
            Caller::calling(world.caller(0), route.at(&doorman), HTTP2_PREFACE).await?;
        caller.expect(HTTP2_PREFACE).await?;
        let stamps = world.api.stamps(&world.place.namespace);
        ensure!(stamps.len() == 1, "{stamps:?}");
        ensure!(
            world.events("RequestNotServed").await?.is_empty(),
            "they gave up themselves"
        );
        Ok(())
    })
    .await;
}

/// Case 70: the doorman never sends a `100 Continue` of its own; the pod's is
/// relayed, and the body flows after it.
#[tokio::test]
async fn continue_is_the_pods_to_say() {
    const HEAD: &[u8] =
        b"PUT /up HTTP/1.1\r\nHost: app.example\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
    const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
    world::with("case70", async |world| {
        let route = world.route("web").make().await?;
        let upstream = Upstream::serve(world.pod(0), |mut guest| async move {
            guest.head().await?;
            guest.write(CONTINUE).await?;
            guest.body(4).await?;
            guest.write(PAGE.as_bytes()).await
        })
        .await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), HEAD).await?;
        route.stamped().await?;
        caller.is_held_for(Duration::from_millis(1_500)).await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        caller.expect(CONTINUE).await?;
        caller.send(b"body").await?;
        caller.expect(PAGE.as_bytes()).await?;
        let received = upstream.received(HEAD.len() + 4).await?;
        ensure!(received == [HEAD, b"body"].concat(), "{received:?}");
        Ok(())
    })
    .await;
}

/// Case 75: what a pod streams arrives as it is sent, event by event, in small
/// pieces and large ones: each is sent once the one before has arrived.
#[rstest]
#[case::small(40)]
#[case::large(100_000)]
#[tokio::test]
async fn streams_are_not_held_back(#[case] size: usize) {
    const EVENTS: usize = 20;
    world::with("case75", async |world| {
        let route = world.route("web").make().await?;
        let arrived = Arc::new(Semaphore::new(0));
        let waiting = Arc::clone(&arrived);
        let _upstream = Upstream::serve(world.pod(0), move |mut guest| {
            let arrived = Arc::clone(&waiting);
            async move {
                guest.head().await?;
                for number in 0..EVENTS {
                    guest
                        .write(&vec![u8::try_from(number).unwrap_or(0); size])
                        .await?;
                    arrived.acquire().await.map_err(io::Error::other)?.forget();
                }
                Ok(())
            }
        })
        .await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        for _ in 0..EVENTS {
            caller.read(size, SOON).await?;
            arrived.add_permits(1);
        }
        Ok(())
    })
    .await;
}
