//! Making a cluster, or making an existing one what it should be.
//!
//! Each step looks at what is there and does what is missing, so that a run
//! that was cut off anywhere is finished by the next one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::handle::Cluster;
use super::kube_parts::{self, KUBERNETES_VERSION, Parts};
use super::name::ClusterName;
use super::ready::{self, Heartbeats};
use super::settings::Wish;
use super::state::State;
use super::topology::Node;
use super::units::{self, Change};
use super::{
    ClusterError, addon, cni, containerd, enter, kubelet, leftovers, must_be_root, net, pki, proxy,
};
use crate::files::{self, Access};
use crate::image::base;
use crate::progress::Progress;
use crate::run;
use crate::tools::packages::{self, Need};
use crate::wait::{self, Seen};

const NEEDS: [Need; 10] = [
    Need::program("containerd", "containerd"),
    Need::program("ctr", "containerd"),
    Need::program("runc", "runc"),
    Need::program("ip", "iproute2"),
    Need::program("nsenter", "util-linux"),
    Need::program("iptables", "iptables"),
    Need::program("ip6tables", "iptables"),
    Need::program("nft", "nftables"),
    Need::program("mount", "mount"),
    Need::file(
        &["/usr/lib/cni/bridge", "/opt/cni/bin/bridge"],
        "containernetworking-plugins",
    ),
];

const RUNTIME_BOUND: Duration = Duration::from_mins(1);

/// Programs that are built before anything is changed.
struct Built {
    kube: PathBuf,
    pause: PathBuf,
}

/// Brings the cluster up and returns when its nodes take pods, and name
/// resolution and network policies work where they are on.
pub fn up(name: &ClusterName, wish: Wish, progress: &Progress) -> Result<Cluster, ClusterError> {
    must_be_root()?;
    let state = State::of(name);
    // A wish that can't be had is refused before minutes of building.
    let settings = wish.settle(state.settings()?)?;
    packages::ensure(&NEEDS, progress)?;
    let built = Built {
        kube: kube_parts::build(progress)?,
        pause: base::pause_program(progress)?,
    };
    addon::build(settings, progress)?;
    let _lock = state.lock(progress)?;
    let cluster = prepare(name, state, wish, &built, progress)?;
    let started = start(&cluster, &built, progress)?;
    progress.line("waiting for the nodes to be Ready…");
    ready::wait_for_nodes(&cluster, &started.reported, progress)?;
    addon::take_out(&cluster, progress)?;
    addon::wait(&cluster, &started.addons, progress)?;
    progress.line(format_args!(
        "cluster {name} is up: Kubernetes {KUBERNETES_VERSION}, {} node(s), kubeconfig {}",
        cluster.settings().nodes,
        cluster.kubeconfig().display()
    ));
    Ok(cluster)
}

/// Folders, certificates and the network.
fn prepare(
    name: &ClusterName,
    state: State,
    wish: Wish,
    built: &Built,
    progress: &Progress,
) -> Result<Cluster, ClusterError> {
    let existing = state.settings()?;
    let settings = wish.settle(existing)?;
    let cluster = Cluster::new(name.clone(), state, settings);
    let (state, topology) = (cluster.state(), cluster.topology());
    if existing.is_none() {
        progress.line(format_args!(
            "making the cluster {name} in {}…",
            state.dir().display()
        ));
        for netns in topology.namespaces() {
            if net::exists(netns) {
                return Err(ClusterError::ForeignNetwork(netns.name().to_owned()));
            }
        }
    }
    // From here on what bears the cluster's names is the cluster's.
    state.save_settings(settings)?;
    for folder in [
        state.bin(),
        state.etcd(),
        state.units(),
        state.dir().join("log"),
    ] {
        files::create_dir(&folder)?;
    }
    forget_other_boots(&cluster)?;
    install_kube(state, &built.kube)?;
    pki::ensure(state, topology)?;
    net::ensure(topology)?;
    enter::write(state, &topology.control, settings.dns)?;
    Ok(cluster)
}

