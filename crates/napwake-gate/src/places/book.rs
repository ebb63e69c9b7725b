//! The counts behind the places. Only the guards of the parent module call it.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
    task::Waker,
};

use super::{Caps, Source, WorkloadKey};
use crate::line::{Line, Serve};

/// The cap that a new connection would be over (LIMIT-05).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum OverCap {
    /// LIMIT-01.
    #[error("the doorman pod holds as many connections as it may")]
    Pod,
    /// LIMIT-02.
    #[error("as many connections are held for the workload as may be")]
    Workload,
    /// LIMIT-03.
    #[error("as many connections are held from the source as may be")]
    Source,
    /// LIMIT-04.
    #[error("as many connections are held from the source for the workload as may be")]
    SourceAndWorkload,
}

#[derive(Debug)]
pub(super) struct Book {
    caps: Caps,
    held: usize,
    held_by_workload: Counts<WorkloadKey>,
    held_by_source: Counts<Source>,
    held_by_both: Counts<(Source, WorkloadKey)>,
    passed: usize,
    passed_by_source: Counts<Source>,
    /// Those who wait to be passed.
    pub(super) line: Line<Source, ()>,
}

impl Book {
    pub(super) fn new(caps: Caps) -> Self {
        Self {
            caps,
            held: 0,
            held_by_workload: Counts::default(),
            held_by_source: Counts::default(),
            held_by_both: Counts::default(),
            passed: 0,
            passed_by_source: Counts::default(),
            line: Line::default(),
        }
    }

    pub(super) fn hold(
        &mut self,
        source: Source,
        workloads: &[WorkloadKey],
    ) -> Result<(), OverCap> {
        self.check(source, workloads)?;
        self.held += 1;
        self.held_by_source.add(source);
        for workload in workloads {
            self.held_by_workload.add(workload.clone());
            self.held_by_both.add((source, workload.clone()));
        }
        Ok(())
    }

    fn check(&self, source: Source, workloads: &[WorkloadKey]) -> Result<(), OverCap> {
        let caps = &self.caps;
        if self.held >= caps.held {
            return Err(OverCap::Pod);
        }
        if self.held_by_source.of(&source) >= caps.held_per_source {
            return Err(OverCap::Source);
        }
        for workload in workloads {
            let both = (source, workload.clone());
            if self.held_by_both.of(&both) >= caps.held_per_source_and_workload {
                return Err(OverCap::SourceAndWorkload);
            }
            if self.held_by_workload.of(workload) >= caps.held_per_workload {
                return Err(OverCap::Workload);
            }
        }
        Ok(())
    }

    pub(super) fn leave_hold(&mut self, source: Source, workloads: &[WorkloadKey]) {
        self.held -= 1;
        self.held_by_source.subtract(source);
        for workload in workloads {
            self.held_by_workload.subtract(workload.clone());
            self.held_by_both.subtract((source, workload.clone()));
        }
    }

    /// Takes a passed place if one is free. Whoever is first in line for it has
    /// it already: places are granted the moment they are given back.
    pub(super) fn try_pass(&mut self, source: Source) -> bool {
        let is_free = self.passed < self.caps.passed
            && self.passed_by_source.of(&source) < self.caps.passed_per_source;
        if is_free {
            self.passed += 1;
            self.passed_by_source.add(source);
        }
        is_free
    }

    /// Gives a passed place back, and hands it to the first who may have it.
    #[must_use]
    pub(super) fn leave_pass(&mut self, source: Source) -> Vec<Waker> {
        self.passed -= 1;
        self.passed_by_source.subtract(source);
        let Self {
            caps,
            passed,
            passed_by_source,
            line,
            ..
        } = self;
        line.serve(|waiting| {
            if *passed >= caps.passed {
                Serve::Stop
            } else if passed_by_source.of(waiting) >= caps.passed_per_source {
                Serve::Skip
            } else {
                *passed += 1;
                passed_by_source.add(*waiting);
                Serve::Grant(())
            }
        })
    }

    pub(super) const fn held(&self) -> usize {
        self.held
    }

    pub(super) const fn passed(&self) -> usize {
        self.passed
    }

    /// How many counts are kept, for tests: none for what holds no place.
    #[cfg(test)]
    pub(super) fn entries(&self) -> usize {
        self.held_by_workload.0.len()
            + self.held_by_source.0.len()
            + self.held_by_both.0.len()
            + self.passed_by_source.0.len()
    }
}

/// A count for each key that has one above zero.
#[derive(Debug)]
struct Counts<K>(HashMap<K, usize>);

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Counts<K> {
    fn of(&self, key: &K) -> usize {
        self.0.get(key).copied().unwrap_or(0)
    }

    fn add(&mut self, key: K) {
        *self.0.entry(key).or_insert(0) += 1;
    }

    fn subtract(&mut self, key: K) {
        if let Entry::Occupied(mut entry) = self.0.entry(key) {
            match entry.get_mut() {
                0 | 1 => {
                    entry.remove();
                }
                count => *count -= 1,
            }
        }
    }
}
