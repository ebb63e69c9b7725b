//! Making a cluster, or making an existing one what it should be.
//!
//! Each step looks at what is there and does what is missing, so that a run
//! that was cut off anywhere is finished by the next one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::handle::Cluster;
use super::kube_parts::{Parts, Programs};
use super::name::ClusterName;
use super::ready::{self, Heartbeats};
use super::settings::{NodeCount, Settings, Wish};
use super::state::State;
use super::topology::Node;
use super::units::{self, Change};
use super::{
    ClusterError, addon, cni, containerd, enter, kubelet, leftovers, must_be_root, net, pki, proxy,
    shares,
};
use crate::files::{self, Access};
use crate::image::base;
use crate::progress::Progress;
use crate::tools::packages::{self, Need};
use crate::wait::{self, Seen};

/// What every cluster needs.
const NEEDS: [Need; 3] = [
    Need::program("ip", "iproute2"),
    Need::program("nsenter", "util-linux"),
    Need::program("mount", "mount"),
];

/// What its nodes need.
const NODE_NEEDS: [Need; 7] = [
    Need::program("containerd", "containerd"),
    Need::program("ctr", "containerd"),
    Need::program("runc", "runc"),
    Need::program("iptables", "iptables"),
    Need::program("ip6tables", "iptables"),
    Need::program("nft", "nftables"),
    Need::file(
        &["/usr/lib/cni/bridge", "/opt/cni/bin/bridge"],
        "containernetworking-plugins",
    ),
];

const RUNTIME_BOUND: Duration = Duration::from_mins(1);

/// Programs that are built before anything is changed.
struct Built {
    kube: Programs,
    /// What the nodes' pods need, where there are nodes.
    pause: Option<PathBuf>,
    addons: Vec<addon::Built>,
}

impl Built {
    fn new(settings: Settings, progress: &Progress) -> Result<Self, ClusterError> {
        packages::ensure(&NEEDS, progress)?;
        let kube = Programs::get(settings.nodes, progress)?;
        if settings.nodes == NodeCount::Zero {
            return Ok(Self {
                kube,
                pause: None,
                addons: Vec::new(),
            });
        }
        packages::ensure(&NODE_NEEDS, progress)?;
        Ok(Self {
            kube,
            pause: Some(base::pause_program(progress)?),
            addons: addon::build(settings, progress)?,
        })
    }
}

/// Brings the cluster up and returns when its nodes take pods, and name
/// resolution and network policies work where they are on.
pub fn up(name: &ClusterName, wish: Wish, progress: &Progress) -> Result<Cluster, ClusterError> {
    must_be_root()?;
    let state = State::of(name);
    // A wish that can't be had is refused before minutes of building.
    let expected = wish.settle(state.settings()?)?;
    let mut built = Built::new(expected, progress)?;
    let _lock = state.lock(progress)?;
    let settings = wish.settle(state.settings()?)?;
    if settings != expected {
        // Another command was at work on it meanwhile.
        built = Built::new(settings, progress)?;
    }
    let cluster = prepare(name, state, settings, &built, progress)?;
    let reported = start(&cluster, &built, progress)?;
    if settings.nodes != NodeCount::Zero {
        progress.line("waiting for the nodes to be Ready…");
        ready::wait_for_nodes(&cluster, &reported, progress)?;
    }
    if built.kube.have_controllers() {
        ready::wait_for_default_account(&cluster)?;
    }
    addon::take_out(&cluster, progress)?;
    addon::wait(&cluster, &built.addons, progress)?;
    progress.line(format_args!(
        "cluster {name} is up: {} node(s), reached by `cargo xtask cluster exec{} -- kubectl …`",
        cluster.settings().nodes,
        name.flag()
    ));
    Ok(cluster)
}

/// Folders, certificates and the network.
fn prepare(
    name: &ClusterName,
    state: State,
    settings: Settings,
    built: &Built,
    progress: &Progress,
) -> Result<Cluster, ClusterError> {
    let is_new = state.settings()?.is_none();
    let cluster = Cluster::new(name.clone(), state, settings);
    let (state, topology) = (cluster.state(), cluster.topology());
    if is_new {
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
    built.kube.install(state)?;
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

/// Starts what doesn't run. Returns what the nodes whose kubelet was started
/// had reported before.
fn start(
    cluster: &Cluster,
    built: &Built,
    progress: &Progress,
) -> Result<Heartbeats, ClusterError> {
    let (state, topology) = (cluster.state(), cluster.topology());
    let parts = Parts {
        state,
        topology,
        programs: &built.kube,
    };
    progress.line("starting etcd and the API server…");
    units::converge(state, &parts.etcd())?;
    units::converge(state, &parts.apiserver(cluster.settings().audit))?;
    if !topology.nodes.is_empty() {
        shares::give_pods_theirs()?;
    }
    for node in &topology.nodes {
        start_runtime(cluster, node)?;
    }
    if let Some(pause) = &built.pause {
        load_base_images(cluster, pause)?;
    }
    ready::wait_for_api(cluster)?;
    progress.line("starting all the rest…");
    if built.kube.have_controllers() {
        start_controllers(cluster, parts)?;
    }
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
    addon::put_in(cluster, &built.addons, progress)?;
    Ok(reported)
}

fn start_controllers(cluster: &Cluster, parts: Parts<'_>) -> Result<(), ClusterError> {
    let rights = parts.state.dir().join("controllers.json");
    files::write(&rights, Parts::controllers_rights(), Access::Public)?;
    cluster.apply(&rights)?;
    let slices = cluster.settings().slices;
    units::converge(parts.state, &parts.controller_manager(slices))?;
    Ok(())
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

fn load_base_images(cluster: &Cluster, pause_program: &Path) -> Result<(), ClusterError> {
    let images = cluster.state().dir().join("images");
    files::create_dir(&images)?;
    let (pause, host) = (images.join("pause.tar"), images.join("host.tar"));
    base::pause(pause_program)?.write(&pause)?;
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
