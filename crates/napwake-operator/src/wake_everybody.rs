//! Waking everybody before an uninstall.
//!
//! The simplest way that leaves nobody at zero: the operator's Deployment is
//! stopped, and this process is the operator for a few minutes more, taking
//! nobody in and deleting every ManagedWorkload. Each deletion wakes its
//! workload first and drains its route, as the finalizer always sees to, but waits
//! a minute at most for readiness. So nothing here scales a workload that has a
//! ManagedWorkload.
//!
//! Ends well once no ManagedWorkload, no marked workload and no slice that nobody
//! stands for is left. Otherwise it says which are, and starts the operator again:
//! nothing has been uninstalled, and whoever is still asleep is to be woken.

use std::{collections::HashSet, sync::Arc, time::Duration};

use napwake_api::workload::{TargetKind, TargetRef};
use napwake_cluster::plain;
use napwake_decide::left_behind::{Freeing, free};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    apply::{Applier, ApplyError},
    args::OperatorArgs,
    leader::Term,
    observe::{Key, convert::ObservedTarget},
    work::Work,
};

/// Within the 285 s that the chart's Job has, with room for what it tries once more.
const PATIENCE: Duration = Duration::from_mins(4);

/// How long starting the operator again may take: the process may be at its end.
const RESTART: Duration = Duration::from_secs(5);

/// How often to look whether all is done.
const LOOK: Duration = Duration::from_secs(1);

/// How many names an error gives.
const NAMED: usize = 20;

/// The errand of waking everybody.
pub(crate) struct Errand {
    work: Arc<Work>,
    namespace: String,
    operator: Option<String>,
}

/// Somebody may still be asleep.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ErrandError {
    #[error("can't {what} the operator's Deployment {name}: {why}")]
    Operator {
        what: &'static str,
        name: String,
        why: String,
    },
    #[error("not everybody is awake: {} are left: {}", .left.len(), named(.left))]
    Left { left: Vec<String> },
}

fn of_operator(what: &'static str, name: &str, error: &kube::Error) -> ErrandError {
    ErrandError::Operator {
        what,
        name: name.to_owned(),
        why: plain(error),
    }
}

fn named(left: &[String]) -> String {
    let names: Vec<_> = left.iter().take(NAMED).map(String::as_str).collect();
    let more = if left.len() > NAMED { ", …" } else { "" };
    format!("{}{more}", names.join(", "))
}

impl Errand {
    pub(crate) fn new(args: &OperatorArgs, work: Arc<Work>) -> Self {
        Self {
            work,
            namespace: args.namespace.clone(),
            operator: args.operator_deployment.clone(),
        }
    }

    /// Does it and cancels `token`, which ends the process.
    pub(crate) async fn run(self, token: CancellationToken) -> Result<(), ErrandError> {
        let before = tokio::select! {
            seen = self.operator_replicas() => seen?,
            () = token.cancelled() => return Err(ErrandError::Left { left: self.left() }),
        };
        let done = tokio::select! {
            done = self.wake_everybody() => done,
            () = token.cancelled() => Err(ErrandError::Left { left: self.left() }),
        };
        if done.is_err()
            && let Some(replicas) = before
        {
            self.start_operator(replicas).await;
        }
        done?;
        tracing::info!("everybody is awake");
        token.cancel();
        Ok(())
    }

    /// What the operator is given back should this fail: never 0, which is what an
    /// earlier try that was killed has left.
    async fn operator_replicas(&self) -> Result<Option<i32>, ErrandError> {
        let Some(name) = &self.operator else {
            return Ok(None);
        };
        let applier = self.applier();
        let seen = applier.operator_replicas(&self.namespace, name).await;
        let seen = seen.map_err(|error| of_operator("look at", name, &error))?;
        Ok(seen.map(|replicas| replicas.max(1)))
    }

    async fn start_operator(&self, replicas: i32) {
        let Some(name) = &self.operator else {
            return;
        };
        let starting = self
            .applier()
            .start_operator(&self.namespace, name, replicas);
        let why = match timeout(RESTART, starting).await {
            Ok(Ok(())) => {
                tracing::info!(deployment = name, replicas, "the operator is started again");
                return;
            }
            Ok(Err(error)) => plain(&error),
            Err(_) => format!("no answer in {} s", RESTART.as_secs()),
        };
        tracing::error!(
            deployment = name,
            replicas,
            error = why,
            "the operator stays stopped: scale its Deployment yourself"
        );
    }