/// After the machine was started anew, the runtime's notes on running
/// containers describe nothing that exists.
fn forget_other_boots(cluster: &Cluster) -> Result<(), ClusterError> {
    let path = cluster.state().dir().join("boot");
    let boot = files::read(Path::new("/proc/sys/kernel/random/boot_id"))?;
    if files::read_if_there(&path)?.as_ref() == Some(&boot) {
        return Ok(());
    }
    for node in &cluster.topology().nodes {
        files::remove_dir(&cluster.state().node(&node.name).join("containerd/state"))?;
    }
    Ok(files::write(&path, boot, Access::Public)?)
}

/// The cluster keeps the program by itself: the cache may be emptied.
fn install_kube(state: &State, built: &Path) -> Result<(), ClusterError> {
    files::link_or_copy(built, &state.kube())?;
    let kubectl = state.bin().join("kubectl");
    files::remove(&kubectl)?;
    std::os::unix::fs::symlink("kube", &kubectl).map_err(files::failed("link", &kubectl))?;
    Ok(())
}

/// What is waited for.
struct Started {
    /// What the nodes whose kubelet was started had reported before.
    reported: Heartbeats,
    addons: Vec<addon::Built>,
}

/// Starts what doesn't run.
fn start(cluster: &Cluster, built: &Built, progress: &Progress) -> Result<Started, ClusterError> {
    let (state, topology) = (cluster.state(), cluster.topology());
    let parts = Parts {
        state,
        topology,
        built: &built.kube,
    };
    progress.line("starting etcd, the API server and the container runtime…");
    units::converge(state, &parts.etcd())?;
    units::converge(state, &parts.apiserver())?;
    for node in &topology.nodes {
        start_runtime(cluster, node)?;
    }
    load_base_images(cluster, built)?;
    ready::wait_for_api(cluster)?;
    progress.line("starting controllers, scheduler, kubelet and kube-proxy…");
    let rights = state.dir().join("controllers.json");
    files::write(&rights, Parts::controllers_rights(), Access::Public)?;
    run::check(cluster.kubectl().args(["apply", "-f"]).arg(&rights))?;
    units::converge(state, &parts.controller_manager())?;
    if !topology.nodes.is_empty() {
        units::converge(state, &parts.scheduler())?;
    }
    let before = ready::heartbeats(cluster)?;
    let mut reported = Heartbeats::new();
    for node in &topology.nodes {
        let settings = cluster.settings();
        units::converge(state, &proxy::unit(parts, node, settings.proxy))?;
        let kubelet = kubelet::unit(parts, node, settings.dns);
        if units::converge(state, &kubelet)? == Change::Started
            && let Some(last) = before.get(&node.name)
        {
            reported.insert(node.name.clone(), last.clone());
        }
    }
    // Another command may have changed the settings while this one built.
    let addons = addon::build(cluster.settings(), progress)?;
    addon::put_in(cluster, &addons, progress)?;
    Ok(Started { reported, addons })
}

fn start_runtime(cluster: &Cluster, node: &Node) -> Result<(), ClusterError> {
    let state = cluster.state();
    let (path, content) = cni::config(state, node);
    let folder = state.node(&node.name);
    for folder in [
        folder.join("cni"),
        folder.join("containerd"),
        folder.join("podlogs"),
    ] {
        files::create_dir(&folder)?;
    }
    files::write(&path, content, Access::Public)?;
    leftovers::remove_dead_shims(&containerd::containers(state, &folder)?)?;
    units::converge(state, &containerd::unit(state, node))?;
    Ok(())
}

fn load_base_images(cluster: &Cluster, built: &Built) -> Result<(), ClusterError> {
    let images = cluster.state().dir().join("images");
    files::create_dir(&images)?;
    let (pause, host) = (images.join("pause.tar"), images.join("host.tar"));
    base::pause(&built.pause)?.write(&pause)?;
    base::host().write(&host)?;
    for node in &cluster.topology().nodes {
        wait_for_runtime(cluster, node)?;
    }
    cluster.load_image(&pause)?;
    cluster.load_image(&host)
}

fn wait_for_runtime(cluster: &Cluster, node: &Node) -> Result<(), ClusterError> {
    wait::until("the container runtime", RUNTIME_BOUND, || {
        units::must_be_alive(cluster.state(), &containerd::unit_name(node))?;
        Ok(if containerd::is_ready(cluster.state(), node)? {
            Seen::Done(())
        } else {
            Seen::NotYet(format!("no answer on {}", node.name))
        })
    })
}
