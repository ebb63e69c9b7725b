//! What pods may do on their node, and what is kept out of them.

use rstest::rstest;
use serde_json::{Value, json};

use crate::chart::default_render;

/// Every pod meets the restricted Pod Security level, with a read-only root
/// file system besides.
#[test]
fn pods_meet_the_restricted_level() {
    for (name, template) in default_render().pod_templates() {
        let pod = &template["spec"];
        assert_eq!(
            pod["securityContext"],
            json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}}),
            "{name}"
        );
        for absent in [
            "hostNetwork",
            "hostPID",
            "hostIPC",
            "volumes",
            "initContainers",
        ] {
            assert_eq!(pod[absent], Value::Null, "{name} has {absent}");
        }
        let container = &pod["containers"][0];
        assert_eq!(
            container["securityContext"],
            json!({
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            }),
            "{name}"
        );
        for port in container["ports"].as_array().unwrap_or(&Vec::new()) {
            assert_eq!(port["hostPort"], Value::Null, "{name}");
        }
    }
}

#[rstest]
#[case::istio("labels", "sidecar.istio.io/inject", "false")]
#[case::istio_ambient("labels", "istio.io/dataplane-mode", "none")]
#[case::linkerd("annotations", "linkerd.io/inject", "disabled")]
fn meshes_are_kept_out_of_every_pod(#[case] map: &str, #[case] key: &str, #[case] value: &str) {
    for (name, template) in default_render().pod_templates() {
        assert_eq!(template["metadata"][map][key], value, "{name}");
    }
}

/// A labeled namespace must not have Napwake pause itself.
#[test]
fn napwake_leaves_its_own_deployments_alone() {
    for deployment in default_render().of_kind("Deployment") {
        assert_eq!(
            deployment["metadata"]["labels"]["napwake.dev/ignore"],
            "true"
        );
    }
}

#[test]
fn every_container_asks_for_memory_and_has_a_limit() {
    for (name, template) in default_render().pod_templates() {
        let resources = &template["spec"]["containers"][0]["resources"];
        assert!(resources["requests"]["memory"].is_string(), "{name}");
        assert!(resources["limits"]["memory"].is_string(), "{name}");
    }
}
