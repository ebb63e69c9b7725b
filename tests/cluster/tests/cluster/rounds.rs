//! One request after the other, each to a freshly paused workload.

use std::time::Duration;

use futures::future::try_join_all;
use napwake_api::workload::Phase;
use napwake_testkit::{Context, Result, apps::App, ensure, managed, place, place::Place};
use serde_json::json;

use crate::setup;

/// How long an answer may take: the start-up of an app that starts at once, on
/// a machine where several others start too.
const SLOW: Duration = Duration::from_secs(45);

/// Lets workloads side by side be paused, and asked once, again and again.
async fn requests(workloads: usize, rounds: usize) {
    place::with("single", async |place| {
        let each = |number| one_after_the_other(&place, number, rounds);
        try_join_all((1..=workloads).map(each)).await?;
        Ok(())
    })
    .await;
}

async fn one_after_the_other(place: &Place, number: usize, rounds: usize) -> Result<()> {
    let app = App::new(&format!("web{number}"), "http");
    setup::manage(place, &app, json!({})).await?;
    for round in 1..=rounds {
        managed::pause_routed(place, &app.name).await?;
        let ended = setup::request(place, &app.name).await;
        let ended = ended.with_context(|| format!("request {round} to {}", app.name))?;
        ensure!(ended.took < SLOW, "request {round}: {ended:?}");
        managed::phase(place, &app.name, Phase::Running).await?;
    }
    Ok(())
}

/// HOLD-04: single requests, each to a freshly paused workload, are all
/// answered by the app, with no error of Napwake's and no retry.
#[tokio::test]
async fn every_single_request_is_answered_by_the_app() {
    requests(5, 2).await;
}

mod long {
    use super::*;

    /// HOLD-04: a hundred of them.
    #[tokio::test]
    async fn a_hundred_single_requests_are_answered_by_the_app() {
        requests(5, 20).await;
    }
}
