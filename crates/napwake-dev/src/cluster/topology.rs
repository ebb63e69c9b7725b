//! Where the parts of a cluster live and which addresses they have. Pure.
//!
//! Every cluster has the same addresses: none of its networks has a way out, so
//! they can't meet.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::name::ClusterName;
use super::settings::NodeCount;

/// All pods' addresses.
pub(super) const POD_RANGES: &str = "10.244.0.0/16,fd00:244::/56";
/// All Services' addresses.
pub(super) const SERVICE_RANGES: &str = "10.96.0.0/16,fd00:96::/112";
pub(super) const SERVICE_RANGE_V4: &str = "10.96.0.0/16";
pub(super) const SERVICE_RANGE_V6: &str = "fd00:96::/112";
/// The API server's own Service.
pub(super) const API_SERVICE: [&str; 2] = ["10.96.0.1", "fd00:96::1"];
/// The name server's Service, where name resolution is on.
pub(super) const DNS_SERVICE: &str = "10.96.0.10";

/// A named network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Netns(String);

impl Netns {
    pub(super) fn name(&self) -> &str {
        &self.0
    }

    pub(super) fn path(&self) -> String {
        format!("/run/netns/{}", self.0)
    }
}

/// An IPv4 and an IPv6 address of one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) v4: Ipv4Addr,
    pub(super) v6: Ipv6Addr,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) netns: Netns,
    pub(super) addresses: Addresses,
    pub(super) pods_v4: String,
    pub(super) pods_v6: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Topology {
    /// Where the control plane runs, and where commands are run: the cluster's own name.
    pub(super) control: Netns,
    pub(super) control_addresses: Addresses,
    pub(super) nodes: Vec<Node>,
}

impl Topology {
    pub(super) fn new(name: &ClusterName, nodes: NodeCount) -> Self {
        let control = Netns(name.as_str().to_owned());
        match nodes {
            NodeCount::Zero => Self {
                control,
                control_addresses: addresses(1),
                nodes: Vec::new(),
            },
            NodeCount::One => {
                let node = node(1, control.clone());
                Self {
                    control,
                    control_addresses: node.addresses,
                    nodes: vec![node],
                }
            }
            NodeCount::Three => Self {
                nodes: (1..=3)
                    .map(|i| node(i, Netns(format!("{name}.n{i}"))))
                    .collect(),
                control,
                control_addresses: addresses(254),
            },
        }
    }

    /// Whether the only node shares the control plane's network.
    pub(super) fn is_shared(&self) -> bool {
        self.nodes.iter().all(|node| node.netns == self.control)
    }

    /// All namespaces, the control plane's last.
    pub(super) fn namespaces(&self) -> Vec<&Netns> {
        let own = self
            .nodes
            .iter()
            .map(|node| &node.netns)
            .filter(|netns| **netns != self.control);
        own.chain([&self.control]).collect()
    }

    /// Where the API server answers.
    pub(super) fn api_url(&self) -> String {
        format!("https://{}:6443", self.control_addresses.v4)
    }
}

fn addresses(last: u8) -> Addresses {
    Addresses {
        v4: Ipv4Addr::new(10, 0, 0, last),
        v6: Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, last.into()),
    }
}

/// A node with room for 4094 pods.
fn node(number: u8, netns: Netns) -> Node {
    Node {
        name: format!("n{number}"),
        netns,
        addresses: addresses(number),
        pods_v4: format!("10.244.{}.0/20", number * 16),
        pods_v6: format!("fd00:244:0:{number:x}::/64"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(nodes: NodeCount) -> Topology {
        Topology::new(&"demo".parse().unwrap(), nodes)
    }

    #[test]
    fn a_control_plane_alone_has_a_network_of_its_own() {
        let zero = topology(NodeCount::Zero);
        assert!(zero.is_shared() && zero.nodes.is_empty());
        assert_eq!(zero.namespaces(), [&zero.control]);
    }

    #[test]
    fn one_node_shares_the_control_planes_network() {
        let one = topology(NodeCount::One);
        assert!(one.is_shared());
        assert_eq!(one.namespaces().len(), 1);
        assert_eq!(one.control.path(), "/run/netns/demo");
        assert_eq!(one.api_url(), "https://10.0.0.1:6443");
    }

    #[test]
    fn three_nodes_have_networks_and_addresses_of_their_own() {
        let three = topology(NodeCount::Three);
        assert!(!three.is_shared());
        let names: Vec<_> = three
            .namespaces()
            .iter()
            .map(|netns| netns.name())
            .collect();
        assert_eq!(names, ["demo.n1", "demo.n2", "demo.n3", "demo"]);
        assert_eq!(three.api_url(), "https://10.0.0.254:6443");
        let pods: Vec<_> = three
            .nodes
            .iter()
            .map(|node| node.pods_v4.as_str())
            .collect();
        assert_eq!(pods, ["10.244.16.0/20", "10.244.32.0/20", "10.244.48.0/20"]);
        assert_eq!(three.nodes[2].addresses.v6.to_string(), "fd00:1::3");
        assert_eq!(three.nodes[2].pods_v6, "fd00:244:0:3::/64");
    }
}
