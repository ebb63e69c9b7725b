//! The cluster's network: namespaces without a way out, and the links between
//! them. Every step can be done again where an earlier run was cut off.

use std::path::Path;
use std::process::Command;

use super::ClusterError;
use super::topology::{Addresses, Netns, Node, SERVICE_RANGE_V4, SERVICE_RANGE_V6, Topology};
use crate::files;
use crate::run;

/// The node's own interface in a cluster of one: a bridge, which every kernel
/// that runs pods has.
const NODE_BRIDGE: &str = "node0";
/// The wire between the nodes of a cluster of three.
const LAN: &str = "lan";
/// `NSFS_MAGIC`: what a file is that holds a namespace open.
const NAMESPACE_FILE: i64 = 0x6e73_6673;

pub(super) fn ensure(topology: &Topology) -> Result<(), ClusterError> {
    for netns in topology.namespaces() {
        add_namespace(netns)?;
        set_up_namespace(netns)?;
    }
    if topology.is_shared() {
        return one_node(topology);
    }
    lan(topology)?;
    for node in &topology.nodes {
        join_lan(topology, node)?;
    }
    for node in &topology.nodes {
        route_pods(topology, node)?;
    }
    route_services(topology)
}

/// Takes the cluster's namespaces away. Processes that are still in one keep it
/// until they end, but nobody finds it any more.
pub(super) fn remove(topology: &Topology) -> Result<(), ClusterError> {
    for netns in topology.namespaces() {
        let path = netns.path();
        if is_namespace(Path::new(&path)) {
            run::check(Command::new("ip").args(["netns", "delete", netns.name()]))?;
        }
        files::remove(Path::new(&path))?;
    }
    Ok(())
}

pub(super) fn exists(netns: &Netns) -> bool {
    is_namespace(Path::new(&netns.path()))
}

fn is_namespace(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|fs| fs.f_type == NAMESPACE_FILE)
}

fn add_namespace(netns: &Netns) -> Result<(), ClusterError> {
    if exists(netns) {
        return Ok(());
    }
    // An empty file is what is left where `ip` was killed in the middle.
    files::remove(Path::new(&netns.path()))?;
    Ok(run::check(Command::new("ip").args([
        "netns",
        "add",
        netns.name(),
    ]))?)
}

/// Loopback, forwarding, and packets that cross a bridge shown to the filters:
/// without that, a pod that meets a Service's pod on its own node gets answers
/// from an address it never spoke to.
fn set_up_namespace(netns: &Netns) -> Result<(), ClusterError> {
    ip(netns, "link set lo up")?;
    let settings = [
        ("net/ipv4/ip_forward", 1),
        ("net/ipv6/conf/all/forwarding", 1),
        ("net/bridge/bridge-nf-call-iptables", 1),
        ("net/bridge/bridge-nf-call-ip6tables", 1),
        // The pods' bridge would not answer over IPv6 for its first second.
        ("net/ipv6/conf/default/accept_dad", 0),
    ];
    for (setting, value) in settings {
        // Not every kernel has the bridge's settings, and some have them for
        // the whole machine; then they are as they are.
        let file = format!("/proc/sys/{setting}");
        let script = format!("test ! -w {file} || echo {value} > {file}");
        run::check(inside(netns).args(["sh", "-c", &script]))?;
    }
    Ok(())
}

fn one_node(topology: &Topology) -> Result<(), ClusterError> {
    let netns = &topology.control;
    bridge(netns, NODE_BRIDGE, topology.control_addresses)?;
    // Where packets to nowhere go: to a wire on which nobody answers.
    default_routes(
        netns,
        &format!("dev {NODE_BRIDGE}"),
        &format!("dev {NODE_BRIDGE}"),
    )
}

fn lan(topology: &Topology) -> Result<(), ClusterError> {
    let netns = &topology.control;
    bridge(netns, LAN, topology.control_addresses)?;
    default_routes(netns, &format!("dev {LAN}"), &format!("dev {LAN}"))
}

fn bridge(netns: &Netns, name: &str, addresses: Addresses) -> Result<(), ClusterError> {
    if !has_link(netns, name)? {
        ip(netns, &format!("link add {name} type bridge"))?;
    }
    address(netns, name, addresses)
}

fn join_lan(topology: &Topology, node: &Node) -> Result<(), ClusterError> {
    let port = format!("lan-{}", node.name);
    if !has_link(&node.netns, "eth0")? {
        let peer = format!("peer name eth0 netns {}", node.netns.name());
        ip(
            &topology.control,
            &format!("link add {port} type veth {peer}"),
        )?;
    }
    ip(
        &topology.control,
        &format!("link set {port} master {LAN} up"),
    )?;
    address(&node.netns, "eth0", node.addresses)?;
    let control = topology.control_addresses;
    default_routes(
        &node.netns,
        &format!("via {}", control.v4),
        &format!("via {}", control.v6),
    )
}

fn address(netns: &Netns, link: &str, addresses: Addresses) -> Result<(), ClusterError> {
    ip(
        netns,
        &format!("addr replace {}/24 dev {link}", addresses.v4),
    )?;
    // Nobody else can have the address: no need to wait for objections.
    ip(
        netns,
        &format!("-6 addr replace {}/64 dev {link} nodad", addresses.v6),
    )?;
    ip(netns, &format!("link set {link} up"))
}

fn default_routes(netns: &Netns, v4: &str, v6: &str) -> Result<(), ClusterError> {
    ip(netns, &format!("route replace default {v4}"))?;
    ip(netns, &format!("-6 route replace default {v6}"))
}

/// Everybody but the node itself reaches its pods over the wire.
fn route_pods(topology: &Topology, node: &Node) -> Result<(), ClusterError> {
    for netns in topology.namespaces() {
        if *netns == node.netns {
            continue;
        }
        ip(
            netns,
            &format!("route replace {} via {}", node.pods_v4, node.addresses.v4),
        )?;
        ip(
            netns,
            &format!(
                "-6 route replace {} via {}",
                node.pods_v6, node.addresses.v6
            ),
        )?;
    }
    Ok(())
}

/// The control plane's network has no kube-proxy: tests there reach Services
/// through the first node.
fn route_services(topology: &Topology) -> Result<(), ClusterError> {
    let Some(first) = topology.nodes.first() else {
        return Ok(());
    };
    let Addresses { v4, v6 } = first.addresses;
    ip(
        &topology.control,
        &format!("route replace {SERVICE_RANGE_V4} via {v4}"),
    )?;
    ip(
        &topology.control,
        &format!("-6 route replace {SERVICE_RANGE_V6} via {v6}"),
    )
}

fn has_link(netns: &Netns, link: &str) -> Result<bool, ClusterError> {
    Ok(run::succeeds(
        inside(netns).args(["ip", "link", "show", link]),
    )?)
}

fn ip(netns: &Netns, words: &str) -> Result<(), ClusterError> {
    Ok(run::check(inside(netns).arg("ip").args(words.split(' ')))?)
}

/// Only the network is entered: `ip netns exec` would also hide the cgroups.
pub(super) fn inside(netns: &Netns) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", netns.path())).arg("--");
    command
}
