//! The route of a workload through a pause and a wake: what is written, where it
//! points, and what stays as it is.

use std::collections::BTreeSet;

use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::ResourceExt;
use napwake_api::names::{self, signal};
use napwake_testkit::{
    Context, Result,
    apps::{App, Kind, service},
    ensure,
    managed::{self, PATIENCE},
    place::Place,
    wait,
};
use napwake_tests_process::{hosts::Family, operator::Operator, world::World};
use serde_json::json;

use crate::setup::{self, HTTP, Stage, Target, course, doormen, slices};

/// ROUTE-01: a slice on each Service that selects the pods, and on no other.
/// ROUTE-02: one for each family. ROUTE-03: they point at the Ready doorman
/// pods. ROUTE-04: each Service port has a doorman port of its own.
/// ROUTE-05, ROUTE-06: the Service and its cluster addresses stay as they are.
/// ROUTE-12: the slices stand before the pods stop. ROUTE-14: awake, they go.
/// ROUTE-15: what the condition says. ROUTE-69: their names. ROUTE-75: what it
/// says of one that is awake. ROUTE-80: the connect checks wake nothing, and call
/// no pause off. COMPAT-03: they carry what readers go by.
#[tokio::test]
async fn a_pause_routes_each_service_that_selects_its_pods() {
    setup::with("routes", async |stage| {
        let _second = doormen::start_second(stage.world).await?;
        let targets = make(stage).await?;
        let place = stage.place();
        for target in &targets {
            course::reason(place, &target.name, "NotPaused").await?;
        }
        let before = services(place).await?;

        course::pause_all(place, &targets).await?;
        for target in &targets {
            let routed = course::reason(place, &target.name, "DoormanRouted").await?;
            ensure!(routed.status == "True", "{routed:?}");
            let says = "requests are held and wake the workload";
            ensure!(routed.message == says, "{routed:?}");
            let stamp = managed::annotation(place, &target.name, signal::LAST_REQUEST).await?;
            ensure!(stamp.is_none(), "the connect check woke it: {stamp:?}");
        }
        until_they_name_both(place).await?;
        slices_are_right(stage.world).await?;
        slices_came_first(&stage.operator)?;

        course::wake_all(place, &targets).await?;
        for target in &targets {
            course::reason(place, &target.name, "NotPaused").await?;
        }
        ensure!(slices::all(place).await?.is_empty(), "slices stayed");
        ensure!(before == services(place).await?, "a Service has changed");
        Ok(())
    })
    .await;
}

/// `web` behind `web` and the dual-stack `both`, and `db` behind `db`; nobody
/// behind `other`.
async fn make(stage: &Stage<'_>) -> Result<Vec<Target>> {
    let two = [("http", 80, 8080), ("ready", 81, 8081)];
    stage.serve("web", "web", &[HTTP], &["IPv4"]).await?;
    stage.serve("both", "web", &two, &["IPv4", "IPv6"]).await?;
    stage.serve("db", "db", &[HTTP], &["IPv6"]).await?;
    stage.serve("other", "nobody", &[HTTP], &["IPv4"]).await?;
    let targets = ["web", "db"].map(|name| async move {
        let app = App::new(name, "http").replicas(2);
        stage.managed_alone(&app, json!({})).await
    });
    futures::future::try_join_all(targets).await
}

/// Each Service's name, version and addresses.
async fn services(place: &Place) -> Result<Vec<(String, Option<String>, Vec<String>)>> {
    let mut found = Vec::new();
    for name in ["web", "both", "db", "other"] {
        let service = place.api::<Service>().get(name).await?;
        let addresses = place.addresses(name).await?;
        ensure!(!addresses.is_empty(), "{name} has addresses");
        found.push((name.to_owned(), service.resource_version(), addresses));
    }
    Ok(found)
}

/// Waits until each slice names both doormen: one that is long in listening comes later.
async fn until_they_name_both(place: &Place) -> Result<()> {
    let probe = || slices::all(place);
    let name_both = |found: &Vec<EndpointSlice>| {
        let mut counts = found.iter().map(|one| slices::addresses(one).len());
        counts.all(|count| count == 2)
    };
    wait::until("both doormen in each slice", PATIENCE, probe, name_both).await?;
    Ok(())
}

