//! Taking a cluster away, in whatever state it is.
//!
//! In this order: what starts containers, the containers, the rest, mounts,
//! namespaces, files. A run that is cut off can be done again; the folder, which
//! says what else there is, goes last.

use super::containerd::{self, Container};
use super::name::ClusterName;
use super::state::State;
use super::topology::Topology;
use super::units;
use super::{ClusterError, leftovers, mounts, must_be_root, net};
use crate::files;
use crate::progress::Progress;

/// What there was to take away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Downed {
    TakenAway,
    NothingThere,
}

pub fn down(name: &ClusterName, progress: &Progress) -> Result<Downed, ClusterError> {
    must_be_root()?;
    let state = State::of(name);
    if !state.exists() {
        progress.line(format_args!("there is no cluster {name}"));
        return Ok(Downed::NothingThere);
    }
    let _lock = state.lock(progress)?;
    progress.line(format_args!("taking the cluster {name} away…"));
    units::stop(&state, |part| {
        part.ends_with("-kubelet") || part.ends_with("-proxy")
    })?;
    let containers = containers(&state)?;
    leftovers::kill(&containers)?;
    // etcd outlives those who would wait for it.
    units::stop(&state, |part| part != "etcd")?;
    units::stop(&state, |_| true)?;
    units::sweep(&state);
    mounts::remove_below(state.dir())?;
    leftovers::remove(&state, &containers)?;
    if let Some(settings) = state.settings()? {
        net::remove(&Topology::new(name, settings.nodes))?;
    }
    state.remove()?;
    progress.line(format_args!("cluster {name} is gone"));
    Ok(Downed::TakenAway)
}

/// The containers of all nodes.
fn containers(state: &State) -> Result<Vec<Container>, ClusterError> {
    let mut all = Vec::new();
    for node in files::list(&state.dir().join("nodes"))? {
        all.extend(containerd::containers(state, &node)?);
    }
    Ok(all)
}
