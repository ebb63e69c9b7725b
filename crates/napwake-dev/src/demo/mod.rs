//! `cargo xtask demo`: from nothing to two paused workloads, woken by a request
//! each, told as it happens.
//!
//! Uses what everybody uses: the chart, kubectl, curl and psql. Shows, and
//! decides nothing.

mod manifests;
mod story;
mod view;

use std::process::Stdio;
use std::time::Duration;

use crate::cargo::{self, BuildError};
use crate::cluster::{self, Cluster, ClusterError, ClusterName, Wish};
use crate::files;
use crate::install::{self, InstallError};
use crate::progress::Progress;
use crate::run::{self, RunError};
use crate::target::Target;
use crate::tools::ToolError;
use crate::tools::packages::{self, Need};
use crate::wait::{self, Seen, TimedOut};

/// The namespace of the sample workloads.
const NAMESPACE: &str = "napwake-demo";

/// Servers that run as pods from the node's `/usr`, and the callers.
const NEEDS: [Need; 4] = [
    Need::program("curl", "curl"),
    Need::program("psql", "postgresql-client"),
    Need::program("nginx", "nginx-light"),
    Need::file(&["/usr/lib/postgresql/15/bin/postgres"], "postgresql-15"),
];

/// How long a step may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error(transparent)]
    File(#[from] files::FileError),
    #[error(transparent)]
    Install(#[from] InstallError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
    #[error("kubectl's answer can't be read")]
    Answer(#[from] serde_json::Error),
    #[error("{0} was not answered: {1}")]
    NotAnswered(&'static str, String),
}

/// One of the two sample workloads.
#[derive(Debug, Clone, Copy)]
struct Sample {
    /// Its name, and that of its Service and ManagedWorkload.
    name: &'static str,
    /// What a person reads.
    title: &'static str,
    /// The request: a program and its arguments, given the Service's address.
    request: fn(&str) -> Vec<String>,
}

const SAMPLES: [Sample; 2] = [
    Sample {
        name: "web",
        title: "a web app (nginx)",
        request: |ip| {
            ["curl", "-sS", "--max-time", "120", &format!("http://{ip}/")]
                .map(str::to_owned)
                .to_vec()
        },
    },
    Sample {
        name: "postgres",
        title: "PostgreSQL",
        request: |ip| {
            let target = format!("host={ip} user=postgres dbname=postgres");
            let query = "select 'answered by PostgreSQL ' || current_setting('server_version')";
            ["psql", "-X", "-A", "-t", &target, "-c", query]
                .map(str::to_owned)
                .to_vec()
        },
    },
];

/// Runs the demo and leaves the cluster up.
pub fn up(name: &ClusterName, progress: &Progress) -> Result<(), DemoError> {
    packages::ensure(&NEEDS, progress)?;
    let cluster = cluster::up(name, Wish::default(), progress)?;
    let target = Target::Dev(cluster.clone());
    install::install(&target, None, progress)?;
    add_plugin(&cluster, progress)?;
    deploy(&cluster, progress)?;
    pause(&cluster, progress)?;
    for sample in SAMPLES {
        story::tell(&cluster, sample, progress)?;
    }
    say_what_next(&cluster, progress);
    Ok(())
}

/// Takes the cluster with everything in it away.
pub fn down(name: &ClusterName, progress: &Progress) -> Result<(), DemoError> {
    cluster::down(name, progress)?;
    Ok(())
}

/// Puts the plugin where the cluster's kubectl finds it.
fn add_plugin(cluster: &Cluster, progress: &Progress) -> Result<(), DemoError> {
    let release = cargo::release(progress)?;
    Ok(cluster.add_program(&release.kubectl_napwake)?)
}

fn deploy(cluster: &Cluster, progress: &Progress) -> Result<(), DemoError> {
    for sample in SAMPLES {
        progress.line(format_args!("deploying {}…", sample.title));
    }
    let manifests = manifests::render(NAMESPACE);
    let file = cluster.scratch("demo.yaml");
    files::write(&file, &manifests, files::Access::Public)?;
    run::check(cluster.kubectl().args(["apply", "-f"]).arg(&file))?;
    for sample in SAMPLES {
        wait_for_phase(cluster, sample, "Running")?;
    }
    progress.line("both run");
    Ok(())
}

fn pause(cluster: &Cluster, progress: &Progress) -> Result<(), DemoError> {
    progress.line("pausing both: their routes go to the doorman, then their pods stop…");
    for sample in SAMPLES {
        let mut pause = cluster.kubectl();
        run::check(pause.args(["napwake", "pause", sample.name, "-n", NAMESPACE]))?;
    }
    for sample in SAMPLES {
        wait_for_phase(cluster, sample, "Paused")?;
        let pods = view::pods(cluster, sample.name)?;
        progress.line(format_args!(
            "  {}: paused, {} pods",
            sample.name,
            pods.len()
        ));
    }
    Ok(())
}

fn wait_for_phase(cluster: &Cluster, sample: Sample, phase: &str) -> Result<(), DemoError> {
    let what = format!("{} to be {phase}", sample.name);
    wait::until(&what, PATIENCE, || {
        let now = view::workload(cluster, sample.name)?;
        Ok(if now.phase == phase {
            Seen::Done(())
        } else {
            Seen::NotYet(format!("{now:?}"))
        })
    })
}

/// Starts a request in the cluster's network.
fn start(
    cluster: &Cluster,
    sample: Sample,
    address: &str,
) -> Result<std::process::Child, RunError> {
    let words = (sample.request)(address);
    let (program, arguments) = words
        .split_first()
        .map_or(("true", &[][..]), |(p, a)| (p.as_str(), a));
    let mut command = cluster.command(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().map_err(|source| RunError::Start {
        program: program.to_owned(),
        source,
    })
}

fn say_what_next(cluster: &Cluster, progress: &Progress) {
    progress.line("The cluster stays up. Try:");
    for line in what_next(&cluster.name().flag()) {
        progress.line(format_args!("  {line}"));
    }
}

/// Commands for the cluster that `name` leads to.
fn what_next(name: &str) -> [String; 4] {
    let exec = format!("cargo xtask cluster exec{name} --");
    [
        format!("{exec} kubectl napwake status -A"),
        format!("{exec} kubectl napwake pause web -n {NAMESPACE} --wait"),
        // The time that every event has: Napwake's have no lastTimestamp.
        format!("{exec} kubectl get events -n {NAMESPACE} --sort-by=.metadata.creationTimestamp"),
        format!("cargo xtask demo --down{name}     # takes everything away"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events of `events.k8s.io` say when in `eventTime` alone, those of other parts
    /// in `lastTimestamp`: only by the time of their making do both stand in order.
    #[test]
    fn events_are_sorted_by_a_time_that_all_have() {
        let lines = what_next(" --name x");
        let events = lines.iter().find(|line| line.contains("get events"));
        assert_eq!(
            events.map(String::as_str),
            Some(
                "cargo xtask cluster exec --name x -- kubectl get events -n napwake-demo \
                 --sort-by=.metadata.creationTimestamp"
            )
        );
    }
}
