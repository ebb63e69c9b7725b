use proptest::prelude::*;

use super::*;

const fn s(seconds: u64) -> Moment {
    Moment::from_secs(seconds)
}

fn record(holder: &str, renewal: &str) -> Record {
    Record {
        holder: holder.to_owned(),
        renewal: renewal.to_owned(),
        duration: LEASE_DURATION,
    }
}

fn candidate(me: &str) -> Election {
    Election::new(me.to_owned())
}

#[test]
fn a_lease_that_is_not_there_or_released_is_taken_at_once() {
    let mut me = candidate("a");
    assert_eq!(me.step(s(0)), Step::Take);
    me.observe(Some(record("", "1")), s(1));
    assert_eq!(me.step(s(1)), Step::Take);
}

#[test]
fn the_leader_renews_in_time_and_stops_before_others_may_take() {
    let mut me = candidate("a");
    me.wrote(record("a", "1"), s(10));
    assert_eq!(me.step(s(10)), Step::Hold { until: s(11) });
    assert_eq!(me.step(s(11)), Step::Renew);
    assert!(me.leads(s(13)));
    assert!(!me.leads(s(14)));
    assert_eq!(me.step(s(20)), Step::Renew, "it may still be mine");
    me.wrote(record("a", "2"), s(20));
    assert!(me.leads(s(23)));
}

#[test]
fn another_ones_lease_is_waited_for_from_when_it_was_first_seen() {
    let mut me = candidate("b");
    me.observe(Some(record("a", "1")), s(100));
    me.observe(Some(record("a", "1")), s(103));
    assert_eq!(me.step(s(103)), Step::Wait { until: s(106) });
    me.observe(Some(record("a", "2")), s(105));
    assert_eq!(me.step(s(106)), Step::Wait { until: s(111) });
    assert_eq!(me.step(s(111)), Step::Take);
    assert!(!me.leads(s(111)), "nobody leads before the write succeeded");
}

#[test]
fn a_restarted_container_takes_its_own_lease_back_at_once() {
    let mut me = candidate("pod-1_uid");
    me.observe(Some(record("pod-1_uid", "7")), s(0));
    assert!(!me.leads(s(0)));
    assert_eq!(me.step(s(0)), Step::Take);
}

#[test]
fn a_leader_that_sees_another_holder_stops_at_once() {
    let mut me = candidate("a");
    me.wrote(record("a", "1"), s(0));
    me.observe(Some(record("b", "2")), s(1));
    assert!(!me.leads(s(1)));
    assert_eq!(me.step(s(1)), Step::Wait { until: s(7) });
}

/// DRAIN-10: one that vanishes, however shortly after its last renewal, has a
/// successor within a few seconds.
#[test]
fn a_vanished_leader_has_a_successor_within_a_few_seconds() {
    let at_most = LEASE_DURATION + RENEW_EVERY;
    assert!(at_most <= s(7), "{at_most:?}");
    // A leader may miss a renewal, and a write under way has time to end.
    assert!(STOP_AFTER >= 3 * RENEW_EVERY);
    assert!(STOP_AFTER + s(2) <= LEASE_DURATION);
}

/// One candidate of the simulation: its own clock runs ahead by `offset`.
struct Process {
    election: Election,
    offset: u64,
}

proptest! {
    /// No two lead at the same time, however their reads and writes fall.
    #[test]
    fn never_two_leaders(
        acts in prop::collection::vec((0usize..3, 0u64..4, prop::bool::ANY), 1..200),
        offsets in prop::array::uniform3(0u64..1000),
    ) {
        let mut processes: Vec<Process> = (0..3)
            .map(|n| Process { election: candidate(&format!("p{n}")), offset: offsets[n] })
            .collect();
        let mut lease: Option<Record> = None;
        let mut now = 0u64;
        let mut version = 0u64;
        for (who, pass, arrives) in acts {
            now += pass;
            let local = s(now + processes[who].offset);
            let process = &mut processes[who].election;
            process.observe(lease.clone(), local);
            if matches!(process.step(local), Step::Take | Step::Renew) && arrives {
                version += 1;
                let written = record(&format!("p{who}"), &version.to_string());
                lease = Some(written.clone());
                process.wrote(written, local);
            }
            let leaders = processes
                .iter()
                .filter(|process| process.election.leads(s(now + process.offset)))
                .count();
            prop_assert!(leaders <= 1, "{leaders} leaders at {now}");
        }
    }
}
