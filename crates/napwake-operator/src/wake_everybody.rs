//! Waking everybody before an uninstall.
//!
//! The simplest way that leaves nobody at zero: the operator's Deployment is
//! stopped, and this process is the operator for a few minutes more, taking
//! nobody in and deleting every ManagedWorkload. Each deletion wakes its
//! workload first and drains its route, as the finalizer always sees to. So
//! nothing here scales a workload that has a ManagedWorkload.
//!
//! Ends well once no ManagedWorkload and no marked workload at zero is left;
//! otherwise it says which are.

use std::{collections::HashSet, sync::Arc, time::Duration};

use napwake_api::{
    names::signal,
    workload::{TargetKind, TargetRef},
};
use napwake_decide::world::TargetId;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    apply::{Applier, ApplyError, brief},
    args::OperatorArgs,
    work::Work,
};

/// Within the 285 s that the chart's Job has.
const PATIENCE: Duration = Duration::from_secs(270);

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
    #[error("can't stop the operator's Deployment {name}")]
    Operator { name: String, source: kube::Error },
    #[error("after {} s, {} are left: {}", PATIENCE.as_secs(), .left.len(), named(.left))]
    Left { left: Vec<String> },
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
        tokio::select! {
            done = self.wake_everybody() => done?,
            () = token.cancelled() => return Err(ErrandError::Left { left: self.left() }),
        }
        tracing::info!("everybody is awake");
        token.cancel();
        Ok(())
    }

    async fn wake_everybody(&self) -> Result<(), ErrandError> {
        if let Some(name) = &self.operator {
            self.applier()
                .stop_operator(&self.namespace, name)
                .await
                .map_err(|source| ErrandError::Operator {
                    name: name.clone(),
                    source,
                })?;
            tracing::info!(deployment = name, "the operator is stopped");
        }
        let waiting = async {
            // Another one may lead until it has stopped.
            self.work.has_led().await;
            while !self.round().await {
                sleep(LOOK).await;
            }
        };
        timeout(PATIENCE, waiting)
            .await
            .map_err(|_| ErrandError::Left { left: self.left() })
    }

    /// Asks everybody once more to go; whether nobody is left.
    async fn round(&self) -> bool {
        let applier = self.applier();
        let workloads: Vec<_> = applier
            .shared
            .with(|index, now| index.all_workloads(now).collect());
        for observed in &workloads {
            if observed.workload.deleted.is_none()
                && let Err(error) = applier.let_go(&observed.workload).await
            {
                let key = &observed.workload.key;
                tracing::warn!(%key, error = brief(&error), "can't delete");
            }
        }
        let marked = self.marked();
        for (namespace, target, replicas) in &marked {
            match applier.wake_marked(namespace, target, *replicas).await {
                // It has changed: the next round sees how.
                Ok(()) | Err(ApplyError::Stale { .. }) => {}
                Err(error) => {
                    let cause = error.cause();
                    tracing::warn!(namespace, target = target.name, %error, cause, "can't wake");
                }
            }
        }
        workloads.is_empty() && marked.is_empty()
    }

    /// Targets at zero with the mark of a pause, and no ManagedWorkload that
    /// would wake them.
    fn marked(&self) -> Vec<(String, TargetId, i32)> {
        self.applier().shared.with(|index, now| {
            let named: HashSet<_> = index
                .all_workloads(now)
                .map(|one| {
                    let target = one.workload.spec.target_ref.clone();
                    (one.workload.key.namespace.clone(), target)
                })
                .collect();
            let kinds = [TargetKind::Deployment, TargetKind::StatefulSet];
            let targets = kinds.map(|kind| {
                let all = index.targets(kind).all(now);
                all.filter_map(|one| {
                    let target = &one.target;
                    let mark = target.annotations.get(signal::PAUSED_REPLICAS)?;
                    let replicas = mark.parse().unwrap_or(1).max(1);
                    let target_ref = TargetRef {
                        kind,
                        name: target.id.name.clone(),
                    };
                    let is_named = named.contains(&(one.namespace.clone(), target_ref));
                    (target.replicas == 0 && !is_named)
                        .then(|| (one.namespace.clone(), target.id.clone(), replicas))
                })
                .collect::<Vec<_>>()
            });
            targets.concat()
        })
    }

    fn left(&self) -> Vec<String> {
        let workloads = self.applier().shared.with(|index, now| {
            let all = index.all_workloads(now);
            all.map(|one| one.workload.key.to_string())
                .collect::<Vec<_>>()
        });
        let marked = self.marked().into_iter();
        let marked = marked.map(|(namespace, target, _)| {
            format!("{} {namespace}/{}", target.kind.as_str(), target.name)
        });
        workloads.into_iter().chain(marked).collect()
    }

    fn applier(&self) -> &Applier {
        self.work.applier()
    }
}

#[cfg(test)]
#[path = "wake_everybody_tests.rs"]
mod tests;
