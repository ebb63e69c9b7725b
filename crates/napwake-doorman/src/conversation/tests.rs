//! Conversations over real sockets, a scripted backend and a cluster in memory.

mod answered;
mod clicking;
mod dialing;
mod ending;
mod holding;
mod passing;
mod waking;

use std::time::Duration;

use serde_json::{Value, json};

use tokio::net::TcpStream;

use crate::tests::{Dial, Ending, World, claimant, ending, slice};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: api\r\nUser-Agent: curl/8\r\n\r\n";

/// A browser's request.
fn browser(line: &str, headers: &str, body: &str) -> Vec<u8> {
    let agent = "Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0";
    format!("{line} HTTP/1.1\r\nHost: a.test\r\nUser-Agent: {agent}\r\n{headers}\r\n{body}")
        .into_bytes()
}

/// What a caller is answered, to its orderly end.
async fn text(caller: &mut TcpStream) -> String {
    match ending(caller).await {
        Ending::Closed(bytes) => String::from_utf8(bytes).unwrap(),
        Ending::Reset => panic!("reset before it was read"),
    }
}

/// What a caller that sends this is answered, to its orderly end.
async fn answer_to(world: &World, bytes: &[u8]) -> String {
    let mut caller = world.say(bytes).await;
    text(&mut caller).await
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A world in which `api` is in that phase, and routed.
fn world(phase: &str, script: impl IntoIterator<Item = Dial>) -> World {
    world_with(phase, &json!({}), script)
}

/// The same, with more to say of its ManagedWorkload.
fn world_with(phase: &str, more: &Value, script: impl IntoIterator<Item = Dial>) -> World {
    let world = World::new(script);
    world.put(claimant(phase, "Routed", more));
    world
}

/// How long its callers are held.
fn max_wait(span: &str) -> Value {
    json!({ "spec": { "wake": { "maxWait": span } } })
}

/// It asks before waking.
fn asks() -> Value {
    json!({ "spec": { "wake": { "mode": "Ask" } } })
}

/// What a slice says of a pod.
fn serving(serving: bool) -> Value {
    json!({ "ready": serving, "serving": serving, "terminating": false })
}

/// A pod is Ready, and its slice says so.
fn ready_pod(world: &World) {
    world.cluster.put_pod("shop", "api-0", "10.1.0.9", true);
    world.put_slice(slice("api-1", &[("api-0", "10.1.0.9", serving(true))]));
}

/// How many callers of `api` ended that way.
fn wakes(world: &World, result: &str) -> String {
    let labels = format!("{{namespace=\"shop\",workload=\"api\",result=\"{result}\"}}");
    world.metric(&format!("napwake_doorman_wakes_total{labels}"))
}
