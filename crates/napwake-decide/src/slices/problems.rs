//! What keeps slices from standing, and when they are tried again (ROUTE-74).

use jiff::Timestamp;

use super::Work;
use crate::{
    plan::Write,
    timing::{self, after},
    world::{Service, Slice, SliceFailure, SliceProblem, SliceSpec},
};

impl<'w> Work<'_, 'w> {
    /// Whether it's of a Service that is gone, under whose name another was made.
    /// One without an owner, or that gets another with each write, is written over.
    pub(super) fn is_outdated(&self, slice: &Slice, service: &Service) -> bool {
        let owner = &slice.spec.service_uid;
        let is_anothers = !owner.is_empty() && *owner != service.uid;
        let failure = self.failure(&slice.spec.name);
        is_anothers && !failure.is_some_and(|one| is_altered(&one.why))
    }

    /// Takes a slice away. That one is altered with each write is no reason to let
    /// it stay.
    pub(super) fn delete(&mut self, slice: &Slice) {
        let failure = self.failure(&slice.spec.name);
        let Some(failure) = failure.filter(|one| !is_altered(&one.why)) else {
            self.plan.writes.push(delete(slice));
            return;
        };
        self.problem(&slice.spec.service, &slice.spec.name, &failure.why);
        if retry_at(failure) <= self.s.now {
            self.plan.writes.push(delete(slice));
        }
    }

    /// Whether the last write failed and it's too soon for the next; notes the
    /// problem either way.
    pub(super) fn is_backing_off(&mut self, service: &str, wanted: &SliceSpec) -> bool {
        let Some(failure) = self.failure(&wanted.name) else {
            return false;
        };
        let is_too_soon = retry_at(failure) > self.s.now;
        if let SliceProblem::Altered { written, .. } = &failure.why {
            // Whoever altered what was written before may leave this as it is.
            if **written != *wanted {
                return false;
            }
        }
        self.problem(service, &wanted.name, &failure.why);
        is_too_soon
    }

    /// A slice stands as it's wanted. If it was altered before, that's over only once
    /// it has stood for a while.
    pub(super) fn note_altered(&mut self, service: &str, spec: &SliceSpec) {
        let Some(failure) = self.failure(&spec.name) else {
            return;
        };
        let holds_at = after(failure.at, timing::SLICE_HOLDS);
        if is_altered(&failure.why) && holds_at > self.s.now {
            self.plan.again.push(holds_at);
            self.problem(service, &spec.name, &failure.why);
        }
    }

    pub(super) fn problem(&mut self, service: &str, name: &str, why: &SliceProblem) {
        let retry = self.failure(name).map(retry_at);
        let retry = retry.filter(|at| *at > self.s.now);
        self.plan.again.extend(retry);
        let cause = match why {
            SliceProblem::Foreign => format!("somebody else's EndpointSlice is named {name}"),
            SliceProblem::Refused(message) => {
                format!("the EndpointSlice {name} was refused: {message}")
            }
            SliceProblem::Altered { what, .. } => format!(
                "the EndpointSlice {name} is altered, by admission or somebody else, each time \
                 it is written: {what}"
            ),
        };
        self.plan.problems.insert(service.to_owned(), cause);
    }

    fn failure(&self, name: &str) -> Option<&'w SliceFailure> {
        self.s.world.slice_failures.get(name)
    }
}

fn retry_at(failure: &SliceFailure) -> Timestamp {
    after(failure.at, timing::retry_after(failure.count))
}

const fn is_altered(problem: &SliceProblem) -> bool {
    matches!(problem, SliceProblem::Altered { .. })
}

fn delete(slice: &Slice) -> Write {
    Write::DeleteSlice {
        name: slice.spec.name.clone(),
        uid: slice.uid.clone(),
        resource_version: slice.resource_version.clone(),
    }
}
