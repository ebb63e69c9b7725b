//! Ingresses, and whom a change of one concerns: the ManagedWorkloads behind the
//! Services that it uses or used (NEG-05).

use std::{collections::BTreeSet, sync::Arc};

use napwake_cluster::thin as shared;
use napwake_decide::world::Ingress;
use tokio::time::Instant;

use super::{
    concerns::Concerns,
    index::Index,
    layered::{Key, Layered, Versioned},
};

/// The annotation that says whose an Ingress is.
const CLASS: &str = "kubernetes.io/ingress.class";

/// An Ingress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedIngress {
    namespace: String,
    uid: String,
    version: String,
    ingress: Ingress,
}

impl Versioned for ObservedIngress {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn version(&self) -> &str {
        &self.version
    }
}

pub(crate) fn ingress(object: shared::Ingress) -> ObservedIngress {
    let services = object.spec.services();
    let services = services.into_iter().map(str::to_owned).collect();
    let shared::Ingress {
        metadata: meta,
        spec,
    } = object;
    let class = meta
        .annotations
        .and_then(|mut annotations| annotations.remove(CLASS));
    let ingress = Ingress {
        name: meta.name.unwrap_or_default(),
        class_annotation: class,
        class_name: spec.ingress_class_name,
        services,
    };
    ObservedIngress {
        namespace: meta.namespace.unwrap_or_default(),
        uid: meta.uid.unwrap_or_default(),
        version: meta.resource_version.unwrap_or_default(),
        ingress,
    }
}

impl Index {
    pub(crate) fn apply_ingress(&mut self, new: Arc<ObservedIngress>, now: Instant) -> Concerns {
        let key = (new.namespace.clone(), new.ingress.name.clone());
        self.change_ingress(&key.clone(), now, |ingresses| ingresses.apply(key, new))
    }

    /// It's gone, or can't be read any more: then it's passed over.
    pub(crate) fn delete_ingress(&mut self, key: &Key, uid: &str, now: Instant) -> Concerns {
        self.change_ingress(key, now, |ingresses| ingresses.delete(key, uid))
    }

    fn change_ingress(
        &mut self,
        key: &Key,
        now: Instant,
        change: impl FnOnce(&mut Layered<ObservedIngress>),
    ) -> Concerns {
        let old = self.ingresses.look(key, now).known();
        change(&mut self.ingresses);
        let new = self.ingresses.look(key, now).known();
        let mut concerns = Concerns::nobody();
        if old.as_ref().map(|old| &old.ingress) == new.as_ref().map(|new| &new.ingress) {
            return concerns;
        }
        let services: BTreeSet<Key> = [&old, &new]
            .into_iter()
            .flatten()
            .flat_map(|one| {
                let services = one.ingress.services.iter();
                services.map(|service| (one.namespace.clone(), service.clone()))
            })
            .collect();
        for key in services {
            let service = self.services.look(&key, now).known();
            let either = [service.as_deref()];
            concerns.extend(Concerns::of_service(self, &key, &either, now));
        }
        concerns
    }

    /// Those of a namespace.
    pub(super) fn ingresses_within(&self, namespace: &str, now: Instant) -> Vec<Ingress> {
        self.ingresses
            .within(namespace, now)
            .map(|one| one.ingress.clone())
            .collect()
    }
}

#[cfg(test)]
#[path = "ingresses_tests.rs"]
mod tests;
