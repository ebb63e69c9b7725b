//! What containers leave outside of the cluster's folder: processes, cgroups,
//! and files in folders that all runtimes of a machine share.
//!
//! Everything is found by the ids of the cluster's own containers, or because it
//! names the cluster's folder.

use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use super::ClusterError;
use super::containerd::Container;
use super::process::Identity;
use super::state::State;
use crate::files::{self, FileError};
use crate::wait::{self, Seen};

/// The runtime's namespace for Kubernetes, which is also the name of its folders.
pub(super) const NAMESPACE: &str = "k8s.io";
const SHARED_LOG_LINKS: &str = "/var/log/containers";
/// Where kubelets wait for drivers of devices, whatever their own folder.
const DEVICE_SOCKET: &str = "/var/lib/kubelet/device-plugins/kubelet.sock";
/// Where the library of the network plugins notes what they did.
const PLUGIN_RESULTS: &str = "/var/lib/cni/results";

/// Kills every process in the containers. Waits until they are gone.
pub(super) fn kill(containers: &[Container]) -> Result<(), ClusterError> {
    wait::until("the containers to end", Duration::from_secs(20), || {
        let mut left = 0;
        for cgroup in containers
            .iter()
            .flat_map(|container| cgroups(&container.id))
        {
            for process in members(&cgroup) {
                process.signal(Signal::KILL);
                left += 1;
            }
        }
        Ok(if left == 0 {
            Seen::Done(())
        } else {
            Seen::NotYet(format!("{left} processes"))
        })
    })
}

/// Removes the sockets of shims that were killed: the runtime forgets them with
/// the containers, and then nobody knows whose they were.
pub(super) fn remove_dead_shims(containers: &[Container]) -> Result<(), ClusterError> {
    for socket in containers
        .iter()
        .filter_map(|container| container.shim_socket.as_deref())
    {
        remove_stale_socket(socket)?;
    }
    Ok(())
}

/// Removes what is left once nothing of the cluster runs any more.
pub(super) fn remove(state: &State, containers: &[Container]) -> Result<(), ClusterError> {
    for container in containers {
        for cgroup in cgroups(&container.id) {
            remove_cgroup(&cgroup);
        }
        let runc = Path::new("/run/containerd/runc")
            .join(NAMESPACE)
            .join(&container.id);
        files::remove_dir(&runc)?;
        if let Some(socket) = &container.shim_socket {
            files::remove(socket)?;
        }
    }
    for result in files::list(Path::new(PLUGIN_RESULTS))? {
        let text = files::read_if_there(&result)?.unwrap_or_default();
        if tells_of(&text, state.dir()) {
            files::remove(&result)?;
        }
    }
    for link in files::list(Path::new(SHARED_LOG_LINKS))? {
        if fs::read_link(&link).is_ok_and(|target| target.starts_with(state.dir())) {
            files::remove(&link)?;
        }
    }
    remove_stale_socket(Path::new(DEVICE_SOCKET))?;
    remove_empty_parents();
    Ok(())
}

/// A result names the network namespace it was for, which lies in the folder of
/// its node.
fn tells_of(result: &str, folder: &Path) -> bool {
    result.contains(&format!("\"sandbox\":\"{}/", folder.display()))
}

/// The container's cgroups: one in each hierarchy, or one in all.
fn cgroups(id: &str) -> Vec<PathBuf> {
    hierarchies()
        .into_iter()
        .map(|hierarchy| hierarchy.join(NAMESPACE).join(id))
        .filter(|cgroup| cgroup.is_dir())
        .collect()
}

pub(super) fn hierarchies() -> Vec<PathBuf> {
    let root = PathBuf::from("/sys/fs/cgroup");
    let mut all = vec![root.clone()];
    // With version 1 several names may link to one hierarchy.
    let entries = files::list(&root).unwrap_or_default();
    all.extend(
        entries
            .into_iter()
            .filter(|path| path.is_dir() && !path.is_symlink()),
    );
    all
}

/// Processes in the cgroup. One whose pid changes hands meanwhile is a process
/// of the cgroup or isn't signaled: membership is asked again by its identity.
fn members(cgroup: &Path) -> Vec<Identity> {
    let pids = || -> Vec<i32> {
        let text = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    };
    let first: Vec<Identity> = pids().into_iter().filter_map(Identity::of).collect();
    let still = pids();
    first
        .into_iter()
        .filter(|process| still.contains(&process.pid()))
        .collect()
}

/// A cgroup is a folder whose files go away with it, and whose parts go first.
fn remove_cgroup(cgroup: &Path) {
    for part in files::list(cgroup).unwrap_or_default() {
        if part.is_dir() {
            remove_cgroup(&part);
        }
    }
    // The kernel may take a moment to see that its last process has ended.
    let removed: Result<(), wait::TimedOut> =
        wait::until("a cgroup to be empty", Duration::from_secs(2), || {
            Ok(match fs::remove_dir(cgroup) {
                Ok(()) => Seen::Done(()),
                Err(_) if !cgroup.exists() => Seen::Done(()),
                Err(error) => Seen::NotYet(error.to_string()),
            })
        });
    // An empty cgroup that stays costs nothing and stops nobody.
    drop(removed);
}

/// A kubelet leaves its socket behind. If one listens there, it is another's.
fn remove_stale_socket(socket: &Path) -> Result<(), FileError> {
    match UnixStream::connect(socket) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => files::remove(socket),
        _ => Ok(()),
    }
}

/// Folders that all runtimes share go with the last of their contents.
fn remove_empty_parents() {
    let cgroups = hierarchies()
        .into_iter()
        .map(|hierarchy| hierarchy.join(NAMESPACE));
    let folders = [
        "/run/containerd/runc/k8s.io",
        "/run/containerd/runc",
        "/run/containerd/s",
        "/run/containerd",
        PLUGIN_RESULTS,
        "/var/lib/cni",
        "/var/lib/kubelet/device-plugins",
        "/var/lib/kubelet",
        SHARED_LOG_LINKS,
    ];
    for folder in folders.into_iter().map(PathBuf::from).chain(cgroups) {
        // Fails where something is in it, which is meant.
        let _kept = fs::remove_dir(folder);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/var/lib/napwake-dev/a/nodes/n1/containerd/state/netns/cni-1", true)]
    #[case("/var/lib/napwake-dev/ab/nodes/n1/containerd/state/netns/cni-1", false)]
    #[case("/var/run/netns/cni-1", false)]
    fn another_clusters_results_are_not_ours(#[case] sandbox: &str, #[case] ours: bool) {
        let result = format!(r#"{{"result":{{"interfaces":[{{"sandbox":"{sandbox}"}}]}}}}"#);
        assert_eq!(tells_of(&result, Path::new("/var/lib/napwake-dev/a")), ours);
    }

    #[test]
    fn only_a_socket_without_a_listener_is_stale() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        remove_stale_socket(&socket).unwrap();
        assert!(socket.exists());
        drop(listener);
        remove_stale_socket(&socket).unwrap();
        assert!(!socket.exists());
    }

    #[test]
    fn a_process_is_found_in_its_own_cgroup_only() {
        assert!(members(Path::new("/sys/fs/cgroup/napwake-no-such-group")).is_empty());
        assert!(cgroups("napwake-no-such-container").is_empty());
    }
}
