//! An ingress before the cluster's Services: Contour, with Envoy as its proxy.
//!
//! Both are processes of the test's own, at an address of the test's own, and
//! follow only the test's namespace.

use std::{fs, net::IpAddr, path::Path, process::Stdio};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::{
    block::{self, Block},
    callers, ending,
    managed::PATIENCE,
    place::Place,
    wait,
};

/// The name at which it serves.
pub const HOST: &str = "shop.napwake.test";

/// What stands behind the path of its own checks.
const CHECK: &str = "?check";

/// What Contour is told in its file: what Envoy writes down of each request, and
/// that nobody looks after Envoy.
const CONFIG: &str = "\
accesslog-format: json
json-fields: [method, path, protocol, response_code]
network: {admin-port: 0}
";

/// The name of the Gateway, where it has one.
pub const GATEWAY: &str = "front";

/// What listens for a Gateway's port 80: Contour adds 8000 to those below 1024.
pub const GATEWAY_PORT: u16 = 8080;

/// The kinds that Contour wants in versions that the Gateway API no longer serves.
const GATEWAY_LACKS: [&str; 3] = ["tlsroutes", "tcproutes", "backendtlspolicies"];

/// What it's told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// Ingresses and Contour's own HTTPProxies.
    Ingress,
    /// The Gateway API: the Gateway [`GATEWAY`] and its routes.
    Gateway,
}

/// A running ingress, gone when it's dropped.
#[derive(Debug)]
pub struct Ingress {
    address: IpAddr,
    folder: TempDir,
    processes: Vec<Child>,
}

impl Ingress {
    /// Starts one for the place's namespace, with a certificate for [`HOST`].
    pub async fn start(place: &Place) -> Result<Self> {
        Self::start_for(place, Speaks::Ingress).await
    }

    /// As [`Self::start`], for one of the two ways of telling it.
    pub async fn start_for(place: &Place, speaks: Speaks) -> Result<Self> {
        let address = Block::take()?.v4(0);
        block::own_addresses().await?;
        let certified = rcgen::generate_simple_self_signed(vec![HOST.to_owned()])?;
        let secret = json!({
            "metadata": {"name": "certificate"}, "type": "kubernetes.io/tls",
            "stringData": {
                "tls.crt": certified.cert.pem(),
                "tls.key": certified.signing_key.serialize_pem(),
            },
        });
        place.create::<Secret>(secret).await?;
        let folder = tempfile::tempdir().context("make a folder for the ingress")?;
        let mut ingress = Self {
            address,
            folder,
            processes: Vec::new(),
        };
        ingress.start_contour(&place.namespace, speaks)?;
        ingress.start_envoy().await?;
        Ok(ingress)
    }

    fn start_contour(&mut self, namespace: &str, speaks: Speaks) -> Result<()> {
        let config = self.folder.path().join("contour.yaml");
        let gateway =
            format!("gateway: {{gatewayRef: {{namespace: {namespace}, name: {GATEWAY}}}}}\n");
        let is_gateway = speaks == Speaks::Gateway;
        let more = if is_gateway { gateway.as_str() } else { "" };
        fs::write(&config, [CONFIG, more].concat())?;
        let address = self.address;
        let mut contour = ending::command(&set("NAPWAKE_CONTOUR")?);
        contour.args(["serve", "--no-incluster", "--insecure"]);
        contour.args(["--disable-leader-election", "--xds-port=8001"]);
        contour.arg(format!("--kubeconfig={}", set("KUBECONFIG")?));
        contour.arg(format!("--config-path={}", config.display()));
        contour.arg(format!("--watch-namespaces={namespace}"));
        contour.args([
            "--envoy-service-http-port=80",
            "--envoy-service-https-port=443",
        ]);
        for whose in [
            "xds",
            "http",
            "health",
            "stats",
            "debug-http",
            "envoy-service-http",
            "envoy-service-https",
        ] {
            contour.arg(format!("--{whose}-address={address}"));
        }
        for lacks in GATEWAY_LACKS.iter().filter(|_| is_gateway) {
            contour.arg(format!("--disable-feature={lacks}"));
        }
        self.spawn(contour, "contour.log")
    }

    async fn start_envoy(&mut self) -> Result<()> {
        let bootstrap = self.folder.path().join("envoy.json").display().to_string();
        let contour = set("NAPWAKE_CONTOUR")?;
        let socket = self.folder.path().join("admin.sock");
        let (from, admin) = (
            format!("--xds-address={}", self.address),
            format!("--admin-address={}", socket.display()),
        );
        let words = ["bootstrap", &bootstrap, &from, "--xds-port=8001", &admin];
        callers::run(&contour, &words).await?.ok()?;
        let mut envoy = ending::command(&set("NAPWAKE_ENVOY")?);
        envoy.args(["--config-path", &bootstrap, "--disable-hot-restart"]);
        envoy.args(["--service-cluster", "napwake", "--service-node", "one"]);
        envoy.args(["--concurrency", "1", "--log-level", "warn"]);
        envoy.args(["--file-flush-interval-msec", "50"]);
        self.spawn(envoy, "envoy.log")
    }

