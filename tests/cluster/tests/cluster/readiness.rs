//! When a held request is passed on: by the pods' own readiness.

use std::time::Duration;

use napwake_testkit::{Result, apps::App, callers, ensure, place};
use serde_json::{Value, json};

use crate::setup;

/// Wakes the app by a request and gives how long the answer took.
async fn answer_time(label: &str, app: App) -> Duration {
    let mut took = Duration::ZERO;
    place::with(label, async |place| {
        setup::asleep(&place, &app).await?;
        let url = format!("http://{}/", place.address(&app.name).await?);
        let ended = callers::curl(&url, &[]).await?;
        took = ended.took;
        let body = ended.ok()?;
        ensure!(
            body.starts_with("app "),
            "the first response is the app's own: {body:?}"
        );
        Result::Ok(())
    })
    .await;
    took
}

fn probe(period: u32) -> Value {
    json!({"httpGet": {"path": "/ready", "port": 8081}, "periodSeconds": period})
}

/// HOLD-18: an app that listens at once but is Ready after 12 s gets the
/// request after those 12 s.
#[tokio::test]
async fn a_held_request_waits_for_the_readiness_probe() {
    let took = answer_time("probe", App::new("web", "http").arg("-ready-after=12s")).await;
    assert!(took >= Duration::from_secs(12), "passed after {took:?}");
}

/// HOLD-19: without a probe it's passed as soon as the container runs.
#[tokio::test]
async fn without_a_probe_it_is_passed_when_the_container_runs() {
    let app = App::new("web", "http")
        .arg("-ready-after=30s")
        .readiness(None);
    let took = answer_time("noprobe", app).await;
    assert!(took < Duration::from_secs(25), "passed after {took:?}");
}

/// HOLD-24: a startup probe delays readiness, so it delays passing.
#[tokio::test]
async fn a_startup_probe_delays_it() {
    let mut app = App::new("web", "http").arg("-ready-after=10s");
    app.startup = Some(json!({
        "httpGet": {"path": "/ready", "port": 8081}, "periodSeconds": 1, "failureThreshold": 60,
    }));
    app.readiness = Some(json!({"tcpSocket": {"port": 8080}, "periodSeconds": 1}));
    let took = answer_time("startup", app).await;
    assert!(took >= Duration::from_secs(10), "passed after {took:?}");
}

/// HOLD-25: a `tcpSocket` probe suffices for an app that listens only once it
/// can serve.
#[tokio::test]
async fn a_tcp_probe_is_enough_for_an_app_that_listens_when_it_can_serve() {
    let app = App::new("web", "http")
        .arg("-listen-after=8s")
        .readiness(Some(json!({
            "tcpSocket": {"port": 8080}, "periodSeconds": 1,
        })));
    let took = answer_time("tcp", app).await;
    assert!(took >= Duration::from_secs(8), "passed after {took:?}");
}

/// HOLD-23: with a shorter `periodSeconds` held requests are passed sooner.
#[tokio::test]
async fn a_shorter_period_passes_sooner() {
    let app = |period| {
        App::new("web", "http")
            .arg("-ready-after=7s")
            .readiness(Some(probe(period)))
    };
    let (short, long) = tokio::join!(
        answer_time("period1", app(1)),
        answer_time("period10", app(10))
    );
    assert!(short < long, "{short:?} with 1 s, {long:?} with 10 s");
}
