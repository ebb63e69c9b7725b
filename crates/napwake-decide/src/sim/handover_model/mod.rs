//! Every order of events around a hand-over, for two workloads that get each
//! other's doorman ports.
//!
//! What decides here is the real thing: `decide`, and the rules of the doorman's
//! port table in `napwake_gate::serving`. Doorman pods and kube-proxy see the
//! cluster through watches, in order, each as late as it likes within a bound; the
//! leader changes between any two writes of a plan, and the one that was under way
//! lands late, or never. No workload's callers may reach another one, and no
//! routed Service may be without a listener.
//!
//! Each exploration goes breadth first to a number of states, not to an end: some ten
//! to twenty steps from where it starts, which is a pause, a wake or a hand-over with one
//! or two disturbances. What lies farther isn't looked at.
//!
//! Not held to: that the leader may see late what lands late. Were its watch to show that
//! late, it could take the one workload's listener for the other's, where both have been
//! given one port. This is known, and one of the rules that are broken on purpose below
//! stands for it.
//!
//! Left out: doorman pods that come and go, caps, several Services, ports or families of
//! a workload, two workloads behind one Service, the Services' own slices that lag behind
//! pods, lookouts of more than 0s, and clocks that differ. Whether a caller is refused is
//! asked only of slices that stand, not of one that a late write takes away. A status of
//! an ousted leader lands without a conflict where nobody has written to its object since
//! it was decided on: it may be under way at the API server for long.

use std::ops::RangeInclusive;

use jiff::SignedDuration;
use napwake_api::{Span, names::signal};
use rstest::rstest;

use super::{Ports, objects};

mod explore;
mod rules;
mod state;
mod steps;
mod viewers;

use explore::{Explored, Fingerprint, Model, explore};
use state::State;
use steps::secs;

/// What can happen, and how late.
#[derive(Clone, Debug)]
struct Rules {
    /// How far time goes at once.
    tick: SignedDuration,
    /// How late a watch is at most.
    latest: SignedDuration,
    /// How many watches are late at once, at most.
    late_at_once: usize,
    /// How late a write lands at most that was under way as the leader changed.
    latest_write: SignedDuration,
    /// How often pauses and wakes are asked for.
    asks: u8,
    /// How often the leader changes.
    terms: u8,
    /// How many ticks the leader leaves something undone, at most.
    idle: u8,
    /// The doorman ports that there are.
    ports: RangeInclusive<u16>,
    /// Whether callers must always find a listener, too.
    listeners: bool,
    /// What is done wrong.
    broken: Option<Broken>,
}

/// A rule that is broken, to see that it's noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    /// A port given back doesn't rest.
    Rest,
    /// Slices are written before the doorman listens.
    Check,
    /// The leader's watch, too, shows a late status late.
    Sight,
}

impl Rules {
    fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }
}

/// Where two workloads with a Service each stand at first. Everybody has seen it.
#[derive(Clone, Copy, Debug)]
enum Start {
    Running,
    /// `api` is paused.
    OneIsPaused,
    /// Both have just been asked to pause.
    BothPause,
    /// `api` has woken and gives its port back; `worker` has just been asked to pause.
    OneGivesBack,
}

impl Start {
    fn state(self, rules: &Rules) -> State {
        let mut cluster = objects::empty();
        cluster.ports = Ports::within(&rules.ports);
        // Where callers may be refused, so may a slice go that nobody stands in for.
        cluster.is_overtaken = !rules.listeners;
        for name in ["api", "worker"] {
            cluster.add(name, 1);
            cluster.workload(name).spec.lookout = Span::from_secs(0);
        }
        cluster.settle();
        match self {
            Self::Running => {}
            Self::OneIsPaused => cluster.pause("api"),
            Self::BothPause => {
                cluster.now += secs(1);
                for name in ["api", "worker"] {
                    cluster.stamp(name, signal::PAUSE_REQUESTED);
                }
            }
            Self::OneGivesBack => {
                cluster.pause("api");
                cluster.now += secs(1);
                cluster.stamp("api", signal::LAST_REQUEST);
                cluster.pass_secs(20);
                cluster.stamp("worker", signal::PAUSE_REQUESTED);
            }
        }
        cluster.log.clear();
        State::new(cluster, rules)
    }

