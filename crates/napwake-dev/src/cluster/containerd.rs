//! A node's container runtime: its configuration, and images put into it.

use std::path::Path;
use std::process::Command;

use super::ClusterError;
use super::state::State;
use super::topology::Node;
use super::units::Unit;
use crate::files;
use crate::image::base::PAUSE;
use crate::run;

/// Copies layers instead of mounting them: works on every file system.
const SNAPSHOTTER: &str = "native";

/// The plugins' folder of Debian, and that of most others.
pub(super) const PLUGIN_FOLDERS: [&str; 2] = ["/usr/lib/cni", "/opt/cni/bin"];

pub(super) fn unit_name(node: &Node) -> String {
    format!("{}-containerd", node.name)
}

pub(super) fn unit(state: &State, node: &Node) -> Unit {
    let folder = state.node(&node.name);
    let config = folder.join("containerd.toml");
    Unit {
        name: unit_name(node),
        netns: node.netns.clone(),
        argv: vec![
            "containerd".to_owned(),
            "-c".to_owned(),
            config.display().to_string(),
        ],
        files: vec![(config, render(state, node, plugin_folder()))],
        build: String::new(),
    }
}

fn plugin_folder() -> &'static str {
    let holds_bridge = |folder: &&&str| Path::new(folder).join("bridge").exists();
    PLUGIN_FOLDERS
        .iter()
        .find(holds_bridge)
        .unwrap_or(&PLUGIN_FOLDERS[0])
}

fn render(state: &State, node: &Node, plugins: &str) -> String {
    let folder = state.node(&node.name);
    let folder = folder.display();
    format!(
        r#"version = 2
root = "{folder}/containerd/root"
state = "{folder}/containerd/state"

[grpc]
address = "{socket}"

[plugins."io.containerd.internal.v1.opt"]
path = "{folder}/containerd/opt"

[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
# Raising a score back up needs a right that many build machines don't have.
restrict_oom_score_adj = true
# The pods' network namespaces go away with the node's folder.
netns_mounts_under_state_dir = true

[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{folder}/cni"

[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "{SNAPSHOTTER}"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"#,
        socket = state.containerd_socket(&node.name).display(),
    )
}

/// Whether the runtime answers.
pub(super) fn is_ready(state: &State, node: &Node) -> Result<bool, ClusterError> {
    Ok(run::succeeds(ctr(state, node).arg("version"))?)
}

/// Puts an OCI archive into the node, under the name it gives itself.
pub(super) fn import(state: &State, node: &Node, archive: &Path) -> Result<(), ClusterError> {
    let mut command = ctr(state, node);
    command
        .args(["images", "import", "--snapshotter", SNAPSHOTTER])
        .arg(archive);
    Ok(run::check(&mut command)?)
}

/// Whether the node has an image of this name.
pub(super) fn has_image(state: &State, node: &Node, name: &str) -> Result<bool, ClusterError> {
    let mut command = ctr(state, node);
    command.args(["images", "list", "--quiet"]);
    let all = run::output(command.arg(format!("name=={name}")))?;
    Ok(all.lines().any(|line| line == name))
}

fn ctr(state: &State, node: &Node) -> Command {
    let mut command = Command::new("ctr");
    command.args(["--namespace", "k8s.io", "--address"]);
    command.arg(state.containerd_socket(&node.name));
    command
}

/// The containers that the node's folder knows of, running or not, by their ids.
///
/// One that was being made or taken away when the runtime was killed may be
/// known in some of the places only.
pub(super) fn containers(
    state: &State,
    node_folder: &Path,
) -> Result<Vec<Container>, ClusterError> {
    debug_assert!(node_folder.starts_with(state.dir()));
    let tasks = "state/io.containerd.runtime.v2.task/k8s.io";
    let containers = "root/io.containerd.grpc.v1.cri/containers";
    let sandboxes = "root/io.containerd.grpc.v1.cri/sandboxes";
    let mut all: Vec<Container> = Vec::new();
    for place in [tasks, containers, sandboxes] {
        for folder in files::list(&node_folder.join("containerd").join(place))? {
            let Some(id) = folder.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            if all.iter().any(|known| known.id == id) {
                continue;
            }
            let address = files::read_if_there(&folder.join("address"))?;
            let shim_socket =
                address.and_then(|text| Some(text.trim().strip_prefix("unix://")?.into()));
            all.push(Container {
                id: id.to_owned(),
                shim_socket,
            });
        }
    }
    Ok(all)
}

/// A container as its node's folder knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Container {
    pub(super) id: String,
    /// Where its shim listens; the socket lies outside of the node's folder.
    pub(super) shim_socket: Option<std::path::PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::name::ClusterName;
    use crate::cluster::settings::NodeCount;
    use crate::cluster::topology::Topology;
    use crate::files::Access;

    fn node() -> Node {
        Topology::new(&ClusterName::default(), NodeCount::One)
            .nodes
            .remove(0)
    }

    #[test]
    fn nothing_of_a_node_lies_outside_of_its_folder() {
        let state = State::below(Path::new("/state"), &ClusterName::default());
        let text = render(&state, &node(), "/usr/lib/cni");
        let paths = text.split('"').filter(|text| text.starts_with('/'));
        for path in paths {
            let own = path.starts_with("/state/napwake-dev/nodes/n1/");
            assert!(own || path == "/usr/lib/cni", "{path}");
        }
        assert!(text.contains("restrict_oom_score_adj = true"));
    }

    #[test]
    fn containers_are_known_by_what_the_runtime_keeps_of_them() {
        let root = tempfile::tempdir().unwrap();
        let state = State::below(root.path(), &ClusterName::default());
        let folder = state.node("n1");
        let tasks = folder.join("containerd/state/io.containerd.runtime.v2.task/k8s.io");
        files::create_dir(&tasks.join("abc")).unwrap();
        let sandboxes = folder.join("containerd/root/io.containerd.grpc.v1.cri/sandboxes");
        files::create_dir(&sandboxes.join("abc")).unwrap();
        files::create_dir(&sandboxes.join("def")).unwrap();
        let address = tasks.join("abc/address");
        files::write(&address, "unix:///run/containerd/s/1234", Access::Public).unwrap();
        let found = containers(&state, &folder).unwrap();
        assert_eq!(
            found,
            [
                Container {
                    id: "abc".to_owned(),
                    shim_socket: Some("/run/containerd/s/1234".into())
                },
                Container {
                    id: "def".to_owned(),
                    shim_socket: None
                },
            ]
        );
    }
}
