//! Conversations over real sockets, a scripted backend and a cluster in memory.

mod answered;
mod dialing;
mod ending;
mod holding;
mod passing;

use std::time::Duration;

use serde_json::{Value, json};

use crate::tests::{Dial, World, claimant, slice};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: api\r\nUser-Agent: curl/8\r\n\r\n";

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
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
