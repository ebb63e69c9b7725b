//! Workloads of which nothing tells when they can serve.

use k8s_openapi::api::core::v1::Event;
use napwake_api::{ManagedWorkloadStatus, workload::ActivitySource};
use napwake_testkit::{
    Result,
    apps::App,
    ensure,
    managed::{self, PATIENCE},
    place::Place,
    wait,
};
use serde_json::{Value, json};

use crate::setup::{self, HTTP, Stage, Target, course, events};

const EVENT: &str = "NoReadinessProbe";

/// What the condition says beside that it's routed.
const NOTE: &str = "no container has a readiness probe";

/// ROUTE-18: without a readiness probe or gate the condition says so and is True
/// all the same. ROUTE-19, OBS-04: a warning says what to do. ROUTE-20: it comes
/// once each pause, however often the workload is looked at, and again at the next.
/// ROUTE-21: one container with a probe, or one gate, is enough.
#[tokio::test]
async fn a_missing_readiness_probe_is_told_once_each_pause() {
    setup::with("unprobed", async |stage| {
        let place = stage.place();
        let targets = make(stage).await?;
        for round in 1..=2 {
            course::pause_all(place, &targets).await?;
            for target in &targets {
                let name = &target.name;
                let routed = course::reason(place, name, "DoormanRouted").await?;
                let is_told = routed.message.contains(NOTE);
                ensure!(is_told == (name == "none"), "{name}: {routed:?}");
                ensure!(routed.status == "True", "{name}: {routed:?}");
            }
            let told = events::until(place, "none", EVENT, round).await?;
            is_a_warning(&told[0])?;
            look_again(place, "none").await?;
            let told = events::about(place, "none", EVENT).await?;
            ensure!(told.len() == round, "{told:#?}");
            for name in ["two", "gate"] {
                let told = events::about(place, name, EVENT).await?;
                ensure!(told.is_empty(), "{told:#?}");
            }
            course::wake_all(place, &targets).await?;
        }
        Ok(())
    })
    .await;
}

async fn make(stage: &Stage<'_>) -> Result<Vec<Target>> {
    let container = |name: &str| json!({"name": name, "image": "none"});
    let mut probed = container("b");
    probed["readinessProbe"] = json!({"tcpSocket": {"port": 8080}});
    let none = json!({"containers": [container("a")]});
    let two = json!({"containers": [container("a"), probed]});
    let gate = json!({
        "containers": [container("a")], "readinessGates": [{"conditionType": "example.com/up"}],
    });
    let all = [("none", none), ("two", two), ("gate", gate)];
    let all = all.map(|(name, pod)| one(stage, name, pod));
    futures::future::try_join_all(all).await
}

async fn one(stage: &Stage<'_>, name: &str, pod: Value) -> Result<Target> {
    let kind = napwake_testkit::apps::Kind::Deployment;
    let manifest = napwake_testkit::apps::workload(name, kind, 1, &pod);
    let target = Target::make(stage.place(), kind, manifest).await?;
    stage.serve(name, name, &[HTTP], &["IPv4"]).await?;
    managed::manage(stage.place(), "Deployment", name, json!({})).await?;
    course::awake(stage.place(), name).await?;
    Ok(target)
}

fn is_a_warning(event: &Event) -> Result<()> {
    ensure!(event.type_.as_deref() == Some("Warning"), "{event:#?}");
    let about = event.involved_object.kind.as_deref();
    ensure!(about == Some("ManagedWorkload"), "{event:#?}");
    let says = event.message.as_deref().unwrap_or_default();
    ensure!(says.contains("\"Readiness probes\""), "{event:#?}");
    Ok(())
}

/// Has the operator decide several times more: each time it's given another
/// `maxWait` it writes which spec its status is about.
async fn look_again(place: &Place, name: &str) -> Result<()> {
    for seconds in [31, 32, 33] {
        let wait = format!("{seconds}s");
        let changed = managed::respec(place, name, json!({"wake": {"maxWait": wait}})).await?;
        managed::observed(place, name, changed).await?;
    }
    Ok(())
}

/// ROUTE-17: the template is read when the workload is routed, so a probe that is
/// added between two pauses counts at the second, and one that is taken off too.
#[tokio::test]
async fn the_template_is_read_at_each_pause() {
    setup::with("template", async |stage| {
        let place = stage.place();
        let target = stage
            .managed(&App::new("web", "http").readiness(None))
            .await?;
        let probe = json!({"httpGet": {"path": "/ready", "port": 8081}});
        for (round, probe, told) in [(1, None, 1), (2, Some(probe), 1), (3, None, 2)] {
            if round > 1 {
                target.patch(with_probe(probe.as_ref())).await?;
                until_rolled_out(place, "web").await?;
            }
            course::sleep(place, &target).await?;
            events::until(place, "web", EVENT, told).await?;
            let routed = course::reason(place, "web", "DoormanRouted").await?;
            let is_told = routed.message.contains(NOTE);
            ensure!(is_told == probe.is_none(), "round {round}: {routed:?}");
            course::wake(place, &target).await?;
        }
        Ok(())
    })
    .await;
}

/// Waits until the operator has seen the new template, which is use of the
/// workload: a pause asked for before would be overtaken by it.
async fn until_rolled_out(place: &Place, name: &str) -> Result<()> {
    let is_it = |status: &ManagedWorkloadStatus| {
        let clock = status.clock.as_ref();
        clock.is_some_and(|clock| clock.last_activity_source == ActivitySource::Rollout)
    };
    let what = format!("the rollout of {name} to be seen");
    wait::until(&what, PATIENCE, || managed::status(place, name), is_it).await?;
    Ok(())
}

fn with_probe(probe: Option<&Value>) -> Value {
    let container = json!({"name": "app", "image": "none", "readinessProbe": probe});
    json!({"spec": {"template": {"spec": {"containers": [container]}}}})
}
