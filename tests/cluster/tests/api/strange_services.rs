//! Services that are unusual and allowed: they are routed like any other, or the
//! condition says why not, and none holds up a pause.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Service;
use napwake_testkit::{Result, apps::App, ensure, managed};
use serde_json::{Value, json};

use crate::setup::{self, Stage, Target, course, slices};

/// A workload behind a Service of its name with these ports.
async fn workload(stage: &Stage<'_>, name: &str, ports: &[Value]) -> Result<Target> {
    stage
        .place()
        .create::<Service>(json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"selector": {"app": name}, "ports": ports},
        }))
        .await?;
    let app = App::new(name, "http");
    stage.managed_alone(&app, json!({})).await
}

fn many(count: u16) -> Vec<Value> {
    let port = |number| json!({"name": format!("p{number}"), "port": 1_000 + number});
    (0..count).map(port).collect()
}

/// ROUTE-04: ports with one target have doorman ports of their own all the same.
/// ROUTE-01: a named target that no container has is the pods' business.
#[tokio::test]
async fn odd_targets_are_routed() {
    setup::with("targets", async |stage| {
        let place = stage.place();
        let twice = [
            json!({"name": "a", "port": 80, "targetPort": 8080}),
            json!({"name": "b", "port": 81, "targetPort": 8080}),
        ];
        let nowhere = [json!({"name": "a", "port": 80, "targetPort": "nothing-of-it"})];
        for (name, ports) in [("twice", &twice[..]), ("nowhere", &nowhere[..])] {
            let target = workload(stage, name, ports).await?;
            course::sleep(place, &target).await?;
            let found = slices::until(place, name, 1).await?;
            let numbers: BTreeSet<_> = slices::ports(&found[0])
                .into_iter()
                .map(|(_, number)| number)
                .collect();
            ensure!(numbers.len() == ports.len(), "{name}: {found:#?}");
            course::wake(place, &target).await?;
            slices::until(place, name, 0).await?;
        }
        Ok(())
    })
    .await;
}

/// ROUTE-67: a Service of a hundred ports is over the cap, and its workload pauses
/// and wakes all the same (ROUTE-38, ROUTE-39).
#[tokio::test]
async fn a_service_of_a_hundred_ports_is_over_the_cap() {
    setup::with("hundred", async |stage| {
        let place = stage.place();
        let target = workload(stage, "web", &many(100)).await?;
        course::pause(place, &target).await?;
        let found = course::reason(place, "web", "TooManyPorts").await?;
        let says = "100 doorman ports, over the 32";
        ensure!(found.message.contains(says), "{found:?}");
        ensure!(slices::all(place).await?.is_empty(), "it's routed");
        course::wake(place, &target).await?;
        Ok(())
    })
    .await;
}

/// SET-23: with the cap raised it's routed, by one slice.
#[tokio::test]
async fn with_the_cap_raised_a_slice_has_a_hundred_ports() {
    let flags = ["--ports-per-workload=100"];
    setup::with_flags("raised", &flags, async |stage| {
        let place = stage.place();
        let target = workload(stage, "web", &many(100)).await?;
        course::sleep(place, &target).await?;
        let found = slices::until(place, "web", 1).await?;
        let named = slices::ports(&found[0]).len();
        ensure!(named == 100, "{named} ports");
        let ports = course::doorman_ports(&managed::status(place, "web").await?);
        let ports: BTreeSet<_> = ports.into_iter().collect();
        ensure!(ports.len() == 100, "{ports:?}");
        course::wake(place, &target).await?;
        slices::until(place, "web", 0).await?;
        Ok(())
    })
    .await;
}