    async fn wake_everybody(&self) -> Result<(), ErrandError> {
        if let Some(name) = &self.operator {
            let stopped = self.applier().stop_operator(&self.namespace, name).await;
            stopped.map_err(|error| of_operator("stop", name, &error))?;
            tracing::info!(deployment = name, "the operator is stopped");
        }
        let waiting = async {
            // Another one may lead until it has stopped.
            let term = self.work.has_led().await;
            while !self.round(&term).await {
                sleep(LOOK).await;
            }
        };
        timeout(PATIENCE, waiting)
            .await
            .map_err(|_| ErrandError::Left { left: self.left() })
    }

    /// Asks everybody once more to go; whether nobody is left.
    async fn round(&self, term: &Term) -> bool {
        let applier = self.applier();
        let workloads: Vec<_> = applier
            .shared
            .with(|index, now| index.all_workloads(now).collect());
        for observed in &workloads {
            let workload = &observed.workload;
            if workload.deleted.is_none() {
                let asked = applier.let_go(term, workload).await;
                complain(asked, &workload.key.to_string(), "can't delete");
            }
        }
        let marked = self.marked();
        for LeftBehind { target, freeing } in &marked {
            let freed = applier.free(term, &target.namespace, &target.target, *freeing);
            complain(freed.await, &name(target), "can't wake");
        }
        workloads.is_empty() && marked.is_empty() && self.orphans().is_empty()
    }

    /// Targets with the mark of a pause and no ManagedWorkload that would wake
    /// them.
    fn marked(&self) -> Vec<LeftBehind> {
        self.applier().shared.with(|index, now| {
            let named: HashSet<_> = index
                .all_workloads(now)
                .map(|one| {
                    let target = one.workload.spec.target_ref.clone();
                    (one.workload.key.namespace.clone(), target)
                })
                .collect();
            let kinds = [TargetKind::Deployment, TargetKind::StatefulSet];
            let targets = kinds.map(|kind| index.targets(kind).all(now).collect::<Vec<_>>());
            let marked = targets.into_iter().flatten().filter_map(|one| {
                let freeing = free(&one.target)?;
                let target_ref = TargetRef {
                    kind: one.target.id.kind,
                    name: one.target.id.name.clone(),
                };
                let is_named = named.contains(&(one.namespace.clone(), target_ref));
                (!is_named).then_some(LeftBehind {
                    target: one,
                    freeing,
                })
            });
            marked.collect()
        })
    }

    /// Slices that would send callers to a doorman that is gone by then; they are
    /// collected as ever.
    fn orphans(&self) -> Vec<Key> {
        self.applier().shared.with(|index, now| {
            let all: Vec<_> = index.all_slices(now).collect();
            let orphans = all
                .into_iter()
                .filter(|key| index.orphan(key, now).is_some());
            orphans.collect()
        })
    }

    fn left(&self) -> Vec<String> {
        let workloads = self.applier().shared.with(|index, now| {
            let all = index.all_workloads(now);
            all.map(|one| one.workload.key.to_string())
                .collect::<Vec<_>>()
        });
        let marked = self.marked();
        let marked = marked.iter().map(|marked| name(&marked.target));
        let orphans = self.orphans();
        let orphans = orphans
            .iter()
            .map(|(namespace, name)| format!("EndpointSlice {namespace}/{name}"));
        workloads.into_iter().chain(marked).chain(orphans).collect()
    }

    fn applier(&self) -> &Applier {
        self.work.applier()
    }
}

/// A target with the mark of a pause that nobody else would wake, and what to
/// do about it.
struct LeftBehind {
    target: Arc<ObservedTarget>,
    freeing: Freeing,
}

fn name(target: &ObservedTarget) -> String {
    let id = &target.target.id;
    format!("{} {}/{}", id.kind.as_str(), target.namespace, id.name)
}

/// Says what failed, but for what has changed: the next round sees how.
fn complain(done: Result<(), ApplyError>, whose: &str, what: &'static str) {
    match done {
        Ok(()) | Err(ApplyError::Stale { .. }) => {}
        Err(error) => tracing::warn!(whose, error = plain(&error), "{what}"),
    }
}

#[cfg(test)]
#[path = "wake_everybody_tests.rs"]
mod tests;
