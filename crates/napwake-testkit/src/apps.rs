//! Workloads and Services that tests make: the test app, and Debian's servers.

use serde_json::{Value, json};

/// The image of `tests/apps`.
pub const APP_IMAGE: &str = "napwake.test/app:1";
/// The image whose programs are the node's own.
pub const HOST_IMAGE: &str = "napwake.test/host:1";

/// What kind of workload to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// apps/v1 Deployment.
    Deployment,
    /// apps/v1 StatefulSet.
    StatefulSet,
}

/// A workload that runs the test app.
#[derive(Clone, Debug)]
pub struct App {
    /// Its name, and that of its Service.
    pub name: String,
    /// Deployment or StatefulSet.
    pub kind: Kind,
    /// Flags of the app.
    pub args: Vec<String>,
    /// How many pods.
    pub replicas: i32,
    /// The readiness probe, or none.
    pub readiness: Option<Value>,
    /// The startup probe, or none.
    pub startup: Option<Value>,
}

impl App {
    /// An app in `mode` that is Ready as soon as its readiness endpoint says so.
    pub fn new(name: &str, mode: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: Kind::Deployment,
            args: vec![format!("-mode={mode}")],
            replicas: 1,
            readiness: Some(json!({
                "httpGet": {"path": "/ready", "port": 8081}, "periodSeconds": 1,
            })),
            startup: None,
        }
    }

    /// With one more flag.
    #[must_use]
    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    /// As a StatefulSet.
    #[must_use]
    pub fn stateful(mut self) -> Self {
        self.kind = Kind::StatefulSet;
        self
    }

    /// With so many pods.
    #[must_use]
    pub fn replicas(mut self, replicas: i32) -> Self {
        self.replicas = replicas;
        self
    }

    /// With another readiness probe, or none.
    #[must_use]
    pub fn readiness(mut self, probe: Option<Value>) -> Self {
        self.readiness = probe;
        self
    }

    /// The workload's manifest.
    pub fn manifest(&self) -> Value {
        let mut container = json!({
            "name": "app", "image": APP_IMAGE, "imagePullPolicy": "IfNotPresent",
            "args": self.args,
            "ports": [{"name": "main", "containerPort": 8080}],
        });
        for (field, probe) in [
            ("readinessProbe", &self.readiness),
            ("startupProbe", &self.startup),
        ] {
            if let Some(probe) = probe {
                container[field] = probe.clone();
            }
        }
        workload(
            &self.name,
            self.kind,
            self.replicas,
            &json!({
                "containers": [container],
                "terminationGracePeriodSeconds": 5,
            }),
        )
    }
}

/// A workload named `name`, whose pods carry the label `app: <name>`.
pub fn workload(name: &str, kind: Kind, replicas: i32, pod: &Value) -> Value {
    let labels = json!({"app": name});
    let mut manifest = json!({
        "apiVersion": "apps/v1",
        "kind": format!("{kind:?}"),
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    });
    if kind == Kind::StatefulSet {
        manifest["spec"]["serviceName"] = json!(name);
    }
    manifest
}

/// A Service named `name` before the pods labeled `app: <app>`.
///
/// `ports` are (name, number, target port); `families` is `IPv4`, `IPv6`, or both.
pub fn service(name: &str, app: &str, ports: &[(&str, u16, u16)], families: &[&str]) -> Value {
    let policy = if families.len() > 1 {
        "RequireDualStack"
    } else {
        "SingleStack"
    };
    let ports: Vec<_> = ports
        .iter()
        .map(|(name, number, target)| {
            let mut port = json!({"port": number, "targetPort": target});
            if !name.is_empty() {
                port["name"] = json!(name);
            }
            port
        })
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name},
        "spec": {
            "selector": {"app": app}, "ports": ports,
            "ipFamilyPolicy": policy, "ipFamilies": families,
        },
    })
}

/// A container that runs one of Debian's programs from the node's `/usr`.
pub fn debian(name: &str, command: &[&str]) -> Value {
    json!({
        "name": name, "image": HOST_IMAGE, "imagePullPolicy": "IfNotPresent",
        "command": command,
        "volumeMounts": [
            {"name": "usr", "mountPath": "/usr", "readOnly": true},
            {"name": "alternatives", "mountPath": "/etc/alternatives", "readOnly": true},
            {"name": "data", "mountPath": "/data"},
        ],
    })
}

/// The volumes that [`debian`] containers mount.
pub fn debian_volumes() -> Value {
    json!([
        {"name": "usr", "hostPath": {"path": "/usr"}},
        {"name": "alternatives", "hostPath": {"path": "/etc/alternatives"}},
        {"name": "data", "emptyDir": {}},
    ])
}
