//! Routes on a real cluster: what callers see while a workload pauses and wakes.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use napwake_api::{ManagedWorkloadStatus, names::signal, stamp::LastRequest, workload::Phase};
use napwake_testkit::{
    Context, Result,
    apps::{App, service},
    callers, ensure, managed,
    place::{self, Place},
    wait,
};
use rstest::rstest;
use serde_json::json;

use crate::{setup, steady};

/// ROUTE-05, ROUTE-06: the Service doesn't change through a pause and a wake.
/// ROUTE-11: a request over each address of a dual-stack Service wakes.
#[tokio::test]
async fn a_dual_stack_service_wakes_over_both_families_and_stays_as_it_is() {
    place::with("dual", async |place| {
        let app = App::new("web", "http");
        setup::manage_over(&place, &app, json!({}), &["IPv4", "IPv6"]).await?;
        let before = place.api::<Service>().get("web").await?;
        let addresses = place.addresses("web").await?;
        ensure!(addresses.len() == 2, "it has both: {addresses:?}");
        for address in addresses {
            managed::pause_routed(&place, "web").await?;
            setup::request_to(&format!("http://{}/", setup::host(&address)), "web").await?;
            managed::phase(&place, "web", Phase::Running).await?;
        }
        let after = place.api::<Service>().get("web").await?;
        let is_the_same = before.resource_version() == after.resource_version();
        ensure!(is_the_same, "{after:?}");
        Ok(())
    })
    .await;
}

/// Pauses it again and again while somebody calls every 50 ms: each pause ends
/// by a request, with no connection refused or lost. Gives whether its pods are
/// those it began with.
async fn pauses_under_calls(lookout: &str, rounds: usize) -> bool {
    let mut stayed = false;
    place::with("refused", async |place| {
        let app = App::new("web", "http").arg("-serve-on=3s");
        setup::manage(&place, &app, json!({"lookout": lookout})).await?;
        stayed = pauses(&place, rounds).await?;
        Ok(())
    })
    .await;
    stayed
}

/// The same with the workload `web`, which runs.
async fn pauses(place: &Place, rounds: usize) -> Result<bool> {
    let address = format!("{}:80", place.address("web").await?);
    setup::until_it_answers(&address).await?;
    let pods = setup::pod_names(place, "web").await?;
    let pauses = async {
        for round in 1..=rounds {
            let ended = pause_until_asked(place).await;
            ended.with_context(|| format!("pause {round}"))?;
        }
        Ok(())
    };
    let (answered, ()) = steady::REQUESTS.during(&address, pauses).await?;
    ensure!(answered >= rounds, "{answered} calls were answered");
    Ok(setup::pod_names(place, "web").await? == pods)
}

/// Asks for a pause and waits until a request at the doorman has ended it.
async fn pause_until_asked(place: &Place) -> Result<()> {
    let asked = managed::now();
    managed::ask_to_pause(place, "web").await?;
    let stamp = || managed::annotation(place, "web", signal::LAST_REQUEST);
    let is_since = |text: &Option<String>| last_request(text.as_deref()) > Some(asked);
    wait::until(
        "a request since the pause",
        managed::PATIENCE,
        stamp,
        is_since,
    )
    .await?;
    managed::phase(place, "web", Phase::Running).await?;
    managed::wake_reason(place, "web", "NotPaused").await?;
    Ok(())
}

fn last_request(text: Option<&str>) -> Option<Timestamp> {
    let last: LastRequest = text?.parse().ok()?;
    Some(last.stamp.at())
}

/// ROUTE-13: constant new connections while it's paused, the pods stopping as
/// soon as the route stands: no connection is refused or lost.
#[tokio::test]
async fn no_connection_is_refused_while_it_pauses() {
    pauses_under_calls("0s", 3).await;
}

/// DRAIN-20: a browser that loads its page over and over, from the one that says that it
/// wakes through the switch to the app and until the drain is over, never meets a
/// closed port.
#[tokio::test]
async fn no_page_load_meets_a_closed_port_at_the_switch() {
    place::with("switch", async |place| {
        setup::asleep(&place, &App::new("web", "http")).await?;
        let address = format!("{}:80", place.address("web").await?);
        let drained = async {
            managed::phase(&place, "web", Phase::Running).await?;
            let probe = || managed::status(&place, "web");
            let is_over = |status: &ManagedWorkloadStatus| {
                let doorman = status.doorman.as_ref();
                doorman.is_none_or(|doorman| doorman.routes.is_empty())
            };
            wait::until("the drain to end", managed::PATIENCE, probe, is_over).await?;
            Ok(())
        };
        let (loads, ()) = steady::LOADS.during(&address, drained).await?;
        ensure!(loads > 100, "{loads} loads, and a drain takes 30 s");
        setup::request(&place, "web").await?;
        Ok(())
    })
    .await;
}

/// COMPAT-14: an app that exits at SIGTERM, whose pods sleep for a few seconds before,
/// so that kube-proxy has let go of them by then: no connection is refused or lost.
#[tokio::test]
async fn a_sleep_before_the_end_lets_no_connection_be_refused() {
    place::with("sleeps", async |place| {
        let app = App::new("web", "http");
        let mut manifest = app.manifest();
        let container = &mut manifest["spec"]["template"]["spec"]["containers"][0];
        container["lifecycle"] = json!({"preStop": {"sleep": {"seconds": 3}}});
        setup::create(&place, app.kind, manifest).await?;
        let manifest = service("web", "web", &[("", 80, 8080)], &["IPv4"]);
        place.create::<Service>(manifest).await?;
        setup::run(&place, &app, json!({})).await?;
        pauses(&place, 3).await?;
        Ok(())
    })
    .await;
}

