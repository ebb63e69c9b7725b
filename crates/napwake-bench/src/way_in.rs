//! From a caller's first byte to the replicas, by the API server's log. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::audit::{Entry, Who};
use crate::clock::{Clock, Moment};
use crate::cold::{Round, Wake, Way};

/// The writes of one wake, found in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    /// The first byte of the caller.
    pub(crate) sent: Moment,
    /// The doorman's stamp: received, and done.
    pub(crate) stamp: (Moment, Moment),
    /// The operator's scale: received, and done.
    pub(crate) scale: (Moment, Moment),
    /// When the Deployment was seen to have replicas.
    pub(crate) seen: Moment,
    /// Writes of Napwake to this workload up to the scale, those two included.
    pub(crate) writes: usize,
}

/// What Napwake wrote, by kind: who, which verb, which resource.
pub(crate) type Kinds = BTreeMap<(Who, String, String), usize>;

/// The log of the bench's namespace.
#[derive(Debug)]
pub(crate) struct Log {
    clock: Clock,
    entries: Vec<Entry>,
}

impl Log {
    pub(crate) fn of(clock: Clock, namespace: &str, entries: Vec<Entry>) -> Self {
        let own = entries
            .into_iter()
            .filter(|entry| entry.namespace == namespace && entry.who != Who::Other);
        Self {
            clock,
            entries: own.collect(),
        }
    }

    /// The writes of a wake by a request; none if the log lacks one of them.
    pub(crate) fn written(&self, wake: &Wake) -> Option<Written> {
        let of_app = |entry: &&Entry| entry.name == wake.app;
        let after = |entry: &&Entry| self.at(entry.received) >= wake.sent;
        let ours: Vec<_> = self.entries.iter().filter(of_app).filter(after).collect();
        let scale = ours.iter().find(|entry| entry.is_scale())?;
        let stamp = ours.iter().find(|entry| entry.is_stamp())?;
        let before = ours.iter().filter(|entry| entry.received <= scale.received);
        let span = |entry: &Entry| (self.at(entry.received), self.at(entry.done));
        Some(Written {
            sent: wake.sent,
            stamp: span(stamp),
            scale: span(scale),
            seen: wake.asked_for,
            writes: before.count(),
        })
    }

    /// Everything that Napwake wrote in rounds of requests, from the first byte
    /// until all was Running, in how many wakes.
    pub(crate) fn kinds<'a>(&self, rounds: impl Iterator<Item = &'a Round>) -> (Kinds, usize) {
        let (mut kinds, mut wakes) = (Kinds::new(), 0);
        for round in rounds.filter(|round| round.way == Way::Doorman) {
            wakes += round.at_once;
            let in_round = |entry: &&Entry| {
                let at = self.at(entry.received);
                round.begun <= at && at <= round.ended
            };
            for entry in self.entries.iter().filter(in_round) {
                let kind = (entry.who, entry.verb.clone(), entry.resource.clone());
                *kinds.entry(kind).or_default() += 1;
            }
        }
        (kinds, wakes)
    }

    fn at(&self, time: Timestamp) -> Moment {
        self.clock.moment(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wake(sent: Moment) -> Wake {
        Wake {
            app: "app001".to_owned(),
            sent,
            answered: sent,
            asked_for: sent,
            ready: sent,
            named: sent,
            slice_ready: sent,
        }
    }

    fn entry(clock: Clock, at_ms: i64, who: Who, resource: &str) -> Entry {
        let received = clock.day() + jiff::SignedDuration::from_millis(at_ms);
        Entry {
            received,
            done: received + jiff::SignedDuration::from_millis(2),
            who,
            verb: "patch".to_owned(),
            resource: resource.to_owned(),
            namespace: "bench".to_owned(),
            name: "app001".to_owned(),
        }
    }

    #[test]
    fn a_wake_is_the_first_stamp_and_scale_after_its_first_byte() {
        let clock = Clock::start();
        let of = |at, who, resource| entry(clock, at, who, resource);
        let mut entries = vec![
            of(-500, Who::Operator, "deployments/scale"),
            of(1000, Who::Doorman, "managedworkloads"),
            of(1003, Who::Other, "managedworkloads"),
            of(1004, Who::Operator, "deployments/scale"),
            of(1009, Who::Operator, "managedworkloads/status"),
        ];
        entries.push(Entry {
            name: "app002".to_owned(),
            ..entries[1].clone()
        });
        let log = Log::of(clock, "bench", entries);
        let sent = clock.now();
        let written = log.written(&wake(sent)).unwrap();
        assert_eq!(written.writes, 2);
        let whole = written.scale.1.after(written.stamp.0);
        assert!((5.9..6.1).contains(&whole), "{whole}");
        let late = clock.moment(clock.day() + jiff::SignedDuration::from_secs(9));
        assert_eq!(log.written(&wake(late)), None);
    }

    #[test]
    fn writes_are_counted_by_kind_within_the_rounds_of_requests() {
        let clock = Clock::start();
        let begun = clock.now();
        let entries = vec![
            entry(clock, 10, Who::Doorman, "managedworkloads"),
            entry(clock, 20, Who::Operator, "deployments/scale"),
            entry(clock, 30, Who::Operator, "managedworkloads/status"),
            entry(clock, 40, Who::Operator, "managedworkloads/status"),
            entry(clock, 90_000, Who::Operator, "managedworkloads/status"),
        ];
        let log = Log::of(clock, "bench", entries);
        let round = |way| Round {
            way,
            at_once: 1,
            wakes: Vec::new(),
            failed: Vec::new(),
            bare: Vec::new(),
            begun,
            ended: clock.moment(clock.day() + jiff::SignedDuration::from_secs(1)),
        };
        let rounds = [round(Way::Doorman), round(Way::Floor)];
        let (kinds, wakes) = log.kinds(rounds.iter());
        assert_eq!(wakes, 1);
        assert_eq!(kinds.values().copied().collect::<Vec<_>>(), [1, 1, 2]);
    }
}