async fn slices_are_right(world: &World) -> Result<()> {
    let place = &world.place;
    let families = |slices: &[EndpointSlice]| -> BTreeSet<String> {
        slices.iter().map(|one| one.address_type.clone()).collect()
    };
    let (v4, v6) = ("IPv4".to_owned(), "IPv6".to_owned());
    let mut used = BTreeSet::new();
    for (service, expected, ports) in [
        ("web", BTreeSet::from([v4.clone()]), vec![""]),
        (
            "both",
            BTreeSet::from([v4, v6.clone()]),
            vec!["http", "ready"],
        ),
        ("db", BTreeSet::from([v6]), vec![""]),
        ("other", BTreeSet::new(), vec![]),
    ] {
        let found = slices::of(place, service).await?;
        ensure!(found.len() == expected.len(), "{service}: {found:#?}");
        ensure!(families(&found) == expected, "{service}: {found:#?}");
        for slice in &found {
            slice_is_right(world, service, slice)?;
            let names: Vec<_> = slices::ports(slice).into_iter().map(|one| one.0).collect();
            ensure!(names == ports, "{service}: {slice:#?}");
        }
        let numbers = found.iter().flat_map(slices::ports);
        let numbers: BTreeSet<i32> = numbers.map(|one| one.1).collect();
        let is_whole = found.is_empty() || numbers.len() == ports.len();
        ensure!(
            is_whole,
            "one for each port, whatever the family: {found:#?}"
        );
        for number in numbers {
            ensure!((20_000..=29_999).contains(&number), "{service}: {number}");
            ensure!(used.insert(number), "{number} is used twice");
        }
    }
    Ok(())
}

fn slice_is_right(world: &World, service: &str, slice: &EndpointSlice) -> Result<()> {
    let family = if slice.address_type == "IPv6" {
        Family::V6
    } else {
        Family::V4
    };
    let doormen = [0, 1].map(|number| doormen::address(world, number, family));
    ensure!(slices::addresses(slice) == doormen.into(), "{slice:#?}");
    let name = slice.name_any();
    let hash = name.strip_prefix(&format!("{service}-o"));
    let is_hash = hash.is_some_and(|hash| {
        !hash.is_empty() && hash.chars().all(|letter| letter.is_ascii_hexdigit())
    });
    ensure!(is_hash, "its name is {name}");
    for endpoint in &slice.endpoints {
        let ready = endpoint.conditions.as_ref().and_then(|one| one.ready);
        let pod = endpoint
            .target_ref
            .as_ref()
            .and_then(|one| one.kind.as_deref());
        ensure!(ready == Some(true), "{endpoint:#?}");
        ensure!(pod == Some("Pod"), "{endpoint:#?}");
        ensure!(endpoint.node_name.is_some(), "{endpoint:#?}");
    }
    Ok(())
}

/// By the operator's own requests: each workload's slices were made before it
/// was scaled.
fn slices_came_first(operator: &Operator) -> Result<()> {
    let writes = operator.writes();
    let made = |service: &str| {
        let is_it = |index: &usize| {
            let write = &writes[*index];
            let named = &write.body["metadata"]["labels"][names::slice::SERVICE_NAME];
            let is_new = write.method == "POST" && write.path.contains("/endpointslices");
            is_new && named == service
        };
        (0..writes.len()).rfind(is_it)
    };
    let scaled = |target: &str| {
        let path = format!("/deployments/{target}/scale");
        writes.iter().position(|write| write.path.contains(&path))
    };
    for (service, target) in [("web", "web"), ("both", "web"), ("db", "db")] {
        let made = made(service).context("the slices were written")?;
        let scaled = scaled(target).context("it was scaled")?;
        ensure!(made < scaled, "{service}: {made} and then {scaled}");
    }
    Ok(())
}

/// ROUTE-16: in Ask the condition says so, with the same status and reason.
#[tokio::test]
async fn in_ask_the_condition_says_that_a_person_is_asked() {
    setup::with("ask", async |stage| {
        stage.serve("web", "web", &[HTTP], &["IPv4"]).await?;
        let spec = json!({"wake": {"mode": "Ask"}});
        let target = stage.managed_alone(&App::new("web", "http"), spec).await?;
        course::sleep(stage.place(), &target).await?;
        let says = "the doorman asks a person's browser before waking the workload, \
                    and turns away other requests";
        let routed = course::reason(stage.place(), "web", "DoormanRouted").await?;
        ensure!(
            routed.message == says && routed.status == "True",
            "{routed:?}"
        );
        Ok(())
    })
    .await;
}

