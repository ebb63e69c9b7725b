//! The one program that all of Kubernetes is here, and how the control plane's
//! parts of it are started.

use std::path::{Path, PathBuf};

use super::state::State;
use super::topology::{POD_RANGES, SERVICE_RANGES, Topology};
use super::units::Unit;
use crate::progress::Progress;
use crate::tools::ToolError;
use crate::tools::cache::Cache;
use crate::tools::go::{GoSource, Linking, go_build};

/// The last release whose kubelet takes containerd 1.x, which is Debian 12's.
pub const KUBERNETES_VERSION: &str = "1.35.4";

/// Without a version clients take the server for an unknown one.
const LDFLAGS: &str = "-s -w \
    -X k8s.io/component-base/version.gitVersion=v1.35.4 \
    -X k8s.io/component-base/version.gitMajor=1 \
    -X k8s.io/component-base/version.gitMinor=35";

/// Builds the program, or finds the one built before.
pub(super) fn build(progress: &Progress) -> Result<PathBuf, ToolError> {
    let files = [
        ("go.mod", include_str!("../../kube/go.mod")),
        ("go.sum", include_str!("../../kube/go.sum")),
        ("main.go", include_str!("../../kube/main.go")),
    ];
    let source = GoSource {
        name: "kube",
        title: &format!("Kubernetes {KUBERNETES_VERSION}"),
        first_build: "4 to 10 minutes",
        files: &files,
        tags: "providerless",
        ldflags: LDFLAGS,
        linking: Linking::Usual,
    };
    go_build(&Cache::open()?, &source, progress)
}

/// Makes units that run a part of the program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) state: &'a State,
    pub(super) topology: &'a Topology,
    /// Where the program was built: its folder names what it was built from.
    pub(super) built: &'a Path,
}

