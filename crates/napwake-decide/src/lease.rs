//! Leader election as a pure step: what I saw of the lease and when, who I am,
//! and the time → hold, renew, take or wait.
//!
//! Reads no clock and writes no lease. Time is monotonic, as a span since any
//! fixed moment of this process: how old a record is counts from when *this*
//! process first saw it, never by comparing clocks (F-113).

use std::time::Duration;

/// How long a lease is good for, from when others last saw it renewed.
///
/// Only the leader can move routes, so a few seconds at most may pass without
/// one (DRAIN-10): this and one more look. A leader that loses its lease to a
/// slow API server begins anew as soon as that answers, which costs little.
pub const LEASE_DURATION: Duration = Duration::from_secs(6);

/// How often the leader renews it, and how often others look whether it was
/// given back.
pub const RENEW_EVERY: Duration = Duration::from_secs(1);

/// How long after its last renewal a leader must have stopped writing: before
/// anyone may take the lease, with room for a write under way.
pub const STOP_AFTER: Duration = Duration::from_secs(4);

/// A moment of this process's own monotonic clock.
pub type Moment = Duration;

/// What a Lease says, as far as the election goes by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// `spec.holderIdentity`, empty where it was released.
    pub holder: String,
    /// `spec.renewTime` and whatever else changes with a renewal, as text: only
    /// compared for being equal.
    pub renewal: String,
    /// `spec.leaseDurationSeconds`.
    pub duration: Duration,
}

/// What to do about the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    /// It's mine and fresh: look again then.
    Hold {
        /// When it's due.
        until: Moment,
    },
    /// It's mine: renew it now.
    Renew,
    /// It's free: write it with my name now, on the version that was seen.
    Take,
    /// It's somebody else's: look again then.
    Wait {
        /// When it may be taken, unless it's renewed.
        until: Moment,
    },
}

/// One candidate's view of the election.
#[derive(Clone, Debug)]
pub struct Election {
    me: String,
    seen: Option<(Record, Moment)>,
    renewed: Option<Moment>,
}

impl Election {
    /// A candidate of this identity: the pod's name and uid, so that a
    /// restarted container takes its own lease back at once.
    pub fn new(me: String) -> Self {
        Self {
            me,
            seen: None,
            renewed: None,
        }
    }

    /// Takes in the lease as read, or that there's none. `now` is when the read
    /// ended.
    pub fn observe(&mut self, record: Option<Record>, now: Moment) {
        match record {
            None => self.seen = None,
            Some(record) => {
                if self.seen.as_ref().is_none_or(|(seen, _)| *seen != record) {
                    self.seen = Some((record, now));
                }
            }
        }
        if !self.is_mine() {
            self.renewed = None;
        }
    }

    /// Takes in that my take or renewal succeeded. `begun` is when its request
    /// was sent, which others can't have seen it before.
    pub fn wrote(&mut self, record: Record, begun: Moment) {
        self.seen = Some((record, begun));
        self.renewed = Some(begun);
    }

    /// What to do now.
    pub fn step(&self, now: Moment) -> Step {
        let Some((record, first_seen)) = &self.seen else {
            return Step::Take;
        };
        if record.holder.is_empty() {
            return Step::Take;
        }
        if self.is_mine() {
            return match self.renewed {
                None => Step::Take,
                Some(renewed) if now < renewed + RENEW_EVERY => Step::Hold {
                    until: renewed + RENEW_EVERY,
                },
                Some(_) => Step::Renew,
            };
        }
        let until = *first_seen + record.duration;
        if now < until {
            Step::Wait { until }
        } else {
            Step::Take
        }
    }

    /// Until when I may write as the leader, if I am it.
    pub fn leads_until(&self) -> Option<Moment> {
        self.renewed.map(|renewed| renewed + STOP_AFTER)
    }

    /// Whether I may write as the leader at `now`.
    pub fn leads(&self, now: Moment) -> bool {
        self.leads_until().is_some_and(|until| now < until)
    }

    fn is_mine(&self) -> bool {
        self.seen
            .as_ref()
            .is_some_and(|(record, _)| record.holder == self.me)
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
