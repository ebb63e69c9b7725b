//! Which ports of a Service are routed, and how many ports there are.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams};
use napwake_testkit::{Context, Result, apps::App, ensure, managed, place::Place, wait};
use serde_json::{Value, json};

use crate::setup::{self, HTTP, Stage, course, slices};

/// A Service's annotation and ports by name, number and protocol, and the names
/// of those that are routed.
struct Case {
    name: &'static str,
    ignored: Option<&'static str>,
    ports: &'static [(&'static str, u16, &'static str)],
    routed: &'static [&'static str],
}

const WEB: &[(&str, u16, &str)] = &[
    ("http", 80, "TCP"),
    ("metrics", 9090, "TCP"),
    ("admin", 8443, "TCP"),
];

const CASES: &[Case] = &[
    Case {
        name: "all",
        ignored: None,
        ports: WEB,
        routed: &["admin", "http", "metrics"],
    },
    Case {
        name: "by-name",
        ignored: Some("metrics"),
        ports: WEB,
        routed: &["admin", "http"],
    },
    Case {
        name: "by-number",
        ignored: Some("9090"),
        ports: WEB,
        routed: &["admin", "http"],
    },
    Case {
        name: "several",
        ignored: Some("metrics,8443"),
        ports: WEB,
        routed: &["http"],
    },
    Case {
        name: "spaces",
        ignored: Some(" metrics , , nothing , 1"),
        ports: WEB,
        routed: &["admin", "http"],
    },
    Case {
        name: "udp",
        ignored: None,
        ports: &[("http", 80, "TCP"), ("dns", 53, "UDP")],
        routed: &["http"],
    },
    Case {
        name: "sctp",
        ignored: None,
        ports: &[("http", 80, "TCP"), ("calls", 5060, "SCTP")],
        routed: &["http"],
    },
];

/// ROUTE-22, SET-17: a port in `doorman-ignore-ports` is never routed. ROUTE-23: by its
/// name, ROUTE-24: by its number, ROUTE-25: several by commas, names and numbers
/// mixed (T-70). ROUTE-27: the others are. ROUTE-47, ROUTE-48: UDP and SCTP
/// ports are not.
#[tokio::test]
async fn only_tcp_ports_that_are_not_ignored_are_routed() {
    setup::with("ports", async |stage| {
        let cases = CASES.iter().map(|case| check(stage, case));
        futures::future::try_join_all(cases).await?;
        Ok(())
    })
    .await;
}

async fn check(stage: &Stage<'_>, case: &Case) -> Result<()> {
    let place = stage.place();
    place.create::<Service>(case.manifest()).await?;
    let app = App::new(case.name, "http");
    let target = stage.managed_alone(&app, json!({})).await?;
    course::sleep(place, &target).await?;
    let routed = slices::port_names(place, case.name).await?;
    let expected: BTreeSet<_> = case.routed.iter().map(|name| (*name).to_owned()).collect();
    ensure!(routed == expected, "{}: {routed:?}", case.name);
    Ok(())
}

impl Case {
    fn manifest(&self) -> Value {
        let ports = self.ports.iter().map(
            |(name, number, protocol)| json!({"name": name, "port": number, "protocol": protocol}),
        );
        let ignored = self
            .ignored
            .map(|list| json!({"napwake.dev/doorman-ignore-ports": list}));
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": self.name, "annotations": ignored},
            "spec": {"selector": {"app": self.name}, "ports": ports.collect::<Vec<_>>()},
        })
    }
}

/// T-69: a Service is worked out again when it changes while it's routed: a port
/// that is added gets a doorman port, one that is ignored drains, and the others
/// keep theirs.
#[tokio::test]
async fn a_change_of_a_routed_service_is_followed() {
    setup::with("edited", async |stage| {
        let place = stage.place();
        let ports = [("http", 80, 8080), ("ready", 81, 8081)];
        stage.serve("web", "web", &ports, &["IPv4"]).await?;
        let target = stage
            .managed_alone(&App::new("web", "http"), json!({}))
            .await?;
        course::sleep(place, &target).await?;
        let before = slices::of(place, "web").await?;
        let kept = slices::ports(&before[0]);
        let kept = kept.iter().find(|port| port.0 == "http").context("http")?;

        edit(
            place,
            "web",
            json!({"spec": {"ports": [
                {"name": "http", "port": 80}, {"name": "ready", "port": 81},
                {"name": "admin", "port": 82},
            ]}}),
        )
        .await?;
        ports_become(place, &["admin", "http", "ready"]).await?;
        let ignore = json!({"napwake.dev/doorman-ignore-ports": "ready"});
        edit(place, "web", json!({"metadata": {"annotations": ignore}})).await?;
        ports_become(place, &["admin", "http"]).await?;
        let after = slices::of(place, "web").await?;
        ensure!(slices::ports(&after[0]).contains(kept), "{after:#?}");
        ensure!(
            after[0].metadata.uid == before[0].metadata.uid,
            "{after:#?}"
        );
        // The slice first, and then the status says that it's so.
        let drains = || async {
            let status = managed::status(place, "web").await?;
            let routes = status
                .doorman
                .into_iter()
                .flat_map(|doorman| doorman.routes);
            let drains = routes.filter(|route| route.draining_until.is_some());
            Ok(drains.map(|route| route.port.name).collect::<Vec<_>>())
        };
        let what = "ready alone to drain";
        wait::until(what, managed::PATIENCE, drains, |found| *found == ["ready"]).await?;
        Ok(())
    })
    .await;
}