    fn spawn(&mut self, mut command: Command, log: &str) -> Result<()> {
        let out = fs::File::create(self.folder.path().join(log))?;
        let err = fs::File::create(self.folder.path().join(format!("{log}.err")))?;
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        let child = command.spawn();
        self.processes
            .push(child.with_context(|| format!("start what writes {log}"))?);
        Ok(())
    }

    /// Serves the Service `name` at each of these paths, as HTTP and as HTTPS, and
    /// waits until it does. `more` are further words on the way there.
    pub async fn serve(&self, place: &Place, name: &str, path: &str, more: Value) -> Result<()> {
        let mut route = json!({
            "conditions": [{"prefix": path}],
            "services": [{"name": name, "port": 80}],
            "permitInsecure": true,
        });
        if let (Value::Object(route), Value::Object(more)) = (&mut route, more) {
            route.extend(more);
        }
        let proxy = json!({
            "apiVersion": "projectcontour.io/v1", "kind": "HTTPProxy",
            "metadata": {"name": "shop", "namespace": place.namespace},
            "spec": {
                "virtualhost": {"fqdn": HOST, "tls": {"secretName": "certificate"}},
                "routes": [route],
            },
        });
        let url = format!("https://{HOST}{path}");
        self.serve_by(&proxy, &url).await
    }

    /// Makes the object, and waits until the URL is served by it.
    pub async fn serve_by(&self, object: &Value, url: &str) -> Result<()> {
        let (words, text) = (["create", "-f", "-"], object.to_string());
        let made = callers::run_with("kubectl", &words, &[], text.as_bytes()).await?;
        made.ok()?;
        self.until_served(url).await
    }

    /// Waits until the URL is served.
    pub async fn until_served(&self, url: &str) -> Result<()> {
        // A load balancer's check: the doorman's own 200, which wakes nothing, or the
        // app's.
        let url = format!("{url}{CHECK}");
        let answer = async || self.curl(&url, &["--user-agent", "GoogleHC/1.0"]).await;
        let is_ok = |answer: &String| {
            answer
                .lines()
                .next()
                .is_some_and(|line| line.contains("200"))
        };
        let served = wait::until("the ingress to serve", PATIENCE, answer, is_ok);
        served.await.inspect_err(|_| self.tell())?;
        Ok(())
    }

    /// One request by curl: the answer's head and body.
    pub async fn curl(&self, url: &str, more: &[&str]) -> Result<String> {
        let found = [80, 443, GATEWAY_PORT].map(|port| format!("{HOST}:{port}:{}", self.address));
        let mut own = vec!["--insecure", "--include"];
        for found in &found {
            own.extend(["--resolve", found]);
        }
        callers::curl(url, &[&own, more].concat()).await?.ok()
    }

    /// How a browser finds it.
    pub fn hosts(&self) -> [(&'static str, IpAddr); 1] {
        [(HOST, self.address)]
    }

    /// What it was asked for, and what came of it, as in `GET /x HTTP/2 503`, once
    /// `is_all` of it was written down.
    pub async fn log_until(&self, is_all: impl Fn(&[String]) -> bool) -> Result<Vec<String>> {
        let log = async || self.log();
        wait::until("the ingress's log", PATIENCE, log, |log| is_all(log)).await
    }

    fn log(&self) -> Result<Vec<String>> {
        let text = fs::read_to_string(self.folder.path().join("envoy.log"))?;
        let lines = text.lines().filter_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            let word = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
            let words = ["method", "path", "protocol"].map(word);
            Some(format!("{} {}", words.join(" "), line["response_code"]))
        });
        Ok(lines.filter(|line| !line.contains(CHECK)).collect())
    }

    /// Prints what both complained about.
    pub fn tell(&self) {
        for log in [
            "contour.log.err",
            "contour.log",
            "envoy.log.err",
            "envoy.log",
        ] {
            eprintln!(
                "--- {log} ---\n{}",
                last_lines(&self.folder.path().join(log))
            );
        }
    }
}

fn set(variable: &str) -> Result<String> {
    std::env::var(variable).with_context(|| format!("{variable} is set by `cargo xtask test`"))
}

fn last_lines(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<_> = text.lines().rev().take(20).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}
