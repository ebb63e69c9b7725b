//! What is seen of each app, and when it was first seen.
//!
//! Owns the watches: pods, Deployments, EndpointSlices and ManagedWorkloads of
//! the bench's namespace, each once for all apps.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use kube::{Client, ResourceExt as _};
use napwake_api::ManagedWorkload;
use napwake_api::condition::{self, ConditionType, RouteReason};
use napwake_api::names::slice as labels;
use napwake_api::workload::Phase;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::clock::{Clock, Moment};
use crate::watching::{Change, Deployment, Pod, Slice, follow};

/// The label by which pods, Deployments and Services are found.
pub(crate) const APP: &str = "app";

/// How long anything may take on a busy machine of two cores.
const PATIENCE: Duration = Duration::from_mins(4);

/// One app, as it's seen now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct App {
    pub(crate) phase: Option<Phase>,
    /// Whether its requests are held.
    pub(crate) routed: bool,
    /// Its pods, those that leave included.
    pods: BTreeSet<String>,
    /// Since when one of them is Ready.
    pub(crate) ready: Option<Ready>,
    /// Since when its Deployment asks for pods.
    pub(crate) asked_for: Option<Moment>,
    /// Since when a slice says that an endpoint is ready.
    pub(crate) slice_ready: Option<Moment>,
    /// Since when a slice names an endpoint, whatever it says of it.
    pub(crate) named: Option<Moment>,
}

/// A pod that is Ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) since: Moment,
    pub(crate) address: IpAddr,
    pod: String,
}

impl App {
    /// Nothing is left of it but its route.
    pub(crate) fn is_asleep(&self) -> bool {
        self.phase == Some(Phase::Paused)
            && self.routed
            && self.pods.is_empty()
            && self.asked_for.is_none()
            && self.named.is_none()
    }

    /// All that a wake leads to has been seen.
    pub(crate) fn is_awake(&self) -> bool {
        self.phase == Some(Phase::Running)
            && self.ready.is_some()
            && self.asked_for.is_some()
            && self.slice_ready.is_some()
    }

    fn pod(&mut self, change: Change<Pod>, now: Moment) {
        let pod = match change {
            Change::Is(pod) => pod,
            Change::Gone(pod) => {
                self.pods.remove(&pod.metadata.name);
                self.ready.take_if(|ready| ready.pod == pod.metadata.name);
                return;
            }
        };
        let ready = pod.ready();
        let name = pod.metadata.name;
        match ready {
            Some(address) if self.ready.is_none() => {
                self.ready = Some(Ready {
                    since: now,
                    address,
                    pod: name.clone(),
                });
            }
            None => drop(self.ready.take_if(|known| known.pod == name)),
            Some(_) => {}
        }
        self.pods.insert(name);
    }

    fn deployment(&mut self, change: &Change<Deployment>, now: Moment) {
        let wants = matches!(change, Change::Is(deployment) if deployment.wants_pods());
        self.asked_for = wants.then(|| self.asked_for.unwrap_or(now));
    }

    fn slice(&mut self, change: &Change<Slice>, now: Moment) {
        let ready = matches!(change, Change::Is(slice) if slice.is_ready());
        self.slice_ready = ready.then(|| self.slice_ready.unwrap_or(now));
        let names = matches!(change, Change::Is(slice) if !slice.is_empty());
        self.named = names.then(|| self.named.unwrap_or(now));
    }

    fn workload(&mut self, change: &Change<ManagedWorkload>) {
        let Change::Is(workload) = change else {
            self.phase = None;
            return;
        };
        let status = workload.status.as_ref();
        self.phase = status.and_then(|status| status.phase);
        let route = status
            .and_then(|status| condition::get(&status.conditions, ConditionType::WakeOnRequest));
        let routed = RouteReason::DoormanRouted.to_string();
        self.routed = route.is_some_and(|route| route.reason == routed);
    }
}

/// The apps by their names. Clones see the same.
#[derive(Debug, Clone)]
pub(crate) struct Sights {
    clock: Clock,
    apps: Arc<BTreeMap<String, watch::Sender<App>>>,
}

impl Sights {
    /// Of apps of these names, of which nothing is seen yet.
    pub(crate) fn of(clock: Clock, names: &[String]) -> Self {
        let apps = names
            .iter()
            .map(|name| (name.clone(), watch::Sender::default()));
        Self {
            clock,
            apps: Arc::new(apps.collect()),
        }
    }

