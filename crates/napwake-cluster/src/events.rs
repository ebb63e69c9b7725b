//! Events, as `kubectl describe` shows them (events.k8s.io/v1).
//!
//! Each is written fresh, so that its note is always the present one (F-156),
//! and its note is cut to what the API takes (F-115). How often one is said is
//! limited here: [`Limit`]. What is said, and of what, callers decide.

use std::{
    collections::HashMap,
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{Api, Client, api::PostParams, core::ObjectMeta};
use napwake_kit::clock::Clock;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::plain;

/// Bytes that a note may have (F-115).
const LONGEST_NOTE: usize = 1024;

/// Bytes that the reporting instance may have (F-115).
const LONGEST_INSTANCE: usize = 128;

/// Bytes of the object's name that go into the event's: with a dot and 16
/// digits that is at most the 253 that a name may have (F-156).
const LONGEST_NAME: usize = 236;

/// What was said of one namespace's objects that is remembered. Beyond it nothing limited
/// is said of them until older memories have run out. Of others' it is, or whoever may
/// make things come about in one namespace could silence all.
const REMEMBERED: usize = 2048;

/// How long what was said once is remembered here; after that its name in the
/// API still keeps it from being said again, for as long as events are kept.
const REMEMBER_ONCE: Duration = Duration::from_hours(1);

/// How soon what is said whenever something comes about is tried again, where it couldn't
/// be written: a namespace may take no more events, or be on its way out.
pub const RETRY: Duration = Duration::from_secs(5);

/// Where events about objects without a namespace go.
const CLUSTER_WIDE: &str = "default";

/// Whether something is as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Normal,
    Warning,
}

/// How often something may be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Each time.
    None,
    /// By this process once in this time, per object, reason and topic.
    Every { period: Duration, topic: String },
    /// Once for each occasion (such as a pause), per object, reason and topic,
    /// whichever process says it and however often it restarts.
    Once { occasion: String, topic: String },
}

impl Limit {
    /// Once a minute per object and reason (OBS-10).
    pub fn once_a_minute() -> Self {
        Self::Every {
            period: Duration::from_mins(1),
            topic: String::new(),
        }
    }

    /// Once for each occasion per object and reason (ROUTE-20).
    pub fn once_per(occasion: impl Into<String>) -> Self {
        Self::Once {
            occasion: occasion.into(),
            topic: String::new(),
        }
    }

    /// How soon it may be tried again where it couldn't be written.
    fn retry(&self) -> Duration {
        match self {
            Self::Every { period, .. } => RETRY.min(*period),
            Self::None | Self::Once { .. } => Duration::ZERO,
        }
    }

    /// The same for each topic apart, such as the name of a Service.
    #[must_use]
    pub fn about(mut self, about: impl Into<String>) -> Self {
        match &mut self {
            Self::None => {}
            Self::Every { topic, .. } | Self::Once { topic, .. } => *topic = about.into(),
        }
        self
    }
}

/// Something to say about an object.
#[derive(Clone, Debug)]
pub struct Notice {
    pub kind: Kind,
    /// Why, in CamelCase, up to 128 bytes.
    pub reason: &'static str,
    /// What is being done, in CamelCase, up to 128 bytes.
    pub action: &'static str,
    /// A sentence for people; cut to 1 KiB.
    pub note: String,
    /// What it is about. The event is written to its namespace.
    pub regarding: ObjectReference,
    pub related: Option<ObjectReference>,
    pub limit: Limit,
}

/// What became of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Written,
    /// Its limit kept it from being said.
    Withheld,
}

/// The event couldn't be written. It may be said again at once, or in [`RETRY`] if it's
/// one that is said whenever something comes about.
#[derive(Debug, thiserror::Error)]
#[error("can't write event {reason} about {}: {why}", .about.as_deref().unwrap_or_default())]
pub struct EventError {
    reason: &'static str,
    about: Option<String>,
    /// What the API server said.
    why: String,
}

/// Says things about objects, as one process.
pub struct Events {
    client: Client,
    clock: Clock,
    controller: &'static str,
    instance: String,
    said: Mutex<Said>,
    count: AtomicU64,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events")
            .field("controller", &self.controller)
            .field("instance", &self.instance)
            .finish_non_exhaustive()
    }
}

impl Events {
    /// Says things as `controller`, such as `napwake.dev/doorman`, and
    /// `instance`, the pod's name. Needs the right to create `events` in group
    /// `events.k8s.io`.
    pub fn new(
        client: &Client,
        clock: Clock,
        controller: &'static str,
        instance: impl Into<String>,
    ) -> Self {
        Self {
            client: client.clone(),
            clock,
            controller,
            instance: cut(&instance.into(), LONGEST_INSTANCE).to_owned(),
            said: Mutex::default(),
            count: AtomicU64::new(0),
        }
    }