/// HOLD-11, ROUTE-13: constant new connections while it's about to pause: each
/// pause is called off, its pods stay, and no request fails.
#[tokio::test]
async fn a_pause_is_called_off_by_whoever_calls_all_the_time() {
    let stayed = pauses_under_calls("20s", 3).await;
    assert!(stayed, "its pods were replaced");
}

/// ROUTE-26: a port in `doorman-ignore-ports` fails while the workload is
/// paused and works while it runs. CLASS-38, CLASS-39: a check of it is
/// refused and wakes nothing.
#[tokio::test]
async fn an_ignored_port_is_refused_while_it_is_paused() {
    place::with("ignored", async |place| {
        let app = App::new("web", "http");
        setup::start(&place, &app).await?;
        let ports = [("http", 80, 8080), ("ready", 81, 8081)];
        let mut manifest = service("web", "web", &ports, &["IPv4"]);
        manifest["metadata"]["annotations"]["napwake.dev/doorman-ignore-ports"] = json!("ready");
        place.create::<Service>(manifest).await?;
        setup::run(&place, &app, json!({})).await?;
        let address = place.address("web").await?;
        setup::until_it_answers(&format!("{address}:81")).await?;
        let check = format!("http://{address}:81/ready");
        callers::curl(&check, &[]).await?.ok()?;
        managed::pause_routed(&place, "web").await?;
        let refused = callers::curl(&check, &[]).await?;
        ensure!(refused.code == Some(7), "curl can't connect: {refused:?}");
        let status = managed::status(&place, "web").await?;
        ensure!(
            status.phase == Some(Phase::Paused),
            "nothing woke: {status:?}"
        );
        Ok(())
    })
    .await;
}

/// CLASS-40: with the traffic port itself in `doorman-ignore-ports`, by its name or
/// its number, no Service is left to route. Requests fail and wake nothing, and it
/// still wakes by other means.
#[rstest]
#[case("http")]
#[case("80")]
#[tokio::test]
async fn an_ignored_traffic_port_wakes_nothing(#[case] listed: &str) {
    place::with("onlyport", async |place| {
        let app = App::new("web", "http");
        setup::start(&place, &app).await?;
        let mut manifest = service("web", "web", &[("http", 80, 8080)], &["IPv4"]);
        manifest["metadata"]["annotations"]["napwake.dev/doorman-ignore-ports"] = json!(listed);
        place.create::<Service>(manifest).await?;
        setup::run(&place, &app, json!({})).await?;
        managed::pause(&place, "web").await?;
        managed::wake_reason(&place, "web", "NoServices").await?;
        let url = setup::url(&place, "web", "/").await?;
        let what = "requests to be refused";
        let ask = || callers::curl(&url, &[]);
        let is_refused = |ended: &callers::Ended| ended.code == Some(7);
        wait::until(what, managed::PATIENCE, ask, is_refused).await?;
        let asked_again = async || {
            let ended = ask().await?;
            ensure!(ended.code == Some(7), "{ended:?}");
            let stamp = managed::annotation(&place, "web", signal::LAST_REQUEST).await?;
            Ok((managed::status(&place, "web").await?.phase, stamp))
        };
        let sleeps = |(phase, stamp): &(Option<Phase>, Option<String>)| {
            *phase == Some(Phase::Paused) && stamp.is_none()
        };
        let while_asked = Duration::from_secs(5);
        wait::throughout("its sleep", while_asked, asked_again, sleeps).await?;
        managed::ask_to_wake(&place, "web").await?;
        managed::phase(&place, "web", Phase::Running).await?;
        // No doorman bridges the time until kube-proxy has the pod.
        let answers = |ended: &callers::Ended| ended.code == Some(0);
        wait::until("an answer", managed::PATIENCE, ask, answers).await?;
        Ok(())
    })
    .await;
}

/// ROUTE-37: a request to a Service that isn't routed fails as it would with
/// a workload that somebody scaled to 0 by hand.
#[tokio::test]
async fn a_service_that_is_not_routed_fails_as_without_napwake() {
    place::with("unrouted", async |place| {
        let local = App::new("local", "http");
        let by_hand = App::new("hand", "http").replicas(0);
        for app in [&local, &by_hand] {
            setup::start(&place, app).await?;
            let mut manifest = service(&app.name, &app.name, &[("", 80, 8080)], &["IPv4"]);
            manifest["spec"]["internalTrafficPolicy"] = json!("Local");
            place.create::<Service>(manifest).await?;
        }
        setup::run(&place, &local, json!({})).await?;
        managed::pause(&place, "local").await?;
        managed::wake_reason(&place, "local", "NodeLocalTraffic").await?;
        let ask = async |name| callers::curl(&setup::url(&place, name, "/").await?, &[]).await;
        let by_hand = ask("hand").await?;
        let what = "requests to fail as those to nobody";
        wait::until(
            what,
            managed::PATIENCE,
            || ask("local"),
            |ended| ended.code == by_hand.code,
        )
        .await?;
        ensure!(by_hand.code != Some(0), "{by_hand:?}");
        let status = managed::status(&place, "local").await?;
        ensure!(status.phase == Some(Phase::Paused), "it woke: {status:?}");
        Ok(())
    })
    .await;
}

mod long {
    use super::*;

    /// HOLD-11, ROUTE-13: twenty pauses under constant calls.
    #[rstest]
    #[case("0s")]
    #[case("20s")]
    #[tokio::test]
    async fn twenty_pauses_fail_no_request(#[case] lookout: &str) {
        let stayed = pauses_under_calls(lookout, 20).await;
        assert!(stayed || lookout == "0s", "its pods were replaced");
    }
}
