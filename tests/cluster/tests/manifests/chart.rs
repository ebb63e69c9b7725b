//! Renders the chart and finds objects in what comes out.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::LazyLock;

use napwake_dev::progress::Progress;
use napwake_dev::{helm, workspace};
use serde_json::Value;

/// The one that the suite built, or one built now.
pub(crate) static HELM: LazyLock<PathBuf> = LazyLock::new(|| {
    let given = std::env::var_os("NAPWAKE_HELM").map(PathBuf::from);
    given.unwrap_or_else(|| helm::program(&Progress::new()).expect("Helm can be built"))
});

/// Objects as Helm renders them, hooks included.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    pub(crate) objects: Vec<Value>,
}

/// The default install.
pub(crate) fn default_render() -> Rendered {
    render("napwake", &[])
}

/// A release of some name with `--set` values.
pub(crate) fn render(release: &str, values: &[&str]) -> Rendered {
    let done = template(release, values);
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let text = String::from_utf8(done.stdout).expect("manifests are text");
    let objects = serde_saphyr::from_multiple(&text).expect("manifests are YAML");
    Rendered { text, objects }
}

/// Why Helm refuses some values.
pub(crate) fn refusal(value: &str) -> String {
    let done = template("napwake", &[value]);
    assert!(!done.status.success(), "{value} is let through");
    String::from_utf8_lossy(&done.stderr).into_owned()
}

/// Why Helm refuses a cluster of this version, if it does.
pub(crate) fn refusal_of_version(version: &str) -> Option<String> {
    let mut helm = command("napwake");
    helm.args(["--kube-version", version]);
    let done = helm.output().expect("Helm runs");
    (!done.status.success()).then(|| String::from_utf8_lossy(&done.stderr).into_owned())
}

fn template(release: &str, values: &[&str]) -> Output {
    let mut helm = command(release);
    for value in values {
        helm.args(["--set", value]);
    }
    helm.output().expect("Helm runs")
}

fn command(release: &str) -> Command {
    let mut helm = Command::new(&*HELM);
    helm.args(["template", release]).arg(workspace::chart());
    helm.args(["--namespace", "napwake-system"]);
    helm
}

impl Rendered {
    pub(crate) fn of_kind(&self, kind: &str) -> Vec<&Value> {
        self.objects
            .iter()
            .filter(|object| object["kind"] == kind)
            .collect()
    }

    pub(crate) fn find(&self, kind: &str, name: &str) -> Option<&Value> {
        self.of_kind(kind)
            .into_iter()
            .find(|object| object["metadata"]["name"] == name)
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> &Value {
        self.find(kind, name)
            .unwrap_or_else(|| panic!("no {kind} {name} in\n{}", self.text))
    }

    /// Every template of pods, with the name of what makes them.
    pub(crate) fn pod_templates(&self) -> Vec<(String, &Value)> {
        let makers = ["Deployment", "Job"]
            .map(|kind| self.of_kind(kind))
            .concat();
        let name = |maker: &Value| maker["metadata"]["name"].as_str().unwrap().to_owned();
        makers
            .into_iter()
            .map(|maker| (name(maker), &maker["spec"]["template"]))
            .collect()
    }
}

/// The arguments of an object's only container.
pub(crate) fn arguments(maker: &Value) -> Vec<&str> {
    let args = &container(maker)["args"];
    args.as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect()
}

/// An object's only container.
pub(crate) fn container(maker: &Value) -> &Value {
    let containers = maker["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap();
    assert_eq!(containers.len(), 1);
    &containers[0]
}

/// Whether labels satisfy a selector's `matchLabels`.
pub(crate) fn selects(selector: &Value, labels: &Value) -> bool {
    let wanted = selector.as_object().unwrap();
    !wanted.is_empty() && wanted.iter().all(|(name, value)| labels[name] == *value)
}