async fn edit(place: &Place, service: &str, patch: Value) -> Result<()> {
    let api = place.api::<Service>();
    let params = PatchParams::default();
    api.patch(service, &params, &Patch::Merge(&patch)).await?;
    Ok(())
}

async fn ports_become(place: &Place, expected: &[&str]) -> Result<()> {
    let expected: BTreeSet<_> = expected.iter().map(|name| (*name).to_owned()).collect();
    let what = format!("{expected:?} to be routed");
    let probe = || slices::port_names(place, "web");
    wait::until(&what, managed::PATIENCE, probe, |found| *found == expected).await?;
    Ok(())
}

/// ROUTE-67: a workload of 32 ports is routed and one of 33 isn't. ROUTE-68: nor
/// is one by which its namespace would hold over 256. ROUTE-77: both stay on the
/// condition once the workload is awake.
#[tokio::test]
async fn a_workload_has_32_ports_and_a_namespace_256() {
    setup::with("caps", async |stage| {
        let place = stage.place();
        let wide = (0..8).map(|number| wide(stage, format!("w{number}"), 32));
        let wide = futures::future::try_join_all(wide).await?;
        let too_wide = futures::future::try_join_all([
            self::wide(stage, "wider".to_owned(), 33),
            self::wide(stage, "last".to_owned(), 1),
        ])
        .await?;
        course::pause_all(place, &wide).await?;
        for target in &wide {
            course::reason(place, &target.name, "DoormanRouted").await?;
            let ports = course::doorman_ports(&managed::status(place, &target.name).await?);
            ensure!(ports.len() == 32, "{}: {ports:?}", target.name);
        }
        course::pause_all(place, &too_wide).await?;
        for (name, says) in [
            ("wider", "33 doorman ports, over the 32"),
            ("last", "257 doorman ports, over the 256"),
        ] {
            let found = course::reason(place, name, "TooManyPorts").await?;
            ensure!(found.message.contains(says), "{found:?}");
            ensure!(
                slices::of(place, name).await?.is_empty(),
                "{name} is routed"
            );
        }
        course::wake_all(place, &too_wide).await?;
        for name in ["wider", "last"] {
            let kept = course::reason(place, name, "TooManyPorts").await?;
            ensure!(kept.message.starts_with("at its last pause: "), "{kept:?}");
        }
        Ok(())
    })
    .await;
}

async fn wide(stage: &Stage<'_>, name: String, count: u16) -> Result<setup::Target> {
    let names: Vec<_> = (0..count).map(|number| format!("p{number}")).collect();
    let ports = names
        .iter()
        .zip(80..)
        .map(|(name, number)| (name.as_str(), number, 8080));
    let ports: Vec<_> = ports.collect();
    stage.serve(&name, &name, &ports, &["IPv4"]).await?;
    stage
        .managed_alone(&App::new(&name, "http"), json!({}))
        .await
}

/// SET-23, SET-24: both bounds are set by the operator's flags.
#[tokio::test]
async fn the_flags_say_how_many_ports_there_may_be() {
    let flags = ["--ports-per-workload=5", "--ports-per-namespace=8"];
    setup::with_flags("flags", &flags, async |stage| {
        let place = stage.place();
        let five = wide(stage, "five".to_owned(), 5).await?;
        let three = wide(stage, "three".to_owned(), 3).await?;
        let targets = [five, three, wide(stage, "six".to_owned(), 6).await?];
        course::pause_all(place, &targets).await?;
        course::reason(place, "five", "DoormanRouted").await?;
        course::reason(place, "three", "DoormanRouted").await?;
        let six = course::reason(place, "six", "TooManyPorts").await?;
        ensure!(
            six.message.contains("6 doorman ports, over the 5"),
            "{six:?}"
        );
        stage.serve("one", "one", &[HTTP], &["IPv4"]).await?;
        let one = stage
            .managed_alone(&App::new("one", "http"), json!({}))
            .await?;
        course::pause(place, &one).await?;
        let one = course::reason(place, "one", "TooManyPorts").await?;
        ensure!(
            one.message.contains("9 doorman ports, over the 8"),
            "{one:?}"
        );
        Ok(())
    })
    .await;
}
