use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn at(millis: u64) -> Moment {
    Moment::new(Duration::from_millis(millis))
}

fn endpoints(count: u16) -> Vec<SocketAddr> {
    (0..count)
        .map(|port| SocketAddr::from(([10, 0, 0, 1], 8080 + port)))
        .collect()
}

/// What is dialed, if anything.
fn dialed(next: Next) -> Vec<SocketAddr> {
    match next {
        Next::Dial(order) => order,
        Next::Wait(_) | Next::NoneReady => Vec::new(),
    }
}

#[test]
fn nothing_to_dial_while_none_is_ready() {
    let next = Spread::new().next(&[], &mut Tries::none(), 1, at(0));
    assert_eq!(next, Next::NoneReady);
}

/// The only Ready endpoint refuses, and is dialed again a second later.
#[test]
fn one_that_refuses_is_dialed_every_second() {
    let (spread, mut tries, ready) = (Spread::new(), Tries::none(), endpoints(1));
    for second in 0..5 {
        let now = at(1_000 * second);
        assert_eq!(
            spread.next(&ready, &mut tries, 1, now),
            Next::Dial(ready.clone())
        );
        spread.refused(ready[0], now);
        let soon = at(1_000 * second + 999);
        let again = Next::Wait(at(1_000 * (second + 1)));
        assert_eq!(spread.next(&ready, &mut tries, 1, soon), again);
    }
}

/// Where one refuses, another is tried at once; and one that became Ready in
/// the meantime as well.
#[test]
fn others_are_tried_first() {
    let (spread, mut tries) = (Spread::new(), Tries::none());
    let ready = endpoints(2);
    let first = dialed(spread.next(&ready, &mut tries, 1, at(0)));
    spread.refused(first[0], at(1));
    let second = dialed(spread.next(&ready, &mut tries, 1, at(1)));
    spread.refused(second[0], at(2));
    assert_ne!(first, second);
    assert_eq!(
        spread.next(&ready, &mut tries, 1, at(2)),
        Next::Wait(at(1_000))
    );
    let more = endpoints(3);
    assert_eq!(dialed(spread.next(&more, &mut tries, 1, at(3))), &more[2..]);
}

/// After the others took long to fail, the one tried longest ago comes next.
#[test]
fn the_one_tried_last_is_not_dialed_again_at_once() {
    let (spread, mut tries, ready) = (Spread::new(), Tries::none(), endpoints(2));
    let first = dialed(spread.next(&ready, &mut tries, 1, at(0)));
    let second = dialed(spread.next(&ready, &mut tries, 1, at(5_000)));
    spread.refused(second[0], at(5_001));
    assert_eq!(dialed(spread.next(&ready, &mut tries, 1, at(5_001))), first);
}

/// Callers who never met it spare an endpoint that refused somebody else.
#[test]
fn a_refusal_is_known_to_all_for_a_second() {
    let (spread, ready) = (Spread::new(), endpoints(3));
    spread.refused(ready[1], at(0));
    for _ in 0..6 {
        let order = dialed(spread.next(&ready, &mut Tries::none(), 3, at(999)));
        assert_eq!(order.len(), 3);
        assert_eq!(order[2], ready[1]);
    }
    let firsts: Vec<_> = (0..3)
        .map(|_| dialed(spread.next(&ready, &mut Tries::none(), 1, at(1_000)))[0])
        .collect();
    assert!(firsts.contains(&ready[1]));
}

#[test]
fn connections_are_spread() {
    let (spread, ready) = (Spread::new(), endpoints(4));
    let mut counts = vec![0; 4];
    for _ in 0..100 {
        let first = dialed(spread.next(&ready, &mut Tries::none(), 2, at(0)))[0];
        counts[ready
            .iter()
            .position(|one| *one == first)
            .expect("a Ready one")] += 1;
    }
    assert_eq!(counts, [25; 4]);
}

#[test]
fn dials_no_more_than_asked_for_at_a_time() {
    let (spread, mut tries, ready) = (Spread::new(), Tries::none(), endpoints(5));
    let sizes: Vec<_> = (0..4)
        .map(|_| dialed(spread.next(&ready, &mut tries, 2, at(0))).len())
        .collect();
    assert_eq!(sizes, [2, 2, 1, 0]);
}

proptest! {
    /// Only Ready endpoints are dialed, each at most once a second; and whoever
    /// waits is told a time at which there is something to dial.
    #[test]
    fn each_at_most_once_a_second(
        steps in prop::collection::vec((0u16..5, 0u64..700, 1usize..3, any::<bool>()), 1..60),
    ) {
        let (spread, mut tries) = (Spread::new(), Tries::none());
        let mut now = at(0);
        let mut last: HashMap<SocketAddr, Moment> = HashMap::new();
        for (count, wait, most, refuses) in steps {
            now = now.plus(Duration::from_millis(wait));
            let ready = endpoints(count);
            match spread.next(&ready, &mut tries, most, now) {
                Next::Dial(order) => {
                    prop_assert!(!order.is_empty() && order.len() <= most);
                    for one in order {
                        prop_assert!(ready.contains(&one));
                        if refuses {
                            spread.refused(one, now);
                        }
                        let before = last.insert(one, now);
                        prop_assert!(before.is_none_or(|then| now.since(then) >= DIAL_RETRY));
                    }
                }
                Next::Wait(until) => {
                    prop_assert!(until > now && until <= now.plus(DIAL_RETRY));
                    let next = spread.next(&ready, &mut tries.clone(), most, until);
                    prop_assert!(matches!(next, Next::Dial(_)));
                }
                Next::NoneReady => prop_assert!(ready.is_empty()),
            }
        }
        prop_assert!(spread.0.lock().refused.len() <= 5);
    }
}
