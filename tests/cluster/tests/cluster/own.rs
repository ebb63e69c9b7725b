//! Napwake's own pods, and ways to end them.

use std::{collections::BTreeSet, fs, time::Duration};

use k8s_openapi::api::{
    apps::v1::Deployment,
    coordination::v1::Lease,
    core::v1::Pod,
    policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams},
};
use napwake_api::names;
use napwake_dev::{
    install::{NAMESPACE, RELEASE},
    workspace,
};
use napwake_testkit::{Context, Result, callers, ensure, place::Place, wait};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

/// How long all of Napwake's pods may take to be there again.
const PATIENCE: Duration = Duration::from_mins(2);

/// A part of Napwake, by the value of the label that its objects carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Doorman,
    Operator,
}

impl Part {
    fn selector(self) -> ListParams {
        let value = match self {
            Self::Doorman => names::pod::DOORMAN,
            Self::Operator => names::pod::OPERATOR,
        };
        ListParams::default().labels(&format!("{}={value}", names::pod::CONTROL_PLANE))
    }
}

/// What became of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eviction {
    Granted,
    /// A PodDisruptionBudget forbids it.
    Refused,
}

/// Whether nobody has asked the pod to end.
pub(crate) fn stays(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none()
}

/// Napwake as it's installed.
#[derive(Clone)]
pub(crate) struct Own {
    client: Client,
}

impl Own {
    pub(crate) fn of(place: &Place) -> Self {
        Self {
            client: place.client.clone(),
        }
    }

    fn pods_api(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// All pods of a part, those that are leaving too.
    pub(crate) async fn pods(&self, part: Part) -> Result<Vec<Pod>> {
        let listed = self.pods_api().list(&part.selector()).await;
        Ok(listed.context("list Napwake's pods")?.items)
    }

    /// The names of those that stay.
    pub(crate) async fn staying(&self, part: Part) -> Result<BTreeSet<String>> {
        let pods = self.pods(part).await?.into_iter();
        let staying = pods.filter(stays);
        Ok(staying.map(|pod| pod.name_any()).collect())
    }

    /// The names of those that are asked to end and haven't yet.
    async fn leaving(&self, part: Part) -> Result<BTreeSet<String>> {
        let pods = self.pods(part).await?.into_iter();
        let leaving = pods.filter(|pod| !stays(pod));
        Ok(leaving.map(|pod| pod.name_any()).collect())
    }

    /// Whether all replicas of a part are the newest and have been Ready for
    /// as long as they must.
    pub(crate) async fn is_whole(&self, part: Part) -> Result<bool> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        let listed = api.list(&part.selector()).await?.items;
        ensure!(!listed.is_empty(), "there is a Deployment of {part:?}");
        Ok(listed.iter().all(is_whole))
    }

    /// Waits until [`Self::is_whole`].
    pub(crate) async fn until_whole(&self, part: Part) -> Result<()> {
        let what = format!("all pods of {part:?} to be there");
        wait::until(&what, PATIENCE, || self.is_whole(part), |whole| *whole).await?;
        Ok(())
    }

    /// Waits until [`Self::is_whole`] and those that were replaced are gone: they
    /// take 40 seconds to leave.
    pub(crate) async fn until_settled(&self, part: Part) -> Result<()> {
        let what = format!("only staying pods of {part:?} to be there");
        let probe = async || Ok((self.is_whole(part).await?, self.leaving(part).await?));
        let is_so = |(whole, leaving): &(bool, BTreeSet<String>)| *whole && leaving.is_empty();
        wait::until(&what, PATIENCE, probe, is_so).await?;
        Ok(())
    }

