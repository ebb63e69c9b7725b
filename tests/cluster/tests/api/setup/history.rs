//! What happened, in the order in which the API server took it.
//!
//! Watches of different kinds have no common order, but the versions that they
//! carry do: one store numbers every write.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
};

use futures::TryStreamExt;
use k8s_openapi::{
    NamespaceResourceScope,
    api::{apps::v1::Deployment, core::v1::Pod, discovery::v1::EndpointSlice},
};
use kube::{
    Api, Resource, ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use napwake_api::{
    ManagedWorkload,
    names::{signal, slice as names},
};
use napwake_testkit::{Context, Result, ensure, managed::PATIENCE, place::Place, wait};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

/// Watches a namespace from its making on.
#[derive(Debug)]
pub(crate) struct History {
    log: Log,
    _watching: JoinSet<()>,
}

/// Versions, and what was new with them.
type Log = Arc<Mutex<BTreeSet<(u64, String)>>>;

impl History {
    /// Begins to watch ManagedWorkloads, Deployments, Pods and Napwake's slices.
    pub(crate) fn begin(place: &Place) -> Self {
        let log = Log::default();
        let mut watching = JoinSet::new();
        let all = watcher::Config::default;
        let ours = all().labels(&format!(
            "{}={}",
            names::MANAGED_BY,
            names::MANAGED_BY_NAPWAKE
        ));
        watching.spawn(follow(place.api(), all(), log.clone(), workload));
        watching.spawn(follow(place.api(), all(), log.clone(), deployment));
        watching.spawn(follow(place.api(), all(), log.clone(), pod));
        watching.spawn(follow(place.api(), ours, log.clone(), slice));
        Self {
            log,
            _watching: watching,
        }
    }

    /// All of it, in order.
    pub(crate) fn told(&self) -> Vec<String> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.iter().map(|(_, what)| what.clone()).collect()
    }

    /// Waits until all of this has happened, and sees that it was in this order
    /// when each is taken where it last came.
    pub(crate) async fn has_in_order(&self, expected: &[&str]) -> Result<()> {
        let has_all = |told: &Vec<String>| {
            let is_there = |word: &&str| told.iter().any(|told| told == word);
            expected.iter().all(is_there)
        };
        let probe = || async { Ok(self.told()) };
        let what = format!("all of {expected:?}");
        let told = wait::until(&what, PATIENCE, probe, has_all).await?;
        let places = expected
            .iter()
            .map(|word| told.iter().rposition(|told| told == word));
        let places: Option<Vec<_>> = places.collect();
        let places = places.context("all of it")?;
        ensure!(
            places.is_sorted(),
            "not in the order {expected:?}: {told:#?}"
        );
        Ok(())
    }
}

/// Notes whatever is new about each object.
async fn follow<K>(
    api: Api<K>,
    config: watcher::Config,
    log: Log,
    describe: fn(&K) -> BTreeSet<String>,
) where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut stream = std::pin::pin!(watcher(api, config).default_backoff());
    loop {
        // An error is one of the watch's, which begins anew by itself.
        let Ok(Some(event)) = stream.try_next().await else {
            continue;
        };
        let (object, words) = match event {
            watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
                let words = describe(&object);
                (object, words)
            }
            watcher::Event::Delete(object) => {
                let words = BTreeSet::from([format!("{} gone", title(&object))]);
                (object, words)
            }
            watcher::Event::Init | watcher::Event::InitDone => continue,
        };
        let version = object.resource_version().unwrap_or_default();
        let old = known.insert(object.name_any(), words.clone());
        let old = old.unwrap_or_default();
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        for word in words.difference(&old) {
            log.insert((version.parse().unwrap_or_default(), word.clone()));
        }
    }
}

fn title<K: Resource<DynamicType = ()>>(object: &K) -> String {
    format!("{} {}", K::kind(&()), object.name_any())
}

fn workload(workload: &ManagedWorkload) -> BTreeSet<String> {
    let phase = workload.status.as_ref().and_then(|status| status.phase);
    let phase = phase.map(|phase| format!("{phase:?}"));
    let stamp = workload.annotations().get(signal::LAST_REQUEST);
    let stamp = stamp.map(|_| "stamped".to_owned());
    [phase, stamp].into_iter().flatten().collect()
}

fn deployment(deployment: &Deployment) -> BTreeSet<String> {
    let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    let replicas = replicas.map(|count| format!("replicas {count}"));
    replicas.into_iter().collect()
}

fn pod(pod: &Pod) -> BTreeSet<String> {
    let conditions = pod.status.as_ref().and_then(|one| one.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    let is_ready = conditions.any(|one| one.type_ == "Ready" && one.status == "True");
    is_ready
        .then(|| format!("{} Ready", title(pod)))
        .into_iter()
        .collect()
}

fn slice(slice: &EndpointSlice) -> BTreeSet<String> {
    BTreeSet::from([title(slice)])
}
