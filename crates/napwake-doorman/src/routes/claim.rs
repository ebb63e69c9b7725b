//! What a ManagedWorkload says of its routes.
//!
//! Owns the reading of a ManagedWorkload into what the board needs. Reads the
//! spec and the status as the operator wrote them, and settles nothing again.

use std::sync::Arc;

use napwake_api::ManagedWorkload;
use napwake_api::condition::{ConditionType, Status, TargetReason};
use napwake_api::names::signal;
use napwake_api::workload::{Phase, Route};
use napwake_gate::places::WorkloadKey;
use napwake_gate::serving::Listed;

use super::model::{ServiceKey, State, Workload};

/// A ManagedWorkload, read.
#[derive(Debug, Clone)]
pub struct Claimant {
    /// What it says of its workload.
    pub workload: Arc<Workload>,
    /// The routes it lists.
    pub claims: Vec<Claim>,
}

/// A route that a ManagedWorkload lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The Service.
    pub service: ServiceKey,
    /// The name of the Service's port, empty where it has none.
    pub port: Arc<str>,
    /// The port on which the doorman listens.
    pub doorman_port: u16,
    /// How far the route is.
    pub state: Listed,
}

impl Claimant {
    /// Reads a ManagedWorkload; `None` if it has no name or namespace, which the
    /// API server never lets happen.
    pub fn read(object: &ManagedWorkload) -> Option<(WorkloadKey, Self)> {
        let meta = &object.metadata;
        let key = WorkloadKey::new(meta.namespace.as_deref()?, meta.name.as_deref()?);
        let status = object.status.as_ref();
        let started_at = status
            .and_then(|status| status.pause.as_ref())
            .map(|pause| pause.started_at.0);
        let resuming_since = status
            .filter(|status| status.phase == Some(Phase::Resuming))
            .and_then(|status| status.resume.as_ref())
            .map(|resume| resume.started_at.0);
        let annotation = |name| meta.annotations.as_ref()?.get(name);
        let last_request = annotation(signal::LAST_REQUEST).and_then(|text| text.parse().ok());
        let wake_requested = annotation(signal::WAKE_REQUESTED).and_then(|text| text.parse().ok());
        let workload = Workload {
            key: key.clone(),
            uid: meta.uid.as_deref().unwrap_or_default().into(),
            mode: object.spec.wake.mode,
            page: object.spec.wake.page,
            max_wait: object.spec.wake.max_wait.0.get(),
            state: State::new(status.and_then(|status| status.phase), started_at),
            last_request,
            wake_requested,
            resuming_since,
            target_gone: target_is_gone(object),
            slot: Arc::default(),
        };
        let listed = status.and_then(|status| status.doorman.as_ref());
        let claims = listed
            .iter()
            .flat_map(|doorman| &doorman.routes)
            .map(|route| Claim::read(route, key.namespace()))
            .collect();
        let claimant = Self {
            workload: Arc::new(workload),
            claims,
        };
        Some((key, claimant))
    }

    /// Takes over from what was known of the same ManagedWorkload what isn't in
    /// the object itself. One that was deleted and made anew is another.
    pub(super) fn adopt(&mut self, before: &Self) {
        if before.workload.uid == self.workload.uid {
            let slot = Arc::clone(&before.workload.slot);
            slot.shows(self.workload.last_request.as_ref().map(|one| one.stamp));
            Arc::make_mut(&mut self.workload).slot = slot;
        }
    }

    /// The routes it lists on one Service.
    pub(super) fn claims_on(&self, service: &ServiceKey) -> impl Iterator<Item = &Claim> {
        self.claims
            .iter()
            .filter(move |claim| claim.service == *service)
    }
}

impl Claim {
    fn read(route: &Route, namespace: &str) -> Self {
        Self {
            service: ServiceKey::new(namespace, &route.service),
            port: route.port.name.as_str().into(),
            doorman_port: route.doorman_port,
            state: Listed::read(route),
        }
    }
}

fn target_is_gone(object: &ManagedWorkload) -> bool {
    let conditions = object.status.iter().flat_map(|status| &status.conditions);
    conditions
        .filter(|condition| condition.type_ == ConditionType::TargetAvailable.as_str())
        .any(|condition| {
            condition.status == Status::False.to_string()
                && condition.reason == TargetReason::TargetNotFound.to_string()
        })
}
