//! Parts of the cluster that run in it as pods: name resolution, and the
//! engines that enforce network policies.
//!
//! Builds them, puts them in, waits until they work, and takes them out with
//! all that they left on the nodes. Which of them there should be is for the
//! settings to say.

mod firewall;
mod names;

use std::path::{Path, PathBuf};

use super::handle::Cluster;
use super::settings::{Dns, Policies, Settings};
use super::topology::{DNS_SERVICE, SERVICE_RANGE_V4};
use super::{ClusterError, containerd};
use crate::files::{self, Access};
use crate::image::base;
use crate::image::oci::{Archive, Layer, OciError, Packing};
use crate::progress::Progress;
use crate::run;
use crate::tools::go::{Linking, go_install_linked};
use crate::tools::packages::{self, Need};
use crate::tools::{GoTool, ToolError};

/// How long an addon's pods get to be Ready, as kubectl reads it.
const READY_BOUND: &str = "--timeout=120s";
/// How long they get to be gone.
const GONE_BOUND: &str = "--timeout=60s";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Addon {
    /// Names of Services and pods.
    CoreDns,
    /// Refuses what a policy forbids, over IPv4.
    KubeRouter,
    /// Drops what a policy forbids.
    KubeNetworkPolicies,
}

/// An addon as the API shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AddonView {
    pub(super) name: &'static str,
    pub(super) ready: bool,
}

/// An addon and its program.
#[derive(Debug)]
pub(super) struct Built {
    addon: Addon,
    program: PathBuf,
}

impl Addon {
    const ALL: [Self; 3] = [Self::CoreDns, Self::KubeRouter, Self::KubeNetworkPolicies];

    /// Also the name of its objects, and the value of the label they carry.
    fn name(self) -> &'static str {
        match self {
            Self::CoreDns => "coredns",
            Self::KubeRouter => "kube-router",
            Self::KubeNetworkPolicies => "kube-network-policies",
        }
    }

    fn is_wanted(self, settings: Settings) -> bool {
        match self {
            Self::CoreDns => settings.dns == Dns::On,
            Self::KubeRouter => settings.policies == Policies::KubeRouter,
            Self::KubeNetworkPolicies => settings.policies == Policies::KubeNetworkPolicies,
        }
    }

    fn package(self) -> &'static str {
        match self {
            Self::CoreDns => "github.com/coredns/coredns@v1.15.0",
            Self::KubeRouter => "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router@v2.1.0",
            Self::KubeNetworkPolicies => "sigs.k8s.io/kube-network-policies/cmd@v0.8.0",
        }
    }

    /// What it needs of the machine.
    fn needs(self) -> &'static [Need] {
        const IPSET: Need = Need::program("ipset", "ipset");
        match self {
            Self::KubeRouter => &[IPSET],
            Self::CoreDns | Self::KubeNetworkPolicies => &[],
        }
    }

    fn template(self) -> &'static str {
        match self {
            Self::CoreDns => include_str!("../../../addons/coredns.yaml"),
            Self::KubeRouter => include_str!("../../../addons/kube-router.yaml"),
            Self::KubeNetworkPolicies => {
                include_str!("../../../addons/kube-network-policies.yaml")
            }
        }
    }

    /// What keeps its pods, as kubectl names it.
    fn workload(self) -> String {
        let kind = match self {
            Self::CoreDns => "deployment",
            Self::KubeRouter | Self::KubeNetworkPolicies => "daemonset",
        };
        format!("{kind}/{}", self.name())
    }

    fn selector(self) -> String {
        format!("--selector=napwake.test/addon={}", self.name())
    }

    /// The objects it is made of.
    fn manifests(self, image: &str) -> String {
        self.template()
            .replace("@IMAGE@", image)
            .replace("@DNS_SERVICE@", DNS_SERVICE)
            .replace("@SERVICE_RANGE_V4@", SERVICE_RANGE_V4)
            .replace("@QUEUE@", &firewall::QUEUE.to_string())
    }

    /// Its manifests as they were put in; there for as long as they may be in
    /// the cluster.
    fn file(self, cluster: &Cluster) -> PathBuf {
        let folder = cluster.state().dir().join("addons");
        folder.join(format!("{}.yaml", self.name()))
    }

    fn image(self, name: String, program: &Path) -> Result<Archive, OciError> {
        let inside = format!("/{}", self.name());
        let mut image = match self {
            // It runs the machine's iptables, which may be chosen by links in
            // a folder of /etc.
            Self::KubeRouter => {
                let mut host = base::host();
                let links = Layer::new(Packing::Plain)
                    .folder("host-etc", 0o755)
                    .link("etc/alternatives", "/host-etc/alternatives");
                host.layers.push(links);
                host
            }
            Self::CoreDns | Self::KubeNetworkPolicies => base::empty(),
        };
        image
            .layers
            .push(Layer::new(Packing::Plain).copy(program, &inside, 0o755)?);
        image.name = name;
        image.entrypoint = vec![inside];
        Ok(image)
    }
}

