//! The one program that all of Kubernetes is here (or ready-made ones, for a
//! control plane alone), and how the control plane's parts are started.

use std::path::{Path, PathBuf};

use super::ClusterError;
use super::settings::{Audit, NodeCount, Slices};
use super::state::State;
use super::topology::{POD_RANGES, SERVICE_RANGES, Topology};
use super::units::Unit;
use crate::files::{self, failed};
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

/// A folder of ready-made programs, as other tools for tests know it, too.
const READY_MADE: &str = "KUBEBUILDER_ASSETS";
const CONTROLLERS: &str = "kube-controller-manager";

/// Writes, but for the signs of life that everybody gives all the time.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: None
  resources:
  - {group: coordination.k8s.io}
  - {group: authentication.k8s.io}
  - {group: authorization.k8s.io}
- level: Metadata
  verbs: [create, update, patch, delete]
";

/// Where the parts' programs come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Programs {
    /// One program of ours that is every part, by its first argument.
    Built(PathBuf),
    /// A folder of one program for each part: an API server and etcd, often
    /// nothing else.
    ReadyMade(PathBuf),
}

impl Programs {
    /// Builds the program, unless there are ready-made ones and the cluster has
    /// no nodes, for which they wouldn't do.
    pub(super) fn get(nodes: NodeCount, progress: &Progress) -> Result<Self, ClusterError> {
        let folder = std::env::var_os(READY_MADE).map(PathBuf::from);
        match folder.filter(|folder| nodes == NodeCount::Zero && !folder.as_os_str().is_empty()) {
            Some(folder) => Self::ready_made(&folder, progress),
            None => Ok(Self::Built(build(progress)?)),
        }
    }

    fn ready_made(folder: &Path, progress: &Progress) -> Result<Self, ClusterError> {
        let folder = std::path::absolute(folder).map_err(failed("look at", folder))?;
        for program in ["etcd", "kube-apiserver"] {
            if !folder.join(program).is_file() {
                return Err(ClusterError::NotReadyMade {
                    variable: READY_MADE,
                    program: folder.join(program),
                });
            }
        }
        let programs = Self::ReadyMade(folder);
        if !programs.have_controllers() {
            progress.line(format_args!(
                "no {CONTROLLERS} in {READY_MADE}: deleted namespaces stay, and so does what \
                 belongs to something deleted"
            ));
        }
        Ok(programs)
    }

    pub(super) fn have_controllers(&self) -> bool {
        match self {
            Self::Built(_) => true,
            Self::ReadyMade(folder) => folder.join(CONTROLLERS).is_file(),
        }
    }

