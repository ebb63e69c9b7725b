//! The development cluster: a real Kubernetes in network namespaces of this
//! machine, that test traffic can't leave.
//!
//! `up` makes the cluster what it should be, whatever it finds; `down` takes
//! everything away. Neither ever touches a process, a mount or a namespace that
//! isn't the cluster's own.

mod addon;
mod cni;
mod containerd;
mod down;
mod enter;
mod handle;
mod kube_parts;
mod kubelet;
mod leftovers;
mod mounts;
mod name;
mod net;
mod pki;
mod process;
mod proxy;
mod ready;
mod settings;
mod shares;
mod state;
mod status;
mod topology;
mod units;
mod up;

use std::io;
use std::path::PathBuf;

pub use down::down;
pub use handle::Cluster;
pub use kube_parts::KUBERNETES_VERSION;
pub use name::{ClusterName, DEFAULT_NAME, NameError};
pub use settings::{
    Audit, Dns, NodeCount, Policies, ProxyMode, Settings, Slices, UnknownWord, Wish,
};
pub use status::{Status, status};
pub use up::up;

use crate::files::FileError;
use crate::image::oci::OciError;
use crate::run::RunError;
use crate::tools::ToolError;
use crate::wait::TimedOut;

#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error(
        "the development cluster needs root: it makes network namespaces, mounts and cgroups \
         (`cargo xtask install --context NAME`, for a cluster of your own, needs none)"
    )]
    NotRoot,
    #[error("there is no cluster {0}; `cargo xtask cluster up{flag}` makes it", flag = .0.flag())]
    NotUp(ClusterName),
    #[error(
        "a network namespace {0} is there that is not of this cluster; if nothing needs it, \
         `ip netns delete {0}`"
    )]
    ForeignNetwork(String),
    #[error(transparent)]
    Settings(#[from] settings::Unsettled),
    #[error("{} can't be read or written as JSON", path.display())]
    BadState {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{variable} is to hold ready-made programs, but there is no {}", program.display())]
    NotReadyMade {
        variable: &'static str,
        program: PathBuf,
    },
    #[error("kubectl's answer is not JSON")]
    BadAnswer { source: serde_json::Error },
    #[error("can't start {name}")]
    Start { name: String, source: io::Error },
    #[error("{name} has ended (its log: {}): {last_words}", log.display())]
    PartEnded {
        name: String,
        log: PathBuf,
        last_words: String,
    },
    #[error("{name} does not work; last seen:\n{seen}")]
    AddonNotReady {
        name: &'static str,
        source: RunError,
        seen: String,
    },
    #[error("these mounts could not be taken away, so no file was removed: {0}")]
    StillMounted(String),
    #[error("can't make the cluster's certificates")]
    Certificate(#[from] rcgen::Error),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error(transparent)]
    Image(#[from] OciError),
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
}

fn must_be_root() -> Result<(), ClusterError> {
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err(ClusterError::NotRoot)
    }
}
