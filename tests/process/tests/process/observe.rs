//! What the doorman tells: events, metrics, readiness.

use std::{net::SocketAddr, time::Duration};

use k8s_openapi::api::{
    core::v1::{Namespace, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{Api, Resource, api::PostParams};
use napwake_tests_process::{
    Context, Result, SOON,
    caller::{Caller, GET},
    callers,
    doorman::{Doorman, METRICS, MetricsOver},
    ensure,
    hosts::{self, Family, Host},
    route::Standing,
    upstream::{PAGE, Upstream},
    wait,
    world::{self, World},
};
use serde_json::json;

const WAKES: &str = "napwake_doorman_wakes_total";

/// OBS-01, OBS-23: the event of a wake names the Service, and is told once for
/// all who ask.
#[tokio::test]
async fn a_wake_is_told_once() {
    world::with("woken", async |world| {
        let route = world.route("shop").make().await?;
        let (one, two) = (world.doorman().await?, world.second_doorman().await?);
        let mut callers = Vec::new();
        for doorman in [&one, &two, &one, &two] {
            callers.push(Caller::calling(world.caller(0), route.at(doorman), GET).await?);
        }
        route.stamped().await?;
        let told = world.told("WokenByRequest", 1).await?;
        for caller in &mut callers {
            caller.is_held_for(Duration::from_millis(200)).await?;
        }
        ensure!(told[0].contains("Service shop"), "{told:?}");
        let told = world.events("WokenByRequest").await?;
        ensure!(told.len() == 1, "{told:?}");
        Ok(())
    })
    .await;
}

/// OBS-10: each doorman tells at most once a minute of callers of one workload
/// that weren't served, however many they are; another workload is told of too.
#[tokio::test]
async fn who_was_not_served_is_told_once_a_minute() {
    world::with("minute", async |world| {
        let route = world.route("web").max_wait("1s").make().await?;
        let other = world.route("other").max_wait("1s").make().await?;
        let (one, two) = (world.doorman().await?, world.second_doorman().await?);
        for _ in 0..2 {
            let mut callers = Vec::new();
            for number in 0..100 {
                let doorman = if number % 2 == 0 { &one } else { &two };
                callers.push(Caller::calling(world.caller(0), route.at(doorman), GET).await?);
            }
            for caller in &mut callers {
                caller.ending(SOON).await?.nothing_sent()?;
            }
        }
        let timed_out = &[("result", "timed_out"), ("workload", "web")];
        one.until_metric(WAKES, timed_out, 100.0).await?;
        two.until_metric(WAKES, timed_out, 100.0).await?;
        let mut last = Caller::calling(world.caller(0), other.at(&one), GET).await?;
        last.ending(SOON).await?.nothing_sent()?;
        // Events are written in the order in which they happen.
        let told = world.told("RequestNotServed", 3).await?;
        let of = |service: &str| told.iter().filter(|text| text.contains(service)).count();
        ensure!(
            (of("Service web "), of("Service other ")) == (2, 1),
            "{told:?}"
        );
        Ok(())
    })
    .await;
}

/// OBS-19: what became of callers is counted by result, of each workload; those
/// that were turned away where it asks are one of the results.
#[tokio::test]
async fn callers_are_counted_by_what_became_of_them() {
    world::with("counted", async |world| {
        let route = world.route("web").make().await?;
        let asking = world.route("asks").asking().make().await?;
        let _upstream = Upstream::web(world.pod(0)).await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        let away = Caller::calling(world.caller(0), asking.at(&doorman), GET)
            .await?
            .ending(SOON)
            .await?;
        ensure!(away.text().starts_with("HTTP/1.1 503 "), "{}", away.text());
        let mut served = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        route.stamped().await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        served.expect(PAGE.as_bytes()).await?;
        for (workload, result) in [("web", "served"), ("asks", "turned_away")] {
            let namespace = world.place.namespace.as_str();
            let labels = [
                ("namespace", namespace),
                ("workload", workload),
                ("result", result),
            ];
            doorman.until_metric(WAKES, &labels, 1.0).await?;
        }
        let all = doorman.metric(WAKES, &[]).await?;
        ensure!((all - 2.0).abs() < 0.5, "{all} in all");
        let text = doorman.metrics().await?;
        let is_counter = text.lines().any(|line| {
            line.starts_with("# TYPE napwake_doorman_wakes") && line.ends_with(" counter")
        });
        ensure!(is_counter, "{text}");
        Ok(())
    })
    .await;
}

/// OBS-20: a hold of five seconds is recorded as about five seconds.
#[tokio::test]
async fn the_wait_is_recorded() {
    world::with("wait", async |world| {
        let route = world.route("web").make().await?;
        let _upstream = Upstream::web(world.pod(0)).await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        // It may take the doorman a moment to accept it.
        doorman.holds(1).await?;
        caller.is_held_for(Duration::from_secs(5)).await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        caller.expect(PAGE.as_bytes()).await?;
        let took = caller.connected().elapsed().as_secs_f64();
        let served = &[("result", "served")];
        doorman
            .until_metric("napwake_doorman_wait_seconds_count", served, 1.0)
            .await?;
        let sum = doorman
            .metric("napwake_doorman_wait_seconds_sum", served)
            .await?;
        ensure!(sum > 4.9 && sum <= took, "{sum} s recorded of {took} s");
        Ok(())
    })
    .await;
}

/// OBS-22: metrics are served on port 8443 over HTTPS, to those whom Kubernetes
/// lets read them.
#[tokio::test]
async fn metrics_are_for_those_who_may() {
    world::with("metrics", async |world| {
        let host = Host::Doorman(0);
        let _doorman = Doorman::start(world, host, &[], MetricsOver::Https).await?;
        let url = format!(
            "https://{}:{METRICS}/metrics",
            host.at(world.block, Family::V4)
        );
        let status = async |token: Option<String>| {
            let mut more = vec![
                "-k".to_owned(),
                "-w".to_owned(),
                "\n%{http_code}".to_owned(),
            ];
            more.extend(
                token
                    .into_iter()
                    .flat_map(|token| ["-H".to_owned(), format!("Authorization: Bearer {token}")]),
            );
            let more: Vec<_> = more.iter().map(String::as_str).collect();
            callers::curl(&url, &more).await?.ok()
        };
        let refused = status(None).await?;
        ensure!(refused.ends_with("\n401"), "{refused}");
        let refused = status(Some(token(world, "default").await?)).await?;
        ensure!(refused.ends_with("\n403"), "{refused}");
        allow_reader(world).await?;
        let answer = status(Some(token(world, "reader").await?)).await?;
        ensure!(answer.ends_with("\n200"), "{answer}");
        ensure!(
            answer.contains("napwake_doorman_held_connections 0"),
            "{answer}"
        );
        Ok(())
    })
    .await;
}

/// A token of one of the namespace's accounts.
async fn token(world: &World, account: &str) -> Result<String> {
    let args = ["-n", &world.place.namespace, "create", "token", account];
    Ok(callers::run("kubectl", &args)
        .await?
        .ok()?
        .trim()
        .to_owned())
}

/// Makes the account `reader`, and lets it read metrics for as long as the
/// namespace lives.
async fn allow_reader(world: &World) -> Result<()> {
    let name = world.place.namespace.as_str();
    let accounts: Api<ServiceAccount> = world.place.api();
    let account = serde_json::from_value(json!({"metadata": {"name": "reader"}}))?;
    let params = PostParams::default();
    accounts.create(&params, &account).await?;
    let client = &world.place.client;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = namespaces.get(name).await?;
    let owner = namespace.owner_ref(&()).context("a namespace has a uid")?;
    let metadata = json!({"name": name, "ownerReferences": [owner]});
    let role = serde_json::from_value(json!({
        "metadata": metadata,
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }))?;
    let binding = serde_json::from_value(json!({
        "metadata": metadata,
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name,
        },
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": name}],
    }))?;
    let roles: Api<ClusterRole> = Api::all(client.clone());
    roles.create(&params, &role).await?;
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    bindings.create(&params, &binding).await?;
    // The API server sees new rights a moment later.
    let reader = format!("--as=system:serviceaccount:{name}:reader");
    let asked = ["auth", "can-i", "get", "/metrics", &reader];
    let seen = || async { Ok(callers::run("kubectl", &asked).await?.code == Some(0)) };
    wait::until("the reader's rights", SOON, seen, |seen| *seen).await?;
    Ok(())
}

/// A doorman is Ready only once it listens for every route there is (T-113).
#[tokio::test]
async fn ready_means_that_every_port_is_open() {
    world::with("ports", async |world| {
        let mut routes = Vec::new();
        for number in 0..10 {
            routes.push(world.route(&format!("web-{number}")).make().await?);
        }
        let doorman = world.doorman().await?;
        for route in &routes {
            for family in [Family::V4, Family::V6] {
                let address: SocketAddr = doorman.at(family, route.port);
                ensure!(hosts::is_listened_on(address).await?, "{address} is closed");
            }
        }
        let text = doorman.metrics().await?;
        ensure!(text.contains("napwake_doorman_routes "), "{text}");
        Ok(())
    })
    .await;
}

/// A flag that can't be read ends the process with 2 before a port is bound.
#[tokio::test]
async fn a_flag_that_cant_be_read_ends_it() {
    let program = std::env::var("NAPWAKE_PROGRAM").expect("set by `cargo xtask test`");
    for (flag, said) in [
        ("--health-bind-address=nowhere", "health-bind-address"),
        ("--pod-ips=10.0.0", "pod-ips"),
        ("--health-check-user-agent=", "health-check-user-agent"),
        ("--no-such-flag", "no-such-flag"),
    ] {
        let args = ["doorman", "--namespace=a", "--pod-name=b", flag];
        let ended = callers::run(&program, &args).await.expect("it ends");
        assert_eq!(ended.code, Some(2), "{flag}: {ended:?}");
        assert!(ended.err.contains(said), "{flag}: {}", ended.err);
        assert!(!ended.err.contains("listening"), "{flag}: {}", ended.err);
    }
}
