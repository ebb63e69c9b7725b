//! More than one node: who reaches the doorman from outside, and a node that is
//! drained. They need three nodes and name resolution: `--shape nodes`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Service};
use kube::{Api, ResourceExt, api::ListParams};
use napwake_api::{names::signal, workload::Phase};
use napwake_testkit::{
    Context, Result,
    apps::{App, service},
    callers, ensure, managed, place,
    place::Place,
    wait,
};
use serde_json::json;

use crate::{
    own::{Own, Part},
    setup, slices, steady,
};

/// Where the control plane's network is on the nodes' own: callers of the tests come
/// from there, as if from outside.
const OUTSIDE: &str = "10.0.0.254";

/// The node through which the tests reach Services.
const FIRST: &str = "n1";

/// Each node's own IPv4 address, by its name.
async fn nodes(place: &Place) -> Result<BTreeMap<String, String>> {
    let api: Api<Node> = Api::all(place.client.clone());
    let listed = api.list(&ListParams::default()).await?.items;
    let address = |node: &Node| {
        let addresses = node.status.as_ref()?.addresses.as_ref()?;
        let own = |kind: &str, address: &str| kind == "InternalIP" && address.contains('.');
        let found = addresses.iter().find(|one| own(&one.type_, &one.address))?;
        Some((node.name_any(), found.address.clone()))
    };
    Ok(listed.iter().filter_map(address).collect())
}

/// The nodes that run a doorman pod.
async fn manned(own: &Own) -> Result<BTreeSet<String>> {
    let pods = own.pods(Part::Doorman).await?;
    let nodes = pods.into_iter().filter_map(|pod| pod.spec?.node_name);
    Ok(nodes.collect())
}

/// Makes `web` behind a port of each node, for callers whose nodes have an endpoint of
/// their own. Gives the port.
async fn behind_node_ports(place: &Place) -> Result<i32> {
    let app = App::new("web", "http");
    setup::start(place, &app).await?;
    let mut manifest = service("web", "web", &[("", 80, 8080)], &["IPv4"]);
    manifest["spec"]["type"] = json!("NodePort");
    manifest["spec"]["externalTrafficPolicy"] = json!("Local");
    let made = place.create::<Service>(manifest).await?;
    setup::run(place, &app, json!({})).await?;
    let ports = made.spec.and_then(|spec| spec.ports).unwrap_or_default();
    let port = ports.first().and_then(|port| port.node_port);
    port.context("a port of each node")
}

/// NET-19, NET-20, COMPAT-15: behind `externalTrafficPolicy: Local`, callers from
/// outside reach the doorman through the nodes that run one of its pods, by their own
/// address, and through no other.
#[tokio::test]
async fn a_local_service_is_woken_through_nodes_with_a_doorman_pod() {
    place::with("local", async |place| {
        let own = Own::of(&place);
        own.until_settled(Part::Doorman).await?;
        let port = behind_node_ports(&place).await?;
        let manned = manned(&own).await?;
        let nodes = nodes(&place).await?;
        ensure!(
            nodes.len() == 3 && manned.len() == 2,
            "{nodes:?} {manned:?}"
        );
        for (node, address) in &nodes {
            managed::pause_routed(&place, "web").await?;
            let stamped = managed::annotation(&place, "web", signal::LAST_REQUEST).await?;
            let url = format!("http://{address}:{port}/");
            if manned.contains(node) {
                setup::request_to(&url, "web")
                    .await
                    .with_context(|| format!("by {node}"))?;
                let from = managed::annotation(&place, "web", signal::LAST_REQUEST_FROM).await?;
                ensure!(from.as_deref() == Some(OUTSIDE), "by {node} from {from:?}");
                managed::phase(&place, "web", Phase::Running).await?;
            } else {
                // The node's kube-proxy may know of a pod that has just gone.
                let what = format!("callers by {node} to get nowhere");
                let ask = || callers::curl(&url, &["--connect-timeout", "3"]);
                let gets_nowhere = |ended: &callers::Ended| ended.code == Some(28);
                wait::until(&what, managed::PATIENCE, ask, gets_nowhere).await?;
                let stamp = managed::annotation(&place, "web", signal::LAST_REQUEST).await?;
                ensure!(stamp == stamped, "by {node}: {stamp:?}");
                let phase = managed::status(&place, "web").await?.phase;
                ensure!(phase == Some(Phase::Paused), "by {node} it's {phase:?}");
            }
        }
        Ok(())
    })
    .await;
}

/// ROUTE-07: the Service's name leads to its cluster address while it's awake, while
/// it's paused, and once it has woken.
#[tokio::test]
async fn a_services_name_leads_to_its_address_throughout() {
    place::with("named", async |place| {
        setup::manage(&place, &App::new("web", "http"), json!({})).await?;
        let address = place.address("web").await?;
        let name = format!("web.{}.svc.cluster.local", place.namespace);
        let resolve = async |when: &str| {
            let answer = callers::run("getent", &["ahostsv4", &name]).await?.ok()?;
            let first = answer.split_whitespace().next();
            ensure!(first == Some(&address), "{when}: {answer}");
            Ok(())
        };
        resolve("awake").await?;
        managed::pause_routed(&place, "web").await?;
        resolve("paused").await?;
        setup::request_to(&format!("http://{name}/"), "web").await?;
        managed::phase(&place, "web", Phase::Running).await?;
        resolve("woken").await
    })
    .await;
}

