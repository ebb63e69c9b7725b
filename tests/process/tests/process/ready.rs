//! Which endpoints are Ready, and which are ever dialed.

use std::{net::IpAddr, time::Duration};

use napwake_tests_process::{
    Result,
    caller::{Caller, GET},
    doorman::Doorman,
    ensure,
    hosts::{self, Family, Host},
    route::{Route, Standing},
    upstream::{PAGE, PORT, Upstream},
    world::{self, World},
};
use rstest::rstest;
use serde_json::{Value, json};

/// A route whose caller is held, with the doorman and the caller.
async fn held<'a>(world: &World, route: Route<'a>) -> Result<(Route<'a>, Doorman, Caller)> {
    let doorman = world.doorman().await?;
    let caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
    route.stamped().await?;
    Ok((route, doorman, caller))
}

/// The Pod's own Ready is enough: the caller is passed before the slice says so
/// (T-135).
#[tokio::test]
async fn a_pod_is_ready_before_its_slice_says_so() {
    world::with("pod", async |world| {
        let upstream = Upstream::web(world.pod(0)).await?;
        let route = world.route("web").make().await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let (route, _doorman, mut caller) = held(world, route).await?;
        caller.is_held_for(Duration::from_millis(300)).await?;
        route.pod("web-1", &[world.pod(0)], Standing::Ready).await?;
        caller.expect(PAGE.as_bytes()).await?;
        ensure!(upstream.count() == 1, "{:?}", upstream.visits());
        Ok(())
    })
    .await;
}

/// The slice's word is enough, too, where the Pod's status lags (T-135).
#[tokio::test]
async fn a_slice_says_so_before_the_pod_does() {
    world::with("slice", async |world| {
        let _upstream = Upstream::web(world.pod(0)).await?;
        let route = world.route("web").make().await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let (route, _doorman, mut caller) = held(world, route).await?;
        route.slice("web-1", world.pod(0), Standing::Ready).await?;
        caller.expect(PAGE.as_bytes()).await
    })
    .await;
}

/// A Pod is read by its name, and only while somebody waits for it: no list, no
/// Pod of a Service without callers (T-135).
#[tokio::test]
async fn pods_are_read_by_name_while_somebody_waits() {
    world::with("byname", async |world| {
        let _upstream = Upstream::web(world.pod(0)).await?;
        let route = world.route("web").make().await?;
        route
            .backend("web-1", world.pod(0), Standing::NotReady)
            .await?;
        let quiet = world.route("quiet").make().await?;
        quiet
            .backend("quiet-1", world.pod(1), Standing::NotReady)
            .await?;
        let doorman = world.doorman().await?;
        let of_pods = || {
            let mut asked = world.api.asked();
            asked.retain(|request| request.path.contains("/pods"));
            asked
        };
        ensure!(of_pods().is_empty(), "nobody waits yet: {:?}", of_pods());
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        route.stamped().await?;
        route
            .backend("web-1", world.pod(0), Standing::Ready)
            .await?;
        caller.expect(PAGE.as_bytes()).await?;
        let asked = of_pods();
        let by_name = |path: &str| {
            path.contains("/pods/web-1") || path.contains("fieldSelector=metadata.name%3Dweb-1")
        };
        ensure!(!asked.is_empty(), "no Pod was read");
        let others = asked
            .iter()
            .any(|request| request.method != "GET" || !by_name(&request.path));
        ensure!(!others, "{asked:?}");
        Ok(())
    })
    .await;
}

/// What makes an endpoint that its slice calls serving not Ready all the same.
#[derive(Clone, Copy, Debug)]
enum Flaw {
    /// The Pod has another address.
    OtherAddress,
    /// The Pod is being deleted.
    Deleted,
    /// There is no such Pod.
    NoPod,
    /// The slice marks it as terminating.
    TerminatingSlice,
}

/// An endpoint is dialed only if its Pod has that address and isn't leaving, and
/// its slice doesn't mark it as terminating (T-135, T-74).
#[rstest]
#[case(Flaw::OtherAddress)]
#[case(Flaw::Deleted)]
#[case(Flaw::NoPod)]
#[case(Flaw::TerminatingSlice)]
#[tokio::test]
async fn what_contradicts_the_pod_is_not_dialed(#[case] flaw: Flaw) {
    world::with("flaw", async |world| {
        let (wrong, right) = (world.pod(0), world.pod(1));
        let flawed = Upstream::web(wrong).await?;
        let sound = Upstream::web(right).await?;
        let route = world.route("web").make().await?;
        match flaw {
            Flaw::OtherAddress => {
                route
                    .pod("flawed", &[world.pod(2)], Standing::Ready)
                    .await?;
            }
            Flaw::Deleted => route.pod("flawed", &[wrong], Standing::Terminating).await?,
            Flaw::NoPod => {}
            Flaw::TerminatingSlice => route.pod("flawed", &[wrong], Standing::Ready).await?,
        }
        let says = match flaw {
            Flaw::TerminatingSlice => Standing::Terminating,
            _ => Standing::Ready,
        };
        route.slice("flawed", wrong, says).await?;
        let (route, _doorman, mut caller) = held(world, route).await?;
        caller.is_held_for(Duration::from_millis(1_500)).await?;
        route.backend("sound", right, Standing::Ready).await?;
        caller.expect(PAGE.as_bytes()).await?;
        ensure!(
            (flawed.count(), sound.count()) == (0, 1),
            "{:?}",
            flawed.visits()
        );
        Ok(())
    })
    .await;
}