impl Built {
    /// Names what the program was built from: a changed program is another image.
    fn image_name(&self) -> String {
        let entry = self.program.parent().and_then(Path::file_name);
        let tag = entry.map_or_else(|| "1".into(), |name| name.to_string_lossy());
        format!("napwake.test/{}:{tag}", self.addon.name())
    }
}

/// Builds the programs of the addons that the settings ask for, or finds those
/// built before.
pub(super) fn build(settings: Settings, progress: &Progress) -> Result<Vec<Built>, ToolError> {
    let wanted = Addon::ALL
        .into_iter()
        .filter(|addon| addon.is_wanted(settings));
    wanted
        .map(|addon| {
            packages::ensure(addon.needs(), progress)?;
            let tool = GoTool::new(addon.package());
            let program = go_install_linked(&tool, Linking::Static, progress)?;
            Ok(Built { addon, program })
        })
        .collect()
}

/// Hands the addons to the API server, with their images in the nodes.
pub(super) fn put_in(
    cluster: &Cluster,
    built: &[Built],
    progress: &Progress,
) -> Result<(), ClusterError> {
    for built in built {
        load_image(cluster, built, progress)?;
        let file = built.addon.file(cluster);
        if let Some(folder) = file.parent() {
            files::create_dir(folder)?;
        }
        let manifests = built.addon.manifests(&built.image_name());
        files::write(&file, manifests, Access::Public)?;
        cluster.apply(&file)?;
    }
    Ok(())
}

/// Loads the image into the nodes that lack it.
fn load_image(cluster: &Cluster, built: &Built, progress: &Progress) -> Result<(), ClusterError> {
    let name = built.image_name();
    let mut lacking = Vec::new();
    for node in &cluster.topology().nodes {
        if !containerd::has_image(cluster.state(), node, &name)? {
            lacking.push(node);
        }
    }
    if lacking.is_empty() {
        return Ok(());
    }
    progress.line(format_args!("loading {}…", built.addon.name()));
    let archive = cluster
        .state()
        .dir()
        .join("images")
        .join(format!("{}.tar", built.addon.name()));
    built.addon.image(name, &built.program)?.write(&archive)?;
    for node in lacking {
        containerd::import(cluster.state(), node, &archive)?;
    }
    Ok(files::remove(&archive)?)
}

/// Takes out the addons that are in the cluster and shouldn't be.
pub(super) fn take_out(cluster: &Cluster, progress: &Progress) -> Result<(), ClusterError> {
    for addon in Addon::ALL {
        let file = addon.file(cluster);
        if addon.is_wanted(cluster.settings()) || !file.exists() {
            continue;
        }
        progress.line(format_args!("taking {} out…", addon.name()));
        let mut delete = cluster.kubectl();
        delete.args(["delete", "--ignore-not-found", GONE_BOUND, "-f"]);
        run::check(delete.arg(&file))?;
        // Deleting a workload doesn't wait for its pods.
        let mut gone = cluster.kubectl();
        gone.args(["wait", "--for=delete", "pods", "--namespace=kube-system"]);
        run::check(gone.args([addon.selector().as_str(), GONE_BOUND]))?;
        match addon {
            Addon::CoreDns => {}
            Addon::KubeRouter => firewall::forget_kube_router(cluster)?,
            Addon::KubeNetworkPolicies => firewall::stop_queueing(cluster)?,
        }
        files::remove(&file)?;
    }
    Ok(())
}

/// Waits until the addons do their work.
pub(super) fn wait(
    cluster: &Cluster,
    built: &[Built],
    progress: &Progress,
) -> Result<(), ClusterError> {
    for Built { addon, .. } in built {
        progress.line(format_args!("waiting for {}…", addon.name()));
        let mut status = cluster.kubectl();
        status.args(["rollout", "status", "--namespace=kube-system", READY_BOUND]);
        run::check(status.arg(addon.workload())).map_err(|source| ClusterError::AddonNotReady {
            name: addon.name(),
            seen: seen(cluster, *addon),
            source,
        })?;
        match addon {
            Addon::CoreDns => names::wait(cluster)?,
            Addon::KubeRouter => {}
            Addon::KubeNetworkPolicies => firewall::queue(cluster)?,
        }
    }
    Ok(())
}