/// ROUTE-31: once every workload behind a Service is paused, it is routed, with
/// one slice whichever of them sleeps (T-76). ROUTE-28: it's routed no more once
/// one of them is awake, though the other sleeps on.
#[tokio::test]
async fn a_service_of_two_paused_workloads_is_routed_once() {
    setup::with("shared", async |stage| {
        let place = stage.place();
        let mut manifest = service("both", "any", &[HTTP], &["IPv4"]);
        manifest["spec"]["selector"] = json!({"tier": "web"});
        place.create::<Service>(manifest).await?;
        let targets = ["one", "two"].map(|name| in_tier(stage, name));
        let targets = futures::future::try_join_all(targets).await?;
        course::pause_all(place, &targets).await?;
        let mut ports = BTreeSet::new();
        for target in &targets {
            course::reason(place, &target.name, "DoormanRouted").await?;
            ports.extend(course::doorman_ports(
                &managed::status(place, &target.name).await?,
            ));
        }
        ensure!(ports.len() == 1, "both go by one doorman port: {ports:?}");
        let found = slices::until(place, "both", 1).await?;
        let named: BTreeSet<_> = slices::ports(&found[0])
            .into_iter()
            .map(|one| one.1)
            .collect();
        ensure!(named.len() == 1, "{found:#?}");

        course::wake(place, &targets[0]).await?;
        course::reason(place, &targets[0].name, "NotPaused").await?;
        slices::until(place, "both", 0).await?;
        course::reason(place, &targets[1].name, "ServedByOtherPods").await?;
        Ok(())
    })
    .await;
}

/// A workload whose pods carry the label `tier: web`, too.
async fn in_tier(stage: &Stage<'_>, name: &str) -> Result<Target> {
    let mut manifest = App::new(name, "http").manifest();
    manifest["spec"]["template"]["metadata"]["labels"]["tier"] = json!("web");
    let target = Target::make(stage.place(), Kind::Deployment, manifest).await?;
    managed::manage(stage.place(), "Deployment", name, json!({})).await?;
    course::awake(stage.place(), name).await?;
    Ok(target)
}

/// ROUTE-35: the operator watches no EndpointSlices but Napwake's own, and no
/// Pods but the doorman's. Others' are read at a pause and at a wake, for its
/// Services alone.
#[tokio::test]
async fn the_operator_keeps_no_endpoints_of_others() {
    setup::with("cache", async |stage| {
        let target = stage.managed(&App::new("web", "http")).await?;
        course::sleep(stage.place(), &target).await?;
        let at_the_pause = others(stage)?;
        let pods = read(stage, "pods?");
        let its = |path: &String| path.contains("labelSelector=app%3Dweb");
        let watched: Vec<_> = pods.iter().filter(|path| !its(path)).collect();
        let doormen = format!("/namespaces/{}/pods?", stage.place().namespace);
        let is_doormens = |path: &&String| path.contains(&doormen);
        ensure!(
            !watched.is_empty() && watched.iter().all(is_doormens),
            "{pods:#?}"
        );

        course::wake(stage.place(), &target).await?;
        slices::until(stage.place(), "web", 0).await?;
        ensure!(others(stage)? > at_the_pause, "read once more at the wake");
        Ok(())
    })
    .await;
}

/// How many slices that aren't Napwake's the operator has asked for: each time for a
/// list of those of the Service `web`.
fn others(stage: &Stage<'_>) -> Result<usize> {
    let ours = "labelSelector=endpointslice.kubernetes.io%2Fmanaged-by%3Dnapwake.dev";
    let mut others = read(stage, "endpointslices");
    others.retain(|path| !path.contains(ours));
    let its = "kubernetes.io%2Fservice-name+in+%28web%29";
    let is_list = |path: &String| path.contains(its) && !path.contains("watch=");
    ensure!(
        !others.is_empty() && others.iter().all(is_list),
        "{others:#?}"
    );
    Ok(others.len())
}

/// What the operator has read of this kind so far.
fn read(stage: &Stage<'_>, kind: &str) -> Vec<String> {
    let kind = format!("/{kind}");
    let asked = stage.operator.way().asked();
    let read = asked.into_iter().filter(|one| one.method == "GET");
    let paths = read.map(|one| one.path);
    paths.filter(|path| path.contains(&kind)).collect()
}
