//! `Ingress` of networking.k8s.io/v1.

use std::collections::BTreeSet;

use kube::core::ObjectMeta;
use serde::Deserialize;

use super::{
    deserialize::{metadata, or_default},
    resource,
};

/// An Ingress, its annotations included.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Ingress {
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    #[serde(default, deserialize_with = "or_default")]
    pub spec: IngressSpec,
}

resource!(
    Ingress,
    "Ingress",
    "ingresses",
    "networking.k8s.io" / "v1",
    NamespaceResourceScope
);

/// `spec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressSpec {
    pub ingress_class_name: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    default_backend: Backend,
    #[serde(default, deserialize_with = "or_default")]
    rules: Vec<Rule>,
}

impl IngressSpec {
    /// The names of the Services that it leads to, by a rule or by default.
    pub fn services(&self) -> BTreeSet<&str> {
        let rules = self.rules.iter().flat_map(|rule| &rule.http.paths);
        let backends = rules
            .map(|path| &path.backend)
            .chain([&self.default_backend]);
        backends
            .map(|backend| backend.service.name.as_str())
            .filter(|name| !name.is_empty())
            .collect()
    }
}

/// One of `rules`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct Rule {
    #[serde(default, deserialize_with = "or_default")]
    http: Http,
}

/// `http` of a rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct Http {
    #[serde(default, deserialize_with = "or_default")]
    paths: Vec<Path>,
}

/// One of a rule's `paths`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct Path {
    #[serde(default, deserialize_with = "or_default")]
    backend: Backend,
}

/// A Service, or a resource of another kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct Backend {
    #[serde(default, deserialize_with = "or_default")]
    service: BackendService,
}

/// `service` of a backend.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct BackendService {
    #[serde(default, deserialize_with = "or_default")]
    name: String,
}
