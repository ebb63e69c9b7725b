//! Who may do what in the cluster: compared with the whole list, so that a
//! right can't be added in passing.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::chart::{Rendered, default_render, render};

const EVENTS: &str = "events.k8s.io/events: create";
const METRICS: [&str; 2] = [
    "authentication.k8s.io/tokenreviews: create",
    "authorization.k8s.io/subjectaccessreviews: create",
];

/// Rules as lines: `group/resource (names): verbs`.
fn rules(role: &Value) -> BTreeSet<String> {
    let words = |value: &Value| -> Vec<String> {
        let list = value.as_array().cloned().unwrap_or_default();
        list.iter()
            .map(|word| word.as_str().unwrap().to_owned())
            .collect()
    };
    let mut lines = BTreeSet::new();
    for rule in role["rules"].as_array().unwrap() {
        let names = words(&rule["resourceNames"]).join(" ");
        let names = if names.is_empty() {
            names
        } else {
            format!(" ({names})")
        };
        for group in words(&rule["apiGroups"]) {
            for resource in words(&rule["resources"]) {
                let verbs = words(&rule["verbs"]).join(" ");
                lines.insert(format!("{group}/{resource}{names}: {verbs}"));
            }
        }
    }
    lines
}

fn expected(lines: &[&str]) -> BTreeSet<String> {
    lines
        .iter()
        .chain(&METRICS)
        .chain([&EVENTS])
        .map(|line| (*line).to_owned())
        .collect()
}

/// The roles that a ServiceAccount is bound to, by kind and name.
fn bound<'a>(rendered: &'a Rendered, account: &str) -> BTreeSet<(&'a str, &'a str)> {
    let bindings = [
        rendered.of_kind("ClusterRoleBinding"),
        rendered.of_kind("RoleBinding"),
    ]
    .concat();
    let mine = bindings.into_iter().filter(|binding| {
        binding["subjects"]
            .as_array()
            .unwrap()
            .iter()
            .any(|subject| subject["name"] == account)
    });
    let role = |binding: &'a Value| {
        (
            binding["roleRef"]["kind"].as_str().unwrap(),
            binding["roleRef"]["name"].as_str().unwrap(),
        )
    };
    mine.map(role).collect()
}

/// ROUTE-81: the doorman has no right to write an EndpointSlice, nor any other
/// beyond those listed here.
#[test]
fn the_doorman_has_these_rights_and_no_other() {
    let rendered = default_render();
    assert_eq!(
        rules(rendered.get("ClusterRole", "napwake-doorman")),
        expected(&[
            "napwake.dev/managedworkloads: get list watch patch",
            "discovery.k8s.io/endpointslices: list watch",
            "/pods: get watch",
        ])
    );
    assert_eq!(
        rules(rendered.get("Role", "napwake-doorman")),
        BTreeSet::from(["/secrets (napwake-doorman-wake-key): get update".to_owned()])
    );
    assert_eq!(
        bound(&rendered, "napwake-doorman"),
        BTreeSet::from([
            ("ClusterRole", "napwake-doorman"),
            ("Role", "napwake-doorman")
        ])
    );
}

#[test]
fn the_operator_has_these_rights_and_no_other() {
    let rendered = default_render();
    assert_eq!(
        rules(rendered.get("ClusterRole", "napwake-operator")),
        expected(&[
            "napwake.dev/managedworkloads: list watch create patch delete",
            "napwake.dev/managedworkloads/status: update",
            "apps/deployments: list watch patch",
            "apps/statefulsets: list watch patch",
            "apps/deployments/scale: patch",
            "apps/statefulsets/scale: patch",
            "/services: list watch",
            "/namespaces: list watch",
            "networking.k8s.io/ingresses: list watch",
            "/pods: list",
            "discovery.k8s.io/endpointslices: get list watch create patch delete",
            "discovery.k8s.io/endpointslices/restricted: create",
        ])
    );
    assert_eq!(
        rules(rendered.get("Role", "napwake-operator")),
        BTreeSet::from(
            [
                "/pods: list watch",
                "coordination.k8s.io/leases: create",
                "coordination.k8s.io/leases (napwake-operator): get update",
            ]
            .map(str::to_owned)
        )
    );
}

/// Who may read the metrics is for the cluster's administrators to say.
#[test]
fn the_metrics_can_be_opened_to_a_reader() {
    let rendered = default_render();
    let reader = rendered.get("ClusterRole", "napwake-metrics-reader");
    let rules = serde_json::json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
    assert_eq!(reader["rules"], rules);
    for kind in ["ClusterRoleBinding", "RoleBinding"] {
        for binding in rendered.of_kind(kind) {
            assert_ne!(binding["roleRef"]["name"], "napwake-metrics-reader");
        }
    }
}

/// Each part runs under its own account, bound to its own roles.
#[test]
fn accounts_are_not_shared() {
    for release in ["napwake", "team-a"] {
        let rendered = render(release, &[]);
        let mut accounts = BTreeSet::new();
        for (name, template) in rendered.pod_templates() {
            let account = template["spec"]["serviceAccountName"].as_str().unwrap();
            assert_eq!(account, name);
            rendered.get("ServiceAccount", account);
            assert_eq!(bound(&rendered, account).len(), 2, "{account}");
            assert!(accounts.insert(account), "{account} is shared");
        }
        for (kind, name) in bound(&rendered, &format!("{release}-operator")) {
            rendered.get(kind, name);
        }
    }
}
