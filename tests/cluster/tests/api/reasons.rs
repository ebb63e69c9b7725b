//! Why a workload isn't routed, and what is left of that once it is awake.

use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams};
use napwake_testkit::{Result, apps::App, ensure};
use napwake_tests_process::{hosts::Family, operator::Operator};
use serde_json::{Value, json};

use crate::setup::{self, Stage, Target, course, doormen, slices};

/// Services before a workload's pods, and what becomes of them.
struct Case {
    /// The workload's name, which the Services' names begin with.
    name: &'static str,
    /// By the last part of its name, the fields that make it what it is.
    services: Vec<(&'static str, Value)>,
    reason: &'static str,
    /// What the message says among other things.
    says: &'static [&'static str],
    /// How many slices each Service has.
    slices: &'static [usize],
    /// The reason once it's awake again.
    awake: &'static str,
}

/// ROUTE-42, ROUTE-43: without a Service that selects it, or a TCP port of one
/// that isn't ignored, there's nothing to route. ROUTE-44, ROUTE-45, ROUTE-46: headless
/// Services, those without a selector, and ExternalNames aren't routed. ROUTE-49,
/// ROUTE-50, ROUTE-51, ROUTE-82: nor those with `internalTrafficPolicy: Local`. ROUTE-52,
/// ROUTE-53: nor is a family in which no doorman pod has an address (T-67).
/// T-68: of several reasons one is given, and every Service with its own cause.
/// ROUTE-76, ROUTE-77: awake, problems with Services stay and others don't.
/// ROUTE-78: the next pause meets them again.
#[tokio::test]
async fn what_cannot_be_routed_says_why() {
    setup::bare("reasons", async |world| {
        let doorman = doormen::process(world, 0).await?;
        doormen::service(&world.place).await?;
        // Its address in IPv6 is one that nobody is told of.
        doormen::pod(world, 0, &[Family::V4]).await?;
        let operator = Operator::start(world, &[]).await?;
        let stage = Stage {
            world,
            doorman,
            operator,
        };
        let cases = cases();
        let rounds = cases.iter().map(|case| go_round(&stage, case));
        futures::future::try_join_all(rounds).await?;
        Ok(())
    })
    .await;
}

async fn go_round(stage: &Stage<'_>, case: &Case) -> Result<()> {
    let place = stage.place();
    for (part, fields) in &case.services {
        place
            .create::<Service>(service(case.name, part, fields))
            .await?;
    }
    let target = stage
        .managed_alone(&App::new(case.name, "http"), json!({}))
        .await?;
    is_met(stage, case, &target).await?;
    course::wake(place, &target).await?;
    let kept = course::reason(place, case.name, case.awake).await?;
    ensure!(kept.status == "False", "{}: {kept:?}", case.name);
    let is_kept = kept.message.starts_with("at its last pause: ");
    ensure!(
        is_kept == (case.awake != "NotPaused"),
        "{}: {kept:?}",
        case.name
    );
    is_met(stage, case, &target).await
}

/// Pauses it and meets what the case says.
async fn is_met(stage: &Stage<'_>, case: &Case, target: &Target) -> Result<()> {
    let place = stage.place();
    course::pause(place, target).await?;
    let found = course::reason(place, case.name, case.reason).await?;
    let is_routed = case.reason == "DoormanRouted";
    ensure!(
        (found.status == "True") == is_routed,
        "{}: {found:?}",
        case.name
    );
    let is_fresh = !found.message.starts_with("at its last pause: ");
    ensure!(is_fresh, "{}: {found:?}", case.name);
    for says in case.says {
        ensure!(found.message.contains(says), "{}: {found:?}", case.name);
    }
    for ((part, _), expected) in case.services.iter().zip(case.slices) {
        let service = format!("{}{part}", case.name);
        let slices = slices::of(place, &service).await?;
        ensure!(slices.len() == *expected, "{service}: {slices:#?}");
    }
    Ok(())
}

/// A Service with these fields beside a selector and port 80.
fn service(name: &str, part: &str, fields: &Value) -> Value {
    let mut spec = json!({"selector": {"app": name}, "ports": [{"name": "http", "port": 80}]});
    for (field, value) in fields.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    let annotations = spec["annotations"].take();
    if let Some(spec) = spec.as_object_mut() {
        spec.retain(|_, value| !value.is_null());
    }
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": format!("{name}{part}"), "annotations": annotations}, "spec": spec,
    })
}

fn cases() -> Vec<Case> {
    let mut cases = absent();
    cases.extend(refused());
    cases.extend(partly());
    cases
}

/// Those that leave nothing to route.
fn absent() -> Vec<Case> {
    let ignored = json!({"annotations": {"napwake.dev/doorman-ignore-ports": "80"}});
    let udp = json!({"ports": [{"port": 53, "protocol": "UDP"}]});
    let external = json!({"type": "ExternalName", "externalName": "x.example"});
    let none = |name, services| Case {
        name,
        services,
        reason: "NoServices",
        says: &[],
        slices: &[0],
        awake: "NotPaused",
    };
    vec![
        none("nothing", vec![]),
        none("ignored", vec![("", ignored)]),
        none("udp", vec![("", udp)]),
        none("headless", vec![("", headless())]),
        none("unselected", vec![("", json!({"selector": null}))]),
        none("external", vec![("", external)]),
    ]
}

