//! In which order events are said, and what becomes of them at the end.

use k8s_openapi::api::core::v1::ObjectReference;
use napwake_api::names::event;
use napwake_cluster::events::{Kind, Limit};
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::fixtures::{Server, api, events};

fn notice(note: String) -> Notice {
    Notice {
        kind: Kind::Normal,
        reason: event::NO_READINESS_PROBE,
        action: "Manage",
        note,
        regarding: ObjectReference::default(),
        related: None,
        limit: Limit::None,
    }
}

/// Tells so many events, and `stop`s at once.
fn told(count: usize) -> (Telling, Server, CancellationToken) {
    let (client, server) = api();
    let (teller, telling) = teller(Arc::new(events(&client)));
    for number in 0..count {
        teller.tell(notice(number.to_string()));
    }
    let stop = CancellationToken::new();
    stop.cancel();
    (telling, server, stop)
}

/// All that was told before the end, each in its turn, though the end has come.
#[tokio::test(start_paused = true)]
async fn everything_is_said_in_order_before_the_end() {
    let (telling, mut server, stop) = told(3 * AT_ONCE);
    let answers = async {
        for number in 0..3 * AT_ONCE {
            let said = server.answer(201, json!({})).await;
            assert_eq!(said.body["note"], number.to_string());
        }
        server
    };
    let (Ok(()), server) = tokio::join!(telling.until(stop), answers);
    server.done().await;
}

/// The end waits for an API server that says nothing, but not for long.
#[tokio::test(start_paused = true)]
async fn the_end_comes_though_no_answer_does() {
    let (telling, mut server, stop) = told(2 * AT_ONCE);
    let begun = Instant::now();
    let silent = async {
        let mut silences = Vec::new();
        for _ in 0..AT_ONCE {
            silences.push(server.be_silent().await);
        }
        silences
    };
    let (Ok(()), silences) = tokio::join!(telling.until(stop), silent);
    assert_eq!(begun.elapsed(), LAST_WORDS);
    drop(silences);
    server.done().await;
}

/// One that is refused is lost, and the next is said.
#[tokio::test(start_paused = true)]
async fn a_refused_event_holds_up_none() {
    let (telling, mut server, stop) = told(2);
    let answers = async {
        server.refuse(403, "Forbidden").await;
        server.answer(201, json!({})).await;
        server
    };
    let (Ok(()), server) = tokio::join!(telling.until(stop), answers);
    server.done().await;
}

/// Where too many wait, whoever tells one more isn't held up.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_room() {
    let (telling, mut server, stop) = told(WAITING + 1);
    let answers = async {
        for _ in 0..WAITING {
            server.answer(201, json!({})).await;
        }
        server
    };
    let (Ok(()), server) = tokio::join!(telling.until(stop), answers);
    server.done().await;
}