    /// Says it, unless its limit keeps it from being said. Waits for the API
    /// server, so don't call it on the way of a caller's bytes.
    pub async fn publish(&self, notice: Notice) -> Result<Outcome, EventError> {
        let topic = notice.topic();
        let within = notice.regarding.namespace.clone().unwrap_or_default();
        if let Some((topic, period)) = topic
            && !self.said.lock().may_say(&within, topic, period)
        {
            return Ok(Outcome::Withheld);
        }
        let (reason, about) = (notice.reason, notice.regarding.name.clone());
        let retry = notice.limit.retry();
        let event = self.event(notice);
        let namespace = event.metadata.namespace.as_deref().unwrap_or(CLUSTER_WIDE);
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        match events.create(&PostParams::default(), &event).await {
            Ok(_) => Ok(Outcome::Written),
            // Another process, or this one before a restart, has said it.
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(Outcome::Withheld),
            Err(error) => {
                if let Some((topic, _)) = topic {
                    self.said.lock().unsaid(within, topic, retry);
                }
                Err(EventError {
                    reason,
                    about,
                    why: plain(&error),
                })
            }
        }
    }

    fn event(&self, notice: Notice) -> Event {
        let now = self.clock.now();
        let metadata = ObjectMeta {
            name: Some(self.name(&notice, now)),
            namespace: Some(match &notice.regarding.namespace {
                Some(namespace) if !namespace.is_empty() => namespace.clone(),
                _ => CLUSTER_WIDE.to_owned(),
            }),
            ..ObjectMeta::default()
        };
        Event {
            metadata,
            event_time: Some(MicroTime(now)),
            type_: Some(match notice.kind {
                Kind::Normal => "Normal".to_owned(),
                Kind::Warning => "Warning".to_owned(),
            }),
            reason: Some(notice.reason.to_owned()),
            action: Some(notice.action.to_owned()),
            note: Some(shorten(notice.note)),
            regarding: Some(notice.regarding),
            related: notice.related,
            reporting_controller: Some(self.controller.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            ..Event::default()
        }
    }

    /// A name that no other event has; for what is said once per occasion the
    /// same name each time, so that the API server refuses the second.
    fn name(&self, notice: &Notice, now: Timestamp) -> String {
        let digits = match &notice.limit {
            Limit::Once { occasion, topic } => notice.hash(&[self.controller, topic, occasion]),
            Limit::None | Limit::Every { .. } => {
                let count = self.count.fetch_add(1, Ordering::Relaxed).to_string();
                let now = now.as_microsecond().to_string();
                notice.hash(&[self.controller, &self.instance, &now, &count])
            }
        };
        let object = notice.regarding.name.as_deref().unwrap_or("unnamed");
        // A name's part must end in a letter or digit before the dot.
        let object = cut(object, LONGEST_NAME).trim_end_matches(['-', '.']);
        format!("{object}.{digits:016x}")
    }
}

impl Notice {
    /// What its limit counts, and for how long; `None` if nothing limits it.
    fn topic(&self) -> Option<(u64, Duration)> {
        match &self.limit {
            Limit::None => None,
            Limit::Every { period, topic } => Some((self.hash(&["every", topic]), *period)),
            Limit::Once { occasion, topic } => {
                Some((self.hash(&["once", topic, occasion]), REMEMBER_ONCE))
            }
        }
    }

    /// A hash of object, reason and `parts`, the same in every process.
    fn hash(&self, parts: &[&str]) -> u64 {
        let object = &self.regarding;
        let object = [&object.kind, &object.namespace, &object.name, &object.uid]
            .map(|part| part.as_deref().unwrap_or_default());
        let mut hasher = Sha256::new();
        for part in object.iter().chain([&self.reason]).chain(parts) {
            hasher.update(part.len().to_le_bytes());
            hasher.update(part);
        }
        let hash: [u8; 32] = hasher.finalize().into();
        hash.iter()
            .take(8)
            .fold(0, |number, &byte| number << 8 | u64::from(byte))
    }
}

/// What was said, by namespace, and until when it may not be said again.
#[derive(Debug, Default)]
struct Said(HashMap<String, HashMap<u64, Instant>>);

impl Said {
    /// Whether it may be said now; if so, not again for `period`.
    fn may_say(&mut self, namespace: &str, topic: u64, period: Duration) -> bool {
        let now = Instant::now();
        let counts = |until: &Instant| now < *until;
        if !self.0.contains_key(namespace) {
            // They come and go.
            self.0.retain(|_, said| said.values().any(counts));
        }
        let said = self.0.entry(namespace.to_owned()).or_default();
        if said.get(&topic).is_some_and(counts) {
            return false;
        }
        if said.len() >= REMEMBERED {
            said.retain(|_, until| counts(until));
        }
        if said.len() >= REMEMBERED {
            return false;
        }
        said.insert(topic, now + period);
        true
    }

    /// It wasn't said after all, and isn't tried again before this.
    fn unsaid(&mut self, namespace: String, topic: u64, retry: Duration) {
        let said = self.0.entry(namespace).or_default();
        said.insert(topic, Instant::now() + retry);
    }
}

/// A note of at most 1 KiB; one that was longer ends in `…`.
fn shorten(note: String) -> String {
    const MARK: &str = "…";
    if note.len() <= LONGEST_NOTE {
        return note;
    }
    format!("{}{MARK}", cut(&note, LONGEST_NOTE - MARK.len()))
}

/// The beginning of a text: whole characters, at most so many bytes.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
