//! A node's kubelet.

use super::kube_parts::Parts;
use super::settings::Dns;
use super::topology::{DNS_SERVICE, Node};
use super::units::Unit;

pub(super) fn unit_name(node: &Node) -> String {
    format!("{}-kubelet", node.name)
}

pub(super) fn unit(parts: Parts<'_>, node: &Node, dns: Dns) -> Unit {
    let state = parts.state;
    let config = state.node(&node.name).join("kubelet.yaml");
    let argv = vec![
        state.kube().display().to_string(),
        "kubelet".to_owned(),
        format!("--config={}", config.display()),
        format!(
            "--kubeconfig={}",
            state.part_kubeconfig(&node.name).display()
        ),
        format!(
            "--root-dir={}",
            state.node(&node.name).join("kubelet").display()
        ),
        format!("--hostname-override={}", node.name),
        format!("--node-ip={},{}", node.addresses.v4, node.addresses.v6),
        // Without it pods have no network counters; it must be absolute.
        format!(
            "--containerd={}",
            state.containerd_socket(&node.name).display()
        ),
        "-v=2".to_owned(),
    ];
    Unit {
        name: unit_name(node),
        netns: node.netns.clone(),
        argv,
        files: vec![(config, render(parts, node, dns))],
        build: parts.programs.build(),
    }
}

fn render(parts: Parts<'_>, node: &Node, dns: Dns) -> String {
    let state = parts.state;
    let clusters_dns = match dns {
        Dns::Off => "clusterDNS: []".to_owned(),
        Dns::On => format!("clusterDNS: [{DNS_SERVICE}]\nclusterDomain: cluster.local"),
    };
    format!(
        r#"apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {{enabled: false}}
  webhook: {{enabled: true}}
  x509: {{clientCAFile: {ca}}}
authorization: {{mode: Webhook}}
tlsCertFile: {certificate}
tlsPrivateKeyFile: {key}
containerRuntimeEndpoint: unix://{socket}
{clusters_dns}
# A pod that keeps to its node's names has none: there is no way out.
resolvConf: ""
# The default folder is shared by all kubelets of the machine, and each removes
# what it doesn't know.
podLogsDir: {folder}/podlogs
# Works with either version of cgroups, and without limits for all pods together.
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failCgroupV1: false
failSwapOn: false
# A full disk on the developer's machine is no reason to evict pods, and images
# that came from no registry must not be collected.
evictionHard:
  memory.available: "0%"
  nodefs.available: "0%"
  nodefs.inodesFree: "0%"
  imagefs.available: "0%"
imageGCHighThresholdPercent: 100
maxPods: 500
serializeImagePulls: false
syncFrequency: 10s
nodeStatusUpdateFrequency: 4s
"#,
        ca = state.pki("ca.crt").display(),
        certificate = state.pki(&format!("{}.crt", node.name)).display(),
        key = state.pki(&format!("{}.key", node.name)).display(),
        socket = state.containerd_socket(&node.name).display(),
        folder = state.node(&node.name).display(),
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
    #[case(Dns::Off, "clusterDNS: []")]
    #[case(Dns::On, "clusterDNS: [10.96.0.10]\nclusterDomain: cluster.local")]
    fn the_configuration_is_yaml_and_follows_the_settings(#[case] dns: Dns, #[case] line: &str) {
        let name = ClusterName::default();
        let topology = Topology::new(&name, NodeCount::One);
        let state = State::below(Path::new("/state"), &name);
        let parts = Parts {
            state: &state,
            topology: &topology,
            programs: &Programs::Built("/b".into()),
        };
        let text = render(parts, &topology.nodes[0], dns);
        assert!(text.contains(line), "{text}");
        let value: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(value["evictionHard"]["memory.available"], "0%");
        assert_eq!(value["podLogsDir"], "/state/napwake-dev/nodes/n1/podlogs");
    }
}
