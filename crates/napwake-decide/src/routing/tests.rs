use jiff::SignedDuration;
use napwake_api::{
    condition::{self, ConditionType},
    names::{event, setting, signal},
    workload::{Phase, RouteState, WakeMode},
};
use rstest::rstest;

use crate::{
    sim::{
        Cluster,
        objects::{self, running},
    },
    world::*,
};

/// The condition `WakeOnRequest`: status, reason, message.
fn wake_on_request(cluster: &Cluster) -> (String, String, String) {
    let conditions = &cluster.status("api").conditions;
    let known = condition::get(conditions, ConditionType::WakeOnRequest).expect("set");
    (
        known.status.clone(),
        known.reason.clone(),
        known.message.clone(),
    )
}

fn reason(cluster: &Cluster) -> String {
    wake_on_request(cluster).1
}

fn message(cluster: &Cluster) -> String {
    wake_on_request(cluster).2
}

/// Pauses `api` in a cluster changed by `change`.
fn pause_with(change: impl FnOnce(&mut Cluster)) -> Cluster {
    let mut cluster = running();
    change(&mut cluster);
    cluster.pause("api");
    cluster
}

fn ports(cluster: &Cluster) -> Vec<(String, u16, RouteState)> {
    let doorman = cluster.status("api").doorman.as_ref();
    doorman
        .map(|doorman| {
            doorman
                .routes
                .iter()
                .map(|route| (route.port.name.clone(), route.doorman_port, route.state))
                .collect()
        })
        .unwrap_or_default()
}

/// The ports that slices of `api` name.
fn sliced(cluster: &Cluster) -> Vec<String> {
    cluster
        .slices
        .values()
        .flat_map(|slice| &slice.spec.ports)
        .map(|port| port.name.clone())
        .collect()
}

/// ROUTE-15, ROUTE-16: the words for each mode.
#[rstest]
#[case(WakeMode::Request, "requests are held and wake the workload")]
#[case(
    WakeMode::Ask,
    "the doorman asks a person's browser before waking the workload, and turns away other requests"
)]
fn a_routed_workload_says_so(#[case] mode: WakeMode, #[case] expected: &str) {
    let cluster = pause_with(|cluster| cluster.workload("api").spec.wake.mode = mode);
    assert_eq!(
        wake_on_request(&cluster),
        (
            "True".to_owned(),
            "DoormanRouted".to_owned(),
            expected.to_owned()
        )
    );
}

/// A mode that is changed while paused is followed at once.
#[test]
fn the_message_follows_the_mode() {
    let mut cluster = pause_with(|_| {});
    cluster.workload("api").spec.wake.mode = WakeMode::Ask;
    cluster.settle();
    assert!(message(&cluster).starts_with("the doorman asks"));
}

/// ROUTE-01: each Service that selects the pods, and no other.
#[test]
fn every_service_that_selects_the_pods_is_routed() {
    let cluster = pause_with(|cluster| {
        cluster.services.push(objects::service("api", "second"));
        cluster.services[1].name = "second".to_owned();
        cluster.services.push(objects::service("other", "other"));
        let mut narrower = objects::service("api", "narrower");
        narrower.name = "narrower".to_owned();
        let version = ("version".to_owned(), "2".to_owned());
        narrower.selector.extend([version]);
        cluster.services.push(narrower);
    });
    let services: Vec<_> = cluster
        .slices
        .values()
        .map(|slice| slice.spec.service.as_str())
        .collect();
    assert_eq!(services, ["api", "second"]);
}

/// ROUTE-14: gone once it's Running.
/// ROUTE-75: awake means NotPaused.
#[test]
fn a_running_workload_has_no_slices() {
    let mut cluster = pause_with(|_| {});
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.settle();
    // T-120: routed still while it wakes.
    assert_eq!(cluster.phase("api"), Some(Phase::Resuming));
    assert_eq!(reason(&cluster), "DoormanRouted");
    assert_eq!(cluster.slices.len(), 1);
    cluster.until("api", Phase::Running);
    assert_eq!(cluster.slices.len(), 0);
    assert_eq!(reason(&cluster), "NotPaused");
}

