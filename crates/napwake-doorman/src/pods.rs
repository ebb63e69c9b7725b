//! The Pods that a route's slices name, looked at while somebody waits for them.
//!
//! Owns the second opinion on an endpoint: that the Pod it names has that
//! address and isn't being deleted, and whether it is Ready before the slice says
//! so (T-135). Pods are read and watched by name, and only while a caller of the
//! route waits; nothing lists them, and nothing is kept of them afterwards.

mod follow;
mod keeper;
mod turns;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use kube::core::ObjectMeta;
use napwake_api::names::pod as names;
use napwake_cluster::thin;
use napwake_gate::ready::{self, PodKey, PodState, PodView};

pub use self::keeper::{Keeper, Keepers, Look};
use crate::routes::Route;
pub use napwake_gate::ready::Outlook;

/// What is known of the Pods that were looked at.
pub type PodViews = HashMap<PodKey, PodView>;

/// Reads Pods, and knows its own.
#[derive(Debug, Clone)]
pub struct Judge {
    own_namespace: Arc<str>,
}

impl Judge {
    /// For a doorman in that namespace.
    pub fn new(own_namespace: &str) -> Self {
        Self {
            own_namespace: own_namespace.into(),
        }
    }

    /// What counts of a Pod. A doorman's own Pods, its fellows included, are as
    /// good as gone: a connection to one would come back (T-72).
    pub fn read(&self, object: &thin::Pod) -> PodView {
        if object.is_deleted() || self.is_doorman(&object.metadata) {
            return PodView::Leaving;
        }
        let addresses = object.status.addresses.iter();
        PodView::There {
            addresses: addresses.map(IpAddr::to_canonical).collect(),
            state: if object.status.ready {
                PodState::Ready
            } else {
                PodState::NotReady
            },
        }
    }

    fn is_doorman(&self, meta: &ObjectMeta) -> bool {
        let label = meta
            .labels
            .as_ref()
            .and_then(|labels| labels.get(names::CONTROL_PLANE));
        meta.namespace.as_deref() == Some(&*self.own_namespace)
            && label.is_some_and(|part| part == names::DOORMAN)
    }
}

/// How a route looks by its slices and the Pods seen (T-135).
pub fn outlook(route: &Route, seen: &PodViews) -> Outlook {
    ready::outlook(&route.candidates, |pod| seen.get(pod))
}

#[cfg(test)]
mod tests;
