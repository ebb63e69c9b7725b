//! What tests of several modules ask of the cluster.

use jiff::Timestamp;
use napwake_api::{
    ManagedWorkloadStatus,
    condition::{self, ConditionType},
    workload::{ActivitySource, Phase, RouteState},
};

use super::{Cluster, objects};
use crate::{Plan, Write};

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

/// Gives the doorman ports of `api` to another workload, `worker`, too, as two leaders
/// could.
pub(crate) fn give_twice(cluster: &mut Cluster) {
    let mut twice = cluster.status("api").doorman.clone().expect("a route");
    for route in &mut twice.routes {
        route.service = "worker".to_owned();
    }
    let worker = cluster.workload("worker");
    worker.status.phase = Some(Phase::Paused);
    worker.status.doorman = Some(twice);
    let (key, status) = (worker.key.clone(), worker.status.clone());
    cluster.ports.observe(&key, &status);
}

/// The status that a plan writes.
pub(crate) fn status(plan: &Plan) -> Option<&ManagedWorkloadStatus> {
    plan.writes.iter().find_map(|write| match write {
        Write::WriteStatus { status, .. } => Some(status.as_ref()),
        _ => None,
    })
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
