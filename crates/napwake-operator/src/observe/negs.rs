//! What a Service's annotations say of GKE's network endpoint groups (NEGs).
//!
//! They are JSON that GKE's users and controllers write. What can't be read counts
//! as not there (T-90), as it does for GKE, which then makes no groups, and is
//! logged once.

use std::collections::{BTreeMap, BTreeSet};

use napwake_decide::world::NegSign;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::convert::ObservedService;

/// Which groups are asked for (F-71).
const NEG: &str = "cloud.google.com/neg";

/// Which there are (F-72).
const STATUS: &str = "cloud.google.com/neg-status";

/// Under this port GKE lists groups of nodes, which kube-proxy serves (F-72).
const OF_NODES: &str = "0";

/// The value of [`NEG`].
#[derive(Default, Deserialize)]
#[serde(default)]
struct Neg {
    ingress: Option<bool>,
    exposed_ports: Option<Map<String, Value>>,
}

/// The value of [`STATUS`].
#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    network_endpoint_groups: Option<Map<String, Value>>,
}

/// What is said of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) signs: BTreeSet<NegSign>,
    /// Annotations that can't be read, and why.
    pub(crate) unreadable: BTreeMap<&'static str, String>,
}

pub(crate) fn read(annotations: &BTreeMap<String, String>) -> Said {
    let mut said = Said::default();
    if let Some(neg) = said.json::<Neg>(annotations, NEG) {
        let exposed = neg.exposed_ports.unwrap_or_default();
        said.add(NegSign::ForIngress, neg.ingress == Some(true));
        said.add(NegSign::Standalone, !exposed.is_empty());
    }
    if let Some(status) = said.json::<Status>(annotations, STATUS) {
        let groups = status.network_endpoint_groups.unwrap_or_default();
        let is_listed = groups.keys().any(|port| port != OF_NODES);
        said.add(NegSign::Listed, is_listed);
    }
    said
}

impl Said {
    fn json<'a, T: Deserialize<'a>>(
        &mut self,
        annotations: &'a BTreeMap<String, String>,
        name: &'static str,
    ) -> Option<T> {
        match serde_json::from_str(annotations.get(name)?) {
            Ok(read) => Some(read),
            Err(error) => {
                self.unreadable.insert(name, error.to_string());
                None
            }
        }
    }

    fn add(&mut self, sign: NegSign, is_said: bool) {
        self.signs.extend(is_said.then_some(sign));
    }
}

/// Logs what can't be read of a Service, unless that was so before.
pub(crate) fn tell(old: Option<&ObservedService>, new: &ObservedService) {
    for (annotation, error) in &new.unreadable {
        let is_known = old.is_some_and(|old| old.unreadable.get(annotation) == Some(error));
        if !is_known {
            tracing::warn!(
                namespace = new.namespace,
                service = new.service.name,
                annotation,
                error,
                "an annotation can't be read and is passed over"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use NegSign::{ForIngress, Listed, Standalone};
    use rstest::rstest;

    use super::*;

    /// NEG-09, NEG-13, NEG-14, NEG-16: what the annotations say. T-90: empty and
    /// unreadable ones say nothing. Q-13: nor do groups of nodes.
    #[rstest]
    #[case::gkes_default(NEG, r#"{"ingress": true}"#, &[ForIngress])]
    #[case::instance_groups(NEG, r#"{"ingress": false}"#, &[])]
    #[case::exposed(NEG, r#"{"exposed_ports": {"80": {}}}"#, &[Standalone])]
    #[case::named(NEG, r#"{"exposed_ports": {"80": {"name": "a"}, "443": null}}"#, &[Standalone])]
    #[case::both(NEG, r#"{"ingress": true, "exposed_ports": {"80": {}}}"#, &[ForIngress, Standalone])]
    #[case::unknown_keys(NEG, r#"{"zones": ["a"], "ingress": true, "new": 1}"#, &[ForIngress])]
    #[case::no_ports(NEG, r#"{"exposed_ports": {}}"#, &[])]
    #[case::null_ports(NEG, r#"{"exposed_ports": null, "ingress": null}"#, &[])]
    #[case::empty_object(NEG, "{}", &[])]
    #[case::listed(STATUS, r#"{"network_endpoint_groups": {"80": "k8s1-a"}, "zones": ["a"]}"#, &[Listed])]
    #[case::of_nodes(STATUS, r#"{"network_endpoint_groups": {"0": "k8s2-a"}}"#, &[])]
    #[case::of_both(STATUS, r#"{"network_endpoint_groups": {"0": "a", "80": "b"}}"#, &[Listed])]
    #[case::no_groups(STATUS, r#"{"network_endpoint_groups": {}}"#, &[])]
    #[case::empty_status(STATUS, "{}", &[])]
    fn what_annotations_say(#[case] name: &str, #[case] value: &str, #[case] expected: &[NegSign]) {
        let said = read(&[(name.to_owned(), value.to_owned())].into());
        assert_eq!(said.signs.into_iter().collect::<Vec<_>>(), expected);
        assert_eq!(said.unreadable, BTreeMap::new());
    }

    /// T-90.
    #[rstest]
    #[case::empty("")]
    #[case::text("true")]
    #[case::broken(r#"{"ingress": true"#)]
    #[case::wrong_type(r#"{"ingress": "true"}"#)]
    #[case::list(r#"{"exposed_ports": ["80"]}"#)]
    #[case::deep(&"[".repeat(1_000))]
    fn what_cannot_be_read_says_nothing(#[case] value: &str) {
        let said = read(&[(NEG.to_owned(), value.to_owned())].into());
        assert_eq!(said.signs, BTreeSet::new());
        assert!(said.unreadable.contains_key(NEG));
    }

    #[test]
    fn one_that_cannot_be_read_leaves_the_other() {
        let groups = r#"{"network_endpoint_groups": {"80": "a"}}"#.to_owned();
        let said = read(
            &[
                (NEG.to_owned(), "{".to_owned()),
                (STATUS.to_owned(), groups),
            ]
            .into(),
        );
        assert_eq!(said.signs, [Listed].into());
        assert_eq!(said.unreadable.len(), 1);
    }
}
