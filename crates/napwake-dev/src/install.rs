//! Installing the product into a cluster, and taking it away again.
//!
//! Builds the image, puts it into the nodes, and leaves the rest to the real
//! Helm and the chart. Waits for what Helm started, and says what it saw last.

use std::path::Path;
use std::process::Command;

use crate::helm;
use crate::image::product::{self, Product, ProductError, REPOSITORY};
use crate::progress::Progress;
use crate::run::{self, RunError};
use crate::target::{Target, TargetError};
use crate::tools::ToolError;
use crate::workspace;

/// The release's name (SET-30).
pub const RELEASE: &str = "napwake";

/// The namespace it is installed into (SET-30).
pub const NAMESPACE: &str = "napwake-system";

/// Finds what belongs to the release.
const SELECTOR: &str = "app.kubernetes.io/instance=napwake";

/// How long the operator and the doorman get to be Ready, as kubectl reads it.
const ROLLOUT: &str = "--timeout=240s";

/// How long Helm waits, above all for the hook that wakes everybody.
const HELM_WAIT: &str = "--timeout=6m";

/// What Helm calls a revision on which it was still at work, or an uninstall whose
/// hook failed. It takes none of them for one that an upgrade can begin from.
const INTERRUPTED: [&str; 4] = [
    "pending-install",
    "pending-upgrade",
    "pending-rollback",
    "uninstalling",
];

#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error(transparent)]
    Image(#[from] ProductError),
    #[error(transparent)]
    Tool(#[from] ToolError),
    #[error("can't put the image into the cluster")]
    Load(#[from] TargetError),
    #[error("Helm could not {doing} the release {RELEASE}{seen}")]
    Helm {
        doing: &'static str,
        source: RunError,
        seen: Seen,
    },
    #[error("not all of Napwake's pods got Ready{seen}")]
    NotReady { source: RunError, seen: Seen },
}

/// What kubectl showed when something failed: empty, or lines of their own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen(String);

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, "; last seen:\n{}", self.0)
        }
    }
}

/// Builds, loads, installs or upgrades, and waits for the operator and the
/// doorman's pods. An upgrade rolls if the image or the values differ.
pub fn install(
    target: &Target,
    values: Option<&Path>,
    progress: &Progress,
) -> Result<(), InstallError> {
    let product = product::image(progress)?;
    let helm = helm::program(progress)?;
    let source = load(target, &product, values, progress)?;
    forget_interrupted(target);
    progress.line(format_args!("installing {RELEASE} into {NAMESPACE}…"));
    let mut upgrade = target.helm(&helm);
    upgrade
        .args(["upgrade", "--install", RELEASE])
        .arg(workspace::chart());
    upgrade.args(["--namespace", NAMESPACE, "--create-namespace", HELM_WAIT]);
    // The API's definition may have stayed from a release of another name.
    upgrade.arg("--take-ownership");
    if let Some(file) = values {
        upgrade.arg("--values").arg(absolute(file));
    }
    if source == Source::Loaded {
        upgrade.args(["--set-string", &format!("image.repository={REPOSITORY}")]);
        upgrade.args(["--set-string", &format!("image.tag={}", product.tag)]);
    }
    run::check(&mut upgrade).map_err(|source| InstallError::Helm {
        doing: "install",
        source,
        seen: Seen::default(),
    })?;
    wait(target, progress)
}

/// Wakes everybody and takes the release away. The API's definition stays, as
/// the chart keeps it.
pub fn uninstall(target: &Target, progress: &Progress) -> Result<(), InstallError> {
    let helm = helm::program(progress)?;
    progress.line("waking everybody and uninstalling…");
    let mut uninstall = target.helm(&helm);
    uninstall.args(["uninstall", RELEASE, "--namespace", NAMESPACE]);
    uninstall.args(["--wait", "--ignore-not-found", HELM_WAIT]);
    run::check(&mut uninstall).map_err(|source| InstallError::Helm {
        doing: "uninstall",
        source,
        seen: seen(target, &["logs", "job/napwake-wake-everybody", "--tail=15"]),
    })?;
    progress.line("uninstalled");
    Ok(())
}

/// Where the nodes get the image from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// From us.
    Loaded,
    /// From the registry that the user's values name.
    Values,
}

fn load(
    target: &Target,
    product: &Product,
    values: Option<&Path>,
    progress: &Progress,
) -> Result<Source, InstallError> {
    progress.line(format_args!("loading {}…", product.name()));
    match target.load_image(&product.archive) {
        Ok(()) => Ok(Source::Loaded),
        Err(TargetError::NoLoader(..)) if values.is_some() => {
            progress.line("the cluster pulls the image that the values name");
            Ok(Source::Values)
        }
        Err(error) => Err(error.into()),
    }
}

/// Forgets the revision of a Helm that was killed, or whose uninstall failed: Helm
/// would refuse the install. What that revision put there stays, and is taken over.
fn forget_interrupted(target: &Target) {
    let mut delete = target.kubectl();
    delete.args(["delete", "secret", "--ignore-not-found"]);
    delete.args(["--namespace", NAMESPACE, "--selector", &interrupted()]);
    // Without the namespace there is nothing to forget; Helm itself tells of
    // an API that doesn't answer.
    drop(run::check(&mut delete));
}

/// Finds where Helm keeps such revisions.
fn interrupted() -> String {
    let statuses = INTERRUPTED.join(",");
    format!("owner=helm,name={RELEASE},status in ({statuses})")
}

fn wait(target: &Target, progress: &Progress) -> Result<(), InstallError> {
    progress.line("waiting for the operator and the doorman…");
    let mut status = target.kubectl();
    status.args(["rollout", "status", "deployment", "--namespace", NAMESPACE]);
    status.args(["--selector", SELECTOR, ROLLOUT]);
    run::check(&mut status).map_err(|source| InstallError::NotReady {
        source,
        seen: Seen(
            [
                seen(
                    target,
                    &["get", "pods", "--selector", SELECTOR, "--output=wide"],
                )
                .0,
                seen(target, &["get", "events", "--field-selector=type=Warning"]).0,
                seen(
                    target,
                    &["logs", "--selector", SELECTOR, "--prefix", "--tail=5"],
                )
                .0,
            ]
            .join("\n"),
        ),
    })?;
    progress.line("Napwake is up");
    Ok(())
}

/// What kubectl says of the release's namespace, or why it says nothing.
fn seen(target: &Target, words: &[&str]) -> Seen {
    let mut kubectl: Command = target.kubectl();
    kubectl.args(["--namespace", NAMESPACE]).args(words);
    Seen(match run::output(&mut kubectl) {
        Ok(text) => run::tail(&text, 20),
        Err(error) => error.to_string(),
    })
}

/// Helm runs elsewhere than the user.
fn absolute(file: &Path) -> std::path::PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_follows_on_lines_of_its_own() {
        let failed = |seen: &str| InstallError::NotReady {
            source: run::check(&mut Command::new("false")).unwrap_err(),
            seen: Seen(seen.to_owned()),
        };
        assert_eq!(
            failed("").to_string(),
            "not all of Napwake's pods got Ready"
        );
        assert!(failed("pod x").to_string().ends_with("last seen:\npod x"));
    }

    #[test]
    fn an_uninstall_that_failed_is_forgotten_as_an_install_that_was_killed() {
        assert_eq!(
            interrupted(),
            "owner=helm,name=napwake,status in \
             (pending-install,pending-upgrade,pending-rollback,uninstalling)"
        );
    }
}
