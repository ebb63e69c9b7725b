//! What the development cluster of levels C and B is.

use std::str::FromStr;

use crate::cluster::{Dns, NodeCount, ProxyMode, Wish};

/// Its shape. Each has a cluster of its own, so that they can stand side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Shape {
    /// One node, and kube-proxy by nftables.
    #[default]
    Usual,
    /// One node, and kube-proxy by iptables.
    Iptables,
    /// Three nodes, and name resolution. Tests in modules named `nodes` run here alone.
    Nodes,
}

/// A word that names no shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is none of usual, iptables, nodes")]
pub struct UnknownShape(String);

impl Shape {
    /// The name of the cluster.
    pub(super) const fn cluster(self) -> &'static str {
        match self {
            Self::Usual => "napwake-test",
            Self::Iptables => "napwake-test-iptables",
            Self::Nodes => "napwake-test-nodes",
        }
    }

    /// What the cluster is asked to be.
    pub(super) fn wish(self) -> Wish {
        let usual = Wish::default();
        match self {
            Self::Usual => usual,
            Self::Iptables => Wish {
                proxy: Some(ProxyMode::Iptables),
                ..usual
            },
            Self::Nodes => Wish {
                nodes: Some(NodeCount::Three),
                dns: Some(Dns::On),
                ..usual
            },
        }
    }
}

impl FromStr for Shape {
    type Err = UnknownShape;

    fn from_str(word: &str) -> Result<Self, UnknownShape> {
        match word {
            "usual" => Ok(Self::Usual),
            "iptables" => Ok(Self::Iptables),
            "nodes" => Ok(Self::Nodes),
            other => Err(UnknownShape(other.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::ClusterName;

    #[test]
    fn each_shape_has_a_cluster_of_its_own() {
        let shapes = ["usual", "iptables", "nodes"].map(str::parse::<Shape>);
        let names: Vec<ClusterName> = shapes
            .map(|shape| shape.expect("a shape").cluster().parse().expect("a name"))
            .to_vec();
        assert_eq!(names.len(), 3);
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
        assert!("two".parse::<Shape>().is_err());
    }
}
