//! The doorman's Deployment and what belongs to it.

use serde_json::{Value, json};

use crate::chart::{Rendered, arguments, container, default_render, render, selects};

fn deployment(rendered: &Rendered) -> &Value {
    rendered.get("Deployment", "napwake-doorman")
}

/// DRAIN-01: the doorman is a Deployment of its own, beside the operator's.
#[test]
fn the_doorman_is_its_own_deployment() {
    let rendered = default_render();
    let doorman = deployment(&rendered);
    let operator = rendered.get("Deployment", "napwake-operator");
    assert_eq!(rendered.of_kind("Deployment").len(), 2);
    assert_eq!(
        doorman["metadata"]["namespace"],
        operator["metadata"]["namespace"]
    );
    assert_eq!(arguments(doorman)[0], "doorman");
    assert_eq!(arguments(operator)[0], "operator");
    let labels = &operator["spec"]["template"]["metadata"]["labels"];
    assert!(!selects(
        &doorman["spec"]["selector"]["matchLabels"],
        labels
    ));
}

/// DRAIN-02: two replicas.
#[test]
fn there_are_two_doormen() {
    assert_eq!(deployment(&default_render())["spec"]["replicas"], 2);
}

/// DRAIN-03: a PodDisruptionBudget covers the doorman's pods, and only those.
#[test]
fn evictions_take_one_doorman_at_a_time() {
    let rendered = default_render();
    let [budget] = rendered.of_kind("PodDisruptionBudget")[..] else {
        panic!("not one budget: {}", rendered.text)
    };
    assert_eq!(budget["spec"]["maxUnavailable"], 1);
    assert_eq!(budget["spec"]["minAvailable"], Value::Null);
    let selector = &budget["spec"]["selector"]["matchLabels"];
    for (name, template) in rendered.pod_templates() {
        let selected = selects(selector, &template["metadata"]["labels"]);
        assert_eq!(selected, name == "napwake-doorman", "{name}");
    }
}

/// DRAIN-09: a new pod comes before an old one goes, and is Ready for 5 seconds first.
#[test]
fn a_rollout_adds_before_it_takes_away() {
    let rendered = default_render();
    let spec = &deployment(&rendered)["spec"];
    assert_eq!(spec["strategy"]["type"], "RollingUpdate");
    assert_eq!(
        spec["strategy"]["rollingUpdate"],
        json!({"maxSurge": 1, "maxUnavailable": 0})
    );
    assert_eq!(spec["minReadySeconds"], 5);
}

/// DRAIN-14: 40 seconds in all.
#[test]
fn a_stopping_doorman_has_forty_seconds() {
    let rendered = default_render();
    let pod = &deployment(&rendered)["spec"]["template"]["spec"];
    assert_eq!(pod["terminationGracePeriodSeconds"], 40);
}

/// DRAIN-15: they begin with 5 seconds of sleep.
#[test]
fn a_stopping_doorman_sleeps_first() {
    let rendered = default_render();
    let lifecycle = &container(deployment(&rendered))["lifecycle"];
    assert_eq!(*lifecycle, json!({"preStop": {"sleep": {"seconds": 5}}}));
}

/// A sick doorman is out of the routes within a few seconds.
#[test]
fn readiness_is_asked_every_second() {
    let rendered = default_render();
    let doorman = container(deployment(&rendered));
    let readiness = &doorman["readinessProbe"];
    assert_eq!(
        readiness["httpGet"],
        json!({"path": "/readyz", "port": "health"})
    );
    assert_eq!(readiness["periodSeconds"], 1);
    assert!(readiness["failureThreshold"].as_u64().unwrap() <= 2);
    assert_eq!(doorman["livenessProbe"]["httpGet"]["path"], "/healthz");
    assert!(doorman["ports"].as_array().unwrap().contains(&json!({
        "name": "health", "containerPort": 8081
    })));
}

/// One node may run both: a constraint that can't be met would leave one Pending.
#[test]
fn doormen_prefer_different_nodes() {
    let rendered = default_render();
    let template = &deployment(&rendered)["spec"]["template"];
    let [spread] = &template["spec"]["topologySpreadConstraints"]
        .as_array()
        .unwrap()[..]
    else {
        panic!("not one constraint")
    };
    assert_eq!(spread["topologyKey"], "kubernetes.io/hostname");
    assert_eq!(spread["whenUnsatisfiable"], "ScheduleAnyway");
    assert_eq!(spread["matchLabelKeys"], json!(["pod-template-hash"]));
    assert!(selects(
        &spread["labelSelector"]["matchLabels"],
        &template["metadata"]["labels"]
    ));
}

/// NET-03: `control-plane: doorman`. NET-04: `control-plane: controller-manager`.
#[test]
fn pods_say_what_they_are() {
    let rendered = default_render();
    for (name, part) in [
        ("napwake-doorman", "doorman"),
        ("napwake-operator", "controller-manager"),
    ] {
        let template = &rendered.get("Deployment", name)["spec"]["template"];
        assert_eq!(
            template["metadata"]["labels"]["control-plane"], part,
            "{name}"
        );
    }
}

/// The operator is told a Service that selects the doorman's pods, has their
/// metrics port, and is no headless one.
#[test]
fn the_operator_finds_the_doorman_by_its_service() {
    let rendered = default_render();
    let service = rendered.get("Service", "napwake-doorman");
    let operator = rendered.get("Deployment", "napwake-operator");
    assert!(arguments(operator).contains(&"--doorman-service=napwake-doorman"));
    for (name, template) in rendered.pod_templates() {
        let selected = selects(
            &service["spec"]["selector"],
            &template["metadata"]["labels"],
        );
        assert_eq!(selected, name == "napwake-doorman", "{name}");
    }
    assert_eq!(service["spec"]["ports"][0]["port"], 8443);
    assert_eq!(service["spec"]["clusterIP"], Value::Null);
}

/// SET-19: `doorman.enabled: false` leaves no object of the doorman's.
#[test]
fn the_doorman_can_be_left_out() {
    let rendered = render("napwake", &["doorman.enabled=false"]);
    let named = |object: &&Value| {
        object["metadata"]["name"]
            .as_str()
            .unwrap()
            .starts_with("napwake-doorman")
    };
    let left: Vec<_> = rendered.objects.iter().filter(named).collect();
    assert!(left.is_empty(), "{left:?}");
    let operator = rendered.get("Deployment", "napwake-operator");
    assert!(arguments(operator).contains(&"--doorman-service="));
}

/// TOKEN-17: the wake key's Secret is created without data, not even an empty one.
#[test]
fn the_wake_key_is_created_empty() {
    let rendered = default_render();
    let [secret] = rendered.of_kind("Secret")[..] else {
        panic!("not one Secret: {}", rendered.text)
    };
    let fields: Vec<_> = secret
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(fields, ["apiVersion", "kind", "metadata", "type"]);
}

/// TOKEN-18: its name follows the release's, and the doorman is told it.
#[test]
fn the_wake_key_is_named_after_the_release() {
    for release in ["napwake", "team-a", "my-napwake"] {
        let rendered = render(release, &[]);
        let name = format!("{release}-doorman-wake-key");
        rendered.get("Secret", &name);
        let doorman = rendered.get("Deployment", &format!("{release}-doorman"));
        assert!(
            arguments(doorman).contains(&&*format!("--wake-key-secret={name}")),
            "{release}"
        );
    }
}
