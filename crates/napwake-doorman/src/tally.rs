//! What was turned away: `napwake.dev/turned-away` on a ManagedWorkload.
//!
//! Owns the counts of this process, and adding them to the annotation: at most
//! once a minute for each workload, and once more when the process stops (T-96).
//! A number is all that is kept of a request (AWAY-06).

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry as MapEntry;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::api::Patch;
use kube::core::PartialObjectMeta;
use kube::{Api, Client, ResourceExt};
use napwake_api::ManagedWorkload;
use napwake_api::names::signal;
use napwake_api::turned_away::Mark;
use napwake_cluster::plain;
use napwake_gate::places::WorkloadKey;
use napwake_gate::tally::{Addition, Count, Merged};
use napwake_kit::clock::Clock;
use napwake_kit::timer::until;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::calls::{CallError, TRIES, in_time, patch_params};
use crate::routes::{Pause, Route, Workload};
use crate::stopping::LAST_WRITES;

/// How long after the first request the number is written: those that come
/// together are written together.
const GATHER: Duration = Duration::from_secs(5);

/// How long after a write the next one may come (AWAY-08).
const EVERY: Duration = Duration::from_mins(1);

/// How soon a write that failed is tried again.
const RETRY: Duration = Duration::from_secs(10);

/// How long reading and writing one number may take, with all its tries: the others of
/// a round wait for it.
const TAKES: Duration = Duration::from_secs(10);

/// Numbers that are written at once.
const AT_ONCE: usize = 8;

/// Counts, and writes what was counted. Clones share everything.
#[derive(Debug, Clone)]
pub struct Tallies(Arc<Shared>);

struct Shared {
    client: Client,
    clock: Clock,
    /// Tells the writes of this process from all others.
    writer: u32,
    counts: Mutex<Counts>,
    changed: Notify,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("counts", &self.counts.lock())
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Counts {
    of: HashMap<WorkloadKey, Entry>,
    /// How many writes were begun.
    begun: u64,
}

#[derive(Debug)]
struct Entry {
    /// The ManagedWorkload's: one that was made anew is another.
    uid: Arc<str>,
    count: Count,
    /// Before this it isn't written.
    due: Instant,
    /// Why it couldn't be written, as was told already.
    trouble: String,
}

/// A number on its way.
#[derive(Debug)]
struct Job {
    workload: WorkloadKey,
    uid: Arc<str>,
    addition: Addition,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It needs no further try.
    Done,
    /// The ManagedWorkload is gone, and with it whoever would read the number.
    Gone,
}

#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("it changes all the time")]
    Contended,
}

impl Tallies {
    /// Counts nothing yet. `writer` is a number that no other process has.
    pub fn new(client: Client, clock: Clock, writer: u32) -> Self {
        Self(Arc::new(Shared {
            client,
            clock,
            writer,
            counts: Mutex::default(),
            changed: Notify::new(),
        }))
    }

    /// One more was turned away on `route`: it counts for each workload that is
    /// asleep behind it.
    pub fn turned_away(&self, route: &Route) {
        let mut is_news = false;
        let mut counts = self.0.counts.lock();
        for workload in &route.workloads {
            if let Some(pause) = workload.state.pause() {
                is_news |= counts.entry(workload).add(pause);
            }
        }
        drop(counts);
        if is_news {
            self.0.changed.notify_one();
        }
    }

    /// Writes what was counted until `stopped`, then what is left.
    pub async fn follow(self, stopped: CancellationToken) -> Result<(), Infallible> {
        tokio::select! {
            biased;
            () = stopped.cancelled() => {}
            never = self.0.keep_writing() => match never {},
        }
        // First what was under way, which counts once all the same, then the rest.
        let last = async {
            self.0.write(Which::All).await;
            self.0.write(Which::All).await;
        };
        if timeout(LAST_WRITES, last).await.is_err() || self.0.counts.lock().is_left() {
            tracing::warn!("the last requests that were turned away aren't counted");
        }
        Ok(())
    }
}

/// Which numbers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Due,
    All,
}

impl Shared {
    async fn keep_writing(&self) -> Infallible {
        loop {
            self.write(Which::Due).await;
            let next = self.counts.lock().next();
            tokio::select! {
                () = self.changed.notified() => {}
                () = until(next) => {}
            }
        }
    }

    async fn write(&self, which: Which) {
        let jobs = self.counts.lock().begin(which, self.writer);
        let writing = futures::stream::iter(jobs);
        writing
            .for_each_concurrent(AT_ONCE, async |job| self.carry_out(job).await)
            .await;
    }

