//! Whether the cluster's name server answers where everybody asks it.

use std::time::Duration;

use super::super::ClusterError;
use super::super::handle::Cluster;
use super::super::topology::API_SERVICE;
use crate::run::{self, RunError};
use crate::wait::{self, Seen};

/// A name that every cluster has.
const NAME: &str = "kubernetes.default.svc.cluster.local";
const BOUND: Duration = Duration::from_mins(1);

/// Waits until a command in the cluster's network finds a Service by its name.
pub(super) fn wait(cluster: &Cluster) -> Result<(), ClusterError> {
    wait::until("name resolution", BOUND, || {
        let answer = run::output(cluster.command("getent").args(["ahostsv4", NAME]));
        Ok(match answer {
            Ok(text) if text.contains(API_SERVICE[0]) => Seen::Done(()),
            Ok(text) => Seen::NotYet(format!("{NAME} is {text}")),
            Err(RunError::Failed { status, .. }) => {
                Seen::NotYet(format!("{NAME} is not found ({status})"))
            }
            Err(other) => return Err(other.into()),
        })
    })
}
