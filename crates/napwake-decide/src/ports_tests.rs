use napwake_api::workload::{DoormanStatus, MicroTime, RestingPort, Route, RouteState};
use rstest::rstest;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("in range")
}

fn owner(namespace: &str, name: &str) -> WorkloadKey {
    WorkloadKey {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

fn claim(service: &str, number: u16) -> Claim {
    Claim {
        service: service.to_owned(),
        port: RoutePort {
            name: String::new(),
            number,
        },
    }
}

fn claims(service: &str, count: u16) -> BTreeSet<Claim> {
    (1..=count).map(|number| claim(service, number)).collect()
}

const WIDE: Caps = Caps {
    per_workload: 20_000,
    per_namespace: 20_000,
};

fn route(claim: &Claim, port: u16, state: RouteState) -> Route {
    Route {
        service: claim.service.clone(),
        port: claim.port.clone(),
        doorman_port: port,
        families: Vec::new(),
        forwarded: false,
        state,
        opened_at: None,
        draining_until: None,
        taken_by: None,
    }
}

fn status(routes: Vec<Route>, resting: &[(u16, i64)]) -> ManagedWorkloadStatus {
    ManagedWorkloadStatus {
        doorman: Some(DoormanStatus {
            routes,
            resting: resting
                .iter()
                .map(|(port, until)| RestingPort {
                    port: *port,
                    until: MicroTime(at(*until)),
                })
                .collect(),
        }),
        ..ManagedWorkloadStatus::default()
    }
}

/// ROUTE-66: 10,000 distinct ports from 20000 to 29999.
/// ROUTE-65: then none.
#[test]
fn there_are_ten_thousand_ports() {
    let mut ports = Ports::new(WIDE);
    let all = ports
        .assign(&owner("a", "a"), &claims("s", 10_000), at(0))
        .expect("enough");
    let distinct: BTreeSet<u16> = all.values().map(|taken| taken.port).collect();
    assert_eq!(distinct, DOORMAN_PORTS.collect());
    let more = ports.assign(&owner("b", "b"), &claims("s", 1), at(0));
    assert_eq!(more, Err(Shortage::NoFreePort));
}

/// ROUTE-67: 32 ports, and not 33.
/// SET-23: unless the cap is set otherwise.
#[test]
fn a_workload_holds_up_to_its_cap() {
    let a = owner("a", "a");
    let mut ports = Ports::new(Caps::default());
    assert!(ports.assign(&a, &claims("s", 32), at(0)).is_ok());
    let over = Shortage::Workload { ports: 33, cap: 32 };
    assert_eq!(ports.assign(&a, &claims("s", 33), at(0)), Err(over));
    let caps = Caps {
        per_workload: 5,
        ..Caps::default()
    };
    let over = Shortage::Workload { ports: 6, cap: 5 };
    assert_eq!(
        Ports::new(caps).assign(&a, &claims("s", 6), at(0)),
        Err(over)
    );
}

/// ROUTE-68: eight workloads of 32, then one more of one.
#[test]
fn a_namespace_holds_up_to_its_cap() {
    let mut ports = Ports::new(Caps::default());
    for n in 0..8 {
        let name = format!("w{n}");
        let taken = ports.assign(&owner("a", &name), &claims(&name, 32), at(0));
        assert!(taken.is_ok(), "{name}");
    }
    let over = Shortage::Namespace {
        ports: 257,
        cap: 256,
    };
    let more = |ports: &mut Ports, namespace| {
        ports.assign(&owner(namespace, "more"), &claims("more", 1), at(0))
    };
    assert_eq!(more(&mut ports, "a"), Err(over));
    assert!(more(&mut ports, "b").is_ok());
}

const SMALL: Caps = Caps {
    per_workload: 2,
    per_namespace: 4,
};

/// ROUTE-68: ports that drain count for the namespace, so that renaming a Service's over
/// and over doesn't use up everybody's. ROUTE-67: for the workload they don't, and all
/// of its ports may be renamed at once.
#[test]
fn ports_that_drain_are_held_by_the_namespace() {
    let mut ports = Ports::new(SMALL);
    let a = owner("a", "a");
    let mut routes = Vec::new();
    for name in ["first", "second", "third"] {
        let taken = ports.assign(&a, &claims(name, 2), at(0)).expect(name);
        // Renamed, they drain.
        let drain =
            |(claim, taken): (&Claim, &Taken)| route(claim, taken.port, RouteState::Draining);
        routes.extend(taken.iter().map(drain));
        ports.observe(&a, &status(routes.clone(), &[]));
    }
    let other = owner("a", "other");
    let taken = ports.assign(&other, &claims("other", 2), at(0));
    assert!(taken.is_ok(), "eight in all");
    let over = Shortage::Drains { ports: 10, most: 8 };
    assert_eq!(ports.assign(&a, &claims("fourth", 2), at(0)), Err(over));
    // What drains may be had again (T-78).
    assert!(ports.assign(&a, &claims("third", 2), at(0)).is_ok());
}

/// ROUTE-68: those who take nothing keep what they have, whatever else drains.
#[test]
fn what_is_held_is_kept_whatever_drains() {
    let mut ports = Ports::new(SMALL);
    let (a, b) = (owner("a", "a"), owner("a", "b"));
    let held = ports.assign(&b, &claims("s", 2), at(0)).expect("ports");
    let drains = (0..9u16).map(|n| route(&claim("old", n), 21_000 + n, RouteState::Draining));
    ports.observe(&a, &status(drains.collect(), &[]));
    assert_eq!(ports.assign(&b, &claims("s", 2), at(0)), Ok(held));
}

/// Two workloads whose ports are all that their namespace may hold.
fn at_its_cap() -> (Ports, [WorkloadKey; 2]) {
    let mut ports = Ports::new(SMALL);
    let owners = [owner("a", "a"), owner("a", "b")];
    for owner in &owners {
        let taken = ports.assign(owner, &claims("s", 2), at(0)).expect("ports");
        let routes = taken
            .iter()
            .map(|(claim, taken)| route(claim, taken.port, RouteState::Routed));
        ports.observe(owner, &status(routes.collect(), &[]));
    }
    (ports, owners)
}

/// ROUTE-68: at its cap a namespace may rename ports: what is renamed is held twice for
/// as long as it drains.
#[test]
fn ports_are_renamed_at_the_cap() {
    let (mut ports, owners) = at_its_cap();
    for owner in &owners {
        let taken = ports.assign(owner, &claims("renamed", 2), at(0));
        assert!(taken.is_ok(), "{owner:?}: {taken:?}");
    }
}

/// ROUTE-68, T-78: and pause again about the end of a drain, when the ports that drain
/// aren't taken back.
#[test]
fn workloads_pause_again_at_the_cap() {
    let (mut ports, owners) = at_its_cap();
    for owner in &owners {
        let held = ports.assign(owner, &claims("s", 2), at(0)).expect("held");
        let drain = |(claim, taken): (&Claim, &Taken)| Route {
            draining_until: Some(MicroTime(at(30))),
            ..route(claim, taken.port, RouteState::Draining)
        };
        ports.observe(owner, &status(held.iter().map(drain).collect(), &[]));
        let again = ports.assign(owner, &claims("s", 2), at(21)).expect("ports");
        assert!(
            held.values()
                .all(|old| again.values().all(|new| new != old))
        );
    }
}

/// T-76: a port that is shared counts where it was taken, also while it drains.
#[test]
fn a_shared_port_that_drains_counts_once() {
    let mut ports = Ports::new(Caps {
        per_workload: 2,
        per_namespace: 1,
    });
    let shared = |by: Option<&str>| Route {
        taken_by: by.map(str::to_owned),
        ..route(&claim("s", 1), 20_000, RouteState::Draining)
    };
    ports.observe(&owner("a", "a"), &status(vec![shared(None)], &[]));
    ports.observe(&owner("a", "b"), &status(vec![shared(Some("a"))], &[]));
    let taken = ports.assign(&owner("a", "c"), &claims("c", 1), at(0));
    assert!(taken.is_ok(), "{taken:?}");
}

#[test]
fn resting_ports_count_against_no_cap() {
    let mut ports = Ports::new(Caps::default());
    let a = owner("a", "a");
    let resting: Vec<(u16, i64)> = (20_000..20_032).map(|port| (port, 60)).collect();
    ports.observe(&a, &status(Vec::new(), &resting));
    assert!(ports.assign(&a, &claims("s", 32), at(0)).is_ok());
}

/// DRAIN-21: nobody else gets a port that rests, and its owner does (T-78).
/// DRAIN-23: also by a ledger that's made anew from the statuses.
#[test]
fn a_resting_port_is_its_owners_alone() {
    let a = owner("a", "a");
    let resting: Vec<(u16, i64)> = DOORMAN_PORTS.map(|port| (port, 60)).collect();
    let mut ports = Ports::new(WIDE);
    ports.observe(&a, &status(Vec::new(), &resting));
    let b = owner("b", "b");
    let other = |ports: &mut Ports, second| ports.assign(&b, &claims("s", 1), at(second));
    assert_eq!(other(&mut ports, 0), Err(Shortage::NoFreePort));
    assert_eq!(other(&mut ports, 59), Err(Shortage::NoFreePort));
    assert!(ports.clone().assign(&a, &claims("s", 1), at(0)).is_ok());
    assert!(other(&mut ports, 60).is_ok());
}

/// DRAIN-17, DRAIN-21, T-111: ports of a ManagedWorkload whose finalizer was taken off
/// by hand are served for a while yet, and rest all the same: its callers would reach
/// whoever got one of them.
#[rstest]
#[case::routed(RouteState::Routed)]
#[case::draining(RouteState::Draining)]
fn ports_of_one_that_is_gone_rest(#[case] state: RouteState) {
    let (a, b) = (owner("a", "a"), owner("b", "b"));
    let every = DOORMAN_PORTS.map(|port| route(&claim("s", port), port, state));
    let mut ports = Ports::new(WIDE);
    ports.observe(&a, &status(every.collect(), &[]));
    ports.forget(&a);
    let other = |ports: &mut Ports, second| ports.assign(&b, &claims("s", 1), at(second));
    assert_eq!(other(&mut ports, 0), Err(Shortage::NoFreePort));
    assert_eq!(other(&mut ports, 89), Err(Shortage::NoFreePort));
    assert!(other(&mut ports, 90).is_ok());
    check(&ports);
}

/// The same of one that goes in the midst of its rest, and one that is made again is
/// another one.
#[test]
fn a_rest_outlasts_its_owner() {
    let a = owner("a", "a");
    let resting: Vec<(u16, i64)> = DOORMAN_PORTS.map(|port| (port, 60)).collect();
    let mut ports = Ports::new(WIDE);
    ports.observe(&a, &status(Vec::new(), &resting));
    ports.forget(&a);
    assert_eq!(
        ports.assign(&a, &claims("s", 1), at(59)),
        Err(Shortage::NoFreePort)
    );
    assert!(ports.assign(&a, &claims("s", 1), at(60)).is_ok());
}

#[test]
fn a_draining_route_gets_its_port_back() {
    let a = owner("a", "a");
    let mut ports = Ports::new(Caps::default());
    let draining = route(&claim("s", 80), 23_456, RouteState::Draining);
    ports.observe(&a, &status(vec![draining], &[]));
    let taken = ports
        .assign(&a, &BTreeSet::from([claim("s", 80)]), at(0))
        .expect("its own");
    assert_eq!(taken[&claim("s", 80)].port, 23_456);
}

/// T-78: but not while its drain is about to end, nor right after that, if there's any
/// other: a listener found there may be the old route's (ROUTE-79).
#[rstest]
#[case::drains_for_long_yet(Some(30), None, 19, 20, true)]
#[case::drains_to_its_end(Some(30), None, 21, 20, false)]
#[case::with_no_other(Some(30), None, 21, 1, true)]
#[case::has_just_drained(None, Some(90), 39, 20, false)]
#[case::rests(None, Some(90), 41, 20, true)]
#[case::rests_with_no_other(None, Some(90), 31, 1, true)]
fn a_port_is_taken_back_where_checks_can_tell(
    #[case] drains_until: Option<i64>,
    #[case] rests_until: Option<i64>,
    #[case] now: i64,
    #[case] ports: u16,
    #[case] expected: bool,
) {
    let a = owner("a", "a");
    let draining = drains_until.map(|until| Route {
        draining_until: Some(MicroTime(at(until))),
        ..route(&claim("s", 80), 20_000, RouteState::Draining)
    });
    let resting: Vec<_> = rests_until
        .map(|until| (20_000, until))
        .into_iter()
        .collect();
    let mut ports = Ports::within(&(20_000..=19_999 + ports));
    ports.observe(&a, &status(draining.into_iter().collect(), &resting));
    let taken = ports
        .assign(&a, &BTreeSet::from([claim("s", 80)]), at(now))
        .expect("a port");
    assert_eq!(taken[&claim("s", 80)].port == 20_000, expected);
    // Once taken it stays.
    let again = ports.assign(&a, &BTreeSet::from([claim("s", 80)]), at(now + 1));
    assert_eq!(again, Ok(taken));
}

#[test]
fn the_port_unused_longest_is_taken_once_all_were_used() {
    let mut ports = Ports::new(WIDE);
    for port in DOORMAN_PORTS {
        let used = if port == 25_000 { 1 } else { 2 };
        ports.pool.rest(port, at(used));
    }
    let taken = ports
        .assign(&owner("a", "a"), &claims("s", 1), at(10))
        .expect("free");
    assert_eq!(taken[&claim("s", 1)].port, 25_000);
}

#[test]
fn workloads_behind_one_service_share_a_port_and_the_record_moves() {
    let (a, b) = (owner("n", "a"), owner("n", "b"));
    let mut ports = Ports::new(Caps::default());
    let one = BTreeSet::from([claim("s", 80)]);
    let take = |ports: &mut Ports, who: &WorkloadKey| {
        ports.assign(who, &one, at(0)).expect("a port")[&claim("s", 80)].clone()
    };
    let first = take(&mut ports, &a);
    assert_eq!(first.by, None);
    let second = take(&mut ports, &b);
    assert_eq!(
        second,
        Taken {
            port: first.port,
            by: Some("a".to_owned())
        }
    );
    // Once the first one drains, the second has it on record.
    let draining = route(&claim("s", 80), first.port, RouteState::Draining);
    ports.observe(&a, &status(vec![draining], &[]));
    ports.reserve_planned(&a, None);
    let moved = Taken {
        port: first.port,
        by: None,
    };
    assert_eq!(take(&mut ports, &b), moved);
    assert_eq!(take(&mut ports, &a).by, Some("b".to_owned()));
}

#[test]
fn what_a_plan_reserved_outlasts_an_older_status_but_not_the_next_plan() {
    let a = owner("n", "a");
    let mut ports = Ports::new(Caps::default());
    ports.assign(&a, &claims("s", 1), at(0)).expect("a port");
    ports.observe(&a, &ManagedWorkloadStatus::default());
    assert_eq!(ports.in_use(at(0)), 1);
    ports.reserve_planned(&a, None);
    assert_eq!(ports.in_use(at(0)), 0);
}

#[test]
fn of_two_with_one_port_neither_keeps_it() {
    let (a, b) = (owner("n", "a"), owner("n", "b"));
    let mut ports = Ports::new(Caps::default());
    for (who, service) in [(&a, "a"), (&b, "b")] {
        let routed = route(&claim(service, 80), 20_000, RouteState::Routed);
        ports.observe(who, &status(vec![routed], &[]));
    }
    let port = |ports: &mut Ports, who, service| {
        let claim = claim(service, 80);
        ports
            .assign(who, &BTreeSet::from([claim.clone()]), at(0))
            .expect("a port")[&claim]
            .port
    };
    let (of_a, of_b) = (port(&mut ports, &a, "a"), port(&mut ports, &b, "b"));
    assert!(
        of_a != 20_000 && of_b != 20_000 && of_a != of_b,
        "{of_a} {of_b}"
    );
}

/// Makes the ledger anew from what it says, and finds the same in it.
fn check(ports: &Ports) {
    let mut anew = Ports::new(ports.caps);
    for (owner, entries) in &ports.owners {
        assert!(!entries.is_empty(), "{owner} has no port");
        for (port, entry) in entries {
            anew.set(owner, *port, entry.clone());
        }
    }
    assert_eq!(anew.holders, ports.holders);
    let looked_at = *DOORMAN_PORTS.start()..DOORMAN_PORTS.start() + 8;
    for port in looked_at.chain(ports.holders.keys().copied()) {
        let takers = ports.holders.get(&port).into_iter().flatten();
        let takers = takers.filter(|owner| ports.entry(owner, port).is_some_and(Entry::is_taken));
        ports.pool.check(port, takers.count());
    }
}

proptest::proptest! {
    /// Whatever comes, in whatever order, the ledger finds a port for a claim as if
    /// it looked at all of them.
    #[test]
    fn what_is_kept_for_speed_says_what_the_owners_say(
        steps in proptest::collection::vec((0usize..4, 0u16..6, 0usize..6, 0i64..200), 1..40),
    ) {
        let mut ports = Ports::new(Caps::default());
        let owners = [("a", "a"), ("a", "b"), ("b", "a"), ("b", "c")];
        let owners = owners.map(|(namespace, name)| owner(namespace, name));
        for (who, port, what, second) in steps {
            let who = &owners[who];
            let number = DOORMAN_PORTS.start() + port;
            let one = claim("s", port);
            match what {
                0 => ports.observe(who, &status(Vec::new(), &[(number, second)])),
                1 => {
                    let routed = route(&one, number, RouteState::Routed);
                    ports.observe(who, &status(vec![routed], &[]));
                }
                2 => {
                    let draining = route(&one, number, RouteState::Draining);
                    ports.recall(who, &status(vec![draining], &[(number + 1, second)]));
                }
                3 => ports.reserve_planned(who, None),
                4 => ports.forget(who),
                _ => {
                    let before = ports.clone();
                    let taken = ports.assign(who, &BTreeSet::from([one]), at(second));
                    for taken in taken.expect("enough").values() {
                        let had = before.entry(who, taken.port);
                        let is_new = had.is_none_or(|had| !had.is_taken()) && taken.by.is_none();
                        let is_others = before.is_others(who, taken.port, at(second));
                        assert!(!is_new || !is_others, "{taken:?} is another's: {before:?}");
                    }
                }
            }
            check(&ports);
        }
    }
}

/// T-76: where two have a port each for one Service port, one of them keeps its own
/// and the other joins it, whoever is asked first; one that is on record before one
/// that is only reserved.
#[rstest]
#[case::both_on_record(true, "a")]
#[case::only_the_second(false, "b")]
fn two_ports_for_one_claim_become_one(#[case] first_recorded: bool, #[case] keeps: &str) {
    let (a, b) = (owner("n", "a"), owner("n", "b"));
    let shared = claim("s", 1);
    let wanted = BTreeSet::from([shared.clone()]);
    let live = |port| status(vec![route(&shared, port, RouteState::Routed)], &[]);
    let mut ports = Ports::new(Caps::default());
    if first_recorded {
        ports.observe(&a, &live(20_001));
    } else {
        ports.assign(&a, &wanted, at(0)).expect("one for the first");
    }
    ports.observe(&b, &live(20_002));
    for _ in 0..2 {
        for (owner, other) in [(&a, "b"), (&b, "a")] {
            let taken = &ports.assign(owner, &wanted, at(0)).expect("one")[&shared];
            let expected = if owner.name == keeps {
                None
            } else {
                Some(other)
            };
            assert_eq!(taken.by.as_deref(), expected, "{}", owner.name);
        }
    }
}

/// DRAIN-21, T-76, T-78: a port that rests is its owner's alone to take back; another
/// workload behind the Service shares it once that's on record.
#[test]
fn a_port_that_rests_on_record_is_not_shared() {
    let (a, b) = (owner("n", "a"), owner("n", "b"));
    let shared = claim("s", 1);
    let wanted = BTreeSet::from([shared.clone()]);
    let mut ports = Ports::new(Caps::default());
    ports.observe(&a, &status(Vec::new(), &[(20_001, 60)]));
    let taken = &ports.assign(&a, &wanted, at(20)).expect("its own")[&shared];
    assert_eq!(taken.port, 20_001);
    let early = &ports.clone().assign(&b, &wanted, at(20)).expect("one")[&shared];
    assert_ne!(early.port, 20_001, "it rests still");
    let opening = route(&shared, 20_001, RouteState::Opening);
    ports.observe(&a, &status(vec![opening], &[]));
    let taken = &ports.assign(&b, &wanted, at(20)).expect("the same")[&shared];
    assert_eq!((taken.port, taken.by.as_deref()), (20_001, Some("a")));
}