/// Those that can't be routed.
fn refused() -> Vec<Case> {
    vec![
        Case {
            name: "local",
            services: vec![("", local())],
            reason: "NodeLocalTraffic",
            says: &["local", "internalTrafficPolicy"],
            slices: &[0],
            awake: "NodeLocalTraffic",
        },
        Case {
            name: "v6",
            services: vec![("", json!({"ipFamilies": ["IPv6"]}))],
            reason: "UnsupportedIPFamily",
            says: &["v6", "family"],
            slices: &[0],
            awake: "UnsupportedIPFamily",
        },
        Case {
            name: "mixed",
            services: vec![("-a", headless()), ("-b", local())],
            reason: "NodeLocalTraffic",
            says: &[
                "Service mixed-a isn't routed",
                "Service mixed-b isn't routed",
            ],
            slices: &[0, 0],
            awake: "NodeLocalTraffic",
        },
    ]
}

/// Those of which a part is routed.
fn partly() -> Vec<Case> {
    let dual = json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]});
    vec![
        Case {
            name: "beside",
            services: vec![("", json!({})), ("-local", local())],
            reason: "DoormanRouted",
            says: &["requests are held", "Service beside-local isn't routed"],
            slices: &[1, 0],
            awake: "NotPaused",
        },
        Case {
            name: "dual",
            services: vec![("", dual)],
            reason: "DoormanRouted",
            says: &["requests are held", "Service dual isn't routed in IPv6"],
            slices: &[1],
            awake: "NotPaused",
        },
    ]
}

fn headless() -> Value {
    json!({"clusterIP": "None"})
}

fn local() -> Value {
    json!({"internalTrafficPolicy": "Local"})
}

/// ROUTE-40: each pause works it out anew. ROUTE-78: a Service that was mended is
/// routed at the next one, and nothing is left of its problem.
#[tokio::test]
async fn a_mended_service_is_routed_at_the_next_pause() {
    setup::with("mended", async |stage| {
        let place = stage.place();
        place
            .create::<Service>(service("web", "", &local()))
            .await?;
        let target = stage
            .managed_alone(&App::new("web", "http"), json!({}))
            .await?;
        course::pause(place, &target).await?;
        course::reason(place, "web", "NodeLocalTraffic").await?;
        course::wake(place, &target).await?;
        course::reason(place, "web", "NodeLocalTraffic").await?;
        let mended = Patch::Merge(json!({"spec": {"internalTrafficPolicy": "Cluster"}}));
        let services = place.api::<Service>();
        services
            .patch("web", &PatchParams::default(), &mended)
            .await?;
        course::sleep(place, &target).await?;
        ensure!(slices::of(place, "web").await?.len() == 1, "it's routed");
        course::wake(place, &target).await?;
        let awake = course::reason(place, "web", "NotPaused").await?;
        ensure!(!awake.message.contains("at its last pause"), "{awake:?}");
        Ok(())
    })
    .await;
}

/// SET-20, SET-21: with the doorman turned off nothing is routed, and the condition
/// says so. T-87: what was routed before loses its slices.
#[tokio::test]
async fn with_the_doorman_turned_off_nothing_is_routed() {
    setup::with("disabled", async |stage| {
        let target = stage.managed(&App::new("web", "http")).await?;
        course::sleep(stage.place(), &target).await?;
        stage.operator.replace(&["--doorman-service="]).await?;
        course::reason(stage.place(), "web", "DoormanDisabled").await?;
        slices::until(stage.place(), "web", 0).await?;
        course::wake(stage.place(), &target).await?;
        course::reason(stage.place(), "web", "NotPaused").await?;
        course::pause(stage.place(), &target).await?;
        let found = course::reason(stage.place(), "web", "DoormanDisabled").await?;
        ensure!(found.status == "False", "{found:?}");
        ensure!(
            slices::all(stage.place()).await?.is_empty(),
            "nothing is routed"
        );
        Ok(())
    })
    .await;
}

/// COMPAT-15: a Service with `externalTrafficPolicy: Local` is routed. NEG-01:
/// so is one with the annotation that GKE puts on every new Service.
#[tokio::test]
async fn services_that_clouds_have_marked_are_routed() {
    setup::with("clouds", async |stage| {
        let place = stage.place();
        let external = json!({"type": "NodePort", "externalTrafficPolicy": "Local"});
        let neg = json!({"annotations": {"cloud.google.com/neg": "{\"ingress\": true}"}});
        place
            .create::<Service>(service("web", "-external", &external))
            .await?;
        place
            .create::<Service>(service("web", "-neg", &neg))
            .await?;
        let target = stage
            .managed_alone(&App::new("web", "http"), json!({}))
            .await?;
        course::sleep(place, &target).await?;
        for name in ["web-external", "web-neg"] {
            ensure!(
                slices::of(place, name).await?.len() == 1,
                "{name} is routed"
            );
        }
        Ok(())
    })
    .await;
}