    async fn carry_out(&self, job: Job) {
        let written = timeout(TAKES, self.add(&job)).await;
        let written = written.unwrap_or_else(|_| Err(CallError::TimedOut(TAKES).into()));
        let trouble = match &written {
            Ok(_) => String::new(),
            Err(error) => plain(error),
        };
        let is_news = self.counts.lock().ended(&job, written.ok(), &trouble);
        if is_news {
            tracing::warn!(
                namespace = job.workload.namespace(),
                workload = job.workload.name(),
                error = trouble,
                "what was turned away can't be written, trying on"
            );
        }
    }

    /// Adds the number to what the annotation says, at the version it was read.
    async fn add(&self, job: &Job) -> Result<Fate, WriteError> {
        let name = job.workload.name();
        let api: Api<ManagedWorkload> =
            Api::namespaced(self.client.clone(), job.workload.namespace());
        let params = patch_params();
        for _ in 0..TRIES {
            let Some(read) = in_time(api.get_metadata_opt(name)).await? else {
                return Ok(Fate::Gone);
            };
            if read.metadata.uid.as_deref() != Some(&*job.uid) {
                return Ok(Fate::Gone);
            }
            let Merged::Write(merged) = job.addition.merge(said(&read), self.clock.now()) else {
                return Ok(Fate::Done);
            };
            let patch = Patch::Merge(json!({ "metadata": {
                "uid": &*job.uid,
                "resourceVersion": read.metadata.resource_version,
                "annotations": { signal::TURNED_AWAY: merged.to_string() },
            }}));
            match in_time(api.patch_metadata(name, &params, &patch)).await {
                Ok(_) => return Ok(Fate::Done),
                Err(error) if error.is_conflict() => {}
                Err(error) if error.is_not_found() => return Ok(Fate::Gone),
                Err(error) => return Err(error.into()),
            }
        }
        Err(WriteError::Contended)
    }
}

fn said(read: &PartialObjectMeta<ManagedWorkload>) -> Option<&str> {
    let annotations = read.annotations();
    annotations.get(signal::TURNED_AWAY).map(String::as_str)
}

impl Entry {
    /// One more; whether there was nothing to write before.
    fn add(&mut self, pause: Pause) -> bool {
        let is_news = self.count.left() == 0;
        if is_news {
            self.due = self.due.max(Instant::now() + GATHER);
        }
        self.count.add(pause.started_at);
        is_news
    }
}

impl Counts {
    fn entry(&mut self, workload: &Workload) -> &mut Entry {
        let fresh = || Entry {
            uid: Arc::clone(&workload.uid),
            count: Count::new(jiff::Timestamp::MIN),
            due: Instant::now(),
            trouble: String::new(),
        };
        match self.of.entry(workload.key.clone()) {
            MapEntry::Vacant(entry) => entry.insert(fresh()),
            MapEntry::Occupied(mut entry) => {
                if entry.get().uid != workload.uid {
                    entry.insert(fresh());
                }
                entry.into_mut()
            }
        }
    }

    fn begin(&mut self, which: Which, writer: u32) -> Vec<Job> {
        let now = Instant::now();
        let is_due = |entry: &Entry| which == Which::All || entry.due <= now;
        self.of
            .retain(|_, entry| entry.count.left() > 0 || entry.due > now);
        let begun = &mut self.begun;
        let mut mark = || {
            *begun += 1;
            Mark {
                writer,
                write: *begun,
            }
        };
        let due = self.of.iter_mut().filter(|(_, entry)| is_due(entry));
        due.filter_map(|(workload, entry)| {
            Some(Job {
                workload: workload.clone(),
                uid: Arc::clone(&entry.uid),
                addition: entry.count.begin(&mut mark)?,
            })
        })
        .collect()
    }

    /// A write ended, badly if there is no outcome. Says whether there is a trouble that
    /// wasn't told of it yet.
    fn ended(&mut self, job: &Job, outcome: Option<Fate>, trouble: &str) -> bool {
        let entry = self.of.get_mut(&job.workload);
        let Some(entry) = entry.filter(|entry| entry.uid == job.uid) else {
            return false;
        };
        let is_news = entry.trouble != trouble;
        trouble.clone_into(&mut entry.trouble);
        match outcome {
            Some(Fate::Done) => {
                entry.count.done(job.addition);
                entry.due = Instant::now() + EVERY;
            }
            Some(Fate::Gone) => {
                self.of.remove(&job.workload);
            }
            None => entry.due = Instant::now() + RETRY,
        }
        is_news && !trouble.is_empty()
    }

    /// When the next number is due.
    fn next(&self) -> Option<Instant> {
        let entries = self.of.values();
        let left = entries.filter(|entry| entry.count.left() > 0);
        left.map(|entry| entry.due).min()
    }

    fn is_left(&self) -> bool {
        self.of.values().any(|entry| entry.count.left() > 0)
    }
}
