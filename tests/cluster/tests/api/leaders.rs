//! Two operators of which one leads.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use napwake_api::names::LEADER_LEASE;
use napwake_testkit::{
    Context, Result,
    apps::App,
    ensure,
    managed::{self, PATIENCE},
    place::Place,
    wait,
};
use napwake_tests_process::operator::Operator;
use tokio::time::Instant;

use crate::setup::{self, course};

/// How long a Lease is good for once nobody renews it, with one more look.
const EXPIRES: Duration = Duration::from_secs(7);

/// What a write and its being seen may take on a busy machine.
const SLACK: Duration = Duration::from_secs(3);

/// Whose Lease it is.
async fn leader(place: &Place) -> Result<Option<String>> {
    let lease = place.api::<Lease>().get_opt(LEADER_LEASE).await?;
    let spec = lease.and_then(|lease| lease.spec);
    Ok(spec.and_then(|spec| spec.holder_identity))
}

/// Waits until a process of this name leads.
async fn until_led_by(place: &Place, name: &str) -> Result<()> {
    let what = format!("{name} to lead");
    let is_it = |leader: &Option<String>| {
        let leader = leader.as_ref();
        leader.is_some_and(|leader| leader.starts_with(name))
    };
    wait::until(&what, PATIENCE, || leader(place), is_it).await?;
    Ok(())
}

/// DRAIN-10: when the leader's node fails, another one acts within a few seconds.
#[tokio::test]
async fn a_leader_that_vanishes_has_a_successor_within_seconds() {
    setup::with("vanishes", async |stage| {
        let place = stage.world.place.clone();
        until_led_by(&place, "operator-1").await?;
        let second = Operator::start_second(stage.world, &[]).await?;
        let target = stage.managed(&App::new("web", "http")).await?;
        course::sleep(&place, &target).await?;
        stage.operator.kill().await?;
        let killed = Instant::now();
        managed::ask_to_wake(&place, "web").await?;
        target.is_started().await?;
        // Not when the test sees it but when it was asked for.
        let mut writes = second.writes().into_iter();
        let scaled = writes.find(|one| one.path.contains("/scale"));
        let took = scaled.context("the successor scaled it")?.at - killed;
        ensure!(took < EXPIRES + SLACK, "the successor acted after {took:?}");
        until_led_by(&place, "second-1").await
    })
    .await;
}

/// DRAIN-10: one that is told to stop gives its Lease back, and the other one
/// acts without waiting for it to expire.
#[tokio::test]
async fn a_leader_that_stops_gives_its_lease_back() {
    setup::with("stops", async |stage| {
        let place = stage.world.place.clone();
        until_led_by(&place, "operator-1").await?;
        let second = Operator::start_second(stage.world, &[]).await?;
        let target = stage.managed(&App::new("web", "http")).await?;
        course::sleep(&place, &target).await?;
        let told = Instant::now();
        let status = stage.operator.stop().await?;
        ensure!(status.success(), "it ended with {status}");
        let held = leader(&place).await?.unwrap_or_default();
        ensure!(!held.starts_with("operator-1"), "{held} has it still");
        managed::ask_to_wake(&place, "web").await?;
        target.is_started().await?;
        let mut writes = second.writes().into_iter();
        let scaled = writes.find(|one| one.path.contains("/scale"));
        let took = scaled.context("the other one scaled it")?.at - told;
        ensure!(took < SLACK + SLACK, "the other one acted after {took:?}");
        let leader = leader(&place).await?.context("a leader")?;
        ensure!(leader.starts_with("second-1"), "{leader} leads");
        Ok(())
    })
    .await;
}
