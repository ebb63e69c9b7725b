//! What becomes of routes as doorman pods come and go.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use napwake_api::condition::ConditionType;
use napwake_testkit::{Result, apps::App, ensure, managed, managed::PATIENCE, place::Place, wait};
use napwake_tests_process::{
    hosts::{Family, Host},
    knocks::Knocks,
    route::Standing,
};
use serde_json::json;

use crate::setup::{self, Stage, Target, course, doormen, pods, slices};

/// Slices by name.
type Slices = BTreeMap<String, EndpointSlice>;

async fn by_name(place: &Place) -> Result<Slices> {
    let all = slices::all(place).await?.into_iter();
    Ok(all.map(|slice| (slice.name_any(), slice)).collect())
}

/// DRAIN-05: a doorman pod that leaves is taken from the slices, and the others
/// stay in them. DRAIN-06: nothing else of them changes, and none is made anew.
/// T-83: being deleted is leaving.
#[tokio::test]
async fn slices_move_away_from_a_pod_that_leaves() {
    setup::with("leaves", async |stage| {
        let _second = doormen::start_second(stage.world).await?;
        let place = stage.place();
        asleep(stage).await?;
        let before = by_name(place).await?;
        ensure!(before.len() == 4, "{before:#?}");
        let written = stage.operator.writes().len();
        pods::stands(place, doormen::SECOND, Standing::NotReady).await?;
        let after = until_at(stage, 4, &[0]).await?;
        ensure!(
            same_but_for_endpoints(&before, &after),
            "{before:#?} {after:#?}"
        );

        pods::stands(place, doormen::SECOND, Standing::Ready).await?;
        until_at(stage, 4, &[0, 1]).await?;
        pods::stands(place, doormen::SECOND, Standing::Terminating).await?;
        let after = until_at(stage, 4, &[0]).await?;
        ensure!(
            same_but_for_endpoints(&before, &after),
            "{before:#?} {after:#?}"
        );
        let writes = stage.operator.writes().split_off(written);
        let others = writes
            .iter()
            .filter(|one| one.path.contains("/endpointslices") && one.method != "PATCH");
        let others: Vec<_> = others.collect();
        ensure!(others.is_empty(), "made or deleted: {others:#?}");
        Ok(())
    })
    .await;
}

/// Two workloads that sleep, behind a Service of both families each.
async fn asleep(stage: &Stage<'_>) -> Result<Vec<Target>> {
    let ports = [("http", 80, 8080), ("ready", 81, 8081)];
    let mut targets = Vec::new();
    for name in ["web", "db"] {
        stage.serve(name, name, &ports, &["IPv4", "IPv6"]).await?;
        targets.push(
            stage
                .managed_alone(&App::new(name, "http"), json!({}))
                .await?,
        );
    }
    course::pause_all(stage.place(), &targets).await?;
    for target in &targets {
        course::reason(stage.place(), &target.name, "DoormanRouted").await?;
    }
    Ok(targets)
}

/// Waits until so many slices point at these doormen, and at no other.
async fn until_at(stage: &Stage<'_>, count: usize, numbers: &[u16]) -> Result<Slices> {
    let address = |family, number: &u16| doormen::address(stage.world, *number, family);
    let all = |family| {
        numbers
            .iter()
            .map(|one| address(family, one))
            .collect::<BTreeSet<_>>()
    };
    let (v4, v6) = (all(Family::V4), all(Family::V6));
    let is_there = |slice: &EndpointSlice| {
        let expected = if slice.address_type == "IPv4" {
            &v4
        } else {
            &v6
        };
        slices::addresses(slice) == *expected
    };
    let what = format!("{count} slices to point at the doormen {numbers:?}");
    let probe = || by_name(stage.place());
    wait::until(&what, PATIENCE, probe, |all| {
        all.len() == count && all.values().all(is_there)
    })
    .await
}

fn same_but_for_endpoints(before: &Slices, after: &Slices) -> bool {
    let rest = |slices: &Slices| -> Vec<_> {
        let slices = slices.values().cloned();
        slices
            .map(|mut slice| {
                slice.endpoints.clear();
                slice.metadata.resource_version = None;
                slice.metadata.generation = None;
                slice.metadata.managed_fields = None;
                slice
            })
            .collect()
    };
    rest(before) == rest(after)
}

/// DRAIN-07: many slices are moved at once: while none of these writes is
/// answered, as many are under way as there are slices.
#[tokio::test]
async fn many_slices_move_at_once() {
    const COUNT: usize = 12;
    setup::with("many", async |stage| {
        let _second = doormen::start_second(stage.world).await?;
        let place = stage.place();
        let names: Vec<_> = (0..COUNT).map(|number| format!("w{number}")).collect();
        let apps: Vec<_> = names.iter().map(|name| App::new(name, "http")).collect();
        let targets = apps.iter().map(|app| stage.managed(app));
        let targets = futures::future::try_join_all(targets).await?;
        course::pause_all(place, &targets).await?;
        until_at(stage, COUNT, &[0, 1]).await?;
        // Nothing else of theirs is left to be written, and held in its place.
        for target in &targets {
            course::reason(place, &target.name, "DoormanRouted").await?;
        }
        let before = stage.operator.writes().len();
        stage.operator.way().hold_patches();
        pods::stands(place, doormen::SECOND, Standing::NotReady).await?;
        let under_way = || async {
            let writes = stage.operator.writes().split_off(before);
            let slices = writes
                .iter()
                .filter(|one| one.path.contains("/endpointslices/"));
            Ok(slices.count())
        };
        let what = format!("{COUNT} writes under way");
        wait::until(&what, PATIENCE, under_way, |count| *count == COUNT).await?;
        stage.operator.way().mend();
        until_at(stage, COUNT, &[0]).await?;
        Ok(())
    })
    .await;
}

