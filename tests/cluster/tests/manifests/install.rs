//! The install as a whole: names, the definition of the API, the uninstall hook.

use std::collections::BTreeSet;

use napwake_dev::image::product;
use napwake_dev::install::{NAMESPACE, RELEASE};
use napwake_dev::workspace;
use serde_json::{Value, json};

use crate::chart::{arguments, default_render, refusal_of_version, render};

/// Everything but the definition of the API, which is a file of its own.
#[test]
fn the_default_install() {
    let text = default_render().text;
    let documents = text
        .split("\n---\n")
        .filter(|document| !document.contains("\nkind: CustomResourceDefinition\n"));
    insta::assert_snapshot!(documents.collect::<Vec<_>>().join("\n---\n"));
}

/// SET-30: the names that the documentation uses.
#[test]
fn the_documented_names_are_those_of_the_default_install() {
    assert_eq!((RELEASE, NAMESPACE), ("napwake", "napwake-system"));
    let rendered = default_render();
    rendered.get("Secret", "napwake-doorman-wake-key");
    rendered.get("Service", "napwake-doorman");
    let cluster_wide = [
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
    ];
    for object in &rendered.objects {
        let namespace = &object["metadata"]["namespace"];
        if cluster_wide.iter().any(|kind| object["kind"] == *kind) {
            assert_eq!(*namespace, Value::Null, "{object}");
        } else {
            assert_eq!(*namespace, "napwake-system", "{object}");
        }
    }
}

#[test]
fn names_are_unique_and_short_enough_for_any_release() {
    let release = "a-release-with-a-name-as-long-as-helm-takes-12345678";
    for release in [release, "napwake"] {
        let rendered = render(release, &[]);
        let mut seen = BTreeSet::new();
        for object in &rendered.objects {
            let name = object["metadata"]["name"].as_str().unwrap();
            assert!(name.len() <= 63, "{name}");
            assert!(
                seen.insert((object["kind"].to_string(), name)),
                "{name} twice"
            );
        }
    }
}

/// Helm upgrades the definition, and keeps it when the release goes.
#[test]
fn the_definition_is_the_generated_one_and_is_kept() {
    let rendered = default_render();
    let definition = rendered.get("CustomResourceDefinition", "managedworkloads.napwake.dev");
    let generated = workspace::chart().join("files/crds/managedworkloads.napwake.dev.yaml");
    let generated: Value =
        serde_saphyr::from_str(&std::fs::read_to_string(generated).unwrap()).unwrap();
    assert!(
        whole_numbers(&definition["spec"]) == whole_numbers(&generated["spec"]),
        "another definition is rendered: {definition}"
    );
    assert_eq!(
        definition["metadata"]["annotations"],
        json!({"helm.sh/resource-policy": "keep"})
    );
}

/// Helm writes 65535.0 as 65535.
fn whole_numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().map_or_else(|| value.clone(), Value::from),
        Value::Array(items) => items.iter().map(whole_numbers).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| (name.clone(), whole_numbers(field)))
            .collect(),
        other => other.clone(),
    }
}

#[test]
fn the_chart_runs_the_image_of_its_own_version() {
    let chart: Value = serde_saphyr::from_str(
        &std::fs::read_to_string(workspace::chart().join("Chart.yaml")).unwrap(),
    )
    .unwrap();
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    let image = format!("{}:{}", product::REPOSITORY, env!("CARGO_PKG_VERSION"));
    for (name, template) in default_render().pod_templates() {
        assert_eq!(template["spec"]["containers"][0]["image"], image, "{name}");
    }
}

/// Clouds add words of their own to a version.
#[test]
fn clusters_older_than_1_33_are_refused() {
    let refused = refusal_of_version("v1.32.9").expect("1.32 is too old");
    assert!(refused.contains("kubeVersion"), "{refused}");
    for version in ["v1.33.0", "v1.33.2-gke.1240000", "v1.35.4+k3s1"] {
        assert_eq!(refusal_of_version(version), None);
    }
}

/// Before an uninstall a Job with rights of its own wakes everybody, and only then.
#[test]
fn an_uninstall_wakes_everybody_first() {
    let rendered = default_render();
    let hooks: Vec<_> = rendered
        .objects
        .iter()
        .filter(|object| object["metadata"]["annotations"]["helm.sh/hook"] != Value::Null)
        .collect();
    let weight = |hook: &Value| -> i32 {
        hook["metadata"]["annotations"]["helm.sh/hook-weight"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap()
    };
    let job = rendered.get("Job", "napwake-wake-everybody");
    for hook in &hooks {
        let annotations = &hook["metadata"]["annotations"];
        assert_eq!(annotations["helm.sh/hook"], "pre-delete");
        assert_eq!(hook["metadata"]["name"], "napwake-wake-everybody");
        assert!(
            hook["kind"] == "Job" || weight(hook) < weight(job),
            "{hook}"
        );
    }
    assert_eq!(hooks.len(), 4);
    let words = arguments(job);
    assert_eq!(words[0], "operator");
    for word in ["--wake-everybody", "--operator-deployment=napwake-operator"] {
        assert!(words.contains(&word), "{words:?}");
    }
    // Helm waits for five minutes unless told otherwise.
    assert!(job["spec"]["activeDeadlineSeconds"].as_u64().unwrap() < 300);
}
