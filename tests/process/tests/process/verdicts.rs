//! What tests of verdicts share: requests, and that each of them wakes or none
//! does.

use std::{net::SocketAddr, time::Duration};

use napwake_tests_process::{
    Result, SOON,
    caller::{Caller, Ending, GET, How},
    doorman::Doorman,
    ensure,
    route::Route,
    world::{self, World},
};

/// A request of this method for this path by this User-Agent.
pub(crate) fn request(method: &str, path: &str, agent: &str) -> Vec<u8> {
    let length = if method == "POST" {
        "Content-Length: 0\r\n"
    } else {
        ""
    };
    format!("{method} {path} HTTP/1.1\r\nHost: app.example\r\nUser-Agent: {agent}\r\n{length}\r\n")
        .into_bytes()
}

/// Calls and reads the answer to its end.
pub(crate) async fn answered(world: &World, to: SocketAddr, bytes: &[u8]) -> Result<Ending> {
    let mut caller = Caller::calling(world.caller(0), to, bytes).await?;
    let ending = caller.ending(SOON).await?;
    ensure!(
        ending.how == How::Closed,
        "a reset may lose the answer: {ending:?}"
    );
    Ok(ending)
}

/// That an answer has this status, isn't to be stored, and closes.
pub(crate) fn is_answer(ending: &Ending, status: &str) -> Result<()> {
    let text = ending.text();
    ensure!(
        text.starts_with(&format!("HTTP/1.1 {status}\r\n")),
        "{text}"
    );
    ensure!(text.contains("\r\nConnection: close\r\n"), "{text}");
    ensure!(text.contains("\r\nCache-Control: no-store\r\n"), "{text}");
    Ok(())
}

/// Each of these is held and wakes, in a world with one route for each.
pub(crate) async fn each_wakes(flags: &[&str], callers: &[Vec<u8>]) {
    for chunk in callers.chunks(8) {
        world::with("wakes", async |world| {
            let mut routes = Vec::new();
            for number in 0..chunk.len() {
                routes.push(world.route(&format!("web-{number}")).make().await?);
            }
            let doorman = world.doorman_with(flags).await?;
            let mut held = Vec::new();
            for (route, bytes) in routes.iter().zip(chunk) {
                held.push(Caller::calling(world.caller(0), route.at(&doorman), bytes).await?);
            }
            for ((route, caller), bytes) in routes.iter().zip(&mut held).zip(chunk) {
                let stamped = route.stamped().await;
                let text = String::from_utf8_lossy(bytes);
                ensure!(stamped.is_ok(), "nothing was woken by {text:?}");
                caller.is_held_for(Duration::from_millis(50)).await?;
            }
            Ok(())
        })
        .await;
    }
}

/// Each of these is answered with this status, and none wakes: not even a
/// moment later, when another request does.
pub(crate) async fn none_wakes(flags: &[&str], status: &str, callers: &[Vec<u8>]) {
    world::with("checks", async |world| {
        let route = world.route("web").make().await?;
        let doorman = world.doorman_with(flags).await?;
        for bytes in callers {
            let ending = answered(world, route.at(&doorman), bytes).await?;
            let text = String::from_utf8_lossy(bytes).into_owned();
            is_answer(&ending, status).map_err(|error| error.context(text))?;
        }
        only_now_it_wakes(world, &route, &doorman).await
    })
    .await;
}

/// Nothing has been written of this route; now a request is, as the only one.
pub(crate) async fn only_now_it_wakes(
    world: &World,
    route: &Route<'_>,
    doorman: &Doorman,
) -> Result<()> {
    let mut caller = Caller::calling(world.caller(5), route.at(doorman), GET).await?;
    route.stamped().await?;
    caller.is_held_for(Duration::from_millis(100)).await?;
    let from = route.last_request_from().await?;
    ensure!(from == Some(world.caller(5).to_string()), "{from:?}");
    let stamps = world.api.stamps(&world.place.namespace);
    ensure!(stamps.len() == 1, "{stamps:?}");
    let events = world.told("WokenByRequest", 1).await?;
    ensure!(events.len() == 1, "{events:?}");
    Ok(())
}
