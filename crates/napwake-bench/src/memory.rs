//! Napwake's processes, and how much memory they hold.
//!
//! Owns finding them: by their pods' containers, among the processes of this
//! machine, which is where the cluster's nodes are.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt as _, api::ListParams};
use napwake_api::names::pod::{CONTROL_PLANE, DOORMAN};

use crate::machine::field;

/// Where Napwake is installed.
pub(crate) const NAMESPACE: &str = "napwake-system";

/// What a process holds, in KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    /// The resident set: all that it uses, what it shares with others included.
    pub(crate) resident: u64,
    /// What of it is its own, and no file's.
    pub(crate) own: u64,
    /// The most that was resident ever.
    pub(crate) peak: u64,
}

/// What each pod of Napwake holds, by its part and name.
pub(crate) async fn of_napwake(client: &Client) -> Result<BTreeMap<String, Held>> {
    let pods = pods(client, CONTROL_PLANE).await?;
    let processes = processes();
    let mut held = BTreeMap::new();
    for pod in pods {
        let name = pod.name_any();
        let process = process(&pod, &processes)?;
        let status = fs::read_to_string(format!("/proc/{process}/status"))
            .with_context(|| format!("look at the process of pod {name}"))?;
        held.insert(
            name.clone(),
            Held::parse(&status).context("no memory in it")?,
        );
    }
    ensure!(!held.is_empty(), "Napwake has no pods");
    Ok(held)
}

/// The doorman's pods.
pub(crate) async fn doormen(client: &Client) -> Result<Vec<Pod>> {
    pods(client, &format!("{CONTROL_PLANE}={DOORMAN}")).await
}

/// A doorman's pod, and its process.
pub(crate) async fn doorman(client: &Client) -> Result<(Pod, u32)> {
    let pod = doormen(client).await?.into_iter().next();
    let pod = pod.context("Napwake has no doorman")?;
    let process = process(&pod, &processes())?;
    Ok((pod, process))
}

/// Napwake's pods that have these labels.
async fn pods(client: &Client, labels: &str) -> Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let labels = ListParams::default().labels(labels);
    let pods = pods.list(&labels).await.context("list Napwake's pods")?;
    Ok(pods.items)
}

/// The process of a pod that has one.
fn process(pod: &Pod, processes: &[(u32, String)]) -> Result<u32> {
    let name = pod.name_any();
    let container = container(pod).with_context(|| format!("pod {name} runs no container"))?;
    let process = processes
        .iter()
        .find(|(_, cgroup)| cgroup.contains(&container));
    let process = process.with_context(|| format!("no process here is that of pod {name}"))?;
    Ok(process.0)
}

fn container(pod: &Pod) -> Option<String> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let id = statuses.first()?.container_id.as_ref()?;
    Some(id.split("://").nth(1)?.to_owned())
}

/// Every process with its cgroups. One that ends meanwhile is left out.
fn processes() -> Vec<(u32, String)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: u32| {
        let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
        Some((pid, cgroup))
    })
    .collect()
}

impl Held {
    fn parse(status: &str) -> Option<Self> {
        Some(Self {
            resident: field(status, "VmRSS:")?,
            own: field(status, "RssAnon:")?,
            peak: field(status, "VmHWM:")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_a_status() {
        let status = "Name:\tnapwake\nVmHWM:\t   21000 kB\nVmRSS:\t   20480 kB\n\
                      RssAnon:\t    9000 kB\n";
        let expected = Held {
            resident: 20480,
            own: 9000,
            peak: 21000,
        };
        assert_eq!(Held::parse(status), Some(expected));
        assert_eq!(Held::parse("Name:\tkthreadd\n"), None);
    }
}