/// DRAIN-22: the rest is on record; DRAIN-17: after 30 s of drain.
#[test]
fn a_route_drains_and_its_port_rests() {
    let mut cluster = pause_with(|_| {});
    let port = ports(&cluster)[0].1;
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.until("api", Phase::Running);
    let ran = cluster.now;
    let doorman = cluster.status("api").doorman.clone().expect("a drain");
    assert_eq!(doorman.routes[0].state, RouteState::Draining);
    let until = doorman.routes[0].draining_until.clone().expect("set").0;
    assert_eq!(until, ran + SignedDuration::from_secs(30));
    cluster.pass_secs(30);
    let doorman = cluster.status("api").doorman.clone().expect("a rest");
    assert_eq!(doorman.routes, []);
    assert_eq!(doorman.resting[0].port, port);
    assert_eq!(
        doorman.resting[0].until.0,
        ran + SignedDuration::from_secs(90)
    );
    cluster.pass_secs(60);
    assert_eq!(cluster.status("api").doorman, None);
}

#[rstest]
#[case::in_the_drain(10)]
#[case::in_the_rest(50)]
fn pausing_again_takes_the_port_back(#[case] seconds: i64) {
    let mut cluster = pause_with(|_| {});
    let port = ports(&cluster)[0].1;
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.until("api", Phase::Running);
    cluster.pass_secs(seconds);
    cluster.pause("api");
    assert_eq!(ports(&cluster), [(String::new(), port, RouteState::Routed)]);
    assert_eq!(
        cluster.status("api").doorman.clone().expect("it").resting,
        []
    );
}

/// ROUTE-22 to ROUTE-27: ROUTE-23, ROUTE-24, ROUTE-25: ports on the list, by
/// name and number, are never routed, and the others are.
#[rstest]
#[case("metrics", &["http", "admin"])]
#[case("9090", &["http", "admin"])]
#[case("metrics,8081", &["http"])]
#[case(" metrics , 8081 ,", &["http"])]
#[case("unknown,1", &["http", "metrics", "admin"])]
fn listed_ports_are_not_routed(#[case] list: &str, #[case] routed: &[&str]) {
    let cluster = pause_with(|cluster| {
        let service = cluster.service();
        service.ports = vec![
            objects::port("http", 80),
            objects::port("metrics", 9090),
            objects::port("admin", 8081),
        ];
        let key = setting::DOORMAN_IGNORE_PORTS.to_owned();
        service.annotations.insert(key, list.to_owned());
    });
    assert_eq!(sliced(&cluster), routed);
}

/// ROUTE-47, ROUTE-48: only TCP ports are routed.
#[test]
fn only_tcp_ports_are_routed() {
    let cluster = pause_with(|cluster| {
        let mut udp = objects::port("dns", 53);
        udp.protocol = Protocol::Other;
        cluster.service().ports.push(udp);
    });
    assert_eq!(sliced(&cluster), [""]);
}

fn udp_only(service: &mut Service) {
    service.ports[0].protocol = Protocol::Other;
}

fn all_ignored(service: &mut Service) {
    let key = setting::DOORMAN_IGNORE_PORTS.to_owned();
    service.annotations.insert(key, "80".to_owned());
}

/// ROUTE-41, OBS-13: each reason is reached and named on the condition.
/// ROUTE-42, ROUTE-43: NoServices; ROUTE-44, ROUTE-45, ROUTE-46: and what counts
/// as absent.
/// ROUTE-49, ROUTE-50: NodeLocalTraffic; ROUTE-53: UnsupportedIPFamily.
#[rstest]
#[case::no_service(|s: &mut Service| s.selector = objects::service("x", "x").selector, "NoServices")]
#[case::no_selector(|s: &mut Service| s.selector.clear(), "NoServices")]
#[case::udp_only(udp_only, "NoServices")]
#[case::all_ignored(all_ignored, "NoServices")]
#[case::headless(|s: &mut Service| s.kind = ServiceKind::Headless, "NoServices")]
#[case::external_name(|s: &mut Service| s.kind = ServiceKind::ExternalName, "NoServices")]
#[case::local(|s: &mut Service| s.internal_traffic = TrafficPolicy::Local, "NodeLocalTraffic")]
fn a_service_is_not_routed(#[case] change: fn(&mut Service), #[case] expected: &str) {
    let cluster = pause_with(|cluster| change(cluster.service()));
    let (status, reason, _) = wake_on_request(&cluster);
    assert_eq!((status.as_str(), reason.as_str()), ("False", expected));
    assert_eq!(cluster.slices.len(), 0);
    assert_eq!(cluster.status("api").doorman, None);
}

