use std::{
    net::{IpAddr, Ipv4Addr},
    sync::atomic::{AtomicUsize, Ordering},
    task::{Wake, Waker},
};

use proptest::prelude::*;
use rstest::rstest;

use super::*;

/// A waker that counts.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Woken {
    fn times(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn poll(wait: &mut WaitToPass, woken: &Arc<Woken>) -> Option<PassedPlace> {
    let waker = Waker::from(Arc::clone(woken));
    match Pin::new(wait).poll(&mut Context::from_waker(&waker)) {
        Poll::Ready(place) => Some(place),
        Poll::Pending => None,
    }
}

fn source(last: u8) -> Source {
    IpAddr::from([10, 0, 0, last]).into()
}

fn workload(name: &str) -> WorkloadKey {
    WorkloadKey::new("preview", name)
}

fn places() -> Places {
    Places::new(Caps::default())
}

fn hold(places: &Places, from: u8, name: &str) -> Result<HeldPlace, OverCap> {
    places.hold(source(from), [workload(name)])
}

/// How many of `count` more connections are held, and what the next one meets.
fn fill(places: &Places, from: u8, name: &str, count: usize) -> (Vec<HeldPlace>, Option<OverCap>) {
    let mut held = Vec::new();
    for _ in 0..count {
        match hold(places, from, name) {
            Ok(place) => held.push(place),
            Err(over) => return (held, Some(over)),
        }
    }
    (held, None)
}

/// LIMIT-04: 128 from one source for one workload; another source is still held.
/// LIMIT-31: and so is the same source for another workload.
#[test]
fn caps_a_source_for_a_workload() {
    let places = places();
    let (held, over) = fill(&places, 1, "a", 1000);
    assert_eq!((held.len(), over), (128, Some(OverCap::SourceAndWorkload)));
    assert!(hold(&places, 2, "a").is_ok());
    assert!(hold(&places, 1, "b").is_ok());
}

/// LIMIT-02, LIMIT-32: 256 for one workload; another workload is unaffected.
#[test]
fn caps_a_workload() {
    let places = places();
    let (first, _) = fill(&places, 1, "a", 100);
    let (second, _) = fill(&places, 2, "a", 100);
    let (third, over) = fill(&places, 3, "a", 100);
    assert_eq!(first.len() + second.len() + third.len(), 256);
    assert_eq!(over, Some(OverCap::Workload));
    assert!(hold(&places, 1, "b").is_ok());
}

/// LIMIT-03: 1024 from one source over all workloads; another source is held.
#[test]
fn caps_a_source() {
    let places = places();
    let filled: Vec<_> = (0..10)
        .map(|name| fill(&places, 1, &name.to_string(), 128))
        .collect();
    let held: usize = filled.iter().map(|(held, _)| held.len()).sum();
    assert_eq!(held, 1024);
    assert_eq!(hold(&places, 1, "other").err(), Some(OverCap::Source));
    assert!(hold(&places, 2, "other").is_ok());
}

/// LIMIT-01: 2048 in all; the next is refused.
#[test]
fn caps_the_pod() {
    let places = places();
    let filled: Vec<_> = (0..32)
        .map(|i| fill(&places, i, &i.to_string(), 64))
        .collect();
    assert!(filled.iter().all(|(_, over)| over.is_none()));
    assert_eq!(places.held(), 2048);
    assert_eq!(hold(&places, 200, "new").err(), Some(OverCap::Pod));
    drop(filled);
    assert!(hold(&places, 200, "new").is_ok());
}

/// T-114: a connection counts for each workload behind its route.
#[test]
fn counts_for_each_workload_of_the_route() {
    let places = places();
    let (held, _) = fill(&places, 1, "a", 128);
    let both = [workload("a"), workload("b")];
    assert_eq!(
        places.hold(source(1), both.clone()).err(),
        Some(OverCap::SourceAndWorkload)
    );
    drop(held);
    let shared: Vec<_> = (0..128)
        .map(|_| places.hold(source(1), both.clone()))
        .collect();
    assert!(shared.iter().all(Result::is_ok));
    assert!(hold(&places, 1, "b").is_err());
}

/// T-66: the whole IPv6 address counts; an IPv4 address mapped into IPv6 is the
/// IPv4 address.
#[rstest]
#[case("10.0.0.1", "::ffff:10.0.0.1", true)]
#[case("2001:db8::1", "2001:db8::2", false)]
#[case("10.0.0.1", "10.0.0.2", false)]
fn tells_sources_apart(#[case] one: &str, #[case] other: &str, #[case] same: bool) {
    let of = |text: &str| Source::from(text.parse::<IpAddr>().expect("an address"));
    assert_eq!(of(one) == of(other), same);
}

/// LIMIT-06, LIMIT-07: 1024 passed in all, 512 from one source.
#[test]
fn caps_what_is_passed() {
    let places = places();
    let held: Vec<_> = (0..4)
        .map(|from| hold(&places, from, &from.to_string()).expect("a place"))
        .collect();
    let pass = |from: usize, count: usize| -> Vec<_> {
        (0..count).map_while(|_| held[from].try_pass()).collect()
    };
    let first = pass(0, 600);
    assert_eq!(first.len(), 512);
    assert!(held[0].try_pass().is_none());
    let second = pass(1, 500);
    let third = pass(2, 500);
    assert_eq!((second.len(), third.len()), (500, 12));
    assert!(held[3].try_pass().is_none());
    assert_eq!(places.passed(), 1024);
    drop(second);
    assert!(held[3].try_pass().is_some());
}

fn waiting_to_pass(places: &Places) -> usize {
    places.0.lock().line.waiting()
}

/// A doorman with one passed place for each source, and two in all.
fn two_passed() -> Places {
    Places::new(Caps {
        passed: 2,
        passed_per_source: 1,
        ..Caps::default()
    })
}

/// LIMIT-08: who finds no place waits, and gets the first that frees; who came
/// first is first, and one that waits for its own source's cap holds up nobody.
#[test]
fn a_freed_place_goes_to_the_first_who_may_have_it() {
    let places = two_passed();
    let held: Vec<_> = [1, 2, 1, 3, 4]
        .into_iter()
        .map(|from| hold(&places, from, "a").expect("a place"))
        .collect();
    let first = held[0].try_pass().expect("free");
    let second = held[1].try_pass().expect("free");
    let woken: Vec<_> = (0..5).map(|_| Arc::new(Woken::default())).collect();
    let mut waits: Vec<_> = held.iter().map(HeldPlace::pass).collect();
    for at in 2..5 {
        assert!(poll(&mut waits[at], &woken[at]).is_none());
    }
    assert_eq!(waiting_to_pass(&places), 3);

    // Source 1 still has its one place, so source 3 comes next.
    drop(second);
    assert_eq!([2, 3, 4].map(|at| woken[at].times()), [0, 1, 0]);
    assert_eq!(places.passed(), 2, "handed on at once");
    let third = poll(&mut waits[3], &woken[3]).expect("granted");

    // Now source 1 may have another, and it came before source 4.
    drop(first);
    assert_eq!([2, 3, 4].map(|at| woken[at].times()), [1, 1, 0]);
    let fourth = poll(&mut waits[2], &woken[2]).expect("granted");
    drop(third);
    let fifth = poll(&mut waits[4], &woken[4]).expect("granted");
    drop((fourth, fifth, waits, held));
    assert_eq!((places.held(), places.passed()), (0, 0));
}

/// A waiter that gives up after it was granted a place loses it to the next.
#[test]
fn a_place_granted_to_nobody_is_handed_on() {
    let places = two_passed();
    let held: Vec<_> = (1..=4)
        .map(|from| hold(&places, from, "a").expect("a place"))
        .collect();
    let taken: Vec<_> = held[..2].iter().map(HeldPlace::try_pass).collect();
    let woken = Arc::new(Woken::default());
    let mut gives_up = held[2].pass();
    let mut stays = held[3].pass();
    assert!(poll(&mut gives_up, &woken).is_none() && poll(&mut stays, &woken).is_none());
    drop(taken);
    drop(gives_up);
    assert!(poll(&mut stays, &woken).is_some());
    drop(stays);
    assert_eq!((places.passed(), waiting_to_pass(&places)), (0, 0));
}

#[test]
fn a_free_place_needs_no_waiting() {
    let places = places();
    let held = hold(&places, 1, "a").expect("a place");
    let woken = Arc::new(Woken::default());
    let passed = poll(&mut held.pass(), &woken).expect("free");
    let passed = passed.instead_of(held);
    assert_eq!((places.held(), places.passed()), (0, 1));
    drop(passed);
    assert_eq!(places.passed(), 0);
}

#[derive(Clone, Debug)]
enum Act {
    Hold(u8, u8),
    Wait(prop::sample::Index),
    Poll(prop::sample::Index),
    Leave(prop::sample::Index),
    GiveUp(prop::sample::Index),
    Close(prop::sample::Index),
}

fn any_act() -> impl Strategy<Value = Act> {
    let index = || any::<prop::sample::Index>();
    prop_oneof![
        3 => (0u8..3, 0u8..3).prop_map(|(from, name)| Act::Hold(from, name)),
        2 => index().prop_map(Act::Wait),
        3 => index().prop_map(Act::Poll),
        1 => index().prop_map(Act::Leave),
        1 => index().prop_map(Act::GiveUp),
        1 => index().prop_map(Act::Close),
    ]
}

#[derive(Default)]
struct World {
    held: Vec<HeldPlace>,
    waits: Vec<WaitToPass>,
    passed: Vec<PassedPlace>,
}

impl World {
    fn act(&mut self, places: &Places, act: &Act, woken: &Arc<Woken>) {
        match act {
            Act::Hold(from, name) => self.held.extend(hold(places, *from, &name.to_string())),
            Act::Wait(at) if !self.held.is_empty() => {
                let at = at.index(self.held.len());
                self.waits.push(self.held[at].pass());
            }
            Act::Poll(at) if !self.waits.is_empty() => {
                let at = at.index(self.waits.len());
                if let Some(place) = poll(&mut self.waits[at], woken) {
                    self.passed.push(place);
                    drop(self.waits.remove(at));
                }
            }
            Act::Leave(at) if !self.held.is_empty() => {
                drop(self.held.remove(at.index(self.held.len())));
            }
            Act::GiveUp(at) if !self.waits.is_empty() => {
                drop(self.waits.remove(at.index(self.waits.len())));
            }
            Act::Close(at) if !self.passed.is_empty() => {
                drop(self.passed.remove(at.index(self.passed.len())));
            }
            _ => {}
        }
    }
}

proptest! {
    /// Places always return to zero, no cap is ever exceeded, and no passed
    /// place is free while somebody waits who may have it.
    #[test]
    fn places_return_to_zero(acts in prop::collection::vec(any_act(), 0..120)) {
        let caps = Caps {
            held: 12,
            held_per_workload: 6,
            held_per_source: 8,
            held_per_source_and_workload: 4,
            passed: 4,
            passed_per_source: 2,
        };
        let places = Places::new(caps);
        let woken = Arc::new(Woken::default());
        let mut world = World::default();
        for act in &acts {
            world.act(&places, act, &woken);
            prop_assert_eq!(places.held(), world.held.len());
            prop_assert!(places.held() <= caps.held && places.passed() <= caps.passed);
            let from = |source| world.passed.iter().filter(|one| one.source == source).count();
            for last in 0..3 {
                prop_assert!(from(source(last)) <= caps.passed_per_source);
            }
        }
        world.waits.retain_mut(|wait| match poll(wait, &woken) {
            Some(place) => {
                world.passed.push(place);
                false
            }
            None => true,
        });
        let from = |source| world.passed.iter().filter(|one| one.source == source).count();
        for wait in &world.waits {
            let is_full = world.passed.len() == caps.passed
                || from(wait.source) == caps.passed_per_source;
            prop_assert!(is_full, "a free place, and one who waits for it");
        }
        drop(world);
        prop_assert_eq!((places.held(), places.passed()), (0, 0));
        prop_assert_eq!(waiting_to_pass(&places), 0);
        prop_assert_eq!(places.0.lock().entries(), 0);
    }
}

#[test]
fn a_key_says_namespace_and_name() {
    assert_eq!(workload("api").to_string(), "preview/api");
    assert_eq!(
        Source::from(IpAddr::from(Ipv4Addr::LOCALHOST)).to_string(),
        "127.0.0.1"
    );
}