    /// Waits until a PodDisruptionBudget lets so many of the doorman's pods be
    /// evicted: it follows their number a moment later.
    pub(crate) async fn until_evictable(&self, count: i32) -> Result<()> {
        let api: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), NAMESPACE);
        let name = format!("{RELEASE}-doorman");
        let probe = async || Ok(api.get(&name).await?.status);
        let is_so = |status: &Option<PodDisruptionBudgetStatus>| {
            let allowed = status.as_ref().map(|status| status.disruptions_allowed);
            allowed == Some(count)
        };
        wait::until("the budget of evictions", PATIENCE, probe, is_so).await?;
        Ok(())
    }

    /// The name of the operator's pod that leads, if one does. One that was killed has
    /// the Lease until it expires, and leads no more.
    async fn leader(&self) -> Result<Option<String>> {
        let named = self.holder().await?;
        let staying = self.staying(Part::Operator).await?;
        Ok(named.filter(|name| staying.contains(name)))
    }

    /// The name of the operator's pod that has the Lease.
    async fn holder(&self) -> Result<Option<String>> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        let lease = api.get_opt(names::LEADER_LEASE).await?;
        let holder = lease.and_then(|lease| lease.spec?.holder_identity);
        // The pod's name and uid.
        let name = holder.as_ref().and_then(|holder| holder.split('_').next());
        Ok(name.filter(|name| !name.is_empty()).map(str::to_owned))
    }

    /// Waits until one of the operator's pods leads that isn't `other`.
    pub(crate) async fn another_leader(&self, other: Option<&str>) -> Result<String> {
        let is_other = |found: &Option<String>| found.is_some() && found.as_deref() != other;
        let probe = || self.leader();
        let found = wait::until("another leader", PATIENCE, probe, is_other).await?;
        found.context("somebody leads")
    }

    /// Asks a pod to end, as a rollout does.
    pub(crate) async fn delete(&self, pod: &str) -> Result<()> {
        let api = self.pods_api();
        api.delete(pod, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Asks whether a pod may be ended, as draining a node does. By kubectl:
    /// the client of the other tests asks again by itself when it's refused.
    pub(crate) async fn evict(&self, pod: &str) -> Result<Eviction> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction");
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": pod, "namespace": NAMESPACE},
        });
        let (args, body) = (["create", "--raw", &path, "-f", "-"], eviction.to_string());
        let ended = callers::run_with("kubectl", &args, &[], body.as_bytes()).await?;
        if ended
            .err
            .contains("would violate the pod's disruption budget")
        {
            return Ok(Eviction::Refused);
        }
        ended.ok()?;
        Ok(Eviction::Granted)
    }

    /// Ends a pod's process by SIGKILL, from one moment to the next. Then takes
    /// the pod away, so that another is made at once: the kubelet would wait
    /// longer each time before it starts the same one again.
    pub(crate) async fn kill(&self, pod: &str) -> Result<()> {
        let api = self.pods_api();
        let id = container(&api.get(pod).await?).context("its container has run")?;
        let processes = processes(&id)?;
        ensure!(
            !processes.is_empty(),
            "the process of {pod} isn't on this machine"
        );
        for process in processes {
            kill_process(process, Signal::KILL).with_context(|| format!("kill {process:?}"))?;
        }
        api.delete(pod, &DeleteParams::default().grace_period(0))
            .await?;
        Ok(())
    }

    /// Has Helm upgrade the release with another value, which both parts are
    /// told at their start.
    pub(crate) async fn upgrade(&self, value: &str) -> Result<()> {
        let helm = std::env::var("NAPWAKE_HELM").context("set by `cargo xtask test`")?;
        let chart = workspace::chart().display().to_string();
        let args = ["upgrade", RELEASE, &chart, "--namespace", NAMESPACE];
        let more = ["--reuse-values", "--set-string", value];
        callers::run(&helm, &[&args[..], &more].concat())
            .await?
            .ok()?;
        Ok(())
    }
}

fn is_whole(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    deployment.status.as_ref().is_some_and(|status| {
        status.observed_generation == deployment.metadata.generation
            && status.replicas == wanted
            && status.updated_replicas == wanted
            && status.available_replicas == wanted
    })
}

/// The id of the pod's only container.
fn container(pod: &Pod) -> Option<String> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let (_, id) = statuses.first()?.container_id.as_ref()?.split_once("://")?;
    Some(id.to_owned())
}

/// The container's processes: those in its control group.
fn processes(container: &str) -> Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let number = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Some(process) = number.and_then(Pid::from_raw) else {
            continue;
        };
        // One that has ended meanwhile is in no group.
        let groups = fs::read_to_string(entry.path().join("cgroup")).unwrap_or_default();
        if groups.contains(container) {
            found.push(process);
        }
    }
    Ok(found)
}