/// The addons that the settings ask for, and whether their pods are Ready.
pub(super) fn views(cluster: &Cluster) -> Result<Vec<AddonView>, ClusterError> {
    let settings = cluster.settings();
    let wanted = Addon::ALL
        .into_iter()
        .filter(|addon| addon.is_wanted(settings));
    wanted
        .map(|addon| {
            let mut status = cluster.kubectl();
            status.args(["rollout", "status", "--namespace=kube-system"]);
            let text = run::output(status.args(["--watch=false", &addon.workload()]))?;
            Ok(AddonView {
                name: addon.name(),
                ready: text.contains("successfully rolled out"),
            })
        })
        .collect()
}

/// What there is of the addon's pods, for whoever reads the failure.
fn seen(cluster: &Cluster, addon: Addon) -> String {
    let show = |words: &[&str]| {
        let mut kubectl = cluster.kubectl();
        kubectl.args(words);
        kubectl.args(["--namespace=kube-system", &addon.selector()]);
        match run::output(&mut kubectl) {
            Ok(text) => run::tail(&text, 20),
            Err(error) => error.to_string(),
        }
    };
    let pods = show(&["get", "pods", "--output=wide"]);
    let logs = show(&["logs", "--prefix", "--tail=8"]);
    format!("{pods}\n{logs}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn settings(dns: Dns, policies: Policies) -> Settings {
        Settings {
            dns,
            policies,
            ..Settings::default()
        }
    }

    #[rstest]
    #[case(Dns::Off, Policies::None, &[])]
    #[case(Dns::On, Policies::None, &[Addon::CoreDns])]
    #[case(Dns::On, Policies::KubeRouter, &[Addon::CoreDns, Addon::KubeRouter])]
    #[case(Dns::Off, Policies::KubeNetworkPolicies, &[Addon::KubeNetworkPolicies])]
    fn the_settings_say_which_addons_there_are(
        #[case] dns: Dns,
        #[case] policies: Policies,
        #[case] expected: &[Addon],
    ) {
        let settings = settings(dns, policies);
        let wanted: Vec<_> = Addon::ALL
            .into_iter()
            .filter(|addon| addon.is_wanted(settings))
            .collect();
        assert_eq!(wanted, expected);
    }

    fn objects(addon: Addon) -> Vec<serde_json::Value> {
        let text = addon.manifests("napwake.test/x:1");
        assert!(!text.contains('@'), "{text}");
        text.split("\n---\n")
            .map(|text| serde_saphyr::from_str(text).unwrap())
            .collect()
    }

    /// Taking an addon out waits for pods by this label.
    #[rstest]
    fn pods_carry_the_label_and_the_image_they_are_known_by(
        #[values(Addon::CoreDns, Addon::KubeRouter, Addon::KubeNetworkPolicies)] addon: Addon,
    ) {
        let objects = objects(addon);
        let (kind, name) = (addon.workload(), addon.name());
        let workload = objects
            .iter()
            .find(|object| {
                let kind = object["kind"].as_str().unwrap().to_lowercase();
                format!("{kind}/{name}") == addon.workload()
            })
            .unwrap_or_else(|| panic!("no {kind}"));
        let template = &workload["spec"]["template"];
        assert_eq!(template["metadata"]["labels"]["napwake.test/addon"], name);
        let container = &template["spec"]["containers"][0];
        assert_eq!(container["image"], "napwake.test/x:1");
        assert!(container["readinessProbe"].is_object());
    }

    #[test]
    fn the_name_server_answers_where_pods_ask() {
        let objects = objects(Addon::CoreDns);
        let service = objects
            .iter()
            .find(|object| object["kind"] == "Service")
            .unwrap();
        assert_eq!(service["spec"]["clusterIP"], DNS_SERVICE);
    }

    #[test]
    fn another_program_is_another_image() {
        let built = |path: &str| Built {
            addon: Addon::CoreDns,
            program: path.into(),
        };
        assert_eq!(
            built("/tools/coredns-abc/coredns").image_name(),
            "napwake.test/coredns:coredns-abc"
        );
    }
}
