//! Slices that don't stand as they were written.
//!
//! What Napwake doesn't write, such as other labels, annotations and whoever else
//! has a hand in it, isn't in a [`SliceSpec`] and so is nobody's business here.
//! The rest is written again, but never in a race with whoever alters it.

use napwake_api::names::slice as label;

use super::is_ours;
use crate::world::{Slice, SliceSpec};

/// What of a slice isn't as it was written, for people; none where all that
/// matters is.
pub fn altered(written: &SliceSpec, found: &Slice) -> Option<String> {
    let SliceSpec {
        name: _,
        service,
        service_uid,
        family,
        endpoints,
        ports,
    } = &found.spec;
    let parts = [
        (is_ours(found), format!("its label {}", label::MANAGED_BY)),
        (
            *service == written.service,
            format!("its label {}", label::SERVICE_NAME),
        ),
        (*service_uid == written.service_uid, "its owner".to_owned()),
        (*family == written.family, "its addressType".to_owned()),
        (*endpoints == written.endpoints, "its endpoints".to_owned()),
        (*ports == written.ports, "its ports".to_owned()),
    ];
    let changed: Vec<_> = parts
        .into_iter()
        .filter(|(is_same, _)| !is_same)
        .map(|(_, part)| part)
        .collect();
    (!changed.is_empty()).then(|| changed.join(" and "))
}

/// Whether Napwake would know it again as its own slice of that Service. One that
/// it wouldn't would stay when its time is over.
pub fn is_known_again(written: &SliceSpec, found: &Slice) -> bool {
    is_ours(found) && found.spec.service == written.service
}

#[cfg(test)]
#[path = "altered_tests.rs"]
mod tests;