/// ROUTE-51, ROUTE-82: beside a routed one the message names it.
#[test]
fn a_service_left_out_is_named() {
    let cluster = pause_with(|cluster| {
        let mut local = objects::service("api", "local");
        local.name = "local".to_owned();
        local.internal_traffic = TrafficPolicy::Local;
        cluster.services.push(local);
    });
    assert_eq!(reason(&cluster), "DoormanRouted");
    assert_eq!(
        message(&cluster),
        "requests are held and wake the workload; Service local isn't routed: its \
         internalTrafficPolicy is Local"
    );
    assert_eq!(cluster.slices.len(), 1);
}

/// ROUTE-52: a family in which no doorman pod has an address isn't routed.
#[rstest]
#[case::dual_stack(&[IpFamily::IPv4, IpFamily::IPv6], "DoormanRouted", 1)]
#[case::ipv6_only(&[IpFamily::IPv6], "UnsupportedIPFamily", 0)]
fn a_family_the_doorman_lacks_is_not_routed(
    #[case] families: &[IpFamily],
    #[case] expected: &str,
    #[case] slices: usize,
) {
    let cluster = pause_with(|cluster| {
        for pod in cluster.doormen() {
            pod.addresses.remove(&IpFamily::IPv6);
        }
        cluster.service().families = families.to_vec();
    });
    assert_eq!(reason(&cluster), expected);
    assert_eq!(cluster.slices.len(), slices);
    if slices == 1 {
        let note = "Service api isn't routed in IPv6, in which no doorman pod has an address";
        assert!(message(&cluster).ends_with(note));
    }
}

/// ROUTE-18: the condition says that there's no readiness probe, and stays True.
#[test]
fn a_missing_readiness_probe_is_on_the_condition() {
    let cluster = pause_with(|cluster| {
        cluster.target("api").template.readiness = Readiness::Unprobed;
    });
    let (status, _, message) = wake_on_request(&cluster);
    assert_eq!(status, "True");
    assert!(message.contains("no container has a readiness probe"));
}

#[test]
fn a_service_that_publishes_unready_pods_is_named() {
    let cluster = pause_with(|cluster| cluster.service().publishes = Publishes::AllPods);
    assert!(message(&cluster).contains("Service api publishes addresses"));
}

/// ROUTE-63: no Ready doorman pod.
/// ROUTE-64: routing is removed until one is back, then restored.
/// DRAIN-06: with one left, only the endpoints change.
#[test]
fn routes_follow_the_doorman() {
    let mut cluster = pause_with(|_| {});
    let before: Vec<_> = cluster.slices.values().cloned().collect();
    cluster.doormen()[0].state = DoormanState::NotReady;
    cluster.settle();
    let after: Vec<_> = cluster.slices.values().cloned().collect();
    assert_eq!(after[0].uid, before[0].uid);
    assert_eq!(after[0].spec.endpoints, before[0].spec.endpoints[1..]);
    assert_eq!(after[0].spec.ports, before[0].spec.ports);
    cluster.doormen()[1].state = DoormanState::NotReady;
    cluster.settle();
    assert_eq!(cluster.slices.len(), 0);
    assert_eq!(reason(&cluster), "DoormanUnavailable");
    cluster.pass_secs(600);
    cluster.doormen()[0].state = DoormanState::Ready;
    cluster.settle();
    assert_eq!(reason(&cluster), "DoormanRouted");
    let restored: Vec<_> = cluster.slices.values().cloned().collect();
    assert_eq!(restored[0].spec.endpoints, before[0].spec.endpoints[..1]);
}

/// SET-20, SET-21: a doorman that's turned off leaves no slice, and says so.
#[test]
fn a_doorman_turned_off_routes_nothing() {
    let mut cluster = pause_with(|_| {});
    cluster.doorman = Doorman::Disabled;
    cluster.settle();
    assert_eq!(cluster.slices.len(), 0);
    assert_eq!(reason(&cluster), "DoormanDisabled");
    cluster.pass_secs(90);
    assert_eq!(cluster.status("api").doorman, None, "its ports have rested");
}

