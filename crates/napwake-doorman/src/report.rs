//! What the doorman tells in events.
//!
//! Owns the two events and their texts: `WokenByRequest` and `RequestNotServed`.
//! Says nothing of what a caller sent, nor where it came from.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource as _;
use napwake_api::names::event;
use napwake_api::stamp::RequestKind;
use napwake_api::{ManagedWorkload, Span};
use napwake_cluster::events::{Events, Kind, Limit, Notice, Outcome};
use napwake_gate::allowance::OverRate;
use tokio_util::task::TaskTracker;

use crate::routes::{Route, ServiceKey, Workload};
use crate::wake::Obstacle;

/// Tells in events, in tasks of its own: no caller waits for one.
#[derive(Debug, Clone)]
pub struct Reporter {
    events: Arc<Events>,
    tasks: TaskTracker,
}

/// Why a held caller was not served (OBS-09).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotServed {
    /// No pod was Ready in time.
    NoReadyPod,
    /// Pods were Ready, and none has the Service's port.
    NoSuchPort,
    /// The Deployment or StatefulSet is gone (T-110).
    TargetGone,
    /// No pod was Ready in time, since the wake couldn't be asked for.
    NotWoken(Obstacle),
    /// Pods were Ready, and none could be connected to; the last one's error.
    Unreachable(String),
    /// Pods were Ready, but too many connections pass through already (LIMIT-09).
    NoPlace,
}

impl fmt::Display for NotServed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoReadyPod => f.write_str("no pod was Ready"),
            Self::NoSuchPort => f.write_str(
                "its pods are Ready, and no container of theirs has a port of the name that is \
                 the Service's targetPort",
            ),
            Self::TargetGone => f.write_str("its Deployment or StatefulSet is gone"),
            Self::NotWoken(Obstacle::OverRate(OverRate::Source)) => {
                f.write_str("it couldn't be woken, as its caller wakes too many workloads")
            }
            Self::NotWoken(Obstacle::OverRate(OverRate::Overall)) => {
                f.write_str("it couldn't be woken, as too many workloads wake at once")
            }
            Self::NotWoken(Obstacle::Unwritten(error)) => {
                write!(f, "it couldn't be woken: {error}")
            }
            Self::Unreachable(error) => write!(f, "can't connect to its Ready pods: {error}"),
            Self::NoPlace => {
                f.write_str("a pod was Ready, but too many connections pass through the doorman")
            }
        }
    }
}

impl Reporter {
    /// Tells through `events`, in tasks of `tasks`.
    pub fn new(events: Arc<Events>, tasks: TaskTracker) -> Self {
        Self { events, tasks }
    }

    /// A request to `service` of this kind woke a workload (OBS-01); of a click it
    /// says that a person asked (ASK-09). Told once a pause, by whichever doorman
    /// pod is first.
    pub fn woken(&self, workload: &Workload, service: &ServiceKey, kind: RequestKind) {
        let pause = workload.state.pause();
        let note = match kind {
            RequestKind::Click => format!("A person asked at Service {} to wake it", service.name),
            RequestKind::Request | RequestKind::Page | RequestKind::Robot => {
                format!("A request to Service {} woke it", service.name)
            }
        };
        self.publish(Notice {
            kind: Kind::Normal,
            reason: event::WOKEN_BY_REQUEST,
            action: "Wake",
            note,
            regarding: reference(workload),
            related: None,
            limit: match pause {
                Some(pause) => Limit::once_per(pause.started_at.to_string()),
                None => Limit::None,
            },
        });
    }

    /// A caller of `route` was held for `wait` and not served (OBS-06 to
    /// OBS-09). Told at most once a minute of each workload (OBS-10), so the
    /// first in the minute names its Service (T-115).
    pub fn not_served(&self, route: &Route, wait: Duration, why: &NotServed) {
        let service = &route.key.service;
        for workload in &route.workloads {
            self.publish(Notice {
                kind: Kind::Warning,
                reason: event::REQUEST_NOT_SERVED,
                action: "Hold",
                note: format!(
                    "A request to Service {} was held for {} and not served: {why}",
                    service.name,
                    rounded(wait)
                ),
                regarding: reference(workload),
                related: None,
                limit: Limit::once_a_minute(),
            });
        }
    }

    fn publish(&self, notice: Notice) {
        let events = Arc::clone(&self.events);
        self.tasks.spawn(async move {
            let about = notice.regarding.clone();
            let (namespace, workload) = (about.namespace, about.name);
            let (reason, note) = (notice.reason, notice.note.clone());
            match events.publish(notice).await {
                Ok(Outcome::Written) => tracing::info!(namespace, workload, reason, note, "told"),
                Ok(Outcome::Withheld) => {}
                Err(error) => tracing::warn!(namespace, workload, %error, "an event is lost"),
            }
        });
    }
}

fn reference(workload: &Workload) -> ObjectReference {
    ObjectReference {
        api_version: Some(ManagedWorkload::api_version(&()).into_owned()),
        kind: Some(ManagedWorkload::kind(&()).into_owned()),
        namespace: Some(workload.key.namespace().to_owned()),
        name: Some(workload.key.name().to_owned()),
        uid: Some(workload.uid.to_string()),
        ..ObjectReference::default()
    }
}

/// A wait as people read it: whole seconds from one second on.
fn rounded(wait: Duration) -> Span {
    if wait < Duration::from_secs(1) {
        return Span::from(wait);
    }
    let half = Duration::from_millis(500);
    Span::from_secs(wait.saturating_add(half).as_secs())
}
