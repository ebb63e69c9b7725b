//! The life of a workload: what pauses and wakes it, and in what order.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use napwake_api::{
    names::signal,
    stamp::{RequestKind, Stamp},
    workload::{ActivitySource, PauseReason, Phase},
};
use napwake_testkit::{Context, Result, apps::App, ensure, managed, wait};
use napwake_tests_process::{
    SOON,
    caller::{Caller, GET},
    hosts::Family,
    route::Standing,
    upstream::Upstream,
};
use rstest::rstest;
use serde_json::json;

use crate::setup::{self, Stage, Target, course, history::History, pods, slices};

/// By how much the EndpointSlice controller is late.
const LATE: Duration = Duration::from_secs(2);

/// What the history tells of the slice that the controller writes.
const NAMED: &str = "EndpointSlice web-web-0";

/// LIFE-01: a pause goes from the phase to the route, then to the pods, then to
/// the next phase; `paused` only once the last pod has ended. OBS-15: the time at
/// which it began stays the same.
#[tokio::test]
async fn a_pause_goes_in_order() {
    setup::with("pause", async |stage| {
        let place = stage.place();
        let history = History::begin(place);
        let target = stage.managed(&App::new("web", "http").replicas(2)).await?;
        course::ask_to_pause(place, "web").await?;
        target.is_stopped().await?;
        let slice = slices::until(place, "web", 1).await?[0]
            .metadata
            .name
            .clone();
        let slice = format!("EndpointSlice {}", slice.context("its name")?);
        let stopping = managed::status(place, "web").await?;
        pods::end(place, "web-0").await?;
        // One that is being deleted is still there.
        pods::stands(place, "web-1", Standing::Terminating).await?;
        target.report().await?;
        let changed = json!({"wake": {"maxWait": "31s"}});
        let changed = managed::respec(place, "web", changed).await?;
        let early = managed::observed(place, "web", changed).await?;
        ensure!(early.phase == Some(Phase::Pausing), "{early:#?}");
        pods::end(place, "web-1").await?;
        let paused = managed::phase(place, "web", Phase::Paused).await?;
        let order = [
            "Running",
            "Pausing",
            &slice,
            "replicas 0",
            "Pod web-1 gone",
            "Paused",
        ];
        history.has_in_order(&order).await?;
        let began =
            |status: napwake_api::ManagedWorkloadStatus| status.pause.map(|one| one.started_at);
        ensure!(began(stopping) == began(paused), "it began once");
        Ok(())
    })
    .await;
}

/// LIFE-02: a wake goes from the stamp to the phase, to a Ready pod, by which the
/// caller is served, to the next phase, and then the route goes, behind the slice that
/// names the pod. LIFE-04: the
/// request restarts the idle clock, which shows its time. OBS-01: an event names
/// the Service. OBS-03: and the clock its source.
#[tokio::test]
async fn a_wake_goes_in_order() {
    setup::with("wake", async |stage| {
        let place = stage.place();
        let history = History::begin(place);
        let target = stage.managed(&App::new("web", "http")).await?;
        let asleep = course::sleep(place, &target).await?;
        let slice = slices::of(place, "web").await?[0].metadata.name.clone();
        let gone = format!("EndpointSlice {} gone", slice.context("its name")?);
        let port = *course::doorman_ports(&asleep).first().context("a port")?;

        let before = managed::now();
        let doorman = stage.doorman.at(Family::V4, port);
        let mut caller = Caller::calling(stage.world.caller(0), doorman, GET).await?;
        managed::phase(place, "web", Phase::Resuming).await?;
        target.is_started().await?;
        let after = managed::now();
        let address = stage.world.pod(0);
        let _app = Upstream::web(address).await?;
        pods::make(place, "web-0", &json!({"app": "web"}), &[address]).await?;
        pods::stands(place, "web-0", Standing::Ready).await?;
        pods::endpoint(place, "web", "web-0", address, Standing::Ready).await?;
        let answer = caller.read_head(SOON).await?;
        ensure!(
            answer.starts_with("HTTP/1.1 200 OK"),
            "the app answers: {answer}"
        );
        target.report().await?;
        let awake = course::awake(place, "web").await?;
        slices::until(place, "web", 0).await?;

        let order = [
            "stamped",
            "Resuming",
            "Pod web-0 Ready",
            NAMED,
            "Running",
            &gone,
        ];
        history.has_in_order(&order).await?;
        let clock = awake.clock.context("its clock")?;
        ensure!(
            clock.last_activity_source == ActivitySource::Request,
            "{clock:?}"
        );
        ensure!(
            (before..after).contains(&clock.last_activity.0),
            "{before}: {clock:?}"
        );
        let woken = setup::events::until(place, "web", "WokenByRequest", 1).await?;
        let says = woken[0].message.clone().unwrap_or_default();
        ensure!(says.contains("web"), "{says}");
        Ok(())
    })
    .await;
}

/// ROUTE-14: awake, the route goes. It stays for as long as the EndpointSlice
/// controller hasn't written the pod into the Service's own slice: watches never
/// show the Service with neither. T-120: and the condition says so.
#[tokio::test]
async fn a_route_stays_until_the_service_has_its_pod() {
    setup::with("late", async |stage| {
        let place = stage.place();
        let history = History::begin(place);
        let target = stage.managed(&App::new("web", "http")).await?;
        course::sleep(place, &target).await?;
        let slice = slices::of(place, "web").await?[0].metadata.name.clone();
        let gone = format!("EndpointSlice {} gone", slice.context("its name")?);
        managed::ask_to_wake(place, "web").await?;
        target.starts_unnamed().await?;
        course::awake(place, "web").await?;
        let probe = || slices::of(place, "web");
        let is_routed = |found: &Vec<EndpointSlice>| found.len() == 1;
        wait::throughout("the route", LATE, probe, is_routed).await?;
        course::reason(place, "web", "DoormanRouted").await?;
        target.is_named().await?;
        slices::until(place, "web", 0).await?;
        course::reason(place, "web", "NotPaused").await?;
        history.has_in_order(&["Running", NAMED, &gone]).await
    })
    .await;
}

