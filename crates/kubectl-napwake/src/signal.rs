//! `wake` and `pause`: the two annotations that people set, and waiting for
//! what they lead to.

use std::{fmt, time::Duration};

use anyhow::{Result, bail};
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use napwake_api::{
    ManagedWorkload, names,
    stamp::{self, Stamp},
    workload::{PauseAnswer, Phase},
};
use serde_json::json;

use crate::{
    cluster::{Cluster, explain},
    outcome::{Failure, one_line},
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

/// What was asked for, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) signal: Signal,
    pub(crate) stamp: Stamp,
}

impl Sent {
    /// Whether that is so already; an error where it never will be.
    fn is_done(self, workload: &ManagedWorkload) -> Result<bool> {
        let status = workload.status.as_ref();
        if status.and_then(|status| status.phase) == Some(self.signal.reaches()) {
            return Ok(true);
        }
        // One that is being deleted is woken first.
        if self.signal == Signal::Pause {
            refuse_deleted(workload)?;
            self.refuse_overtaken(workload)?;
        }
        Ok(false)
    }

    fn refuse_overtaken(self, workload: &ManagedWorkload) -> Result<()> {
        let status = workload.status.as_ref();
        let Some(asked) = status.and_then(|status| status.pause_asked.as_ref()) else {
            return Ok(());
        };
        if asked.at.0 == self.stamp.at() && asked.answer == PauseAnswer::Overtaken {
            let used = status.and_then(|status| status.clock.as_ref());
            let used = used.map_or_else(String::new, |clock| {
                format!(" at {}", stamp::render(clock.last_activity.0))
            });
            bail!(
                "managedworkload/{} isn't paused: it was used{used}, which counts as later; \
                 to pause it all the same, ask again",
                workload.name_any()
            );
        }
        Ok(())
    }
}

fn refuse_deleted(workload: &ManagedWorkload) -> Result<()> {
    if workload.metadata.deletion_timestamp.is_some() {
        bail!(
            "managedworkload/{} is being deleted, so it isn't paused any more",
            workload.name_any()
        );
    }
    Ok(())
}

/// Sets the annotation to the present time, which is returned.
pub(crate) async fn send(cluster: &Cluster, signal: Signal, name: &str) -> Result<Stamp, Failure> {
    let stamp = Stamp::now(now());
    let patched = set(cluster, signal, name, stamp).await?;
    match signal {
        Signal::Pause => refuse_deleted(&patched)?,
        Signal::Wake => {
            if let Some(later) = behind_pause(stamp, &patched) {
                set(cluster, signal, name, later).await?;
                return Ok(later);
            }
        }
    }
    Ok(stamp)
}

async fn set(
    cluster: &Cluster,
    signal: Signal,
    name: &str,
    stamp: Stamp,
) -> Result<ManagedWorkload, Failure> {
    let patch = json!({"metadata": {"annotations": {signal.annotation(): stamp.to_string()}}});
    let doing = format!(
        "ask for it on managedworkload/{name} in {}",
        cluster.namespace()
    );
    let patched = cluster
        .here()
        .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(|error| explain(error, &doing))?;
    Ok(patched)
}

/// A stamp that ends the pause that is on, where this one doesn't: the clock of
/// whoever asks lags behind that of the cluster (T-12).
fn behind_pause(stamp: Stamp, workload: &ManagedWorkload) -> Option<Stamp> {
    const STEP: Duration = Duration::from_micros(1);
    let pause = workload.status.as_ref()?.pause.as_ref()?;
    let started = pause.started_at.0;
    let later = started.checked_add(STEP).ok()?;
    (!stamp.is_newer_than(started)).then(|| Stamp::now(later))
}

/// Waits until the workload got there, as its status says.
pub(crate) async fn wait(
    cluster: &Cluster,
    sent: Sent,
    name: &str,
    timeout: Duration,
) -> Result<(), Failure> {
    let named = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let events = watcher(cluster.here(), named).default_backoff();
    let mut last = Last::Nothing;
    match tokio::time::timeout(timeout, until(events, sent, name, &mut last)).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(Failure::TimedOut(format!(
            "managedworkload/{name} {last} after {}",
            napwake_api::Span::from(timeout),
        ))),
    }
}

/// What the wait saw last, for whom it took too long.
#[derive(Debug)]
enum Last {
    Nothing,
    Phase(Option<Phase>),
    /// Why it can't be seen.
    Trouble(anyhow::Error),
}

impl fmt::Display for Last {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("wasn't heard of"),
            Self::Phase(None) => f.write_str("is still without a phase"),
            Self::Phase(Some(phase)) => write!(f, "is still {phase:?}"),
            Self::Trouble(error) => write!(f, "can't be seen ({})", one_line(error)),
        }
    }
}

/// Follows a workload until it got there. A watch that breaks off comes back by
/// itself, and the caller's patience bounds how often.
async fn until(
    events: impl Stream<Item = watcher::Result<Event<ManagedWorkload>>>,
    sent: Sent,
    name: &str,
    last: &mut Last,
) -> Result<()> {
    let mut events = std::pin::pin!(events);
    let mut listed = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed = false,
            Ok(Event::InitApply(workload) | Event::Apply(workload)) => {
                listed = true;
                if sent.is_done(&workload)? {
                    return Ok(());
                }
                *last = Last::Phase(workload.status.and_then(|status| status.phase));
            }
            Ok(Event::InitDone) if listed => {}
            Ok(Event::InitDone | Event::Delete(_)) => bail!("managedworkload/{name} was deleted"),
            Err(error) => *last = Last::Trouble(trouble(error, name)?),
        }
    }
    bail!("the watch of managedworkload/{name} ended")
}

/// Why a watch broke off; an error where it would for ever.
fn trouble(error: watcher::Error, name: &str) -> Result<anyhow::Error> {
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    let (InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error)) = error else {
        return Ok(error.into());
    };
    let is_forbidden = matches!(&error, kube::Error::Api(status) if status.is_forbidden());
    let explained = explain(error, &format!("watch managedworkload/{name}"));
    if is_forbidden {
        Err(explained)
    } else {
        Ok(explained)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the plugin's one reading of the clock"
)]
pub(crate) fn now() -> Timestamp {
    stamp::to_micros(Timestamp::now())
}

#[cfg(test)]
#[path = "signal_tests.rs"]
mod tests;
