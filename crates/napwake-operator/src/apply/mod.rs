//! Carries out plans, one write after the other, and makes no choices.
//!
//! Every write carries the precondition it was decided under, and its answer
//! goes into the index at once, so that the next decision has seen it.
//!
//! Each kind of write is the narrowest that holds its precondition:
//!
//! | Write | How | Why so |
//! |---|---|---|
//! | scale | JSON patch of `/scale` | only `test` can demand what is replaced |
//! | mark | merge patch, with the resourceVersion | it must come off whoever set it |
//! | slice | create, then merge patch with the resourceVersion | apply would take over a foreign slice |
//! | status | replace, with the resourceVersion | what isn't planned any more must go |
//! | finalizer | merge patch, with the resourceVersion | the list is replaced whole |
//!
//! All with the field manager `napwake-operator`. Server-side apply is used
//! for none: it can't demand, and it takes off only what it put on itself.
//!
//! Right before each call it's asked whether this process still leads. That
//! keeps two from working against each other. A write that comes too late all the
//! same does no harm, because of its precondition.
//!
//! Once a wake has come up for the workload a plan without it ends, and the next one
//! begins with it. Slices are the slow part,
//! so they are given up in the midst; events are told beside the plan.

mod events;
mod everybody;
mod finalizer;
mod scale;
mod slices;
mod status;
mod target;

use std::sync::Arc;

use kube::{
    Client,
    api::{PatchParams, PostParams},
};
use napwake_api::names::OPERATOR_FIELD_MANAGER;
use napwake_decide::{Plan, World, Write};
use napwake_kit::clock::Clock;

pub(crate) use self::slices::{Deleted, SliceQueue};
use crate::{
    leader::Term, metrics::OperatorMetrics, probe::Prober, queue::Hurry, shared::Shared,
    tell::Teller,
};

/// Writes what a plan says.
pub(crate) struct Applier {
    pub(crate) client: Client,
    pub(crate) shared: Arc<Shared>,
    pub(crate) teller: Teller,
    pub(crate) clock: Clock,
    pub(crate) prober: Arc<Prober>,
    pub(crate) slices: SliceQueue,
    pub(crate) metrics: OperatorMetrics,
}

/// A write that ends a plan.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    /// Its precondition didn't hold: something has changed since.
    #[error("{write}: something has changed since it was decided")]
    Stale {
        write: &'static str,
        source: kube::Error,
    },
    #[error("{write} failed")]
    Failed {
        write: &'static str,
        source: kube::Error,
    },
    /// Another operator may lead by now.
    #[error("not the leader any more")]
    NotLeader,
    /// A wake has come up for the same workload, and this wasn't it.
    #[error("a wake comes first")]
    WakeFirst,
}

impl ApplyError {
    /// Sorts an answer. 404, 409 and 422 mean that the object isn't as it was:
    /// gone, newer, or failing a `test`.
    pub(crate) fn of(write: &'static str, source: kube::Error) -> Self {
        match &source {
            kube::Error::Api(status) if matches!(status.code, 404 | 409 | 422) => {
                Self::Stale { write, source }
            }
            _ => Self::Failed { write, source },
        }
    }
}

impl Applier {
    /// Carries out the plan, up to the first write that fails, or that a wake comes
    /// before. A slice or an event that can't be written ends nothing.
    pub(crate) async fn apply(
        &self,
        leave: Leave<'_>,
        world: &World,
        plan: Plan,
    ) -> Result<(), ApplyError> {
        let Plan {
            writes,
            reads: _,
            asks: _,
            again: _,
            unknown: _,
        } = plan;
        let wakes = writes.iter().any(is_wake);
        let mut is_recorded = false;
        let mut writes = writes.into_iter();
        while let Some(write) = writes.next() {
            let records = matches!(write, Write::WriteStatus { .. });
            let done = if wakes || is_at_once(&write) || !leave.hurry.is_up() {
                self.write(leave, world, write).await
            } else {
                Err(ApplyError::WakeFirst)
            };
            if let Err(error) = done {
                // No later plan tells what this status says.
                self.tell_all(world, writes.filter(|_| is_recorded));
                return Err(error);
            }
            is_recorded |= records;
        }
        Ok(())
    }

    async fn write(&self, leave: Leave<'_>, world: &World, write: Write) -> Result<(), ApplyError> {
        let workload = &world.workload;
        let namespace = workload.key.namespace.as_str();
        ask(leave.term)?;
        match write {
            Write::ScaleTarget {
                target,
                from,
                to,
                unchanged_since: version,
            } => {
                let step = scale::Step { from, to, version };
                self.scale(namespace, &target, &step).await?;
                tracing::info!(namespace, workload = workload.key.name, from, to, "scaled");
            }
            Write::MarkTarget {
                target,
                paused_replicas,
                unchanged_since: version,
            } => {
                self.mark(namespace, &target, paused_replicas, &version)
                    .await?;
            }
            Write::ApplySlice { slice, over } => {
                let applied = self.apply_slice(leave.term, &workload.key, slice, over);
                leave.unless_a_wake_comes(applied).await??;
            }
            Write::DeleteSlice {
                name,
                uid,
                resource_version,
            } => {
                let slice = slices::Found {
                    name,
                    uid,
                    version: resource_version,
                };
                let deleted = self.delete_slice(leave.term, &workload.key, &slice);
                leave.unless_a_wake_comes(deleted).await??;
            }
            Write::CheckListeners(listeners) => self.prober.check(&workload.key, listeners),
            Write::WriteStatus {
                resource_version,
                status,
            } => {
                self.write_status(workload, resource_version, *status)
                    .await?;
            }
            Write::AddFinalizer { resource_version } => {
                self.add_finalizer(workload, &resource_version).await?;
            }
            Write::RemoveFinalizer { resource_version } => {
                self.remove_finalizer(workload, &resource_version).await?;
            }
            Write::Event(event) => self.tell(workload, event),
        }
        Ok(())
    }
}

/// Until when a plan may be carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leave<'a> {
    /// While this process leads.
    pub(crate) term: &'a Term,
    /// While no wake waits for it to end.
    pub(crate) hurry: &'a Hurry,
}

impl Leave<'_> {
    /// What comes of `work`, which is dropped where it stands once a wake comes up.
    pub(crate) async fn unless_a_wake_comes<T>(
        self,
        work: impl Future<Output = T>,
    ) -> Result<T, ApplyError> {
        tokio::select! {
            biased;
            () = self.hurry.comes_up() => Err(ApplyError::WakeFirst),
            done = work => Ok(done),
        }
    }
}

/// Whether it gives a workload its replicas back.
pub(crate) const fn is_wake(write: &Write) -> bool {
    matches!(write, Write::ScaleTarget { from: 0, .. })
}

/// Whether nothing is waited for.
const fn is_at_once(write: &Write) -> bool {
    matches!(write, Write::CheckListeners(_) | Write::Event(_))
}

/// Whether this process still leads.
pub(crate) fn ask(term: &Term) -> Result<(), ApplyError> {
    term.is_mine().then_some(()).ok_or(ApplyError::NotLeader)
}

/// For patches, as the operator.
pub(crate) fn patch_params() -> PatchParams {
    PatchParams {
        field_manager: Some(OPERATOR_FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// For creating and replacing, as the operator.
pub(crate) fn post_params() -> PostParams {
    PostParams {
        field_manager: Some(OPERATOR_FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    }
}

#[cfg(test)]
mod tests;
