//! A cluster that is up: what other commands do with it.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::name::ClusterName;
use super::settings::Settings;
use super::state::State;
use super::topology::Topology;
use super::{ClusterError, containerd, must_be_root};
use crate::files;
use crate::run;

#[derive(Debug, Clone)]
pub struct Cluster {
    name: ClusterName,
    state: State,
    settings: Settings,
    topology: Topology,
}

impl Cluster {
    /// A cluster that `up` made. It may have lost parts since: `up` repairs it.
    pub fn open(name: &ClusterName) -> Result<Self, ClusterError> {
        let state = State::of(name);
        let settings = state
            .settings()?
            .ok_or_else(|| ClusterError::NotUp(name.clone()))?;
        Ok(Self::new(name.clone(), state, settings))
    }

    pub(super) fn new(name: ClusterName, state: State, settings: Settings) -> Self {
        let topology = Topology::new(&name, settings.nodes);
        Self {
            name,
            state,
            settings,
            topology,
        }
    }

    pub fn name(&self) -> &ClusterName {
        &self.name
    }

    pub fn settings(&self) -> Settings {
        self.settings
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    pub(super) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The administrator's kubeconfig. It works inside of the cluster's network.
    pub fn kubeconfig(&self) -> PathBuf {
        self.state.kubeconfig()
    }

    /// Names of the nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.topology.nodes.iter().map(|node| node.name.as_str())
    }

    /// What to put before a command so that it runs in the cluster's network
    /// with the cluster's kubectl, kubeconfig and name servers: fit for Cargo's
    /// runner setting.
    pub fn netns_runner_args(&self) -> Vec<String> {
        vec![self.state.enter().display().to_string()]
    }

    /// A command in the cluster's network, ready to get its arguments.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(self.state.enter());
        command.arg(program);
        command
    }

    pub fn kubectl(&self) -> Command {
        self.command("kubectl")
    }

    /// Makes the objects of one of our own files what the file says. It is not
    /// validated first, which would take longer than all the rest.
    pub(super) fn apply(&self, file: &Path) -> Result<(), ClusterError> {
        let mut apply = self.kubectl();
        apply.args([
            "apply",
            "--server-side",
            "--force-conflicts",
            "--validate=false",
        ]);
        Ok(run::check(apply.arg("-f").arg(file))?)
    }

    /// Becomes the command, in the cluster's network. Returns only if it can't.
    pub fn exec<S: AsRef<OsStr>>(&self, argv: &[S]) -> ClusterError {
        if let Err(error) = must_be_root() {
            return error;
        }
        let source = Command::new(self.state.enter()).args(argv).exec();
        ClusterError::Start {
            name: self.state.enter().display().to_string(),
            source,
        }
    }

    /// Puts a program where commands in the cluster's network find it.
    pub fn add_program(&self, program: &Path) -> Result<(), ClusterError> {
        let name = program.file_name().unwrap_or_default();
        Ok(files::link_or_copy(program, &self.state.bin().join(name))?)
    }

    /// Who wrote what, where the cluster's audit is on: a JSON object a line.
    pub fn audit_log(&self) -> PathBuf {
        self.state.log("audit")
    }

    /// A file of the cluster's own, which goes when the cluster goes.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.state.dir().join(name)
    }

    /// Puts the image of an OCI archive into every node.
    pub fn load_image(&self, archive: &Path) -> Result<(), ClusterError> {
        for node in &self.topology.nodes {
            containerd::import(&self.state, node, archive)?;
        }
        Ok(())
    }
}