/// DRAIN-05, DRAIN-11: a node that runs a doorman pod is drained, as for an upgrade of
/// it: of constant calls to a paused Service none is refused, and its slices name
/// doorman pods of other nodes in the end.
#[tokio::test]
async fn a_drained_node_loses_no_connection() {
    place::with("drained", async |place| {
        let own = Own::of(&place);
        own.until_settled(Part::Doorman).await?;
        own.until_evictable(1).await?;
        setup::asleep(&place, &App::new("web", "http")).await?;
        let address = format!("{}:80", place.address("web").await?);
        let node = manned(&own)
            .await?
            .pop_first()
            .context("a node with a doorman pod")?;
        let drained = drain(&own, &node);
        let (answered, ()) = steady::CHECKS.during(&address, drained).await?;
        ensure!(answered > 0, "nobody called");
        let left = manned(&own).await?;
        ensure!(
            left.len() == 2 && !left.contains(&node),
            "doorman pods on {left:?}"
        );
        until_named(&place, |named| named.len() == 2).await?;
        setup::request(&place, "web").await?;
        Ok(())
    })
    .await;
}

/// DRAIN-05, ROUTE-64: a node that runs a doorman pod falls off the network without a
/// word. Once Kubernetes takes it for lost, slices name the doorman pod that is left,
/// and a paused Service is woken through it; they name both when the node is back.
#[tokio::test]
async fn slices_leave_a_node_that_is_lost_and_name_it_when_it_is_back() {
    place::with("lost", async |place| {
        let own = Own::of(&place);
        own.until_settled(Part::Doorman).await?;
        setup::asleep(&place, &App::new("web", "http")).await?;
        let (node, lost) = beyond_the_first(&own).await?;
        let both = until_named(&place, |named| named.len() == 2).await?;
        ensure!(both.is_superset(&lost), "{both:?} {lost:?}");
        wire(&node, "down").await?;
        let without = async {
            until_named(&place, |named| named.len() == 1 && named.is_disjoint(&lost)).await?;
            is_woken_once_connected(&place).await
        };
        let without = without.await;
        wire(&node, "up").await?;
        without.with_context(|| format!("without {node}"))?;
        own.until_settled(Part::Doorman).await?;
        managed::pause_routed(&place, "web").await?;
        until_named(&place, |named| *named == both).await?;
        setup::request(&place, "web").await?;
        Ok(())
    })
    .await;
}

/// A node with a doorman pod by which the tests don't reach Services, and that pod's
/// IPv4 address.
async fn beyond_the_first(own: &Own) -> Result<(String, BTreeSet<String>)> {
    let pods = own.pods(Part::Doorman).await?.into_iter();
    let mut beyond = pods.filter_map(|pod| {
        let node = pod.spec?.node_name.filter(|node| node != FIRST)?;
        Some((node, BTreeSet::from([pod.status?.pod_ip?])))
    });
    beyond.next().context("a doorman pod on another node")
}

/// Asks until a connection comes about, and is answered over that. kube-proxy follows the
/// slices a moment later, and until then some are sent to the node that is lost.
async fn is_woken_once_connected(place: &Place) -> Result<()> {
    let url = setup::url(place, "web", "/").await?;
    let ask = || callers::curl(&url, &["--connect-timeout", "3"]);
    // No answer to its SYN, or no way to the node.
    let is_connected = |ended: &callers::Ended| !matches!(ended.code, Some(7 | 28));
    let what = "a connection to Service web";
    let ended = wait::until(what, managed::PATIENCE, ask, is_connected).await?;
    let is_the_apps = ended.out.starts_with("app web-");
    ensure!(is_the_apps, "not the app's own answer: {ended:?}");
    Ok(())
}

/// Cuts the node's wire to all others, or mends it.
async fn wire(node: &str, state: &str) -> Result<()> {
    let wire = format!("lan-{node}");
    callers::run("ip", &["link", "set", &wire, state])
        .await?
        .ok()?;
    Ok(())
}

/// Waits until the slices of `web` name such doorman pods.
async fn until_named(
    place: &Place,
    is_so: impl Fn(&BTreeSet<String>) -> bool,
) -> Result<BTreeSet<String>> {
    let named = || slices::doormen(place, "web");
    wait::until("the slices' doorman pods", managed::PATIENCE, named, is_so).await
}

/// Drains the node, waits until the doorman is whole without it, and lets it be used
/// again.
async fn drain(own: &Own, node: &str) -> Result<()> {
    let words = [
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        "--timeout=110s",
    ];
    let drained = callers::run("kubectl", &[&["drain", node], &words[..]].concat()).await;
    let settled = match &drained {
        Ok(_) => own.until_settled(Part::Doorman).await,
        Err(_) => Ok(()),
    };
    callers::run("kubectl", &["uncordon", node]).await?.ok()?;
    drained?.ok()?;
    settled
}
