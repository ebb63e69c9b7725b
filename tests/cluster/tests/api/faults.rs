//! Operators that are killed, and an API server that is out of reach.

use std::time::Duration;

use napwake_api::{names::signal, workload::Phase};
use napwake_testkit::{Result, apps::App, ensure, managed, managed::PATIENCE, wait};
use napwake_tests_process::operator::Operator;

use crate::setup::{self, Stage, Target, course, slices};

/// How many workloads are under way when the operator dies.
const COUNT: usize = 6;

async fn make(stage: &Stage<'_>) -> Result<Vec<Target>> {
    let names: Vec<_> = (0..COUNT).map(|number| format!("w{number}")).collect();
    let apps: Vec<_> = names
        .iter()
        .map(|name| App::new(name, "http").replicas(2))
        .collect();
    futures::future::try_join_all(apps.iter().map(|app| stage.managed(app))).await
}

/// An operator that is killed in the midst of pauses and of wakes is taken over
/// from where it stood: all are paused and routed, and then all are awake with as
/// many replicas as before.
#[tokio::test]
async fn an_operator_killed_midway_is_taken_over() {
    setup::with("killed", async |stage| {
        let targets = make(stage).await?;
        let place = stage.place().clone();
        let asks = targets
            .iter()
            .map(|one| course::ask_to_pause(&place, &one.name));
        futures::future::try_join_all(asks).await?;
        until_written(&stage.operator, "/endpointslices").await?;
        stage.operator.replace(&[]).await?;
        let stops = targets.iter().map(Target::stops);
        futures::future::try_join_all(stops).await?;
        for target in &targets {
            managed::phase(&place, &target.name, Phase::Paused).await?;
            course::reason(&place, &target.name, "DoormanRouted").await?;
        }

        let scaled = writes_of(&stage.operator, "/scale");
        let asks = targets
            .iter()
            .map(|one| managed::ask_to_wake(&place, &one.name));
        futures::future::try_join_all(asks).await?;
        let probe = || async { Ok(writes_of(&stage.operator, "/scale")) };
        wait::until("a wake", PATIENCE, probe, |count| *count > scaled).await?;
        stage.operator.replace(&[]).await?;
        let starts = targets.iter().map(Target::starts);
        futures::future::try_join_all(starts).await?;
        for target in &targets {
            course::awake(&place, &target.name).await?;
            slices::until(&place, &target.name, 0).await?;
            ensure!(target.replicas().await? == 2, "{} has others", target.name);
            let mark = &target.get().await?.metadata.annotations.unwrap_or_default();
            ensure!(!mark.contains_key(signal::PAUSED_REPLICAS), "{mark:?}");
        }
        Ok(())
    })
    .await;
}

fn writes_of(operator: &Operator, path: &str) -> usize {
    let writes = operator.writes();
    writes.iter().filter(|one| one.path.contains(path)).count()
}

async fn until_written(operator: &Operator, path: &str) -> Result<()> {
    let what = format!("a write to {path}");
    let probe = || async { Ok(writes_of(operator, path)) };
    wait::until(&what, PATIENCE, probe, |count| *count > 0).await?;
    Ok(())
}

/// With the API server out of reach for so long that the Lease is lost, nothing
/// is done, and what was asked for meanwhile is done afterwards.
#[tokio::test]
async fn what_is_asked_for_during_an_outage_is_done_afterwards() {
    setup::with("outage", async |stage| {
        let place = stage.place();
        let target = stage.managed(&App::new("web", "http")).await?;
        course::sleep(place, &target).await?;
        stage.operator.way().cut();
        managed::ask_to_wake(place, "web").await?;
        let probe = || target.replicas();
        let outage = Duration::from_secs(12);
        wait::throughout("sleeping", outage, probe, |count| *count == 0).await?;
        stage.operator.way().mend();
        target.starts().await?;
        course::awake(place, "web").await?;
        Ok(())
    })
    .await;
}

/// T-78: one that is paused again while its route drains takes its own ports
/// back at once, and the drain ends.
#[tokio::test]
async fn one_that_is_paused_again_gets_its_port_back() {
    setup::with("again", async |stage| {
        let place = stage.place();
        let target = stage.managed(&App::new("web", "http")).await?;
        let first = course::doorman_ports(&course::sleep(place, &target).await?);
        course::wake(place, &target).await?;
        slices::until(place, "web", 0).await?;
        let again = course::sleep(place, &target).await?;
        ensure!(
            course::doorman_ports(&again) == first,
            "{first:?}: {again:#?}"
        );
        let routes = again.doorman.iter().flat_map(|doorman| &doorman.routes);
        let mut drains = routes.filter(|route| route.draining_until.is_some());
        ensure!(drains.next().is_none(), "{again:#?}");
        Ok(())
    })
    .await;
}