    /// What has to come about on the way, or it isn't a way at all.
    fn sights(self) -> &'static [&'static str] {
        match self {
            Self::Running => &["api Routed", "api Draining", "worker Routed"],
            Self::OneIsPaused => &["api Resuming", "api Draining", "worker Pausing"],
            Self::BothPause => &["api Routed", "worker Routed", "worker Draining"],
            Self::OneGivesBack => &["worker Paused"],
        }
    }
}

/// A pause or a wake of either, twice, and one change of the leader. One watch at a time
/// is behind, by less than a drain is long.
fn usual() -> Rules {
    Rules {
        tick: secs(10),
        latest: secs(10),
        late_at_once: 1,
        latest_write: secs(10),
        asks: 2,
        terms: 1,
        idle: 0,
        ports: 20_000..=20_002,
        listeners: true,
        broken: None,
    }
}

/// The same with a single port for both, and watches that are behind for as long as a
/// port's rest covers (DRAIN-21): callers may be refused, but none gets elsewhere.
fn scarce() -> Rules {
    Rules {
        latest: secs(60),
        ports: 20_000..=20_000,
        listeners: false,
        ..usual()
    }
}

fn run(rules: &Rules, start: Start, states: usize) -> Explored {
    let found = explore(rules, start.state(rules), states);
    println!("{found:#?}");
    found
}

/// That no rule is broken, and that enough was seen to say so.
fn check(rules: &Rules, start: Start, states: usize) {
    let found = run(rules, start, states);
    assert_eq!(found.broken, None);
    for sight in start.sights() {
        assert!(found.sights.contains(*sight), "never {sight}");
    }
}

/// ROUTE-79, DRAIN-17, DRAIN-21, DRAIN-23, T-76, T-78: whatever the order of events, callers
/// reach their own workload, on a port that's open; and whoever is asked wakes in the end.
#[rstest]
fn callers_reach_their_own(
    #[values(usual(), scarce())] rules: Rules,
    #[values(
        Start::Running,
        Start::OneIsPaused,
        Start::BothPause,
        Start::OneGivesBack
    )]
    start: Start,
) {
    check(&rules, start, 3_000);
}

/// That it can fail: each of these rules is needed, and what goes wrong without it is
/// found.
#[rstest]
#[case::no_rest(Broken::Rest, Rules { terms: 0, ..scarce() }, Start::OneIsPaused)]
#[case::no_check(Broken::Check, Rules { terms: 0, ..usual() }, Start::Running)]
#[case::a_late_sight(Broken::Sight, Rules { asks: 0, late_at_once: 2, ..scarce() }, Start::BothPause)]
fn what_breaks_a_rule_is_found(#[case] broken: Broken, #[case] rules: Rules, #[case] start: Start) {
    let broken = Some(broken);
    let found = run(&Rules { broken, ..rules }, start, 5_000);
    assert!(found.broken.is_some(), "it isn't noticed");
}

mod long {
    use super::*;

    /// The same, of two watches that are behind at once, a leader that rests for a
    /// while, and more pauses.
    #[rstest]
    fn callers_reach_their_own(
        #[values(usual(), scarce())] rules: Rules,
        #[values(
            Start::Running,
            Start::OneIsPaused,
            Start::BothPause,
            Start::OneGivesBack
        )]
        start: Start,
    ) {
        let rules = Rules {
            asks: 3,
            idle: 1,
            late_at_once: 2,
            ..rules
        };
        check(&rules, start, 40_000);
    }

    /// Watches that are behind for longer than the rest covers are more than it's for.
    #[test]
    fn the_rest_covers_no_more_than_it_says() {
        let rules = Rules {
            latest: secs(200),
            terms: 0,
            ..scarce()
        };
        assert!(run(&rules, Start::OneIsPaused, 25_000).broken.is_some());
    }
}