impl Parts<'_> {
    /// A part in the control plane's network.
    fn control(&self, name: &str, part: &str, flags: Vec<String>) -> Unit {
        let kube = self.state.kube().display().to_string();
        let argv = [kube, part.to_owned()].into_iter().chain(flags).collect();
        Unit {
            name: name.to_owned(),
            netns: self.topology.control.clone(),
            argv,
            files: Vec::new(),
            build: self.built.display().to_string(),
        }
    }

    pub(super) fn etcd(&self) -> Unit {
        let client = "http://127.0.0.1:2379";
        let flags = vec![
            format!("--data-dir={}", self.state.etcd().display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            "--listen-peer-urls=http://127.0.0.1:2380".to_owned(),
            // Losing the last writes in a power cut is fine here; waiting for
            // the disk on each of them is not.
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        self.control("etcd", "etcd", flags)
    }

    pub(super) fn apiserver(&self) -> Unit {
        let pki = |file: &str| self.state.pki(file).display().to_string();
        let mut flags = vec![
            "--etcd-servers=http://127.0.0.1:2379".to_owned(),
            format!("--advertise-address={}", self.topology.control_addresses.v4),
            "--bind-address=::".to_owned(),
            "--secure-port=6443".to_owned(),
            format!("--service-cluster-ip-range={SERVICE_RANGES}"),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--allow-privileged=true".to_owned(),
            // No name server knows the nodes' names.
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        ];
        for (flag, file) in [
            ("client-ca-file", "ca.crt"),
            ("tls-cert-file", "apiserver.crt"),
            ("tls-private-key-file", "apiserver.key"),
            ("kubelet-certificate-authority", "ca.crt"),
            ("kubelet-client-certificate", "admin.crt"),
            ("kubelet-client-key", "admin.key"),
            ("service-account-key-file", "sa.pub"),
            ("service-account-signing-key-file", "sa.key"),
            // Served APIs of others (metrics) are reached through these.
            ("requestheader-client-ca-file", "ca.crt"),
            ("proxy-client-cert-file", "front-proxy.crt"),
            ("proxy-client-key-file", "front-proxy.key"),
        ] {
            flags.push(format!("--{flag}={}", pki(file)));
        }
        for flag in [
            "--requestheader-allowed-names=front-proxy",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        ] {
            flags.push(flag.to_owned());
        }
        self.control("apiserver", "kube-apiserver", flags)
    }

    pub(super) fn controller_manager(&self) -> Unit {
        let config = self.state.part_kubeconfig("controller-manager");
        let flags = vec![
            format!("--kubeconfig={}", config.display()),
            format!("--root-ca-file={}", self.state.pki("ca.crt").display()),
            format!(
                "--cluster-signing-cert-file={}",
                self.state.pki("ca.crt").display()
            ),
            format!(
                "--cluster-signing-key-file={}",
                self.state.pki("ca.key").display()
            ),
            format!(
                "--service-account-private-key-file={}",
                self.state.pki("sa.key").display()
            ),
            format!("--cluster-cidr={POD_RANGES}"),
            // The pods' ranges are the network plugin's affair.
            "--allocate-node-cidrs=false".to_owned(),
            // With an account for each of them, the forty controllers would be
            // asked for one after the other at the client's usual rate, which
            // takes longer than all the rest of a start.
            "--use-service-account-credentials=false".to_owned(),
            "--leader-elect=false".to_owned(),
            // A node that is gone is noticed within a test's patience.
            "--node-monitor-grace-period=20s".to_owned(),
            format!("--controllers={}", self.controllers()),
        ];
        self.control("controller-manager", "kube-controller-manager", flags)
    }

    /// Lets the one account that all controllers share do what each of theirs
    /// could. It stays subject to the API server's limits, as they are.
    pub(super) fn controllers_rights() -> String {
        serde_json::json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": { "name": "napwake-dev-controllers" },
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "cluster-admin",
            },
            "subjects": [{
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "User",
                "name": "system:kube-controller-manager",
            }],
        })
        .to_string()
    }

    /// All of them; without nodes only those that remove what belongs to
    /// something deleted.
    fn controllers(&self) -> &'static str {
        if self.topology.nodes.is_empty() {
            "namespace-controller,garbage-collector-controller,serviceaccount-controller"
        } else {
            "*"
        }
    }

    pub(super) fn scheduler(&self) -> Unit {
        let config = self.state.part_kubeconfig("scheduler");
        let flags = vec![
            format!("--kubeconfig={}", config.display()),
            "--leader-elect=false".to_owned(),
        ];
        self.control("scheduler", "kube-scheduler", flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::name::ClusterName;
    use crate::cluster::settings::NodeCount;

    #[test]
    fn the_version_that_is_told_is_the_version_that_is_built() {
        let minor = KUBERNETES_VERSION.split('.').nth(1).unwrap();
        assert!(LDFLAGS.contains(&format!("gitVersion=v{KUBERNETES_VERSION} ")));
        assert!(LDFLAGS.ends_with(&format!("gitMinor={minor}")));
        let modules = include_str!("../../kube/go.mod");
        assert!(modules.contains(&format!("k8s.io/kubernetes v{KUBERNETES_VERSION}\n")));
    }

    #[test]
    fn the_api_server_listens_for_its_cluster_on_both_families() {
        let name = ClusterName::default();
        let topology = Topology::new(&name, NodeCount::Three);
        let state = State::below(Path::new("/state"), &name);
        let parts = Parts {
            state: &state,
            topology: &topology,
            built: Path::new("/cache/kube-1"),
        };
        let unit = parts.apiserver();
        assert_eq!(
            unit.argv[..2],
            ["/state/napwake-dev/bin/kube", "kube-apiserver"]
        );
        for flag in [
            "--advertise-address=10.0.0.254",
            "--service-cluster-ip-range=10.96.0.0/16,fd00:96::/112",
            "--tls-cert-file=/state/napwake-dev/pki/apiserver.crt",
        ] {
            assert!(unit.argv.iter().any(|have| have == flag), "{flag}");
        }
    }
}
