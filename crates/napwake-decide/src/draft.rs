//! A plan in the making: the next status and the writes around it, and how
//! they are put in order. Decides nothing about the workload.

use std::collections::BTreeSet;

use jiff::Timestamp;
use napwake_api::{
    ManagedWorkloadStatus, names,
    workload::{MicroTime, Phase},
};

use crate::{
    owners::{self, Mark, Standing},
    plan::{Event, EventType, Plan, Write},
    render::{self, Finding},
    settle::{Fate, Settled},
    timing::{self, after},
    world::{Listener, Target},
};

/// A plan in the making.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) status: ManagedWorkloadStatus,
    /// The scale-up of a wake.
    wake: Option<Wake>,
    /// The scale-down of a pause, right after the status.
    stop: Option<Write>,
    /// The mark put on the target or taken off, after all of that.
    mark: Option<Write>,
    pub(crate) slices: Vec<Write>,
    pub(crate) checks: Vec<Listener>,
    pub(crate) reads: BTreeSet<String>,
    pub(crate) asks: BTreeSet<String>,
    events: Vec<Event>,
    again: Option<Timestamp>,
    unknown: Vec<String>,
    pub(crate) wake_on_request: Option<Finding<napwake_api::condition::RouteReason>>,
    pub(crate) behind_load_balancers: Vec<String>,
}

/// The scale-up of a wake.
#[derive(Debug)]
enum Wake {
    First(Write),
    AfterStatus(Write),
}

impl Draft {
    pub(crate) fn new(status: &ManagedWorkloadStatus) -> Self {
        Self {
            status: status.clone(),
            wake: None,
            stop: None,
            mark: None,
            slices: Vec::new(),
            checks: Vec::new(),
            reads: BTreeSet::new(),
            asks: BTreeSet::new(),
            events: Vec::new(),
            again: None,
            unknown: Vec::new(),
            wake_on_request: None,
            behind_load_balancers: Vec::new(),
        }
    }

    /// Asks to be asked again at that time.
    pub(crate) fn again(&mut self, at: Timestamp) {
        self.again = Some(self.again.map_or(at, |known| known.min(at)));
    }

    /// Notes what can't be told, and asks again soon.
    pub(crate) fn unknown(&mut self, why: String, now: Timestamp) {
        self.again(after(now, timing::LOOK_AGAIN));
        self.unknown.push(why);
    }

    pub(crate) fn event(&mut self, reason: &'static str, note: impl Into<String>) {
        self.events.push(Event {
            type_: EventType::Normal,
            reason,
            note: note.into(),
        });
    }

    pub(crate) fn warning(&mut self, reason: &'static str, note: impl Into<String>) {
        self.events.push(Event {
            type_: EventType::Warning,
            reason,
            note: note.into(),
        });
    }

    /// Gives the target its replicas back: the first write of all, unless the
    /// status as seen may be of an earlier sleep. Then the status is written
    /// first, which fails if it is.
    pub(crate) fn scale_up(&mut self, s: &Settled, target: &Target) {
        let mut record = owners::record(target);
        record.replicas = s.replicas_before();
        let wake = Write::ScaleTarget {
            target: target.id.clone(),
            from: target.replicas,
            to: record.replicas,
            unchanged_since: target.resource_version.clone(),
        };
        self.wake = Some(if s.is_as_recorded() {
            Wake::First(wake)
        } else {
            // Should the second write never come, this isn't taken for a view
            // from before it.
            record.generation -= 1;
            Wake::AfterStatus(wake)
        });
        self.status.target = Some(record);
    }

    /// Stops the pods of a target that is marked, once the status is written.
    pub(crate) fn scale_down(&mut self, target: &Target) {
        self.stop = Some(Write::ScaleTarget {
            target: target.id.clone(),
            from: target.replicas,
            to: 0,
            unchanged_since: target.resource_version.clone(),
        });
    }

    /// Puts the mark on the target, or takes it off, unless it's so already.
    pub(crate) fn mark(&mut self, target: &Target, replicas: Option<i32>) {
        let is_so = match (owners::mark(target), replicas) {
            (Mark::None, None) => true,
            (Mark::Replicas(marked), Some(wanted)) => marked == wanted,
            _ => false,
        };
        self.mark = (!is_so).then(|| mark(target, replicas));
    }

    /// Records the target as it is, where that says something new.
    pub(crate) fn record(&mut self, target: &Target) {
        let new = owners::record(target);
        let is_known = self.status.target.as_ref().is_some_and(|known| {
            (&known.uid, &known.template, known.replicas) == (&new.uid, &new.template, new.replicas)
        });
        if !is_known {
            self.status.target = Some(new);
        }
    }

