use napwake_api::{
    condition::{self, ConditionType},
    names::{event, setting, signal},
    workload::{Phase, WakeMode},
};
use rstest::rstest;

use crate::{
    sim::{
        Cluster,
        objects::{self, running},
        questions::{pause_with, sliced},
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

/// ROUTE-22, ROUTE-23, ROUTE-24, ROUTE-25: ports on the list, by name and number,
/// are never routed.
/// ROUTE-27: the others are.
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

/// ROUTE-42, ROUTE-43: NoServices; ROUTE-44, ROUTE-45, ROUTE-46: and what counts
/// as absent.
/// ROUTE-49, ROUTE-50: NodeLocalTraffic.
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
/// ROUTE-53: UnsupportedIPFamily if nothing is.
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

/// A family, or a Service, for which no doorman pod answers is named, once that has
/// lasted for longer than opening it takes.
#[rstest]
#[case::one_family(&[IpFamily::IPv4, IpFamily::IPv6], "Service front isn't routed in IPv6: ")]
#[case::all_of_it(&[IpFamily::IPv6], "Service front isn't routed: ")]
fn what_nobody_listens_for_is_named(#[case] families: &[IpFamily], #[case] says: &str) {
    let mut cluster = pause_with(|cluster| {
        cluster.deaf_in = Some(IpFamily::IPv6);
        let mut front = objects::service("api", "front");
        front.name = "front".to_owned();
        front.families = families.to_vec();
        cluster.services.push(front);
    });
    cluster.pass_secs(30);
    assert_eq!(reason(&cluster), "DoormanRouted");
    let expected = format!("requests are held and wake the workload; {says}");
    let message = message(&cluster);
    assert!(message.starts_with(&expected), "{message}");
    cluster.deaf_in = None;
    cluster.pass_secs(10);
    let message = wake_on_request(&cluster).2;
    assert_eq!(message, "requests are held and wake the workload");
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

/// T-68: with more Services than a status can name it's paused and woken all the same.
#[test]
fn a_message_of_hundreds_of_services_is_cut() {
    let mut cluster = pause_with(|cluster| {
        cluster.service().internal_traffic = TrafficPolicy::Local;
        for number in 0..400 {
            let mut local = cluster.services[0].clone();
            local.name = format!("{number:03}-{}", "x".repeat(59));
            local.uid.clone_from(&local.name);
            cluster.services.push(local);
        }
    });
    cluster.settle();
    let live = message(&cluster);
    assert_eq!(live.len(), 32 * 1024);
    assert!(live.ends_with('…'));
    cluster.stamp("api", signal::ACTIVITY);
    cluster.until("api", Phase::Running);
    cluster.settle();
    let last = message(&cluster);
    assert!(last.starts_with("at its last pause: ") && last.len() == live.len());
}

/// ROUTE-77: five problems stay once it's awake, and no other.
#[rstest]
#[case("ServedByOtherPods", true)]
#[case("NodeLocalTraffic", true)]
#[case("UnsupportedIPFamily", true)]
#[case("UnsupportedLoadBalancer", true)]
#[case("TooManyPorts", true)]
#[case("NoServices", false)]
#[case("DoormanUnavailable", false)]
#[case("DoormanDisabled", false)]
#[case("ForwarderNotReady", false)]
#[case("NoFreePort", false)]
#[case("RoutingFailed", false)]
fn some_problems_stay(#[case] problem: &str, #[case] stays: bool) {
    let mut cluster = running();
    let conditions = &mut cluster.workload("api").status.conditions;
    let known = conditions.last_mut().expect("WakeOnRequest");
    known.reason = problem.to_owned();
    known.message = "why".to_owned();
    cluster.settle();
    let expected = if stays {
        (problem.to_owned(), "at its last pause: why".to_owned())
    } else {
        ("NotPaused".to_owned(), "the workload is awake".to_owned())
    };
    let (status, reason, message) = wake_on_request(&cluster);
    assert_eq!((reason, message), expected);
    assert_eq!(status, "False");
}
