//! Opting in by label, and the settings that come with it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use napwake_api::{
    ManagedWorkload,
    workload::{Phase, WakeMode},
};
use napwake_testkit::{
    Context, Result,
    apps::{App, Kind},
    ensure,
    managed::{self, PATIENCE},
    place::Place,
    wait,
};
use napwake_tests_process::{SOON, caller::Caller, hosts::Family};
use serde_json::{Value, json};

use crate::setup::{self, HTTP, Stage, Target, course, events, slices};

/// A workload with more labels and annotations, and its Service.
async fn marked(stage: &Stage<'_>, name: &str, marks: &Value) -> Result<Target> {
    let mut manifest = App::new(name, "http").manifest();
    manifest["metadata"]["annotations"]["napwake.dev/lookout"] = json!("0s");
    for map in ["labels", "annotations"] {
        for (key, value) in marks[map].as_object().into_iter().flatten() {
            manifest["metadata"][map][key] = value.clone();
        }
    }
    stage.serve(name, name, &[HTTP], &["IPv4"]).await?;
    Target::make(stage.place(), Kind::Deployment, manifest).await
}

/// Changes the namespace's labels or annotations.
async fn mark_namespace(place: &Place, marks: &Value) -> Result<()> {
    let api: Api<Namespace> = Api::all(place.client.clone());
    let patch = Patch::Merge(json!({"metadata": marks}));
    api.patch(&place.namespace, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

/// Waits until there is such a ManagedWorkload, and reads it.
async fn until_made(place: &Place, name: &str) -> Result<ManagedWorkload> {
    let api = place.api::<ManagedWorkload>();
    let what = format!("a ManagedWorkload {name}");
    let probe = || async { Ok(api.get_opt(name).await?) };
    let found = wait::until(&what, PATIENCE, probe, Option::is_some).await?;
    found.context("a ManagedWorkload")
}

/// LIFE-18: a workload is managed by a ManagedWorkload of its own, by a label on
/// it, or by one on its namespace: in each way it's routed and wakes. LIFE-19:
/// `napwake.dev/ignore`, as label or annotation, keeps it out.
#[tokio::test]
async fn all_three_ways_in_lead_to_a_route_and_a_wake() {
    setup::with("ways", async |stage| {
        let place = stage.place();
        let yes = json!({"napwake.dev/managed": "true"});
        let ignore = json!({"napwake.dev/ignore": "true"});
        let by_hand = stage.managed(&App::new("hand", "http")).await?;
        let by_label = marked(stage, "own", &json!({"labels": yes})).await?;
        let by_namespace = marked(stage, "inside", &json!({})).await?;
        marked(stage, "out-label", &json!({"labels": ignore})).await?;
        marked(stage, "out-note", &json!({"annotations": ignore})).await?;
        let made = until_made(place, "own").await?;
        let owner = made.owner_references().first().context("its owner")?;
        ensure!(
            owner.kind == "Deployment" && owner.name == "own",
            "{owner:?}"
        );
        ensure!(
            !course::is_there(place, "inside").await?,
            "nobody has asked for it"
        );
        mark_namespace(place, &json!({"labels": yes})).await?;
        until_made(place, "inside").await?;

        let rounds = [by_hand, by_label, by_namespace].map(|target| go_round(place, target));
        futures::future::try_join_all(rounds).await?;
        for name in ["out-label", "out-note"] {
            ensure!(!course::is_there(place, name).await?, "{name} is kept out");
        }
        Ok(())
    })
    .await;
}

async fn go_round(place: &Place, target: Target) -> Result<()> {
    course::awake(place, &target.name).await?;
    course::sleep(place, &target).await?;
    slices::until(place, &target.name, 1).await?;
    course::wake(place, &target).await?;
    slices::until(place, &target.name, 0).await?;
    Ok(())
}

/// What a workload's own annotation says, what its namespace's does, and how it is
/// woken then.
type Setting = (Option<&'static str>, Option<&'static str>, WakeMode);

const SETTINGS: &[Setting] = &[
    (None, None, WakeMode::Request),
    (Some("request"), None, WakeMode::Request),
    (Some("ask"), None, WakeMode::Ask),
    (Some("Ask"), None, WakeMode::Ask),
    (Some("true"), None, WakeMode::Ask),
    (None, Some("ask"), WakeMode::Ask),
    (Some("request"), Some("ask"), WakeMode::Request),
    (Some("ask"), Some("ask"), WakeMode::Ask),
    (None, Some("request"), WakeMode::Request),
    (Some("ask"), Some("request"), WakeMode::Ask),
    (Some("Ask"), Some("request"), WakeMode::Ask),
    (None, Some("Request"), WakeMode::Ask),
];

/// SET-03, SET-04: `napwake.dev/wake` on the workload, or on its namespace, says
/// who wakes it. SET-05: by exactly `request` or `ask`. SET-08: the workload's own
/// wins, then its namespace's, then the default. SET-09, SET-11: one that can't be
/// read asks, whatever the namespace says. SET-10: a warning on the workload says
/// so.
#[tokio::test]
async fn the_wake_setting_is_the_workloads_then_the_namespaces_then_the_default() {
    setup::with("settings", async |stage| {
        let place = stage.place();
        for of_namespace in [None, Some("ask"), Some("request"), Some("Request")] {
            let annotations = json!({"napwake.dev/wake": of_namespace});
            mark_namespace(place, &json!({"annotations": annotations})).await?;
            let fitting = SETTINGS.iter().enumerate();
            for (number, setting) in fitting.filter(|(_, one)| one.1 == of_namespace) {
                has_mode(stage, &format!("w{number}"), setting).await?;
            }
        }
        Ok(())
    })
    .await;
}

async fn has_mode(stage: &Stage<'_>, name: &str, setting: &Setting) -> Result<()> {
    let (own, of_namespace, expected) = *setting;
    let place = stage.place();
    marked(stage, name, &opted_in(own)).await?;
    until_made(place, name).await?;
    // Its namespace's annotation may be seen after it, and is followed then.
    let probe = async || {
        let found = place.api::<ManagedWorkload>().get(name).await?;
        Ok(found.spec.wake.mode)
    };
    let what = format!("{name} to be woken by {expected:?} for {setting:?}");
    wait::until(&what, PATIENCE, probe, |mode| *mode == expected).await?;
    let is_unread = own
        .or(of_namespace)
        .is_some_and(|value| !["request", "ask"].contains(&value));
    let told = events::until(place, name, "InvalidSetting", usize::from(is_unread)).await?;
    for event in told {
        ensure!(event.type_.as_deref() == Some("Warning"), "{event:#?}");
        let about = event.involved_object.kind.as_deref();
        ensure!(about == Some("Deployment"), "{event:#?}");
    }
    Ok(())
}

fn opted_in(wake: Option<&str>) -> Value {
    let annotations = wake.map(|wake| json!({"napwake.dev/wake": wake}));
    json!({"labels": {"napwake.dev/managed": "true"}, "annotations": annotations})
}

/// SET-06: without either annotation the operator's flag says who wakes
/// it. SET-16: `napwake.dev/wake-max-wait` says how long callers are held.
#[tokio::test]
async fn the_default_is_the_operators_flag() {
    setup::with_flags("default", &["--default-wake=ask"], async |stage| {
        let place = stage.place();
        let mut marks = opted_in(None);
        marks["annotations"] = json!({"napwake.dev/wake-max-wait": "5m"});
        marked(stage, "asks", &marks).await?;
        let made = until_made(place, "asks").await?;
        ensure!(made.spec.wake.mode == WakeMode::Ask, "{:?}", made.spec);
        let shown = serde_json::to_value(&made.spec)?;
        ensure!(shown["wake"]["maxWait"] == "5m", "{shown}");
        marked(stage, "told", &opted_in(Some("request"))).await?;
        let made = until_made(place, "told").await?;
        ensure!(made.spec.wake.mode == WakeMode::Request, "{:?}", made.spec);
        Ok(())
    })
    .await;
}

/// PAGE-35, SET-13, T-101: `napwake.dev/wake-page: "false"` on a workload has its
/// browsers held, and isn't read on a namespace.
#[tokio::test]
async fn a_workload_may_turn_the_page_off() {
    setup::with("page", async |stage| {
        let place = stage.place();
        let off = json!({"napwake.dev/wake-page": "false"});
        mark_namespace(place, &json!({"annotations": off})).await?;
        let mut marks = opted_in(None);
        let shows = marked(stage, "shows", &marks).await?;
        marks["annotations"] = off;
        let holds = marked(stage, "holds", &marks).await?;
        for target in [&shows, &holds] {
            let made = until_made(place, &target.name).await?;
            let is_on = target.name == "shows";
            ensure!(made.spec.wake.page.0 == is_on, "{:?}", made.spec);
            course::awake(place, &target.name).await?;
            let asleep = course::sleep(place, target).await?;
            let port = *course::doorman_ports(&asleep).first().context("a port")?;
            let doorman = stage.doorman.at(Family::V4, port);
            let opens = b"GET / HTTP/1.1\r\nHost: a\r\nSec-Fetch-Mode: navigate\r\n\r\n";
            let mut caller = Caller::calling(stage.world.caller(0), doorman, opens).await?;
            managed::phase(place, &target.name, Phase::Resuming).await?;
            if is_on {
                let head = caller.read_head(SOON).await?;
                ensure!(head.starts_with("HTTP/1.1 503 "), "{head}");
            } else {
                caller.is_held_for(Duration::from_millis(500)).await?;
            }
        }
        Ok(())
    })
    .await;
}
