//! The wake key outlives whoever brings the chart again.

use std::{collections::BTreeMap, path::Path};

use k8s_openapi::{
    ByteString,
    api::{apps::v1::Deployment, core::v1::Secret},
};
use napwake_dev::workspace;
use napwake_testkit::{Context, Result, callers, ensure, managed::PATIENCE, place::Place, wait};
use napwake_tests_process::world::World;
use rstest::rstest;

use crate::{chart, setup};

/// What brings the chart into a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Helm,
    /// `kubectl apply`, as Argo CD does unless it's told otherwise.
    Apply,
    /// Server-side apply, which takes over what others own, as Flux does.
    ServerSide,
}

/// A release of the chart in a test's namespace, whose objects are named as it is.
struct Release<'w> {
    place: &'w Place,
    chart: String,
}

impl Release<'_> {
    fn name(&self) -> &str {
        &self.place.namespace
    }

    fn secret(&self) -> String {
        format!("{}-doorman-wake-key", self.name())
    }

    async fn helm(&self, command: &[&str], more: &[&str]) -> Result<String> {
        let helm = chart::HELM.display().to_string();
        let args = [command, &["--namespace", self.name()], more].concat();
        callers::run(&helm, &args).await?.ok()
    }

    /// Brings the chart with another value, and sees that it came.
    async fn bring(&self, tool: Tool, level: &str) -> Result<()> {
        let set = format!("log.level={level}");
        let (name, value) = (self.name(), ["--set", set.as_str()]);
        if tool == Tool::Helm {
            let command = ["upgrade", "--install", name, &self.chart];
            // Somebody else may have brought it before.
            let more = [&value[..], &["--take-ownership"]].concat();
            self.helm(&command, &more).await?;
        } else {
            let command = ["template", name, &self.chart, "--no-hooks"];
            let manifests = self.helm(&command, &value).await?;
            let mut args = vec!["apply", "-n", name, "-f", "-"];
            if tool == Tool::ServerSide {
                args.extend(["--server-side", "--force-conflicts"]);
                args.push("--field-manager=kustomize-controller");
            }
            let input = manifests.as_bytes();
            callers::run_with("kubectl", &args, &[], input)
                .await?
                .ok()?;
        }
        self.came(level).await
    }

    /// That the doorman is told this level.
    async fn came(&self, level: &str) -> Result<()> {
        let name = format!("{}-doorman", self.name());
        let doorman = self.place.api::<Deployment>().get(&name).await?;
        let pod = doorman.spec.and_then(|spec| spec.template.spec);
        let containers = pod.context("a template of pods")?.containers.into_iter();
        let args: Vec<_> = containers.filter_map(|one| one.args).flatten().collect();
        let wanted = format!("--log-level={level}");
        ensure!(args.contains(&wanted), "{wanted} isn't in {args:?}");
        Ok(())
    }

    async fn data(&self) -> Result<Option<BTreeMap<String, ByteString>>> {
        let secrets = self.place.api::<Secret>();
        Ok(secrets.get(&self.secret()).await?.data)
    }

    /// Takes away what lies outside of the namespace.
    async fn end(&self) -> Result<()> {
        let ours = format!("app.kubernetes.io/instance={}", self.name());
        let kinds = "clusterroles,clusterrolebindings";
        let args = ["delete", kinds, "-l", &ours];
        callers::run("kubectl", &args).await?.ok()?;
        Ok(())
    }
}

/// The chart without the API's definition, which belongs to all tests here.
async fn without_the_definition(folder: &Path) -> Result<String> {
    let copy = folder.join("chart");
    let (from, to) = (workspace::chart(), copy.display().to_string());
    let args = ["-r", &from.display().to_string(), &to];
    callers::run("cp", &args).await?.ok()?;
    tokio::fs::remove_dir_all(copy.join("files/crds")).await?;
    Ok(to)
}

/// TOKEN-21: whoever brings the chart first, and whoever brings it again, with the
/// same values or with others, and back to its first revision: the key that a
/// doorman filled in stays as it is.
#[rstest]
#[case(Tool::Helm)]
#[case(Tool::Apply)]
#[case(Tool::ServerSide)]
#[tokio::test]
async fn bringing_the_chart_again_leaves_the_key_alone(#[case] first: Tool) {
    setup::bare("keptkey", async |world| {
        let release = Release {
            place: &world.place,
            chart: without_the_definition(world.api.folder()).await?,
        };
        let ended = stays(world, &release, first).await;
        release.end().await?;
        ended
    })
    .await;
}

async fn stays(world: &World, release: &Release<'_>, first: Tool) -> Result<()> {
    release.bring(first, "info").await?;
    let data = release.data().await?;
    ensure!(data.is_none(), "brought with data");
    let flag = format!("--wake-key-secret={}", release.secret());
    let _doorman = world.doorman_with(&[&flag]).await?;
    let filled = || release.data();
    let what = "the doorman to fill the Secret";
    let key = wait::until(what, PATIENCE, filled, Option::is_some).await?;
    let others = [
        (Tool::Helm, "debug"),
        (Tool::Apply, "warn"),
        (Tool::ServerSide, "error"),
    ];
    for (tool, level) in [(first, "info")].into_iter().chain(others) {
        for _ in 0..2 {
            release.bring(tool, level).await?;
            let found = release.data().await?;
            ensure!(found == key, "another key after {tool:?} with {level}");
        }
    }
    release
        .helm(&["rollback", release.name(), "1"], &[])
        .await?;
    let found = release.data().await?;
    ensure!(found == key, "another key after a rollback");
    Ok(())
}
