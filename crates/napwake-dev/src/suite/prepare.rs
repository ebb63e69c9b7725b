//! What a level needs before its tests can run: a cluster, images in it, the
//! product installed, and the programs of stock clients.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Level, SuiteError};
use crate::cluster::{self, Cluster, ClusterName, NodeCount, Wish};
use crate::image::test_app;
use crate::progress::Progress;
use crate::target::Target;
use crate::tools::packages::{self, Need};
use crate::tools::{GoTool, go_install};
use crate::{files, helm, install, run, workspace};

/// Stock clients, and the servers that run as pods from the node's `/usr`.
const NEEDS: [Need; 9] = [
    Need::program("curl", "curl"),
    Need::program("psql", "postgresql-client"),
    Need::program("redis-cli", "redis-tools"),
    Need::program("redis-server", "redis-server"),
    Need::program("mariadb", "mariadb-client-core"),
    Need::program("mariadbd", "mariadb-server-core"),
    Need::program("nginx", "nginx-light"),
    Need::program("openssl", "openssl"),
    Need::file(&["/usr/lib/postgresql/15/bin/postgres"], "postgresql-15"),
];

const GRPCURL: GoTool<'_> = GoTool {
    package: "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4",
    tags: "",
    ldflags: "-s -w",
};

/// Where a level's tests run, and what they find there.
pub(super) struct Ready {
    /// The cluster in whose network they run, or the machine's own.
    cluster: Option<Cluster>,
    variables: Vec<(&'static str, PathBuf)>,
}

impl Ready {
    /// Makes `command`'s tests run in the cluster's network.
    pub(super) fn enter(&self, command: &mut Command) {
        command.envs(
            self.variables
                .iter()
                .map(|(name, value)| (*name, value.as_path())),
        );
        if let Some(cluster) = &self.cluster {
            let runner = cluster.netns_runner_args().join(" ");
            command.env(format!("CARGO_TARGET_{}_RUNNER", host_triple()), runner);
            command.env("KUBECONFIG", cluster.kubeconfig());
        }
    }
}

/// The machine's target as Cargo's variables spell it.
fn host_triple() -> String {
    format!(
        "{}_UNKNOWN_LINUX_GNU",
        std::env::consts::ARCH.to_uppercase()
    )
}

/// Prepares a level.
pub(super) fn level(level: Level, progress: &Progress) -> Result<Ready, SuiteError> {
    match level {
        Level::Checks | Level::U => Ok(Ready {
            cluster: None,
            variables: Vec::new(),
        }),
        Level::H => Ok(Ready {
            cluster: None,
            variables: vec![("NAPWAKE_HELM", helm::program(progress)?)],
        }),
        Level::A | Level::D => api(progress),
        Level::C => whole(progress),
    }
}

/// An API server alone: what it holds is what tests write.
fn api(progress: &Progress) -> Result<Ready, SuiteError> {
    packages::ensure(&NEEDS, progress)?;
    let grpcurl = go_install(&GRPCURL, progress)?;
    let wish = Wish {
        nodes: Some(NodeCount::Zero),
        ..Wish::default()
    };
    let cluster = cluster::up(&named("napwake-api")?, wish, progress)?;
    let mut apply = cluster.kubectl();
    apply.args(["apply", "--server-side", "--force-conflicts", "-f"]);
    apply.arg(workspace::chart().join("files/crds"));
    run::check(&mut apply)?;
    let program = build_napwake(progress)?;
    let app = test_app::program(progress)?;
    Ok(Ready {
        cluster: Some(cluster),
        variables: vec![
            ("NAPWAKE_PROGRAM", program),
            ("NAPWAKE_GRPCURL", grpcurl),
            ("NAPWAKE_TEST_APP", app),
        ],
    })
}

/// A whole cluster with Napwake in it.
fn whole(progress: &Progress) -> Result<Ready, SuiteError> {
    packages::ensure(&NEEDS, progress)?;
    let grpcurl = go_install(&GRPCURL, progress)?;
    let cluster = cluster::up(&named("napwake-test")?, Wish::default(), progress)?;
    cluster.load_image(&test_app::image(progress)?)?;
    let target = Target::Dev(cluster.clone());
    let values: Option<&Path> = None;
    install::install(&target, values, progress)?;
    Ok(Ready {
        cluster: Some(cluster),
        variables: vec![
            ("NAPWAKE_GRPCURL", grpcurl),
            ("NAPWAKE_HELM", helm::program(progress)?),
        ],
    })
}

/// The binary as tests run it: built as the tests themselves are.
fn build_napwake(progress: &Progress) -> Result<PathBuf, SuiteError> {
    progress.line("building napwake for the tests…");
    let target = workspace::target();
    files::create_dir(&target)?;
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build
        .current_dir(workspace::root())
        .args(["build", "--locked", "--package=napwake"]);
    build.arg("--target-dir").arg(&target);
    let log = target.join("napwake-build.log");
    run::with_heartbeat(&mut build, "building napwake", &log, progress)?;
    Ok(target.join("debug/napwake"))
}

fn named(name: &str) -> Result<ClusterName, SuiteError> {
    Ok(name.parse::<ClusterName>()?)
}
