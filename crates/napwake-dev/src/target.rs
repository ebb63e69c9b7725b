//! The cluster that a command works on: the development cluster, or one of the
//! user's own, named by a context of the user's kubeconfig.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::cluster::{Cluster, ClusterError};
use crate::files::{self, Access, FileError};
use crate::run::{self, RunError};
use crate::tools::packages::find_program;
use crate::workspace;

/// How long a Service of the cluster gets to accept a connection.
const REACH: Duration = Duration::from_secs(3);

#[derive(Debug, Clone)]
pub enum Target {
    Dev(Cluster),
    /// A context of the user's kubeconfig (kind, k3d, minikube, anything).
    Context(String),
}

#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(
        "don't know how to put an image into the cluster of the context {0}: it is none of kind's, \
         k3d's, minikube's, or k3s on this machine; push {1} to a registry it can pull from, and \
         name that in the values"
    )]
    NoLoader(String, String),
    #[error(
        "can't reach the Services of the cluster of the context {context} from here (tried \
         {tried}, the API server's): run this on one of its nodes, or without --context in the \
         development cluster"
    )]
    NoServices { context: String, tried: String },
}

impl Target {
    /// kubectl for this cluster, ready to get its arguments.
    pub fn kubectl(&self) -> Command {
        match self {
            Self::Dev(cluster) => cluster.kubectl(),
            Self::Context(name) => {
                let mut kubectl = Command::new("kubectl");
                kubectl.args(["--context", name]);
                kubectl
            }
        }
    }

    /// Helm for this cluster, given where Helm is.
    pub fn helm(&self, helm: &Path) -> Command {
        match self {
            Self::Dev(cluster) => cluster.command(helm),
            Self::Context(name) => {
                let mut command = Command::new(helm);
                command.args(["--kube-context", name]);
                command
            }
        }
    }

    /// A command that reaches the cluster's Services by their addresses, if
    /// that is possible from here.
    pub fn inside(&self, program: &str) -> Option<Command> {
        match self {
            Self::Dev(cluster) => Some(cluster.command(program)),
            Self::Context(_) => None,
        }
    }

    /// Puts the image of an OCI archive into every node.
    pub fn load_image(&self, archive: &Path) -> Result<(), TargetError> {
        match self {
            Self::Dev(cluster) => Ok(cluster.load_image(archive)?),
            Self::Context(name) => {
                let file = archive.display().to_string();
                let words = loader(name, &file)
                    .or_else(|| self.is_k3s_here().then(|| k3s_loader(&file)))
                    .ok_or_else(|| TargetError::NoLoader(name.clone(), file.clone()))?;
                let (program, arguments) = (words[0], &words[1..]);
                Ok(run::check(Command::new(program).args(arguments))?)
            }
        }
    }
}

impl Target {
    /// A kubeconfig that leads to this cluster and no other, for programs that
    /// are given no context. It holds what the user's own says of it.
    pub fn kubeconfig(&self) -> Result<PathBuf, TargetError> {
        match self {
            Self::Dev(cluster) => Ok(cluster.kubeconfig()),
            Self::Context(_) => {
                let mut view = self.kubectl();
                let text = run::output(view.args(["config", "view", "--minify", "--flatten"]))?;
                let folder = workspace::target().join("context");
                files::create_dir(&folder)?;
                let file = folder.join("kubeconfig");
                files::write(&file, text, Access::Secret)?;
                Ok(file)
            }
        }
    }

    /// Refuses a cluster whose Services can't be reached from this machine.
    pub fn must_reach_services(&self) -> Result<(), TargetError> {
        let Self::Context(context) = self else {
            return Ok(());
        };
        let mut get = self.kubectl();
        get.args(["get", "service", "kubernetes", "--namespace=default"]);
        let address = run::output(get.arg("--output=jsonpath={.spec.clusterIP}"))?;
        if answers(&address, 443) {
            return Ok(());
        }
        Err(TargetError::NoServices {
            context: context.clone(),
            tried: format!("{address} port 443"),
        })
    }

    /// Whether the cluster is a k3s of this machine.
    fn is_k3s_here(&self) -> bool {
        let mut get = self.kubectl();
        get.args(["get", "nodes"]);
        get.arg("--output=jsonpath={.items[*].status.nodeInfo.kubeletVersion}");
        find_program("k3s").is_some()
            && run::output(&mut get).is_ok_and(|versions| versions.contains("+k3s"))
    }
}

/// Whether something at the address accepts a connection.
fn answers(address: &str, port: u16) -> bool {
    address.parse::<IpAddr>().is_ok_and(|ip| {
        let place = SocketAddr::new(ip, port);
        TcpStream::connect_timeout(&place, REACH).is_ok()
    })
}

fn k3s_loader(file: &str) -> Vec<&str> {
    vec!["k3s", "ctr", "images", "import", file]
}

/// The command that puts an archive into the cluster of a context, by the way
/// the tools that make clusters name their contexts.
fn loader<'a>(context: &'a str, file: &'a str) -> Option<Vec<&'a str>> {
    if let Some(name) = context.strip_prefix("kind-") {
        return Some(vec!["kind", "load", "image-archive", file, "--name", name]);
    }
    if let Some(name) = context.strip_prefix("k3d-") {
        return Some(vec!["k3d", "image", "import", file, "--cluster", name]);
    }
    (context == "minikube").then(|| vec!["minikube", "image", "load", file])
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("kind-demo", Some("kind load image-archive f.tar --name demo"))]
    #[case("k3d-demo", Some("k3d image import f.tar --cluster demo"))]
    #[case("minikube", Some("minikube image load f.tar"))]
    #[case("production", None)]
    fn a_context_tells_how_images_get_in(#[case] context: &str, #[case] command: Option<&str>) {
        assert_eq!(
            loader(context, "f.tar")
                .map(|words| words.join(" "))
                .as_deref(),
            command
        );
    }

    #[test]
    fn what_accepts_a_connection_answers() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(answers("127.0.0.1", port));
        assert!(!answers("None", port), "a headless Service has no address");
        drop(listener);
        assert!(!answers("127.0.0.1", port));
    }

    #[test]
    fn a_context_is_named_on_every_command() {
        let target = Target::Context("kind-demo".to_owned());
        let words = |command: Command| -> Vec<String> {
            command
                .get_args()
                .map(|word| word.to_string_lossy().into_owned())
                .collect()
        };
        assert_eq!(words(target.kubectl()), ["--context", "kind-demo"]);
        assert_eq!(
            words(target.helm(Path::new("helm"))),
            ["--kube-context", "kind-demo"]
        );
        assert!(target.inside("curl").is_none());
    }
}
