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
use napwake_api::{ManagedWorkload, names::signal};
use napwake_testkit::{Result, ensure, managed::PATIENCE, place::Place, wait};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

/// Watches a namespace from its making on.
#[derive(Debug)]
pub(crate) struct History {
    log: Log,
    _watching: JoinSet<()>,
}

type Log = Arc<Mutex<Seen>>;

/// What the watches have seen.
#[derive(Debug, Default)]
struct Seen {
    /// Versions, and what was new with them.
    news: BTreeSet<(u64, String)>,
    /// Watches that ended, after which nothing more is known of their kind.
    ended: Vec<String>,
}

/// What is told of it.
#[derive(Debug)]
struct Told {
    /// In order.
    news: Vec<String>,
    ended: Vec<String>,
}

impl History {
    /// Begins to watch ManagedWorkloads, Deployments, Pods and EndpointSlices.
    pub(crate) fn begin(place: &Place) -> Self {
        let log = Log::default();
        let mut watching = JoinSet::new();
        let all = watcher::Config::default;
        watching.spawn(follow(place.api(), all(), log.clone(), workload));
        watching.spawn(follow(place.api(), all(), log.clone(), deployment));
        watching.spawn(follow(place.api(), all(), log.clone(), pod));
        watching.spawn(follow(place.api(), all(), log.clone(), slice));
        Self {
            log,
            _watching: watching,
        }
    }

    fn told(&self) -> Told {
        let seen = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        Told {
            news: seen.news.iter().map(|(_, what)| what.clone()).collect(),
            ended: seen.ended.clone(),
        }
    }

    /// Waits until all of this has happened, in this order when each is taken where it
    /// last came: what one watch has shown may be older than what another has, and their
    /// order is known once both are there.
    pub(crate) async fn has_in_order(&self, expected: &[&str]) -> Result<()> {
        let is_over = |told: &Told| told.has_in_order(expected) || !told.ended.is_empty();
        let probe = || async { Ok(self.told()) };
        let what = format!("all of {expected:?}, in this order");
        let Told { news, ended } = wait::until(&what, PATIENCE, probe, is_over).await?;
        ensure!(
            ended.is_empty(),
            "the watches of {ended:?} ended: {news:#?}"
        );
        Ok(())
    }
}

impl Told {
    fn has_in_order(&self, expected: &[&str]) -> bool {
        let last = |word: &&str| self.news.iter().rposition(|told| told == word);
        let places: Option<Vec<_>> = expected.iter().map(last).collect();
        places.is_some_and(|places| places.is_sorted())
    }
}

/// Notes whatever is new about each object, and that nothing more comes should
/// the watch ever end.
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
        let event = match stream.try_next().await {
            Ok(Some(event)) => event,
            Ok(None) => break,
            // It begins anew by itself, after a while.
            Err(_) => continue,
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
        let mut seen = log.lock().unwrap_or_else(PoisonError::into_inner);
        for word in words.difference(&old) {
            let version = version.parse().unwrap_or_default();
            seen.news.insert((version, word.clone()));
        }
    }
    let mut seen = log.lock().unwrap_or_else(PoisonError::into_inner);
    seen.ended.push(K::plural(&()).into_owned());
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
