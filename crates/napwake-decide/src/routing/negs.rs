//! Services behind GKE container-native load balancing.
//!
//! GKE's NEG controller refuses endpoints whose pods are in another namespace, as
//! the doorman's are, and may stop syncing the load balancer altogether (F-76,
//! F-77). So no slice of the doorman's may ever be written for such a Service.

use crate::world::{Ingress, NegSign, Service};

/// The classes of Ingresses that GKE handles (NEG-10).
const CLASSES: [&str; 4] = [
    "gce",
    "gce-internal",
    "gce-regional-external",
    "gce-multi-cluster",
];

/// Why a Service is in NEGs, if it is.
pub(super) fn in_negs(service: &Service, ingresses: &[Ingress]) -> Option<String> {
    let has = |sign| service.negs.contains(&sign);
    let user = ingresses
        .iter()
        .find(|ingress| is_gkes(ingress) && ingress.services.contains(&service.name));
    let why = match user {
        Some(ingress) if has(NegSign::ForIngress) => {
            format!("the GKE Ingress {} uses it", ingress.name)
        }
        _ if has(NegSign::Standalone) => {
            "its annotation cloud.google.com/neg has exposed_ports".to_owned()
        }
        _ if has(NegSign::Listed) => {
            "its annotation cloud.google.com/neg-status lists it".to_owned()
        }
        _ => return None,
    };
    Some(format!(
        "it is behind GKE container-native load balancing, which refuses the doorman's pods: {why}"
    ))
}

/// NEG-10 to NEG-12, T-91: by the annotation alone, if it says anything; otherwise
/// an Ingress without any class is GKE's.
fn is_gkes(ingress: &Ingress) -> bool {
    let annotation = ingress.class_annotation.as_deref().unwrap_or_default();
    if annotation.is_empty() {
        ingress.class_name.is_none()
    } else {
        CLASSES.contains(&annotation)
    }
}

#[cfg(test)]
#[path = "negs_tests.rs"]
mod tests;
