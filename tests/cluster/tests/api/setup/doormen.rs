//! Doormen: processes that listen, and the Pods and the Service by which an
//! operator finds them.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Service;
use napwake_api::names::pod as names;
use napwake_testkit::{Result, place::Place};
use napwake_tests_process::{
    doorman::{Doorman, MetricsOver},
    hosts::{Family, Host},
    route::Standing,
    world::World,
};
use serde_json::json;

use super::pods;

/// The Pod of the first doorman.
pub(crate) const FIRST: &str = "doorman-0";
/// The Pod of the second.
pub(crate) const SECOND: &str = "doorman-1";

/// Starts the first doorman, with its Pod and the doormen's Service.
pub(crate) async fn start(world: &World) -> Result<Doorman> {
    let doorman = process(world, 0).await?;
    service(&world.place).await?;
    pod(world, 0, &[Family::V4, Family::V6]).await?;
    Ok(doorman)
}

/// Starts the second one, with its Pod.
pub(crate) async fn start_second(world: &World) -> Result<Doorman> {
    let doorman = process(world, 1).await?;
    pod(world, 1, &[Family::V4, Family::V6]).await?;
    Ok(doorman)
}

/// Starts a doorman without a Pod.
pub(crate) async fn process(world: &World, number: u16) -> Result<Doorman> {
    // Its client's own lines would be most of them.
    let flags = ["--log-level=info,napwake_doorman=debug"];
    Doorman::start(world, Host::Doorman(number), &flags, MetricsOver::Http).await
}

/// The Service by which an operator finds them.
pub(crate) async fn service(place: &Place) -> Result<()> {
    place
        .create::<Service>(json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "napwake-doorman"},
            "spec": {
                "selector": {names::CONTROL_PLANE: names::DOORMAN},
                "ports": [{"name": "metrics", "port": 8443}],
            },
        }))
        .await?;
    Ok(())
}

/// The Ready Pod of a doorman, with addresses in these families.
pub(crate) async fn pod(world: &World, number: u16, families: &[Family]) -> Result<()> {
    let addresses = addresses(world, number, families);
    let labels = json!({names::CONTROL_PLANE: names::DOORMAN});
    let name = format!("doorman-{number}");
    pods::make(&world.place, &name, &labels, &addresses).await?;
    pods::stands(&world.place, &name, Standing::Ready).await
}

fn addresses(world: &World, number: u16, families: &[Family]) -> Vec<IpAddr> {
    let at = |family: &Family| Host::Doorman(number).at(world.block, *family);
    families.iter().map(at).collect()
}

/// The address of a doorman, as slices have it.
pub(crate) fn address(world: &World, number: u16, family: Family) -> String {
    Host::Doorman(number).at(world.block, family).to_string()
}