/// NET-24, NET-25: an endpoint without a Pod behind it isn't dialed, and neither
/// is one in a slice that isn't the EndpointSlice controller's.
#[rstest]
#[case::no_target("NET-24", json!({"endpoints": [{"targetRef": null}]}))]
#[case::a_node("NET-24", json!({"endpoints": [{"targetRef": {"kind": "Node", "name": "web-1"}}]}))]
#[case::managed_by_others("NET-25", json!({"managed-by": "mirror.example.com"}))]
#[case::managed_by_nobody("NET-25", json!({"managed-by": null}))]
#[case::our_own("NET-25", json!({"managed-by": "napwake.dev"}))]
#[tokio::test]
async fn only_pods_in_controller_managed_slices_are_dialed(
    #[case] id: &str,
    #[case] change: Value,
) {
    const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
    world::with("dialed", async |world| {
        let (wrong, right) = (world.pod(0), world.pod(1));
        let flawed = Upstream::web(wrong).await?;
        let _sound = Upstream::web(right).await?;
        let route = world.route("web").make().await?;
        route.pod("web-1", &[wrong], Standing::Ready).await?;
        let mut endpoint = route.endpoint("web-1", wrong, Standing::Ready);
        if let Some(target) = change["endpoints"][0].get("targetRef") {
            endpoint["targetRef"] = target.clone();
        }
        let mut slice = route.slice_of(true, PORT, &[endpoint]);
        if let Some(manager) = change.get("managed-by") {
            slice["metadata"]["labels"][MANAGED_BY] = manager.clone();
        }
        route.write_slice("flawed", slice).await?;
        let (route, _doorman, mut caller) = held(world, route).await?;
        caller.is_held_for(Duration::from_millis(1_200)).await?;
        route.backend("sound", right, Standing::Ready).await?;
        caller.expect(PAGE.as_bytes()).await?;
        ensure!(flawed.count() == 0, "{id}: {:?}", flawed.visits());
        Ok(())
    })
    .await;
}

/// What the API server really has in place of an address it is made to lie
/// about: one with room for any other.
fn truth(family: Family) -> &'static str {
    match family {
        Family::V4 => "198.188.100.100",
        Family::V6 => "2001:db8:1111:1111:1111:1111:1111:88",
    }
}

/// A route with a Ready endpoint at `address` and `port`, as the doorman sees it:
/// the API server refuses most special addresses itself, so it is made to lie.
async fn lied_about(world: &World, address: IpAddr, port: u16) -> Result<Route<'_>> {
    let family = if address.is_ipv4() {
        Family::V4
    } else {
        Family::V6
    };
    let really = json!(truth(family));
    let said = json!(address.to_string());
    world.api.lie(&really.to_string(), &said.to_string())?;
    let route = world.route("web").make().await?;
    route.pod("special", &[], Standing::Ready).await?;
    route
        .give_addresses("special", std::slice::from_ref(&really))
        .await?;
    let mut endpoint = route.endpoint("special", address, Standing::Ready);
    endpoint["addresses"] = json!([really]);
    let slice = route.slice_of(family == Family::V4, port, &[endpoint]);
    route.write_slice("special", slice).await?;
    Ok(route)
}

/// An endpoint that the API server is made to lie about is dialed, if nothing
/// speaks against its address.
#[rstest]
#[case(Family::V4)]
#[case(Family::V6)]
#[tokio::test]
async fn an_ordinary_address_is_dialed(#[case] family: Family) {
    world::with("ordinary", async |world| {
        let address = Host::Pod(0).at(world.block, family);
        let _upstream = Upstream::web(address).await?;
        let route = lied_about(world, address, PORT).await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        caller.expect(PAGE.as_bytes()).await
    })
    .await;
}