/// ROUTE-65: no free port, and nothing is routed.
#[test]
fn without_a_free_port_nothing_is_routed() {
    let mut cluster = running();
    let mut status = cluster.status("api").clone();
    status.doorman = Some(napwake_api::workload::DoormanStatus {
        routes: Vec::new(),
        resting: (20_000..=29_999)
            .map(|port| napwake_api::workload::RestingPort {
                port,
                until: napwake_api::workload::MicroTime(
                    cluster.now + SignedDuration::from_mins(60),
                ),
            })
            .collect(),
    });
    let other = WorkloadKey {
        namespace: "other".to_owned(),
        name: "other".to_owned(),
    };
    cluster.ports.observe(&other, &status);
    cluster.pause("api");
    assert_eq!(reason(&cluster), "NoFreePort");
    assert_eq!(cluster.slices.len(), 0);
    // Looked at again once ports are free.
    cluster.pass_secs(3600 + 30);
    assert_eq!(reason(&cluster), "DoormanRouted");
}

/// ROUTE-70, OBS-12: a refused write.
/// ROUTE-73: comes with a warning event.
/// ROUTE-74: tried again from 5 seconds on, up to 5 minutes.
#[test]
fn a_refused_slice_is_tried_again_with_backoff() {
    let mut cluster = running();
    cluster.refusal = Some(SliceProblem::Refused("forbidden".to_owned()));
    cluster.pause("api");
    assert_eq!(reason(&cluster), "RoutingFailed");
    assert!(message(&cluster).contains("forbidden"));
    let failures = |cluster: &Cluster| cluster.apps["api"].failures.values().next().cloned();
    let mut last = failures(&cluster).expect("failed");
    let mut waits = Vec::new();
    while waits.len() < 8 {
        cluster.pass_secs(1);
        let now = failures(&cluster).expect("failed");
        if now.count > last.count {
            waits.push(now.at.duration_since(last.at).as_secs());
        }
        last = now;
    }
    assert!(waits.is_sorted(), "{waits:?}");
    assert_eq!(waits.last(), Some(&300));
    cluster.refusal = None;
    cluster.pass_secs(300);
    assert_eq!(reason(&cluster), "DoormanRouted");
    let events = cluster.events("api");
    let told = events
        .iter()
        .filter(|reason| **reason == event::ROUTING_FAILED);
    assert_eq!(told.count(), 1);
}

/// ROUTE-71: somebody else's slice of that name.
/// ROUTE-72: is never touched.
#[rstest]
#[case::seen(true)]
#[case::found_on_writing(false)]
fn a_foreign_slice_is_never_touched(#[case] is_seen: bool) {
    let mut cluster = running();
    cluster.pause("api");
    let name = cluster.slices.keys().next().expect("a slice").clone();
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.until("api", Phase::Running);
    cluster.pass_secs(100);
    let mut foreign = Slice {
        uid: "foreign".to_owned(),
        resource_version: "1".to_owned(),
        managed_by: Some("somebody".to_owned()),
        spec: SliceSpec {
            name: name.clone(),
            service: "api".to_owned(),
            service_uid: String::new(),
            family: IpFamily::IPv4,
            endpoints: Vec::new(),
            ports: Vec::new(),
        },
    };
    if !is_seen {
        foreign.spec.service = "another".to_owned();
        cluster.refusal = Some(SliceProblem::Foreign);
    }
    cluster.slices.insert(name.clone(), foreign.clone());
    cluster.pause("api");
    assert_eq!(reason(&cluster), "RoutingFailed");
    assert!(message(&cluster).contains(&name));
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.until("api", Phase::Running);
    cluster.pass_secs(100);
    assert_eq!(cluster.slices[&name], foreign);
    assert_eq!(reason(&cluster), "NotPaused");
}

/// ROUTE-76: a problem with its Services stays once it's awake.
/// ROUTE-77: those five, and no other.
/// ROUTE-78, ROUTE-40: the next pause meets it again unless it's mended.
#[test]
fn a_problem_of_the_last_pause_stays_on_the_condition() {
    let mut cluster = pause_with(|cluster| {
        cluster.service().internal_traffic = TrafficPolicy::Local;
    });
    let live = message(&cluster);
    for is_mended in [false, true] {
        cluster.stamp("api", signal::ACTIVITY);
        cluster.until("api", Phase::Running);
        cluster.pass_secs(100);
        assert_eq!(reason(&cluster), "NodeLocalTraffic");
        assert_eq!(message(&cluster), format!("at its last pause: {live}"));
        if is_mended {
            cluster.service().internal_traffic = TrafficPolicy::Cluster;
        }
        cluster.pause("api");
        let expected = if is_mended {
            "DoormanRouted"
        } else {
            "NodeLocalTraffic"
        };
        assert_eq!(reason(&cluster), expected);
    }
}

