use std::net::{IpAddr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn at(millis: u64) -> Moment {
    Moment::new(Duration::from_millis(millis))
}

fn source(number: u16) -> Source {
    IpAddr::from(Ipv6Addr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, number])).into()
}

fn allowance() -> Allowance {
    Allowance::new(Rates::default())
}

/// How many of `asked` wakes are allowed.
fn allowed(allowance: &Allowance, from: u16, asked: usize, now: Moment) -> usize {
    (0..asked)
        .filter(|_| allowance.take(source(from), now).is_ok())
        .count()
}

/// LIMIT-11: a burst of 30 per source. LIMIT-12: then one every 2 s.
#[test]
fn a_source_has_a_burst_and_then_one_every_two_seconds() {
    let allowance = allowance();
    assert_eq!(allowed(&allowance, 1, 100, at(0)), 30);
    assert_eq!(allowance.take(source(1), at(1_999)), Err(OverRate::Source));
    assert_eq!(allowed(&allowance, 1, 100, at(2_000)), 1);
    assert_eq!(allowed(&allowance, 1, 100, at(3_999)), 0);
    assert_eq!(allowed(&allowance, 1, 100, at(8_000)), 3);
    assert_eq!(allowed(&allowance, 2, 100, at(8_000)), 30);
    assert_eq!(allowed(&allowance, 1, 100, at(68_000)), 30);
}

/// LIMIT-13: a burst of 200 overall. LIMIT-14: then 10 a second.
#[test]
fn all_sources_have_a_burst_and_then_ten_a_second() {
    let allowance = allowance();
    let burst: usize = (0..10)
        .map(|from| allowed(&allowance, from, 30, at(0)))
        .sum();
    assert_eq!(burst, 200);
    let later: usize = (10..20)
        .map(|from| allowed(&allowance, from, 30, at(1_000)))
        .sum();
    assert_eq!(later, 10);
}

/// LIMIT-15: what is given back can be taken again, overall, too, and no more than that.
#[test]
fn what_is_given_back_can_be_taken_again() {
    let allowance = allowance();
    for from in 0..6 {
        assert_eq!(allowed(&allowance, from, 30, at(0)), 30);
    }
    assert_eq!(allowed(&allowance, 6, 30, at(0)), 20);
    assert_eq!(allowance.take(source(6), at(0)), Err(OverRate::Overall));
    allowance.give_back(source(0));
    assert_eq!(allowed(&allowance, 0, 30, at(0)), 1);
    assert_eq!(allowance.take(source(6), at(0)), Err(OverRate::Overall));
    // Nobody has more than a whole burst.
    allowance.give_back(source(7));
    allowance.give_back(source(6));
    assert_eq!(allowed(&allowance, 6, 30, at(600_000)), 30);
}

/// LIMIT-16: a wake refused overall uses nothing of its source's allowance.
#[test]
fn refused_overall_charges_no_source() {
    let allowance = allowance();
    for from in 0..10 {
        allowed(&allowance, from, 20, at(0));
    }
    for _ in 0..100 {
        assert_eq!(allowance.take(source(99), at(0)), Err(OverRate::Overall));
    }
    assert_eq!(allowed(&allowance, 99, 100, at(20_000)), 30);
}

/// And one refused for its source uses nothing of the overall allowance.
#[test]
fn refused_by_source_charges_nothing_overall() {
    let allowance = allowance();
    allowed(&allowance, 1, 10_000, at(0));
    let others: usize = (2..20)
        .map(|from| allowed(&allowance, from, 30, at(0)))
        .sum();
    assert_eq!(others, 170);
}

#[test]
fn sources_are_forgotten() {
    let allowance = allowance();
    for step in 0..10_000u16 {
        let now = at(u64::from(step) * 100);
        assert_eq!(allowance.take(source(step), now), Ok(()));
        assert!(allowance.sources() <= SOURCES_KEPT);
    }
}

proptest! {
    /// In any span no more is allowed than the burst and the rate of that span.
    #[test]
    fn rates_are_kept(asks in prop::collection::vec((0u16..3, 0u64..1_500), 1..80)) {
        let rates = Rates {
            per_source: Rate { burst: 3, every: Duration::from_secs(2) },
            overall: Rate { burst: 5, every: Duration::from_millis(500) },
        };
        let allowance = Allowance::new(rates);
        let mut now = at(0);
        let mut taken: Vec<(u16, Moment)> = Vec::new();
        for (from, wait) in asks {
            now = now.plus(Duration::from_millis(wait));
            if allowance.take(source(from), now).is_ok() {
                taken.push((from, now));
            }
        }
        let most = |rate: Rate, span: Duration| {
            u128::from(rate.burst) + span.as_millis() / rate.every.as_millis()
        };
        for (first, (_, began)) in taken.iter().enumerate() {
            for (last, (from, ended)) in taken.iter().enumerate().skip(first) {
                let span = ended.since(*began);
                let all = last + 1 - first;
                prop_assert!(all as u128 <= most(rates.overall, span));
                let own = taken[first..=last].iter().filter(|(one, _)| one == from).count();
                prop_assert!(own as u128 <= most(rates.per_source, span));
            }
        }
    }

    /// Nobody within its rate is refused.
    #[test]
    fn a_steady_source_is_never_refused(waits in prop::collection::vec(2_000u64..9_000, 1..200)) {
        let allowance = allowance();
        let mut now = at(0);
        for wait in waits {
            now = now.plus(Duration::from_millis(wait));
            prop_assert_eq!(allowance.take(source(1), now), Ok(()));
        }
    }
}
