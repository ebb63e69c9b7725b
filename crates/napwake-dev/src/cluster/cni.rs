//! How pods get their network: a bridge on the node, one IPv4 and one IPv6
//! address each, nothing translated on the way out.

use std::path::PathBuf;

use super::state::State;
use super::topology::Node;

/// The configuration file that the node's runtime reads.
pub(super) fn config(state: &State, node: &Node) -> (PathBuf, String) {
    let folder = state.node(&node.name);
    let text = serde_json::json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "ipMasq": false,
                // A pod reaches itself through its own Service.
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "dataDir": folder.join("cni-addresses"),
                    "ranges": [[{ "subnet": node.pods_v4 }], [{ "subnet": node.pods_v6 }]],
                    "routes": [{ "dst": "0.0.0.0/0" }, { "dst": "::/0" }],
                },
            },
            { "type": "portmap", "capabilities": { "portMappings": true } },
        ],
    });
    (folder.join("cni/10-pods.conflist"), text.to_string())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cluster::name::ClusterName;
    use crate::cluster::settings::NodeCount;
    use crate::cluster::topology::Topology;

    #[test]
    fn pods_get_addresses_of_both_families_from_their_nodes_ranges() {
        let name = ClusterName::default();
        let node = Topology::new(&name, NodeCount::Three).nodes.remove(1);
        let state = State::below(Path::new("/state"), &name);
        let (path, text) = config(&state, &node);
        assert_eq!(
            path,
            Path::new("/state/napwake-dev/nodes/n2/cni/10-pods.conflist")
        );
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let ranges = &value["plugins"][0]["ipam"]["ranges"];
        assert_eq!(ranges[0][0]["subnet"], "10.244.32.0/20");
        assert_eq!(ranges[1][0]["subnet"], "fd00:244:0:2::/64");
    }
}
