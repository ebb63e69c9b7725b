//! Another operator leads: what was begun is finished, and nothing is lost.

use std::time::Duration;

use futures::future::try_join_all;
use kube::ResourceExt;
use napwake_api::{
    ManagedWorkload,
    workload::{DoormanStatus, Phase},
};
use napwake_testkit::{Context, Result, apps::App, ensure, managed, place, place::Place, wait};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    own::{Own, Part},
    setup, slices,
};

/// DRAIN-10: an operator that is restarted hands over, and the next leader acts
/// within seconds.
#[tokio::test]
async fn a_new_leader_acts_within_seconds() {
    place::with("leader", async |place| {
        let own = Own::of(&place);
        own.until_whole(Part::Operator).await?;
        setup::asleep(&place, &App::new("web", "http")).await?;
        let leader = own.another_leader(None).await?;
        let begun = Instant::now();
        own.delete(&leader).await?;
        own.another_leader(Some(&leader)).await?;
        let leads = begun.elapsed();
        managed::ask_to_wake(&place, "web").await?;
        managed::phase(&place, "web", Phase::Resuming).await?;
        let acts = begun.elapsed();
        ensure!(
            acts < Duration::from_secs(10),
            "another led after {leads:?} and acted after {acts:?}"
        );
        managed::phase(&place, "web", Phase::Running).await?;
        own.until_whole(Part::Operator).await
    })
    .await;
}

/// Within how long after a round's start the leader is killed: a round takes
/// about as long when nobody is.
const ROUND: Duration = Duration::from_secs(8);

/// What is left of a route once its minute is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leftovers {
    /// Ports may still drain or rest.
    Resting,
    /// Nothing at all.
    None,
}

/// Pauses and wakes workloads again and again, while the operator that leads is
/// killed at a random moment of each round.
async fn killed_rounds(rounds: usize, leftovers: Leftovers) {
    place::with("killed", async |place| {
        let own = Own::of(&place);
        let apps = [
            App::new("one", "http"),
            App::new("two", "http").replicas(2),
            App::new("set", "http").stateful(),
        ];
        try_join_all(apps.iter().map(|app| setup::manage(&place, app, json!({})))).await?;
        let mut random = StdRng::seed_from_u64(seed()?);
        for round in 1..=rounds {
            let after = ROUND.mul_f64(random.random());
            eprintln!("round {round}: the leader is killed {after:?} after its start");
            let kill = async {
                sleep(after).await;
                own.kill(&own.another_leader(None).await?).await
            };
            let woken = try_join_all(apps.iter().map(|app| pause_and_wake(&place, app)));
            let both = tokio::try_join!(kill, woken);
            both.with_context(|| format!("round {round}, the leader killed after {after:?}"))?;
        }
        try_join_all(apps.iter().map(|app| is_as_before(&place, app, leftovers))).await?;
        let left = slices::ours(&place).await?;
        ensure!(left.is_empty(), "slices left over: {left:?}");
        own.until_whole(Part::Operator).await
    })
    .await;
}

/// What the moments come from: printed, so that a run can be had again.
fn seed() -> Result<u64> {
    let seed = match std::env::var("NAPWAKE_SEED") {
        Ok(text) => text.parse().context("NAPWAKE_SEED is a number")?,
        Err(_) => managed::now().as_microsecond().unsigned_abs(),
    };
    eprintln!("NAPWAKE_SEED={seed}");
    Ok(seed)
}

/// One pause, one request that the doorman holds, and its wake.
async fn pause_and_wake(place: &Place, app: &App) -> Result<()> {
    let name = &app.name;
    managed::pause_routed(place, name).await?;
    setup::request(place, name).await?;
    managed::phase(place, name, Phase::Running).await?;
    let replicas = setup::replicas(place, app).await?;
    ensure!(replicas == Some(app.replicas), "{name} has {replicas:?}");
    Ok(())
}

/// It runs with the replicas it had, and nothing of its pauses is left but
/// what `leftovers` allows.
async fn is_as_before(place: &Place, app: &App, leftovers: Leftovers) -> Result<()> {
    managed::wake_reason(place, &app.name, "NotPaused").await?;
    let probe = async || {
        let found = place.api::<ManagedWorkload>().get(&app.name).await?;
        let finalizers = found.finalizers().to_vec();
        let doorman = found.status.and_then(|status| status.doorman);
        Ok((doorman.unwrap_or_default(), finalizers))
    };
    let what = format!("the ports and finalizer of {} to be given back", app.name);
    let is_gone = |(doorman, finalizers): &(DoormanStatus, Vec<String>)| match leftovers {
        Leftovers::Resting => doorman
            .routes
            .iter()
            .all(|route| route.draining_until.is_some()),
        Leftovers::None => *doorman == DoormanStatus::default() && finalizers.is_empty(),
    };
    // 30 s of draining, a minute of rest, and some.
    wait::until(&what, Duration::from_mins(2), probe, is_gone).await?;
    let status = managed::status(place, &app.name).await?;
    ensure!(status.phase == Some(Phase::Running), "{status:?}");
    let replicas = setup::replicas(place, app).await?;
    ensure!(replicas == Some(app.replicas), "{replicas:?}: {status:?}");
    Ok(())
}

/// LIFE-21, HOLD-04: with the operator that leads killed by SIGKILL in each
/// round, requests that the doorman holds are answered, nobody is left at zero
/// or with other replicas, and no slice is left over.
#[tokio::test]
async fn killed_again_and_again_the_operator_loses_nothing() {
    killed_rounds(3, Leftovers::Resting).await;
}

mod long {
    use super::*;

    /// HOLD-04, DRAIN-10, DRAIN-22: fifty such rounds; then, after their
    /// minute, no port and no finalizer is left over either.
    #[tokio::test]
    async fn killed_fifty_times_the_operator_loses_nothing() {
        killed_rounds(50, Leftovers::None).await;
    }
}
