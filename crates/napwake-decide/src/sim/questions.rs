//! What tests of several modules ask of the cluster.

use jiff::Timestamp;
use napwake_api::{
    condition::{self, ConditionType},
    workload::{ActivitySource, RouteState},
};

use super::{Cluster, objects};

/// A cluster whose workload `api`, of 3 replicas, is Paused and routed.
pub(crate) fn paused() -> Cluster {
    pause_with(|_| {})
}

/// Pauses `api` in a cluster changed by `change`, and forgets what was written.
pub(crate) fn pause_with(change: impl FnOnce(&mut Cluster)) -> Cluster {
    let mut cluster = objects::running();
    change(&mut cluster);
    cluster.pause("api");
    cluster.log.clear();
    cluster
}

/// The reason of a condition of `api`.
pub(crate) fn reason(cluster: &Cluster, type_: ConditionType) -> String {
    condition::get(&cluster.status("api").conditions, type_)
        .map(|known| known.reason.clone())
        .unwrap_or_default()
}

/// The source of the newest activity of `api`.
pub(crate) fn source(cluster: &Cluster) -> ActivitySource {
    let clock = cluster.status("api").clock.as_ref();
    clock.expect("a clock").last_activity_source
}

/// What `api` turned away: of which pause, and how many.
pub(crate) fn turned_away(cluster: &Cluster) -> Option<(Timestamp, i64)> {
    let known = cluster.status("api").turned_away.as_ref()?;
    Some((known.paused_at.0, known.requests))
}

/// The routes of `api`: port name, doorman port, state.
pub(crate) fn routes(cluster: &Cluster) -> Vec<(String, u16, RouteState)> {
    let doorman = cluster.status("api").doorman.as_ref();
    let routes = doorman.into_iter().flat_map(|doorman| &doorman.routes);
    routes
        .map(|route| (route.port.name.clone(), route.doorman_port, route.state))
        .collect()
}

/// The port names in all slices.
pub(crate) fn sliced(cluster: &Cluster) -> Vec<String> {
    let slices = cluster.slices.values();
    slices
        .flat_map(|slice| &slice.spec.ports)
        .map(|port| port.name.clone())
        .collect()
}