    /// Looks until one of the watches fails, which is the end of all measuring.
    pub(crate) async fn look(&self, client: &Client, namespace: &str) -> Result<()> {
        let mut watches = JoinSet::new();
        let core = format!("/api/v1/namespaces/{namespace}/pods");
        let apis = |group: &str, kind: &str| format!("/apis/{group}/namespaces/{namespace}/{kind}");

        let sights = self.clone();
        let tell = move |change: Change<Pod>| {
            let now = sights.clock.now();
            let app = change.object().metadata.labels.get(APP).cloned();
            sights.see(app.as_deref(), |app| app.pod(change, now));
        };
        watches.spawn(follow(client.clone(), core, APP, tell));

        let sights = self.clone();
        let tell = move |change: Change<Deployment>| {
            let now = sights.clock.now();
            let name = &change.object().metadata.name;
            sights.see(Some(name), |app| app.deployment(&change, now));
        };
        let path = apis("apps/v1", "deployments");
        watches.spawn(follow(client.clone(), path, APP, tell));

        let sights = self.clone();
        let tell = move |change: Change<Slice>| {
            let now = sights.clock.now();
            let service = change.object().metadata.labels.get(labels::SERVICE_NAME);
            sights.see(service.map(String::as_str), |app| app.slice(&change, now));
        };
        let path = apis("discovery.k8s.io/v1", "endpointslices");
        watches.spawn(follow(client.clone(), path, THE_CONTROLLERS, tell));

        let sights = self.clone();
        let tell = move |change: Change<ManagedWorkload>| {
            let name = change.object().name_any();
            sights.see(Some(&name), |app| app.workload(&change));
        };
        let path = apis("napwake.dev/v1alpha1", "managedworkloads");
        watches.spawn(follow(client.clone(), path, "", tell));

        match watches.join_next().await {
            Some(Ok(Err(error))) => Err(error),
            Some(Err(error)) => Err(error.into()),
            Some(Ok(Ok(never))) => match never {},
            None => Err(anyhow!("there are no watches")),
        }
    }

    fn see(&self, app: Option<&str>, change: impl FnOnce(&mut App)) {
        if let Some(app) = app.and_then(|name| self.apps.get(name)) {
            app.send_modify(change);
        }
    }

    /// The app as it is once `is_so` holds; fails with the last sight of it.
    pub(crate) async fn wait(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&App) -> bool,
    ) -> Result<App> {
        let app = self.apps.get(name).context("no such app")?;
        let mut app = app.subscribe();
        let waited = timeout(PATIENCE, app.wait_for(|app| is_so(app))).await;
        let waited = waited.map(|seen| seen.map(|app| app.clone()));
        match waited {
            Ok(seen) => seen.context("nobody looks any more"),
            Err(_) => Err(anyhow!(
                "waited {PATIENCE:?} for {name} to be {what}; last seen: {:?}",
                *app.borrow()
            )),
        }
    }

    /// Waits for all of these.
    pub(crate) async fn wait_for_all(
        &self,
        names: &[String],
        what: &str,
        is_so: fn(&App) -> bool,
    ) -> Result<()> {
        for name in names {
            self.wait(name, what, is_so).await?;
        }
        Ok(())
    }
}

/// Slices of the EndpointSlice controller.
const THE_CONTROLLERS: &str =
    "endpointslice.kubernetes.io/managed-by=endpointslice-controller.k8s.io";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, ready: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": name}, "status": {
            "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": ready}]}}))
        .unwrap()
    }

    #[test]
    fn a_pod_is_ready_since_it_was_first_seen_so() {
        let mut app = App::default();
        let at = Moment::of_micros;
        app.pod(Change::Is(pod("a", "False")), at(1));
        assert_eq!(app.ready, None);
        app.pod(Change::Is(pod("a", "True")), at(2));
        app.pod(Change::Is(pod("a", "True")), at(3));
        assert_eq!(app.ready.as_ref().unwrap().since, at(2));
        app.pod(Change::Is(pod("b", "False")), at(4));
        assert!(app.ready.is_some());
        app.pod(Change::Gone(pod("a", "True")), at(5));
        assert_eq!(app.ready, None);
        assert_eq!(app.pods.len(), 1);
    }

    #[test]
    fn asleep_is_a_route_and_nothing_else() {
        let mut app = App {
            phase: Some(Phase::Paused),
            routed: true,
            ..App::default()
        };
        assert!(app.is_asleep());
        app.pod(Change::Is(pod("a", "False")), Moment::of_micros(1));
        assert!(!app.is_asleep());
    }
}