/// NET-26, NET-27, NET-28: loopback, link-local and metadata addresses are never
/// dialed, whatever the API server says of slices and Pods, and neither is the
/// doorman itself (T-72). None of them counts as Ready: a request is held, and
/// wakes.
#[rstest]
#[case::loopback("NET-26", "127.0.0.1")]
#[case::loopback_further("NET-26", "127.88.0.1")]
#[case::loopback_v6("NET-26", "::1")]
#[case::loopback_mapped("NET-26", "::ffff:127.0.0.1")]
#[case::link_local("NET-27", "169.254.88.1")]
#[case::link_local_v6("NET-27", "fe80::88")]
#[case::metadata("NET-28", "169.254.169.254")]
#[case::metadata_alibaba("NET-28", "100.100.100.200")]
#[case::metadata_azure("NET-28", "168.63.129.16")]
#[case::metadata_aws_v6("NET-28", "fd00:ec2::254")]
#[case::metadata_google_v6("NET-28", "fd20:ce::254")]
#[case::the_doorman_itself("T-72", "")]
#[tokio::test]
async fn special_addresses_are_never_dialed(#[case] id: &str, #[case] special: &str) {
    world::with("special", async |world| {
        let own = Host::Doorman(0).at(world.block, Family::V4);
        let is_own = special.is_empty();
        let special: IpAddr = if is_own { own } else { special.parse()? };
        // Somebody would answer there, on a port that is this test's own.
        let port = world.block.port(14);
        let would_answer = match hosts::add(&[special.to_canonical()]).await {
            Ok(()) => Upstream::serve_at((special, port).into(), |_| async { Ok(()) })
                .await
                .ok(),
            Err(_) => None,
        };
        let route = lied_about(world, special, port).await?;
        let sound = Upstream::web(world.pod(1)).await?;
        let (route, _doorman, mut caller) = held(world, route).await?;
        caller.is_held_for(Duration::from_millis(1_200)).await?;
        route
            .backend("sound", world.pod(1), Standing::Ready)
            .await?;
        caller.expect(PAGE.as_bytes()).await?;
        ensure!(sound.count() == 1, "{:?}", sound.visits());
        let dialed = would_answer.map_or(0, |upstream| upstream.count());
        ensure!(dialed == 0, "{id}: {special} was dialed");
        Ok(())
    })
    .await;
}

/// Ports go by the name of the Service's port, and each slice has its own number
/// for it (T-71).
#[tokio::test]
async fn each_slice_has_its_own_number_for_a_port() {
    world::with("ports", async |world| {
        let route = world.route("web").named("http").make().await?;
        let odd = std::net::SocketAddr::new(world.pod(1), 9_191);
        let _upstream = Upstream::serve_at(odd, |mut guest| async move {
            guest.head().await?;
            guest.write(PAGE.as_bytes()).await
        })
        .await?;
        let admin = Upstream::web(world.pod(0)).await?;
        route.pod("other", &[world.pod(0)], Standing::Ready).await?;
        let mut slice = route.slice_of(
            true,
            PORT,
            &[route.endpoint("other", world.pod(0), Standing::Ready)],
        );
        slice["ports"][0]["name"] = json!("admin");
        route.write_slice("other", slice).await?;
        let (route, _doorman, mut caller) = held(world, route).await?;
        caller.is_held_for(Duration::from_millis(500)).await?;
        route.pod("web-1", &[world.pod(1)], Standing::Ready).await?;
        let endpoint = route.endpoint("web-1", world.pod(1), Standing::Ready);
        route
            .write_slice("web-1", route.slice_of(true, 9_191, &[endpoint]))
            .await?;
        caller.expect(PAGE.as_bytes()).await?;
        ensure!(admin.count() == 0, "{:?}", admin.visits());
        Ok(())
    })
    .await;
}

/// On a Service with `publishNotReadyAddresses` every endpoint is `ready`; only
/// `serving` tells the truth (T-73).
#[tokio::test]
async fn serving_counts_and_ready_does_not() {
    world::with("publish", async |world| {
        let upstream = Upstream::web(world.pod(0)).await?;
        let route = world.route("web").make().await?;
        route
            .pod("web-1", &[world.pod(0)], Standing::NotReady)
            .await?;
        let published = |serving: bool| {
            let mut endpoint = route.endpoint("web-1", world.pod(0), Standing::NotReady);
            endpoint["conditions"] =
                json!({"ready": true, "serving": serving, "terminating": false});
            route.slice_of(true, PORT, &[endpoint])
        };
        route.write_slice("web-1", published(false)).await?;
        let doorman = world.doorman().await?;
        let mut caller = Caller::calling(world.caller(0), route.at(&doorman), GET).await?;
        route.stamped().await?;
        caller.is_held_for(Duration::from_millis(800)).await?;
        ensure!(upstream.count() == 0, "an unready pod was dialed");
        route.write_slice("web-1", published(true)).await?;
        caller.expect(PAGE.as_bytes()).await
    })
    .await;
}
