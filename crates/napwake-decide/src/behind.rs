//! Who stands behind a Service, as observed: plain data, like the rest of the world.
//!
//! Whose Ready pods serve a Service is read from its own EndpointSlices, which
//! aren't watched (ROUTE-35). When to read them is [`crate::Plan::asks`]'; in
//! between, what was read last is kept for as long as the Service is there.

use std::collections::BTreeSet;

use jiff::Timestamp;
use napwake_api::workload::TargetKind;

/// Whose a pod is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// A Deployment's or StatefulSet's of that kind and name.
    Target(TargetKind, String),
    /// Somebody else's, whom Napwake never manages: another controller's, or nobody's.
    Other,
}

/// What is known of those behind one Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// The Deployments and StatefulSets that it selects and that have a Ready pod,
    /// as watched.
    ///
    /// A hint only, of when to read again: it knows no pods of others, and comes
    /// before the EndpointSlice controller has taken note.
    pub awake: BTreeSet<Owner>,
    /// What was read last; none where it never was.
    pub read: Option<Reading>,
    /// The reads that failed since, one after the other.
    pub failure: Option<ReadFailure>,
}

/// Who serves a Service, by its own EndpointSlices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// When the read began.
    pub at: Timestamp,
    /// Who has a Ready endpoint there, each once.
    pub serving: BTreeSet<Owner>,
    /// [`Behind::awake`] as it was then.
    pub awake: BTreeSet<Owner>,
    /// When the first read in a row began that found the same awake.
    pub since: Timestamp,
}

/// Reads that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFailure {
    /// When the last one failed.
    pub at: Timestamp,
    /// How many failed in a row, at least 1.
    pub count: u32,
    /// Why the last one failed.
    pub why: String,
}

impl Behind {
    /// A read that began at `at`, with those `awake`, found these.
    pub fn found(&mut self, serving: BTreeSet<Owner>, awake: BTreeSet<Owner>, at: Timestamp) {
        let since = match &self.read {
            Some(last) if last.awake == awake => last.since.min(at),
            _ => at,
        };
        self.failure = None;
        self.read = Some(Reading {
            at,
            serving,
            awake,
            since,
        });
    }

    /// A read failed. What was read before counts for as long as it did.
    pub fn failed(&mut self, why: String, at: Timestamp) {
        let count = self.failure.as_ref().map_or(0, |last| last.count);
        self.failure = Some(ReadFailure {
            at,
            count: count.saturating_add(1),
            why,
        });
    }
}
