//! `wake` and `pause`: the two annotations that people set, and waiting for
//! what they lead to.

use std::{fmt, time::Duration};

use anyhow::{Result, bail};
use futures::{Stream, StreamExt};
use jiff::Timestamp;
use kube::{
    api::{Patch, PatchParams},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use napwake_api::{
    ManagedWorkload, names,
    stamp::{self, Stamp},
    workload::Phase,
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
    let named = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let events = watcher(cluster.here(), named).default_backoff();
    let mut last = Last::Nothing;
    match tokio::time::timeout(timeout, until(events, signal, name, &mut last)).await {
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
    signal: Signal,
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
                let phase = workload.status.and_then(|status| status.phase);
                if phase == Some(signal.reaches()) {
                    return Ok(());
                }
                *last = Last::Phase(phase);
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
mod tests {
    use futures::{FutureExt, stream};
    use serde_json::Value;

    use super::*;

    type Seen = watcher::Result<Event<ManagedWorkload>>;

    fn in_phase(phase: &str) -> ManagedWorkload {
        let object = json!({
            "apiVersion": "napwake.dev/v1alpha1",
            "kind": "ManagedWorkload",
            "metadata": {"name": "db", "namespace": "preview-42"},
            "spec": {"targetRef": {"kind": "Deployment", "name": "db"}},
            "status": {"phase": phase},
        });
        serde_json::from_value(object).expect("readable")
    }

    fn refused(code: u16, reason: &str) -> Seen {
        let status: Value = json!({"code": code, "reason": reason, "message": "said no"});
        let status = serde_json::from_value(status).expect("readable");
        Err(watcher::Error::WatchStartFailed(kube::Error::Api(status)))
    }

    /// How a wait for a wake ends once these events have come: `None`, it goes
    /// on; and what it would say if it took too long now.
    fn waited(events: Vec<Seen>) -> (Option<Result<(), String>>, String) {
        let mut last = Last::Nothing;
        let events = stream::iter(events).chain(stream::pending());
        let ended = until(events, Signal::Wake, "db", &mut last).now_or_never();
        let ended = ended.map(|ended| ended.map_err(|error| one_line(&error)));
        (ended, last.to_string())
    }

    #[test]
    fn waits_until_the_phase_is_reached() {
        let begun = || vec![Ok(Event::Init), Ok(Event::InitApply(in_phase("Paused")))];
        assert_eq!(waited(vec![]), (None, "wasn't heard of".to_owned()));
        assert_eq!(waited(begun()), (None, "is still Paused".to_owned()));

        let mut events = begun();
        events.push(Ok(Event::InitDone));
        events.push(Ok(Event::Apply(in_phase("Resuming"))));
        assert_eq!(waited(events), (None, "is still Resuming".to_owned()));

        let mut events = begun();
        events.push(Ok(Event::Apply(in_phase("Running"))));
        assert_eq!(waited(events).0, Some(Ok(())));
    }

    #[test]
    fn a_watch_that_breaks_off_is_no_end() {
        let events = vec![refused(500, "InternalError")];
        let told = "can't be seen (can't watch managedworkload/db: said no)";
        assert_eq!(waited(events), (None, told.to_owned()));

        let events = vec![
            refused(500, "InternalError"),
            Ok(Event::Init),
            Ok(Event::InitApply(in_phase("Running"))),
        ];
        assert_eq!(waited(events).0, Some(Ok(())));
    }

    #[test]
    fn what_will_never_be_is_not_waited_for() {
        let deleted = "managedworkload/db was deleted".to_owned();
        let events = vec![Ok(Event::Delete(in_phase("Paused")))];
        assert_eq!(waited(events).0, Some(Err(deleted.clone())));
        let events = vec![Ok(Event::Init), Ok(Event::InitDone)];
        assert_eq!(waited(events).0, Some(Err(deleted)));

        let told = "can't watch managedworkload/db; ask for rights on \
                    managedworkloads.napwake.dev: said no";
        assert_eq!(
            waited(vec![refused(403, "Forbidden")]).0,
            Some(Err(told.to_owned()))
        );
    }
}
