//! What a level needs before its tests can run: a cluster, images in it, the
//! product installed, the programs of stock clients, and data that others keep.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Level, SuiteError, Wish, browsers, ingress};
use crate::cargo;
use crate::cluster::{self, Cluster, ClusterError, ClusterName, NodeCount};
use crate::image::{base, test_app};
use crate::progress::Progress;
use crate::target::Target;
use crate::tools::packages::{self, Need};
use crate::tools::{GoTool, go_install};
use crate::{files, helm, install, run, user_agents, workspace};

/// Stock clients, the servers that run as pods from the node's `/usr`, and what counts
/// packets.
const NEEDS: [Need; 15] = [
    Need::program("setpriv", "util-linux"),
    Need::program("nft", "nftables"),
    Need::program("curl", "curl"),
    Need::program("wget", "wget"),
    Need::program("psql", "postgresql-client"),
    Need::program("redis-cli", "redis-tools"),
    Need::program("redis-server", "redis-server"),
    Need::program("mariadb", "mariadb-client-core"),
    Need::program("mariadbd", "mariadb-server-core"),
    Need::program("nginx", "nginx-light"),
    Need::program("openssl", "openssl"),
    // One small package: websocat would be built here, with the headers of OpenSSL.
    Need::file(&["/usr/bin/python3"], "python3"),
    Need::file(
        &["/usr/lib/python3/dist-packages/websockets"],
        "python3-websockets",
    ),
    Need::file(
        &["/usr/lib/python3/dist-packages/requests"],
        "python3-requests",
    ),
    Need::file(&["/usr/lib/postgresql/15/bin/postgres"], "postgresql-15"),
];

/// Counts the instructions of what a stranger can make the doorman do.
const VALGRIND: Need = Need::program("valgrind", "valgrind");

const GRPCURL: GoTool<'_> = GoTool {
    package: "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4",
    tags: "",
    ldflags: "-s -w",
};

/// Where a level's tests run, and what they find there.
pub(super) struct Ready {
    place: Place,
    variables: Vec<(&'static str, PathBuf)>,
}

/// In which network tests run, and which cluster they meet.
enum Place {
    /// The machine's own, and none.
    Here,
    /// The cluster's own.
    Inside(Cluster),
    /// The machine's own, and the cluster of this kubeconfig.
    Beside(PathBuf),
}

impl Ready {
    /// Makes `command`'s tests run in the cluster's network.
    pub(super) fn enter(&self, command: &mut Command) {
        command.envs(
            self.variables
                .iter()
                .map(|(name, value)| (*name, value.as_path())),
        );
        match &self.place {
            Place::Here => {}
            Place::Inside(cluster) => {
                let runner = cluster.netns_runner_args().join(" ");
                command.env(format!("CARGO_TARGET_{}_RUNNER", host_triple()), runner);
                command.env("KUBECONFIG", cluster.kubeconfig());
            }
            Place::Beside(kubeconfig) => {
                command.env("KUBECONFIG", kubeconfig);
            }
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

/// Prepares a level. Only levels C and B can do with a cluster of the user's own: A
/// and D need an API server without nodes, the others need none.
pub(super) fn level(level: Level, wish: &Wish, progress: &Progress) -> Result<Ready, SuiteError> {
    match level {
        Level::Checks | Level::Fuzz => Ok(Ready {
            place: Place::Here,
            variables: Vec::new(),
        }),
        Level::U => functions(progress),
        Level::H => Ok(Ready {
            place: Place::Here,
            variables: vec![("NAPWAKE_HELM", helm::program(progress)?)],
        }),
        Level::A | Level::D => api(progress),
        Level::C => Ok(whole(wish, progress)?.0),
        Level::B => {
            let (mut ready, target) = whole(wish, progress)?;
            ready
                .variables
                .extend(browsers::prepare(&target, progress)?);
            Ok(ready)
        }
    }
}

/// What counts instructions, and what others collected.
fn functions(progress: &Progress) -> Result<Ready, SuiteError> {
    packages::ensure(&[VALGRIND], progress)?;
    Ok(Ready {
        place: Place::Here,
        variables: vec![("NAPWAKE_USER_AGENTS", user_agents::lists(progress)?)],
    })
}

/// An API server alone: what it holds is what tests write.
fn api(progress: &Progress) -> Result<Ready, SuiteError> {
    packages::ensure(&NEEDS, progress)?;
    let grpcurl = go_install(&GRPCURL, progress)?;
    let wish = cluster::Wish {
        nodes: Some(NodeCount::Zero),
        ..cluster::Wish::default()
    };
    let cluster = cluster::up(&named("napwake-api")?, wish, progress)?;
    let mut apply = cluster.kubectl();
    apply.args(["apply", "--server-side", "--force-conflicts", "-f"]);
    apply.arg(workspace::chart().join("files/crds"));
    run::check(&mut apply)?;
    let program = build_napwake(progress)?;
    let app = test_app::program(progress)?;
    Ok(Ready {
        place: Place::Inside(cluster),
        variables: vec![
            ("NAPWAKE_PROGRAM", program),
            ("NAPWAKE_GRPCURL", grpcurl),
            ("NAPWAKE_TEST_APP", app),
            ("NAPWAKE_HELM", helm::program(progress)?),
        ],
    })
}

/// A whole cluster with Napwake in it: one for both levels that need one.
fn whole(wish: &Wish, progress: &Progress) -> Result<(Ready, Target), SuiteError> {
    let (target, place) = if let Some(context) = &wish.context {
        users_own(context)?
    } else {
        let name = named(wish.shape.cluster())?;
        let cluster = cluster::up(&name, wish.shape.wish(), progress)?;
        (Target::Dev(cluster.clone()), Place::Inside(cluster))
    };
    packages::ensure(&NEEDS, progress)?;
    let grpcurl = go_install(&GRPCURL, progress)?;
    target.load_image(&test_app::image(progress)?)?;
    let values: Option<&Path> = None;
    install::install(&target, values, progress)?;
    let mut variables = vec![
        ("NAPWAKE_GRPCURL", grpcurl),
        ("NAPWAKE_HELM", helm::program(progress)?),
    ];
    variables.extend(ingress::prepare(&target, progress)?);
    let ready = Ready { place, variables };
    Ok((ready, target))
}

/// A cluster of the user's own. The tests speak to Services and pods by their
/// addresses, and some of their pods run programs of this machine.
fn users_own(context: &str) -> Result<(Target, Place), SuiteError> {
    let target = Target::Context(context.to_owned());
    target.must_reach_services()?;
    let host = workspace::target().join("image/host.tar");
    if let Some(folder) = host.parent() {
        files::create_dir(folder)?;
    }
    base::host().write(&host).map_err(ClusterError::from)?;
    target.load_image(&host)?;
    let place = Place::Beside(target.kubeconfig()?);
    Ok((target, place))
}

/// The binary as tests run it: built together with the tests, so that what it
/// is made of is built once.
fn build_napwake(progress: &Progress) -> Result<PathBuf, SuiteError> {
    progress.line("building napwake for the tests…");
    let target = workspace::target();
    files::create_dir(&target)?;
    let mut build = cargo::command();
    build.args(["build", "--locked", "--workspace", "--all-targets"]);
    build.arg("--target-dir").arg(&target);
    let log = target.join("napwake-build.log");
    run::with_heartbeat(&mut build, "building napwake", &log, progress)?;
    Ok(target.join("debug/napwake"))
}

fn named(name: &str) -> Result<ClusterName, SuiteError> {
    Ok(name.parse::<ClusterName>()?)
}