    /// Puts the programs into the cluster's folder: the cache may be emptied.
    pub(super) fn install(&self, state: &State) -> Result<(), ClusterError> {
        let kubectl = state.bin().join("kubectl");
        match self {
            Self::Built(built) => {
                files::link_or_copy(built, &state.kube())?;
                files::remove(&kubectl)?;
                std::os::unix::fs::symlink("kube", &kubectl).map_err(failed("link", &kubectl))?;
            }
            Self::ReadyMade(folder) => {
                for program in ["etcd", "kube-apiserver", CONTROLLERS, "kubectl"] {
                    if folder.join(program).is_file() {
                        files::link_or_copy(&folder.join(program), &state.bin().join(program))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// How a part is started.
    fn argv(&self, state: &State, part: &str) -> Vec<String> {
        let bin = |program: &str| state.bin().join(program).display().to_string();
        match self {
            Self::Built(_) => vec![bin("kube"), part.to_owned()],
            Self::ReadyMade(_) => vec![bin(part)],
        }
    }

    /// What they are: the folder of what was built names what it was built from.
    pub(super) fn build(&self) -> String {
        let (Self::Built(path) | Self::ReadyMade(path)) = self;
        path.display().to_string()
    }
}

/// Builds the program, or finds the one built before.
fn build(progress: &Progress) -> Result<PathBuf, ToolError> {
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
    pub(super) programs: &'a Programs,
}

impl Parts<'_> {
    /// A part in the control plane's network.
    fn control(&self, name: &str, part: &str, flags: Vec<String>) -> Unit {
        let mut argv = self.programs.argv(self.state, part);
        argv.extend(flags);
        Unit {
            name: name.to_owned(),
            netns: self.topology.control.clone(),
            argv,
            files: Vec::new(),
            build: self.programs.build(),
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

    pub(super) fn apiserver(&self, audit: Audit) -> Unit {
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
        if !self.programs.have_controllers() {
            // Nobody makes the accounts that pods would have to have.
            flags.push("--disable-admission-plugins=ServiceAccount".to_owned());
        }
        for flag in [
            "--requestheader-allowed-names=front-proxy",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        ] {
            flags.push(flag.to_owned());
        }
        let mut unit = self.control("apiserver", "kube-apiserver", flags);
        if audit == Audit::On {
            self.add_audit(&mut unit);
        }
        unit
    }

    /// Writes are logged beside the requests, not while they wait.
    fn add_audit(&self, apiserver: &mut Unit) {
        let policy = self.state.dir().join("audit-policy.yaml");
        let log = self.state.log("audit");
        apiserver.argv.extend([
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", log.display()),
            "--audit-log-mode=batch".to_owned(),
        ]);
        apiserver.files.push((policy, AUDIT_POLICY.to_owned()));
    }

    pub(super) fn controller_manager(&self, slices: Slices) -> Unit {
        let config = self.state.part_kubeconfig("controller-manager");
        let mut flags = vec![
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
        if slices == Slices::Late {
            // From a pod's first change on, its later ones wait for it.
            flags.push("--endpointslice-updates-batch-period=1500ms".to_owned());
        }
        self.control("controller-manager", CONTROLLERS, flags)
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

    fn apiserver(programs: &Programs, nodes: NodeCount) -> Unit {
        let name = ClusterName::default();
        let topology = Topology::new(&name, nodes);
        let state = State::below(Path::new("/state"), &name);
        let parts = Parts {
            state: &state,
            topology: &topology,
            programs,
        };
        parts.apiserver(Audit::Off)
    }

    #[test]
    fn the_api_server_listens_for_its_cluster_on_both_families() {
        let unit = apiserver(&Programs::Built("/cache/kube-1".into()), NodeCount::Three);
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

    #[test]
    fn what_is_audited_stands_in_a_policy_of_the_clusters_own() {
        let name = ClusterName::default();
        let parts = Parts {
            state: &State::below(Path::new("/state"), &name),
            topology: &Topology::new(&name, NodeCount::One),
            programs: &Programs::Built("/cache/kube-1".into()),
        };
        let unit = parts.apiserver(Audit::On);
        let (path, text) = &unit.files[0];
        assert!(
            unit.argv
                .contains(&format!("--audit-policy-file={}", path.display()))
        );
        assert!(path.starts_with("/state/napwake-dev"));
        let policy: serde_json::Value = serde_saphyr::from_str(text).unwrap();
        assert_eq!(policy["rules"][1]["level"], "Metadata");
        assert!(parts.apiserver(Audit::Off).files.is_empty());
    }

    /// A folder of programs, as they are handed out ready made.
    fn folder(programs: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for program in programs {
            files::write(&folder.path().join(program), "", files::Access::Program).unwrap();
        }
        folder
    }

    #[test]
    fn ready_made_programs_are_run_by_their_own_names() {
        let folder = folder(&["etcd", "kube-apiserver"]);
        let programs = Programs::ready_made(folder.path(), &Progress::new()).unwrap();
        assert!(!programs.have_controllers());
        let unit = apiserver(&programs, NodeCount::Zero);
        assert_eq!(unit.argv[0], "/state/napwake-dev/bin/kube-apiserver");
        let without = "--disable-admission-plugins=ServiceAccount";
        assert!(unit.argv.iter().any(|have| have == without));
    }

    #[test]
    fn a_folder_that_lacks_a_program_is_named() {
        let folder = folder(&["etcd"]);
        let error = Programs::ready_made(folder.path(), &Progress::new()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("KUBEBUILDER_ASSETS") && text.contains("/kube-apiserver"));
    }
}
