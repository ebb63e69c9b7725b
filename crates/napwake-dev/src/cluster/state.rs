//! The folder of a cluster: every file of it, and the lock that keeps two
//! commands from changing one cluster at once.
//!
//! It lies outside of any clone. What is to be found where is decided here only.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FlockOperation;

use super::ClusterError;
use super::name::ClusterName;
use super::settings::Settings;
use crate::files::{self, Access, failed};
use crate::progress::Progress;
use crate::wait::{self, Seen};

/// Where all clusters of this machine are kept.
const ROOT: &str = "/var/lib/napwake-dev";

/// How long a command waits for another one to finish with the same cluster.
const LOCK_WAIT: Duration = Duration::from_mins(10);

#[derive(Debug, Clone)]
pub(super) struct State {
    dir: PathBuf,
}

/// Held while a cluster is changed. The system lets go of it when the process
/// ends, however it ends.
#[must_use]
#[derive(Debug)]
pub(super) struct Lock {
    _dir: fs::File,
}

impl State {
    pub(super) fn of(name: &ClusterName) -> Self {
        Self::below(Path::new(ROOT), name)
    }

    pub(super) fn below(root: &Path, name: &ClusterName) -> Self {
        Self {
            dir: root.join(name.as_str()),
        }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn pki(&self, file: &str) -> PathBuf {
        self.dir.join("pki").join(file)
    }

    /// The administrator's kubeconfig.
    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.dir.join("admin.kubeconfig")
    }

    /// The kubeconfig of one part of the cluster.
    pub(super) fn part_kubeconfig(&self, part: &str) -> PathBuf {
        self.dir.join("pki").join(format!("{part}.kubeconfig"))
    }

    /// Programs that commands in the cluster find first in PATH.
    pub(super) fn bin(&self) -> PathBuf {
        self.dir.join("bin")
    }

    pub(super) fn kube(&self) -> PathBuf {
        self.bin().join("kube")
    }

    /// Runs a command in the cluster's network.
    pub(super) fn enter(&self) -> PathBuf {
        self.bin().join("enter")
    }

    pub(super) fn resolv_conf(&self) -> PathBuf {
        self.dir.join("resolv.conf")
    }

    pub(super) fn etcd(&self) -> PathBuf {
        self.dir.join("etcd")
    }

    pub(super) fn log(&self, unit: &str) -> PathBuf {
        self.dir.join("log").join(format!("{unit}.log"))
    }

    /// What is known of the running parts, one file each.
    pub(super) fn units(&self) -> PathBuf {
        self.dir.join("units")
    }

    /// The files of one node.
    pub(super) fn node(&self, node: &str) -> PathBuf {
        self.dir.join("nodes").join(node)
    }

    pub(super) fn containerd_socket(&self, node: &str) -> PathBuf {
        self.node(node).join("containerd/containerd.sock")
    }

    pub(super) fn exists(&self) -> bool {
        self.dir.exists()
    }

    pub(super) fn settings(&self) -> Result<Option<Settings>, ClusterError> {
        let path = self.dir.join("cluster.json");
        let Some(text) = files::read_if_there(&path)? else {
            return Ok(None);
        };
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|source| ClusterError::BadState { path, source })
    }

    pub(super) fn save_settings(&self, settings: Settings) -> Result<(), ClusterError> {
        let path = self.dir.join("cluster.json");
        let text = serde_json::to_string(&settings).map_err(|source| ClusterError::BadState {
            path: path.clone(),
            source,
        })?;
        Ok(files::write(&path, text, Access::Public)?)
    }

    /// Creates the folder if need be, and takes its lock.
    pub(super) fn lock(&self, progress: &Progress) -> Result<Lock, ClusterError> {
        let mut told = false;
        wait::until("another command on the same cluster", LOCK_WAIT, || {
            if let Some(lock) = self.try_lock()? {
                return Ok(Seen::Done(lock));
            }
            if !told {
                progress.line("waiting for another command on the same cluster…");
                told = true;
            }
            Ok(Seen::NotYet("it still runs".to_owned()))
        })
    }

    fn try_lock(&self) -> Result<Option<Lock>, ClusterError> {
        files::create_dir(&self.dir)?;
        let dir = fs::File::open(&self.dir).map_err(failed("open", &self.dir))?;
        match rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(failed("lock", &self.dir)(error.into()).into()),
        }
        // Whoever held the lock before may have removed the folder: then this
        // is the lock of a folder that nobody will look at again.
        let locked = dir.metadata().map_err(failed("look at", &self.dir))?.ino();
        let there = fs::metadata(&self.dir).map(|folder| folder.ino()).ok();
        Ok((there == Some(locked)).then_some(Lock { _dir: dir }))
    }

    /// Removes the folder, and the folder of all clusters after the last one.
    pub(super) fn remove(&self) -> Result<(), ClusterError> {
        files::remove_dir(&self.dir)?;
        let Some(root) = self.dir.parent() else {
            return Ok(());
        };
        match fs::remove_dir(root) {
            Err(error)
                if !matches!(
                    error.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotFound
                ) =>
            {
                Err(failed("remove", root)(error).into())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::settings::ProxyMode;

    fn state() -> (tempfile::TempDir, State) {
        let root = tempfile::tempdir().unwrap();
        let state = State::below(root.path(), &ClusterName::default());
        (root, state)
    }

    #[test]
    fn settings_are_found_again() {
        let (_root, state) = state();
        assert_eq!(state.settings().unwrap(), None);
        files::create_dir(state.dir()).unwrap();
        let settings = Settings {
            proxy: ProxyMode::Iptables,
            ..Settings::default()
        };
        state.save_settings(settings).unwrap();
        assert_eq!(state.settings().unwrap(), Some(settings));
    }

    #[test]
    fn a_lock_is_for_one_and_ends_with_its_holder() {
        let (_root, state) = state();
        let first = state.try_lock().unwrap();
        assert!(first.is_some());
        assert!(state.try_lock().unwrap().is_none());
        drop(first);
        assert!(state.try_lock().unwrap().is_some());
    }

    #[test]
    fn the_lock_of_a_removed_folder_keeps_nobody_out() {
        let (_root, state) = state();
        let before = state.try_lock().unwrap();
        files::remove_dir(state.dir()).unwrap();
        assert!(state.try_lock().unwrap().is_some());
        drop(before);
    }
}
