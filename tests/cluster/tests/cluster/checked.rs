//! Health checks that the doorman knows.

use std::time::Duration;

use napwake_api::{names::signal, workload::Phase};
use napwake_testkit::{apps::App, ensure, managed, place, wait};
use serde_json::json;

use crate::{setup, steady};

/// How long it is looked at that it stays paused: a hundred checks.
const STAYS: Duration = Duration::from_secs(5);

/// CLASS-11: a checker that comes all the while keeps nothing awake. The pause goes on
/// though its checks are passed on for a while, the workload stays paused, and a request
/// of somebody else's wakes it.
#[tokio::test]
async fn a_running_checker_keeps_nothing_awake() {
    place::with("checked", async |place| {
        let spec = json!({"lookout": "3s"});
        // Serving on, it refuses nobody whom kube-proxy still sends it.
        let app = App::new("web", "http").arg("-serve-on=3s");
        setup::manage(&place, &app, spec).await?;
        let address = format!("{}:80", place.address("web").await?);
        setup::until_it_answers(&address).await?;
        let pauses = async {
            managed::pause_routed(&place, "web").await?;
            let phase = async || Ok(managed::status(&place, "web").await?.phase);
            let is_paused = |phase: &Option<Phase>| *phase == Some(Phase::Paused);
            wait::throughout("the pause", STAYS, phase, is_paused).await
        };
        let (checks, ()) = steady::PROBES.during(&address, pauses).await?;
        ensure!(checks > 100, "only {checks} checks");
        let stamp = managed::annotation(&place, "web", signal::LAST_REQUEST).await?;
        ensure!(stamp.is_none(), "a check woke it: {stamp:?}");
        setup::request(&place, "web").await?;
        managed::phase(&place, "web", Phase::Running).await?;
        Ok(())
    })
    .await;
}
