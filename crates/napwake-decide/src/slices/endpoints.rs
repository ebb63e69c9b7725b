//! The endpoints of slices, and whether they name the doorman's pods (T-132).

use napwake_api::workload::IpFamily;

use crate::world::{DoormanPod, Endpoint, Seen, Service, Slice, TargetRefs, World};

/// One endpoint for a doorman pod, with its one address in the family.
pub(super) fn endpoint(pod: &DoormanPod, family: IpFamily, is_named: bool) -> Option<Endpoint> {
    Some(Endpoint {
        address: *pod.addresses.get(&family)?,
        node: pod.node.clone(),
        zone: pod.zone.clone(),
        pod: is_named.then(|| pod.pod.clone()),
    })
}

/// Whether the endpoints of this Service name their pods.
///
/// Where it can't be told whether its namespace is in a mesh, those of the slice that was
/// found stay as they are.
pub(super) fn are_named(world: &World, service: &Service, found: Option<&Slice>) -> bool {
    match world.target_refs {
        TargetRefs::Always => true,
        TargetRefs::Never => false,
        TargetRefs::Auto if service.is_ambient => false,
        TargetRefs::Auto => match &world.namespace {
            Seen::Known(namespace) => !namespace.is_ambient,
            Seen::Absent => true,
            Seen::Unknown(_) => found.is_none_or(names_pods),
        },
    }
}

fn names_pods(slice: &Slice) -> bool {
    slice.spec.endpoints.iter().any(|one| one.pod.is_some())
}

#[cfg(test)]
#[path = "endpoints_tests.rs"]
mod tests;