/// ROUTE-63: without a Ready doorman pod the reason is `DoormanUnavailable`.
/// ROUTE-64: the slices are gone until one is back, and then return.
#[tokio::test]
async fn without_a_ready_doorman_routes_are_gone_until_one_is_back() {
    setup::with("unavailable", async |stage| {
        let place = stage.place();
        let targets = asleep(stage).await?;
        pods::stands(place, doormen::FIRST, Standing::NotReady).await?;
        for target in &targets {
            let found = course::reason(place, &target.name, "DoormanUnavailable").await?;
            ensure!(found.status == "False", "{found:?}");
            slices::until(place, &target.name, 0).await?;
        }
        pods::stands(place, doormen::FIRST, Standing::Ready).await?;
        for target in &targets {
            course::reason(place, &target.name, "DoormanRouted").await?;
            slices::until(place, &target.name, 2).await?;
        }
        Ok(())
    })
    .await;
}

/// ROUTE-63: a pause without one isn't held up. ROUTE-77: awake, nothing of that
/// is left.
#[tokio::test]
async fn without_a_ready_doorman_a_pause_goes_on_unrouted() {
    setup::with("without", async |stage| {
        let place = stage.place();
        let target = stage.managed(&App::new("web", "http")).await?;
        pods::stands(place, doormen::FIRST, Standing::NotReady).await?;
        course::pause(place, &target).await?;
        course::reason(place, "web", "DoormanUnavailable").await?;
        course::wake(place, &target).await?;
        course::reason(place, "web", "NotPaused").await?;
        Ok(())
    })
    .await;
}

/// ROUTE-79: a doorman pod that is Ready and doesn't listen is connected to, and
/// isn't in the slice before it does.
#[tokio::test]
async fn a_pod_that_does_not_listen_is_not_in_the_slice() {
    setup::with("silent", async |stage| {
        let (place, world) = (stage.place(), stage.world);
        let v4 = Host::Doorman(1).at(world.block, Family::V4);
        let knocks = Knocks::count_at_any(v4, 20_000..=29_999).await?;
        doormen::pod(world, 1, &[Family::V4, Family::V6]).await?;
        let target = stage.managed(&App::new("web", "http")).await?;
        course::sleep(place, &target).await?;
        until_at(stage, 1, &[0]).await?;
        ensure!(
            knocks.so_far().await? > 0,
            "nobody asked whether it listens"
        );
        let _second = doormen::process(world, 1).await?;
        until_at(stage, 1, &[0, 1]).await?;
        Ok(())
    })
    .await;
}

/// ROUTE-61: once the workload is deleted its routes go. ROUTE-62: and the reason
/// of `TargetAvailable` is `TargetNotFound`. T-136: as what it counts then.
#[tokio::test]
async fn a_deleted_workload_loses_its_routes() {
    setup::with("deleted", async |stage| {
        let place = stage.place();
        let targets = asleep(stage).await?;
        targets[0].delete().await?;
        slices::until(place, &targets[0].name, 0).await?;
        let kind = ConditionType::TargetAvailable;
        let found = course::condition_is(place, "web", kind, "TargetNotFound").await?;
        ensure!(found.status == "False", "{found:?}");
        let wake = course::reason(place, "web", "NotPaused").await?;
        ensure!(wake.message.contains("isn't there"), "{wake:?}");
        let other = managed::status(place, "db").await?;
        ensure!(
            course::doorman_ports(&other).len() == 2,
            "the other stays: {other:#?}"
        );
        Ok(())
    })
    .await;
}

mod long {
    use std::time::Duration;

    use futures::{StreamExt as _, TryStreamExt as _, stream};
    use tokio::time::Instant;

    use super::*;

    /// As many Services of one port as a workload may have.
    const EACH: usize = 32;
    const WORKLOADS: usize = 32;
    /// Requests of the test's at once.
    const AT_ONCE: usize = 16;

    /// DRAIN-08: a thousand paused Services leave a doorman pod in ten seconds.
    #[tokio::test]
    async fn a_thousand_services_move_in_ten_seconds() {
        let flags = ["--ports-per-namespace=10000"];
        setup::with_flags("thousand", &flags, async |stage| {
            let _second = doormen::start_second(stage.world).await?;
            let place = stage.place();
            let names: Vec<_> = (0..WORKLOADS).map(|number| format!("w{number}")).collect();
            let services = names.iter().flat_map(|name| {
                let services = (0..EACH).map(move |number| (format!("{name}-{number}"), name));
                services.map(|(service, app)| {
                    let stage = &*stage;
                    async move { stage.serve(&service, app, &[setup::HTTP], &["IPv4"]).await }
                })
            });
            let made: Vec<_> = stream::iter(services)
                .buffer_unordered(AT_ONCE)
                .try_collect()
                .await?;
            let apps: Vec<_> = names.iter().map(|name| App::new(name, "http")).collect();
            let targets = apps.iter().map(|app| stage.managed_alone(app, json!({})));
            let targets: Vec<_> = stream::iter(targets)
                .buffer_unordered(AT_ONCE)
                .try_collect()
                .await?;
            course::pause_all(place, &targets).await?;
            until_at(stage, made.len(), &[0, 1]).await?;
            let left = Instant::now();
            pods::stands(place, doormen::SECOND, Standing::Terminating).await?;
            until_at(stage, made.len(), &[0]).await?;
            let took = left.elapsed();
            println!("{} Services moved in {took:.1?}", made.len());
            ensure!(
                took < Duration::from_secs(10),
                "{} Services took {took:.1?}",
                made.len()
            );
            Ok(())
        })
        .await;
    }
}
