//! The chart's values: where they end up, and which are refused.

use napwake_dev::workspace;
use rstest::rstest;
use serde_json::Value;

use crate::chart::{arguments, container, default_render, refusal, render};

/// SET-07: `defaults.wake` sets the operator's `--default-wake`.
#[rstest]
#[case::default(&[], "--default-wake=request")]
#[case::request(&["defaults.wake=request"], "--default-wake=request")]
#[case::ask(&["defaults.wake=ask"], "--default-wake=ask")]
#[case::idle_after(&["defaults.idleAfter=1h30m"], "--default-idle-after=1h30m")]
#[case::ports_per_workload(&["doorman.portsPerWorkload=5"], "--ports-per-workload=5")]
#[case::endpoint_target_ref(&["doorman.endpointTargetRef=none"], "--endpoint-target-ref=none")]
#[case::ports_per_namespace(&["doorman.portsPerNamespace=40"], "--ports-per-namespace=40")]
#[case::ports_by_default(&[], "--ports-per-workload=32")]
#[case::log(&["log.level=debug"], "--log-level=debug")]
fn a_value_becomes_a_flag_of_the_operator(#[case] values: &[&str], #[case] flag: &str) {
    let rendered = render("napwake", values);
    let operator = arguments(rendered.get("Deployment", "napwake-operator"));
    assert!(operator.contains(&flag), "{operator:?}");
}

/// SET-18: `doorman.healthCheckUserAgents` reaches the doorman, prefix by
/// prefix and as it is written; by default there is none.
#[test]
fn health_checks_of_ones_own_reach_the_doorman() {
    let words = |values: &[&str]| -> Vec<String> {
        let rendered = render("napwake", values);
        let doorman = arguments(rendered.get("Deployment", "napwake-doorman"));
        let ours = doorman.iter().filter(|word| word.contains("health-check"));
        ours.map(|word| (*word).to_owned()).collect()
    };
    assert_eq!(words(&[]), Vec::<String>::new());
    assert_eq!(
        words(&[
            "doorman.healthCheckUserAgents[0]=Acme-Monitor/",
            r#"doorman.healthCheckUserAgents[1]="it's": {{a}} #1"#,
        ]),
        [
            "--health-check-user-agent=Acme-Monitor/",
            r#"--health-check-user-agent="it's": {{a}} #1"#,
        ]
    );
}

#[test]
fn image_replicas_and_resources_are_taken_over() {
    let rendered = render(
        "napwake",
        &[
            "image.repository=registry.test/napwake",
            "image.tag=abc",
            "image.pullPolicy=Always",
            "imagePullSecrets[0].name=pull",
            "doorman.replicas=3",
            "operator.replicas=1",
            "doorman.resources.limits.memory=1Gi",
        ],
    );
    for (name, template) in rendered.pod_templates() {
        assert_eq!(
            template["spec"]["imagePullSecrets"][0]["name"], "pull",
            "{name}"
        );
        let container = &template["spec"]["containers"][0];
        assert_eq!(container["image"], "registry.test/napwake:abc", "{name}");
        assert_eq!(container["imagePullPolicy"], "Always", "{name}");
    }
    let doorman = rendered.get("Deployment", "napwake-doorman");
    assert_eq!(doorman["spec"]["replicas"], 3);
    assert_eq!(container(doorman)["resources"]["limits"]["memory"], "1Gi");
    assert_eq!(
        rendered.get("Deployment", "napwake-operator")["spec"]["replicas"],
        1
    );
}

#[rstest]
#[case::wake("defaults.wake=Ask", "/defaults/wake")]
#[case::idle_after("defaults.idleAfter=1 day", "/defaults/idleAfter")]
#[case::tag("image.tag=a b", "/image/tag")]
#[case::pull_policy("image.pullPolicy=Sometimes", "/image/pullPolicy")]
#[case::doorman_replicas("doorman.replicas=0", "/doorman/replicas")]
#[case::operator_replicas("operator.replicas=0", "/operator/replicas")]
#[case::ports("doorman.portsPerWorkload=0", "/doorman/portsPerWorkload")]
#[case::switch("doorman.enabled=maybe", "/doorman/enabled")]
#[case::user_agent(
    "doorman.healthCheckUserAgents[0]= ",
    "/doorman/healthCheckUserAgents/0"
)]
#[case::typo("doorman.replica=3", "replica")]
#[case::unknown_group("dorman.replicas=3", "dorman")]
fn a_value_that_makes_no_sense_is_refused(#[case] value: &str, #[case] named: &str) {
    let why = refusal(value);
    assert!(why.contains(named), "{why}");
}

/// Every value is in the schema, and in the chart's README.
#[test]
fn every_value_is_described() {
    let read = |file: &str| std::fs::read_to_string(workspace::chart().join(file)).unwrap();
    let values: Value = serde_saphyr::from_str(&read("values.yaml")).unwrap();
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let readme = read("README.md");
    let mut open = vec![(String::new(), &values, &schema)];
    while let Some((path, value, schema)) = open.pop() {
        let Some(fields) = value.as_object().filter(|_| !path.ends_with("resources")) else {
            assert!(readme.contains(&format!("`{path}`")), "README lacks {path}");
            continue;
        };
        for (name, value) in fields {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            let schema = &schema["properties"][name];
            assert!(schema.is_object(), "the schema lacks {path}");
            open.push((path, value, schema));
        }
    }
    assert!(!default_render().objects.is_empty());
}
