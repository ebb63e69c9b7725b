//! What a person sees of a cluster.

use std::fmt;
use std::path::PathBuf;

use super::ClusterError;
use super::addon::{self, AddonView};
use super::handle::Cluster;
use super::name::ClusterName;
use super::ready::{self, NodeView};
use super::settings::{NodeCount, Settings};
use super::units::{self, Seat};

#[derive(Debug)]
pub struct Status {
    name: ClusterName,
    settings: Settings,
    kubeconfig: PathBuf,
    /// Of the API server; nothing if it doesn't answer.
    version: Option<String>,
    parts: Vec<Seat>,
    /// What the API says, or why it says nothing.
    nodes: Result<Vec<NodeView>, String>,
    addons: Result<Vec<AddonView>, String>,
}

pub fn status(name: &ClusterName) -> Result<Status, ClusterError> {
    let cluster = Cluster::open(name)?;
    super::must_be_root()?;
    Ok(Status {
        name: name.clone(),
        settings: cluster.settings(),
        kubeconfig: cluster.kubeconfig(),
        version: ready::version(&cluster).ok(),
        parts: units::seats(cluster.state())?,
        nodes: ready::nodes(&cluster).map_err(|error| error.to_string()),
        addons: addon::views(&cluster).map_err(|error| error.to_string()),
    })
}

impl Status {
    /// Whether all parts run, all nodes are Ready, and so is what runs in pods.
    pub fn is_up(&self) -> bool {
        let nodes = self.nodes.as_ref();
        let addons = self.addons.as_ref();
        self.parts.iter().all(|part| part.pid.is_some())
            && nodes.is_ok_and(|nodes| self.has_nodes(nodes) && nodes.iter().all(|node| node.ready))
            && addons.is_ok_and(|addons| addons.iter().all(|addon| addon.ready))
    }

    fn has_nodes(&self, nodes: &[NodeView]) -> bool {
        !nodes.is_empty() || self.settings.nodes == NodeCount::Zero
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings {
            nodes,
            proxy,
            dns,
            policies,
            audit,
            slices,
        } = self.settings;
        let state = if self.is_up() {
            "up".to_owned()
        } else {
            format!(
                "not up; `cargo xtask cluster up{}` repairs it",
                self.name.flag()
            )
        };
        writeln!(f, "cluster {}: {state}", self.name)?;
        writeln!(
            f,
            "Kubernetes {}, {nodes} node(s), kube-proxy {proxy}, DNS {dns}, network policies \
             {policies}, audit {audit}, slices {slices}",
            self.version.as_deref().unwrap_or("of an unknown version")
        )?;
        writeln!(
            f,
            "kubeconfig: {}, of use in its network alone: `cargo xtask cluster exec{} -- CMD…`",
            self.kubeconfig.display(),
            self.name.flag()
        )?;
        for part in &self.parts {
            match part.pid {
                Some(pid) => writeln!(f, "  {:<20} pid {pid}", part.name)?,
                None => writeln!(f, "  {:<20} ended", part.name)?,
            }
        }
        match &self.nodes {
            Ok(nodes) => nodes.iter().try_for_each(|node| {
                let ready = if node.ready {
                    "Ready"
                } else {
                    node.message.as_str()
                };
                writeln!(f, "  {:<20} {ready}", format!("node {}", node.name))
            })?,
            Err(why) => return writeln!(f, "  the API does not answer: {why}"),
        }
        match &self.addons {
            Ok(addons) => addons.iter().try_for_each(|addon| {
                let ready = if addon.ready { "Ready" } else { "not Ready" };
                writeln!(f, "  {:<20} {ready}", addon.name)
            }),
            Err(why) => writeln!(f, "  {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(pid: Option<i32>, ready: bool) -> Status {
        Status {
            name: ClusterName::default(),
            settings: Settings::default(),
            kubeconfig: "/state/admin.kubeconfig".into(),
            version: None,
            parts: vec![Seat {
                name: "etcd".to_owned(),
                pid,
            }],
            nodes: Ok(vec![NodeView {
                name: "n1".to_owned(),
                ready,
                message: "why not".to_owned(),
                heartbeat: String::new(),
                taints: Vec::new(),
            }]),
            addons: Ok(vec![AddonView {
                name: "coredns",
                ready: true,
            }]),
        }
    }

    #[test]
    fn up_is_all_parts_and_all_nodes() {
        assert!(status(Some(7), true).is_up());
        assert!(!status(None, true).is_up());
        assert!(!status(Some(7), false).is_up());
        let mut nameless = status(Some(7), true);
        nameless.addons = Err("it is not there".to_owned());
        assert!(!nameless.is_up());
    }

    #[test]
    fn the_text_names_the_kubeconfig_and_what_is_wrong() {
        let text = status(None, false).to_string();
        for part in [
            "kubeconfig: /state/admin.kubeconfig",
            "etcd",
            "ended",
            "why not",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}
