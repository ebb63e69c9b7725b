//! Services that change under way: in each phase of a pause, whatever changes, the
//! slices follow, nobody is refused, and in the end nothing is left over.

use napwake_api::{
    names::{setting, signal},
    workload::{IpFamily, Phase},
};
use rstest::rstest;

use super::{objects, *};

/// What somebody does to the Service `api`, of the ports `web` and `admin`.
#[derive(Clone, Copy, Debug)]
enum Change {
    AnotherService,
    Deleted,
    Deselected,
    PortRenamed,
    PortRenumbered,
    PortAdded,
    PortTakenOff,
    BothFamilies,
    OtherFamily,
    PortIgnored,
    AllIgnored,
    Remade,
}

/// A slice's Service, family and ports, as a test writes them down.
type Standing = (&'static str, IpFamily, &'static [&'static str]);

const UNCHANGED: Standing = ("api", IpFamily::IPv4, &["web", "admin"]);

impl Change {
    fn make(self, cluster: &mut Cluster) {
        let uid = cluster.version();
        let service = cluster.service();
        match self {
            Self::AnotherService => {
                let mut second = objects::service("api", "second");
                second.name = "second".to_owned();
                cluster.services.push(second);
            }
            Self::Deleted => cluster.services.clear(),
            Self::Deselected => service.selector = objects::service("x", "x").selector,
            Self::PortRenamed => service.ports[1].name = "manage".to_owned(),
            Self::PortRenumbered => service.ports[1].number = 8443,
            Self::PortAdded => service.ports.push(objects::port("more", 82)),
            Self::PortTakenOff => drop(service.ports.pop()),
            Self::BothFamilies => service.families.push(IpFamily::IPv6),
            Self::OtherFamily => service.families = vec![IpFamily::IPv6],
            Self::PortIgnored => ignore(service, "admin"),
            Self::AllIgnored => ignore(service, "80,81"),
            Self::Remade => service.uid = format!("service-{uid}"),
        }
    }

    /// The slices that should stand then, while the workload is paused.
    fn standing(self) -> Vec<Standing> {
        match self {
            Self::AnotherService => vec![UNCHANGED, ("second", IpFamily::IPv4, &[""])],
            Self::Deleted | Self::Deselected | Self::AllIgnored => Vec::new(),
            Self::PortRenamed => vec![("api", IpFamily::IPv4, &["web", "manage"])],
            Self::PortAdded => vec![("api", IpFamily::IPv4, &["web", "admin", "more"])],
            Self::PortTakenOff | Self::PortIgnored => vec![("api", IpFamily::IPv4, &["web"])],
            Self::BothFamilies => vec![UNCHANGED, ("api", IpFamily::IPv6, UNCHANGED.2)],
            Self::OtherFamily => vec![("api", IpFamily::IPv6, UNCHANGED.2)],
            Self::PortRenumbered | Self::Remade => vec![UNCHANGED],
        }
    }
}

fn ignore(service: &mut Service, list: &str) {
    let key = setting::DOORMAN_IGNORE_PORTS.to_owned();
    service.annotations.insert(key, list.to_owned());
}

/// When it happens.
#[derive(Clone, Copy, Debug)]
enum When {
    /// A pause was asked for, and nothing is routed yet.
    Asked,
    /// Routed, and the pods are there still.
    LookingOut,
    Paused,
    /// Woken, and no pod is Ready yet.
    Resuming,
    /// A pod is Ready, and the Service's own slices don't name it yet.
    HandingOver,
    Draining,
}

impl When {
    /// Brings `api` there.
    fn come(self, cluster: &mut Cluster) {
        cluster.pass_secs(1);
        cluster.stamp("api", signal::PAUSE_REQUESTED);
        match self {
            Self::Asked => drop(cluster.step_up_to("api", 1)),
            Self::LookingOut => {
                cluster.pass_secs(3);
                assert_eq!(cluster.phase("api"), Some(Phase::Pausing));
                assert!(!cluster.slices.is_empty() && cluster.replicas("api") > 0);
            }
            Self::Paused => cluster.until("api", Phase::Paused),
            Self::Resuming | Self::HandingOver | Self::Draining => {
                cluster.until("api", Phase::Paused);
                cluster.endpoints_lag = SignedDuration::from_secs(2);
                cluster.pass_secs(1);
                cluster.stamp("api", signal::LAST_REQUEST);
                cluster.settle();
                assert_eq!(cluster.phase("api"), Some(Phase::Resuming));
                self.come_after_the_wake(cluster);
            }
        }
    }

    fn come_after_the_wake(self, cluster: &mut Cluster) {
        match self {
            Self::HandingOver => {
                cluster.until("api", Phase::Running);
                assert!(!cluster.slices.is_empty());
            }
            Self::Draining => {
                cluster.until("api", Phase::Running);
                cluster.pass_secs(6);
                assert!(cluster.slices.is_empty());
            }
            _ => {}
        }
    }

    const fn is_before_a_wake(self) -> bool {
        matches!(self, Self::Asked | Self::LookingOut | Self::Paused)
    }
}

/// The slices that stand, by their names.
fn standing(cluster: &Cluster) -> Vec<(String, IpFamily, Vec<String>)> {
    let mut standing: Vec<_> = cluster
        .slices
        .values()
        .map(|slice| {
            let ports = slice.spec.ports.iter().map(|port| port.name.clone());
            (
                slice.spec.service.clone(),
                slice.spec.family,
                ports.collect(),
            )
        })
        .collect();
    standing.sort();
    standing
}

fn expected(change: Change) -> Vec<(String, IpFamily, Vec<String>)> {
    let owned = |(service, family, ports): Standing| {
        let ports = ports.iter().map(ToString::to_string).collect();
        (service.to_owned(), family, ports)
    };
    let mut expected: Vec<_> = change.standing().into_iter().map(owned).collect();
    expected.sort();
    expected
}

/// ROUTE-40: a Service that changes under way is routed as it's then, in each phase.
#[rstest]
fn slices_follow_a_service_that_changes(
    #[values(
        Change::AnotherService,
        Change::Deleted,
        Change::Deselected,
        Change::PortRenamed,
        Change::PortRenumbered,
        Change::PortAdded,
        Change::PortTakenOff,
        Change::BothFamilies,
        Change::OtherFamily,
        Change::PortIgnored,
        Change::AllIgnored,
        Change::Remade
    )]
    change: Change,
    #[values(
        When::Asked,
        When::LookingOut,
        When::Paused,
        When::Resuming,
        When::HandingOver,
        When::Draining
    )]
    when: When,
) {
    let mut cluster = objects::running();
    cluster.service().ports = vec![objects::port("web", 80), objects::port("admin", 81)];
    when.come(&mut cluster);
    change.make(&mut cluster);
    cluster.settle();
    cluster.check_at_rest();
    if when.is_before_a_wake() {
        cluster.until("api", Phase::Paused);
        cluster.pass_secs(1);
        cluster.check_at_rest();
        assert_eq!(standing(&cluster), expected(change));
        cluster.pass_secs(100);
        assert_eq!(standing(&cluster), expected(change), "later");
        cluster.stamp("api", signal::WAKE_REQUESTED);
    }
    cluster.until("api", Phase::Running);
    cluster.pass_secs(150);
    cluster.check_clean();
}