#[test]
fn ports_added_and_removed_while_paused_come_and_go() {
    let mut cluster = pause_with(|cluster| {
        cluster.service().ports = vec![objects::port("http", 80), objects::port("old", 81)];
    });
    let before = ports(&cluster);
    cluster.service().ports = vec![objects::port("http", 80), objects::port("new", 82)];
    cluster.settle();
    let after = ports(&cluster);
    assert_eq!(after[0], before[0], "an unchanged port keeps its own");
    assert_eq!(
        (after[1].0.as_str(), after[1].2),
        ("new", RouteState::Routed)
    );
    assert_eq!(
        after[2],
        ("old".to_owned(), before[1].1, RouteState::Draining)
    );
    assert_eq!(sliced(&cluster), ["http", "new"]);
    cluster.pass_secs(30);
    let doorman = cluster.status("api").doorman.clone().expect("routes");
    assert_eq!(doorman.resting[0].port, before[1].1);
}

#[test]
fn a_service_made_anew_gets_slices_of_its_own() {
    let mut cluster = pause_with(|_| {});
    let before = cluster.slices.values().next().expect("a slice").clone();
    cluster.service().uid = "anew".to_owned();
    cluster.settle();
    let after = cluster.slices.values().next().expect("a slice").clone();
    assert_ne!(after.uid, before.uid);
    assert_eq!(after.spec.service_uid, "anew");
    assert_eq!(after.spec.ports, before.spec.ports);
}

#[test]
fn a_service_that_selects_the_pods_no_longer_is_let_go() {
    let mut cluster = pause_with(|_| {});
    cluster.service().selector = objects::service("x", "x").selector;
    cluster.settle();
    assert_eq!(cluster.slices.len(), 0);
    assert_eq!(ports(&cluster)[0].2, RouteState::Draining);
    assert_eq!(reason(&cluster), "NoServices");
}

#[rstest]
#[case(crate::sim::Part::Doorman)]
#[case(crate::sim::Part::Services)]
fn routes_leave_without_what_they_need_no_longer(#[case] part: crate::sim::Part) {
    let mut cluster = pause_with(|_| {});
    cluster.unknown.insert(part);
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.until("api", Phase::Running);
    assert_eq!(cluster.slices.len(), 0);
    assert_eq!(ports(&cluster)[0].2, RouteState::Draining);
}

fn front(cluster: &Cluster, name: &str) -> Option<(u16, RouteState, Option<String>)> {
    let doorman = cluster.status(name).doorman.as_ref()?;
    let route = doorman
        .routes
        .iter()
        .find(|route| route.service == "front")?;
    Some((route.doorman_port, route.state, route.taken_by.clone()))
}

/// ROUTE-31: a Service whose workloads are all paused is routed.
#[test]
fn workloads_behind_one_service_share_its_slices() {
    let mut cluster = objects::shared();
    cluster.pass_secs(1);
    cluster.pause("api");
    cluster.pause("worker");
    let slices = |cluster: &Cluster| {
        let slices = cluster.slices.values();
        slices.filter(|slice| slice.spec.service == "front").count()
    };
    let (port, _, _) = front(&cluster, "api").expect("taken");
    let shared = (port, RouteState::Routed, Some("api".to_owned()));
    assert_eq!(front(&cluster, "worker"), Some(shared));
    assert_eq!(slices(&cluster), 2);
    // The one that took the port wakes: it's on record until the other has it.
    cluster.stamp("api", signal::ACTIVITY);
    cluster.now += SignedDuration::from_secs(1);
    cluster.target("api").ready_replicas = 3;
    for _ in 0..9 {
        cluster.step_up_to("api", usize::MAX);
        cluster.target("api").ready_replicas = 3;
    }
    assert_eq!(cluster.phase("api"), Some(Phase::Running));
    assert_eq!(
        front(&cluster, "api"),
        Some((port, RouteState::Draining, None))
    );
    cluster.settle();
    assert_eq!(front(&cluster, "api"), None);
    assert_eq!(
        front(&cluster, "worker"),
        Some((port, RouteState::Routed, None))
    );
    assert_eq!(slices(&cluster), 2);
    cluster.pass_secs(300);
    assert_eq!(
        cluster.status("api").doorman,
        None,
        "its own port alone rested"
    );
}
