use std::{
    sync::atomic::{AtomicUsize, Ordering},
    task::Wake,
};

use proptest::prelude::*;

use super::*;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// A waker that counts.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn poll(freed: &mut Freed<'_>, woken: &Arc<Woken>) -> bool {
    let waker = Waker::from(Arc::clone(woken));
    Pin::new(freed)
        .poll(&mut Context::from_waker(&waker))
        .is_ready()
}

fn budget() -> Budget {
    Budget::new(Limits::default())
}

/// Takes all that one connection may have now, in pieces.
fn drain(share: &mut Share) -> usize {
    std::iter::repeat_with(|| share.take(16 * KIB))
        .take_while(|got| *got > 0)
        .sum()
}

/// LIMIT-21, LIMIT-23, T-45: 1 MiB from one connection, counted after 8 KiB.
#[test]
fn one_connection_may_have_a_mebibyte() {
    let budget = budget();
    let mut share = budget.share();
    assert_eq!(share.take(8 * KIB), 8 * KIB);
    assert_eq!((budget.held(), budget.counted()), (8 * KIB, 0));
    assert_eq!(drain(&mut share), MIB);
    assert_eq!((budget.held(), budget.counted()), (MIB + 8 * KIB, MIB));
    assert_eq!(share.take(1), 0);
    drop(share);
    assert_eq!((budget.held(), budget.counted()), (0, 0));
}

/// LIMIT-22: 32 MiB in all. LIMIT-23: the first 8 KiB are read all the same.
#[test]
fn all_connections_together_may_have_32_mebibytes() {
    let budget = budget();
    let mut shares: Vec<_> = (0..64).map(|_| budget.share()).collect();
    let taken: usize = shares.iter_mut().map(drain).sum();
    assert_eq!(taken, 32 * MIB + 64 * 8 * KIB);
    assert_eq!(budget.counted(), 32 * MIB);
    let mut small = budget.share();
    assert_eq!(small.take(16 * KIB), 8 * KIB);
    assert_eq!(small.take(1), 0);
}

/// LIMIT-25: who waits goes on when another connection frees some, in turn.
#[test]
fn freed_bytes_go_to_those_who_wait() {
    let budget = Budget::new(Limits {
        free: 0,
        each: 100,
        all: 100,
    });
    let (mut full, mut first, mut second) = (budget.share(), budget.share(), budget.share());
    assert_eq!(
        (full.take(100), first.take(60), second.take(60)),
        (100, 0, 0)
    );
    let woken = [Arc::new(Woken::default()), Arc::new(Woken::default())];
    let mut first_freed = first.freed();
    let mut second_freed = second.freed();
    assert!(!poll(&mut first_freed, &woken[0]) && !poll(&mut second_freed, &woken[1]));
    full.give_back(70);
    assert_eq!(
        woken.each_ref().map(|one| one.0.load(Ordering::Relaxed)),
        [1, 1]
    );
    assert!(poll(&mut first_freed, &woken[0]) && poll(&mut second_freed, &woken[1]));
    drop((first_freed, second_freed));
    assert_eq!((first.take(60), second.take(60)), (60, 10));
    assert_eq!(budget.counted(), 100);
    drop((full, first, second));
    assert_eq!((budget.held(), budget.counted()), (0, 0));
}

#[test]
fn what_was_freed_in_between_is_not_missed() {
    let budget = Budget::new(Limits {
        free: 0,
        each: 100,
        all: 100,
    });
    let (mut full, mut waits) = (budget.share(), budget.share());
    assert_eq!((full.take(100), waits.take(10)), (100, 0));
    drop(full);
    assert!(poll(&mut waits.freed(), &Arc::default()));
    assert_eq!(waits.take(10), 10);
}

/// Bytes granted to one who gives up go to the next.
#[test]
fn bytes_granted_to_nobody_are_handed_on() {
    let budget = Budget::new(Limits {
        free: 0,
        each: 100,
        all: 100,
    });
    let (mut full, mut gives_up, mut stays) = (budget.share(), budget.share(), budget.share());
    assert_eq!(
        (full.take(100), gives_up.take(100), stays.take(100)),
        (100, 0, 0)
    );
    let woken = Arc::default();
    let mut leaving = gives_up.freed();
    let mut waiting = stays.freed();
    assert!(!poll(&mut leaving, &woken) && !poll(&mut waiting, &woken));
    drop(full);
    drop(leaving);
    assert!(poll(&mut waiting, &woken));
    drop(waiting);
    assert_eq!(stays.take(100), 100);
}

/// One that has had all it may have waits for ever.
#[test]
fn nothing_is_freed_for_one_that_has_had_all() {
    let budget = budget();
    let mut share = budget.share();
    drain(&mut share);
    assert!(!poll(&mut share.freed(), &Arc::default()));
    drop(budget.share());
    assert!(!poll(&mut share.freed(), &Arc::default()));
}

/// What was taken and not read is given back, the counted bytes first.
#[test]
fn gives_back_what_was_not_read() {
    let budget = budget();
    let mut share = budget.share();
    assert_eq!(share.take(16 * KIB), 16 * KIB);
    share.give_back(10 * KIB);
    assert_eq!(
        (share.taken(), budget.held(), budget.counted()),
        (6 * KIB, 6 * KIB, 0)
    );
    assert_eq!(share.take(16 * KIB), 16 * KIB);
    assert_eq!(budget.counted(), 14 * KIB);
}

#[derive(Clone, Debug)]
enum Act {
    Take(usize, usize),
    GiveBack(usize, usize),
    Leave(usize),
    Wait(usize),
}

fn any_act() -> impl Strategy<Value = Act> {
    let (who, bytes) = (0usize..6, 0usize..40);
    prop_oneof![
        4 => (who.clone(), bytes.clone()).prop_map(|(who, bytes)| Act::Take(who, bytes)),
        2 => (who.clone(), bytes).prop_map(|(who, bytes)| Act::GiveBack(who, bytes)),
        1 => who.clone().prop_map(Act::Leave),
        1 => who.prop_map(Act::Wait),
    ]
}

proptest! {
    /// The budget is never over, whatever connections do, and all of it comes back.
    #[test]
    fn the_budget_is_never_over(acts in prop::collection::vec(any_act(), 0..100)) {
        let limits = Limits { free: 5, each: 20, all: 50 };
        let budget = Budget::new(limits);
        let mut shares: Vec<_> = (0..6).map(|_| budget.share()).collect();
        for act in acts {
            match act {
                Act::Take(who, bytes) => {
                    prop_assert!(shares[who].take(bytes) <= bytes);
                }
                Act::GiveBack(who, bytes) => shares[who].give_back(bytes),
                Act::Leave(who) => shares[who] = budget.share(),
                Act::Wait(who) => {
                    poll(&mut shares[who].freed(), &Arc::default());
                }
            }
            let taken: usize = shares.iter().map(Share::taken).sum();
            let counted: usize = shares.iter().map(|share| share.counted() + share.ahead).sum();
            prop_assert_eq!(budget.held(), taken);
            prop_assert_eq!(budget.counted(), counted);
            prop_assert!(counted <= limits.all);
            prop_assert!(shares.iter().all(|share| share.taken() <= limits.free + limits.each));
        }
        drop(shares);
        prop_assert_eq!((budget.held(), budget.counted()), (0, 0));
    }
}
