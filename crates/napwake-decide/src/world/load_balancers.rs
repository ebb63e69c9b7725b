//! What is known of cloud load balancers that go to pods directly.

use std::collections::BTreeSet;

/// What a Service's annotations say of GKE's network endpoint groups (NEGs).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NegSign {
    /// `{"ingress": true}` in `cloud.google.com/neg`: groups are made once a GKE
    /// Ingress uses the Service.
    ForIngress,
    /// `exposed_ports` there: it has groups of its own.
    Standalone,
    /// `cloud.google.com/neg-status` lists groups of its pods, those of nodes, under
    /// port 0, not counted.
    Listed,
}

/// An Ingress, as far as routing goes by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ingress {
    /// `metadata.name`.
    pub name: String,
    /// The annotation `kubernetes.io/ingress.class`.
    pub class_annotation: Option<String>,
    /// `spec.ingressClassName`.
    pub class_name: Option<String>,
    /// The Services that it leads to, by a rule or by default (T-92).
    pub services: BTreeSet<String>,
}