/// LIFE-03: the doorman's stamp wakes a workload just as an activity annotation
/// does. LIFE-04: its time is when the idle clock begins anew, and it shows what
/// it was. TOKEN-29: people's tooling wakes it by an annotation of its own.
#[rstest]
#[case::request(signal::LAST_REQUEST, ActivitySource::Request)]
#[case::activity(signal::ACTIVITY, ActivitySource::Annotation)]
#[case::command(signal::WAKE_REQUESTED, ActivitySource::Command)]
#[tokio::test]
async fn a_stamp_wakes(#[case] annotation: &str, #[case] source: ActivitySource) {
    setup::with("stamp", async |stage| {
        let place = stage.place();
        let target = stage.managed(&App::new("web", "http").replicas(3)).await?;
        course::sleep(place, &target).await?;
        let at = managed::now();
        managed::annotate(place, "web", annotation, &value(annotation, at)).await?;
        managed::phase(place, "web", Phase::Resuming).await?;
        target.is_started().await?;
        ensure!(target.replicas().await? == 3, "as many as before");
        target.starts().await?;
        let awake = course::awake(place, "web").await?;
        let clock = awake.clock.clone().context("its clock")?;
        ensure!(clock.last_activity_source == source, "{clock:?}");
        ensure!(
            clock.last_activity.0 == Stamp::now(at).at(),
            "{at}: {clock:?}"
        );
        ensure!(
            awake.pause.is_none() && awake.resume.is_none(),
            "{awake:#?}"
        );
        slices::until(place, "web", 0).await?;
        Ok(())
    })
    .await;
}

fn value(annotation: &str, at: Timestamp) -> String {
    let stamp = Stamp::now(at);
    if annotation == signal::LAST_REQUEST {
        format!("{stamp} {} web", RequestKind::Request.word())
    } else {
        stamp.to_string()
    }
}

/// LIFE-13: it pauses when `idleAfter` runs out, and not before.
#[tokio::test]
async fn it_pauses_when_idle_after_runs_out() {
    setup::with("idle", async |stage| {
        let place = stage.place();
        let spec = json!({"idleAfter": "1m"});
        let target = stage.managed_alone(&App::new("web", "http"), spec).await?;
        let clock = managed::status(place, "web").await?.clock;
        let clock = clock.context("its clock")?;
        let (since, idle_at) = (clock.running_since, clock.idle_at);
        let since = since.context("since when it runs")?.0;
        let idle_at = idle_at.context("when it's idle")?.0;
        let minute = SignedDuration::from_mins(1);
        ensure!(
            idle_at.duration_since(since) == minute,
            "{since} to {idle_at}"
        );
        target.stops().await?;
        let paused = managed::phase(place, "web", Phase::Paused).await?;
        let pause = paused.pause.context("its pause")?;
        ensure!(pause.reason == PauseReason::Idle, "{pause:?}");
        ensure!(pause.started_at.0 >= idle_at, "{pause:?} before {idle_at}");
        Ok(())
    })
    .await;
}

/// LIFE-20: Deployments and StatefulSets pause, are routed and wake.
#[tokio::test]
async fn both_kinds_of_workload_pause_and_wake() {
    setup::with("kinds", async |stage| {
        let apps = [App::new("web", "http"), App::new("db", "http").stateful()];
        let rounds = apps.iter().map(|app| go_round(stage, app));
        futures::future::try_join_all(rounds).await?;
        Ok(())
    })
    .await;
}

async fn go_round(stage: &Stage<'_>, app: &App) -> Result<()> {
    let place = stage.place();
    let target: Target = stage.managed(app).await?;
    course::sleep(place, &target).await?;
    slices::until(place, &app.name, 1).await?;
    course::wake(place, &target).await?;
    slices::until(place, &app.name, 0).await?;
    Ok(())
}

/// T-136: a workload that somebody else has scaled to 0 is left alone, and says
/// so. A raise by somebody else wakes one that sleeps.
#[tokio::test]
async fn what_others_do_to_replicas_is_respected() {
    setup::with("others", async |stage| {
        let place = stage.place();
        let target = stage.managed(&App::new("web", "http").replicas(2)).await?;
        course::sleep(place, &target).await?;
        target.patch(json!({"spec": {"replicas": 1}})).await?;
        target.starts().await?;
        let awake = course::awake(place, "web").await?;
        let clock = awake.clock.context("its clock")?;
        ensure!(
            clock.last_activity_source == ActivitySource::Scale,
            "{clock:?}"
        );
        ensure!(target.replicas().await? == 1, "as somebody else said");

        let zero = App::new("zero", "http").replicas(0);
        let zero = stage.managed(&zero).await?;
        let found = course::reason(place, "zero", "NotPaused").await?;
        ensure!(
            found.message.contains("scaled the workload to 0"),
            "{found:?}"
        );
        ensure!(zero.replicas().await? == 0, "left alone");
        Ok(())
    })
    .await;
}
