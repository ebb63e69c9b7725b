//! When a held request is passed on: by the pods' own readiness.

use std::time::Duration;

use napwake_testkit::{
    Result,
    apps::App,
    callers, ensure,
    place::{self, Place},
};
use serde_json::json;

use crate::setup;

/// Wakes the app by a request and gives how long the answer took.
async fn answer_time(label: &str, app: App) -> Duration {
    let mut took = Duration::ZERO;
    place::with(label, async |place| {
        setup::asleep(&place, &app).await?;
        took = setup::request(&place, &app.name).await?.took;
        Ok(())
    })
    .await;
    took
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

/// COMPAT-13, HOLD-20: passed before it can serve, the caller gets the app's
/// own error, as the app sent it.
#[tokio::test]
async fn an_error_of_the_app_is_its_own() {
    place::with("error", async |place| {
        let app = App::new("web", "http").readiness(None);
        setup::asleep(&place, &app).await?;
        let url = setup::url(&place, "web", "/status/503").await?;
        let out = callers::curl(&url, &["-i"]).await?.ok()?;
        let is_its_own = out.starts_with("HTTP/1.1 503 ") && out.ends_with("the app's own 503\n");
        ensure!(is_its_own, "{out:?}");
        Ok(())
    })
    .await;
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

/// Wakes an app that refuses its first probes, and gives how long it had been
/// able to serve, by its own clock, when the held request reached it. How soon
/// its container started and was first probed doesn't count.
async fn served_after(place: &Place, period: u32) -> Result<Duration> {
    let probe = json!({"httpGet": {"path": "/ready", "port": 8081}, "periodSeconds": period});
    // The kubelet probes out of turn when a container starts and when its state
    // changes; the probe after the last refused one comes when it's due.
    let app = App::new(&format!("every{period}"), "http").arg("-refuse-probes=3");
    let app = app.readiness(Some(probe));
    setup::asleep(place, &app).await?;
    let url = setup::url(place, &app.name, "/since-refused").await?;
    let millis = callers::curl(&url, &[]).await?.ok()?;
    Ok(Duration::from_millis(millis.trim().parse()?))
}

/// HOLD-23: with a shorter `periodSeconds` held requests are passed sooner: at
/// the first probe after the app can serve.
#[tokio::test]
async fn a_shorter_period_passes_sooner() {
    place::with("period", async |place| {
        let (short, long) = tokio::try_join!(served_after(&place, 1), served_after(&place, 5))?;
        ensure!(
            short < Duration::from_secs(3) && Duration::from_secs(3) < long,
            "{short:?} with 1 s, {long:?} with 5 s"
        );
        Ok(())
    })
    .await;
}