    /// Puts the writes in order.
    pub(crate) fn into_plan(mut self, s: &Settled) -> Plan {
        let reads = std::mem::take(&mut self.reads);
        let asks = std::mem::take(&mut self.asks);
        let unknown = std::mem::take(&mut self.unknown);
        let wake_on_request = self.wake_on_request.take();
        render::conditions(&mut self.status, s, wake_on_request);
        self.status.observed_generation = Some(s.workload().generation);
        let warnings = render::warnings(s, &self.status, &self.behind_load_balancers);
        for (reason, note) in warnings {
            self.warning(reason, note);
        }
        // What is due and doesn't come, as where it waits for another workload, isn't
        // looked for without a pause.
        let again = self.again.map(|at| match at {
            past if past <= s.now => after(s.now, timing::LOOK_AGAIN),
            ahead => ahead,
        });
        Plan {
            writes: self.writes(s),
            reads,
            asks,
            again,
            unknown,
        }
    }

    fn writes(self, s: &Settled) -> Vec<Write> {
        let resource_version = s.workload().resource_version.clone();
        let has_finalizer = s.workload().finalizers.contains(names::FINALIZER);
        let needs_finalizer = self.needs_finalizer(s);
        if needs_finalizer && !has_finalizer && s.fate == Fate::Stays && self.wake.is_none() {
            // Nothing is begun that a deletion could cut short (T-86).
            return vec![Write::AddFinalizer { resource_version }];
        }
        let release = self.release(s);
        let is_new = self.status != *s.status();
        let status = Write::WriteStatus {
            resource_version: resource_version.clone(),
            status: Box::new(self.status),
        };
        let mut writes = Vec::new();
        match self.wake {
            Some(Wake::First(wake)) => {
                writes.push(wake);
                writes.extend(is_new.then_some(status));
            }
            Some(Wake::AfterStatus(wake)) => writes.extend([status, wake]),
            None => {
                writes.extend(release.clone());
                writes.extend(is_new.then_some(status));
            }
        }
        writes.extend(self.stop);
        writes.extend(self.slices);
        // Taken off already, or not there.
        writes.extend(self.mark.filter(|_| release.is_none()));
        if !self.checks.is_empty() {
            writes.push(Write::CheckListeners(self.checks));
        }
        if is_new {
            writes.extend(self.events.into_iter().map(Write::Event));
        }
        if writes.is_empty() && has_finalizer && !needs_finalizer {
            writes.push(Write::RemoveFinalizer { resource_version });
        }
        writes
    }

    /// What makes sure that no scale-down of the pause that ends comes true any
    /// more: another version of the target, or the proof that there is one.
    ///
    /// A scale-down that the status as seen doesn't record yet can't come true
    /// either, since recording it fails on the status that is written here.
    fn release(&self, s: &Settled) -> Option<Write> {
        let begun = s.stop_under_way()?;
        let goes_on = self.status.phase == Some(Phase::Pausing)
            && self
                .status
                .pause
                .as_ref()
                .is_some_and(|pause| pause.started_at == begun.started_at);
        let target = s.target.filter(|target| target.replicas > 0)?;
        // Of one that is lost nothing is left that could be kept running.
        (!goes_on && s.fate != Fate::Lost).then(|| mark(target, None))
    }

    /// Whether the ManagedWorkload may not go yet: its workload is asleep or
    /// about to be, or it has routes or resting ports (T-86, DRAIN-24).
    fn needs_finalizer(&self, s: &Settled) -> bool {
        let is_pausing = matches!(self.status.phase, Some(Phase::Pausing | Phase::Paused));
        let has_ports = self
            .status
            .doorman
            .as_ref()
            .is_some_and(|doorman| !doorman.routes.is_empty() || !doorman.resting.is_empty());
        let is_anothers = matches!(s.standing, Standing::AlreadyManaged(_));
        let is_asleep = s.fate != Fate::Lost && !is_anothers && s.is_asleep();
        is_pausing || has_ports || is_asleep
    }
}

fn mark(target: &Target, paused_replicas: Option<i32>) -> Write {
    Write::MarkTarget {
        target: target.id.clone(),
        paused_replicas,
        unchanged_since: target.resource_version.clone(),
    }
}

/// A time as the status holds it.
pub(crate) const fn micro(at: Timestamp) -> MicroTime {
    MicroTime(at)
}
