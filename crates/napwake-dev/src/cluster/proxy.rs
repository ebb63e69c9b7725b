//! A node's kube-proxy.

use super::kube_parts::Parts;
use super::settings::ProxyMode;
use super::topology::{Node, POD_RANGES};
use super::units::Unit;

pub(super) fn unit_name(node: &Node) -> String {
    format!("{}-proxy", node.name)
}

pub(super) fn unit(parts: Parts<'_>, node: &Node, mode: ProxyMode) -> Unit {
    let config = parts.state.node(&node.name).join("proxy.yaml");
    let argv = vec![
        parts.state.kube().display().to_string(),
        "kube-proxy".to_owned(),
        format!("--config={}", config.display()),
        "-v=2".to_owned(),
    ];
    Unit {
        name: unit_name(node),
        netns: node.netns.clone(),
        argv,
        files: vec![(config, render(parts, node, mode))],
        build: parts.programs.build(),
    }
}

fn render(parts: Parts<'_>, node: &Node, mode: ProxyMode) -> String {
    format!(
        r#"apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {{kubeconfig: {config}}}
hostnameOverride: {name}
mode: {mode}
clusterCIDR: "{POD_RANGES}"
# These settings of the kernel belong to the machine, not to this network.
conntrack: {{maxPerCore: 0, min: 0, tcpCloseWaitTimeout: 0s, tcpEstablishedTimeout: 0s}}
nftables: {{minSyncPeriod: 100ms, syncPeriod: 10s}}
iptables: {{minSyncPeriod: 100ms, syncPeriod: 10s}}
"#,
        config = parts.state.part_kubeconfig("proxy").display(),
        name = node.name,
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rstest::rstest;

    use super::*;
    use crate::cluster::kube_parts::Programs;
    use crate::cluster::name::ClusterName;
    use crate::cluster::settings::NodeCount;
    use crate::cluster::state::State;
    use crate::cluster::topology::Topology;

    #[rstest]
    #[case(ProxyMode::Nftables, "nftables")]
    #[case(ProxyMode::Iptables, "iptables")]
    fn the_mode_is_the_one_asked_for(#[case] mode: ProxyMode, #[case] word: &str) {
        let name = ClusterName::default();
        let topology = Topology::new(&name, NodeCount::Three);
        let state = State::below(Path::new("/state"), &name);
        let parts = Parts {
            state: &state,
            topology: &topology,
            programs: &Programs::Built("/b".into()),
        };
        let text = render(parts, &topology.nodes[1], mode);
        let value: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(value["mode"], word);
        assert_eq!(value["hostnameOverride"], "n2");
    }
}
