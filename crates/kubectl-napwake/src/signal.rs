//! `wake` and `pause`: the two annotations that people set, and waiting for
//! what they lead to.

use std::time::Duration;

use anyhow::Result;
use futures::TryStreamExt;
use jiff::Timestamp;
use kube::{
    Api,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use napwake_api::{
    ManagedWorkload, names,
    stamp::{self, Stamp},
    workload::Phase,
};
use serde_json::json;

use crate::{
    cluster::{Cluster, explain},
    outcome::Failure,
};

/// What somebody at a terminal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// Wake it (CLI-01).
    Wake,
    /// Pause it.
    Pause,
}

impl Signal {
    const fn annotation(self) -> &'static str {
        match self {
            Self::Wake => names::signal::WAKE_REQUESTED,
            Self::Pause => names::signal::PAUSE_REQUESTED,
        }
    }

    const fn reaches(self) -> Phase {
        match self {
            Self::Wake => Phase::Running,
            Self::Pause => Phase::Paused,
        }
    }

    pub(crate) const fn asked(self) -> &'static str {
        match self {
            Self::Wake => "wake asked for",
            Self::Pause => "pause asked for",
        }
    }

    pub(crate) const fn done(self) -> &'static str {
        match self {
            Self::Wake => "running",
            Self::Pause => "paused",
        }
    }
}

/// Sets the annotation to the present time.
pub(crate) async fn send(cluster: &Cluster, signal: Signal, name: &str) -> Result<(), Failure> {
    let stamp = Stamp::now(now()).to_string();
    let patch = json!({"metadata": {"annotations": {signal.annotation(): stamp}}});
    let doing = format!(
        "ask for it on managedworkload/{name} in {}",
        cluster.namespace()
    );
    cluster
        .here()
        .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(|error| explain(error, &doing))?;
    Ok(())
}

/// Waits until the workload got there, as its status says.
pub(crate) async fn wait(
    cluster: &Cluster,
    signal: Signal,
    name: &str,
    timeout: Duration,
) -> Result<(), Failure> {
    let mut last = None;
    let reached = until(cluster.here(), signal, name, &mut last);
    match tokio::time::timeout(timeout, reached).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(Failure::TimedOut(format!(
            "managedworkload/{name} is still {} after {}",
            last.map_or_else(
                || "without a phase".to_owned(),
                |phase: Phase| format!("{phase:?}")
            ),
            napwake_api::Span::from(timeout),
        ))),
    }
}

async fn until(
    api: Api<ManagedWorkload>,
    signal: Signal,
    name: &str,
    last: &mut Option<Phase>,
) -> Result<()> {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let changes = watcher(api, config).default_backoff().applied_objects();
    let mut changes = std::pin::pin!(changes);
    while let Some(workload) = changes.try_next().await? {
        *last = workload.status.as_ref().and_then(|status| status.phase);
        if *last == Some(signal.reaches()) && has_seen(&workload, signal) {
            break;
        }
    }
    Ok(())
}

/// Whether the status is about what was asked for: a workload that is woken
/// while it runs is there at once, one that is paused must be in a pause that
/// began after the wish.
fn has_seen(workload: &ManagedWorkload, signal: Signal) -> bool {
    let status = workload.status.as_ref();
    let paused = status.and_then(|status| status.pause.as_ref());
    match signal {
        Signal::Wake => paused.is_none(),
        Signal::Pause => paused.is_some(),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the plugin's one reading of the clock"
)]
pub(crate) fn now() -> Timestamp {
    stamp::to_micros(Timestamp::now())
}
