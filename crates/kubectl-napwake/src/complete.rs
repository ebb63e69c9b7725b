//! Completion in shells: of commands and flags, and of workloads' names.

use std::{ffi::OsStr, time::Duration};

use anyhow::{Context, Result, anyhow};
use clap::CommandFactory;
use clap_complete::{CompleteEnv, CompletionCandidate, Shell, env::Shells};
use kube::api::ListParams;

use crate::{
    cli::{Cli, Place},
    cluster::Cluster,
};

/// How long a shell waits for names: a slow cluster must not hang a prompt.
const PATIENCE: Duration = Duration::from_secs(2);

/// The variable by which the script asks this program for candidates.
const VARIABLE: &str = "COMPLETE";

/// Answers a shell that asks for candidates, and ends the process then.
pub(crate) fn answer_shell() {
    CompleteEnv::with_factory(Cli::command)
        .var(VARIABLE)
        .bin("kubectl-napwake")
        .complete();
}

/// The script that makes `shell` ask this program.
pub(crate) fn script(shell: Shell) -> Result<Vec<u8>> {
    let name = shell.to_string();
    let shells = Shells::builtins();
    let completer = shells
        .completer(&name)
        .ok_or_else(|| anyhow!("can't complete in {name}"))?;
    let mut script = Vec::new();
    let bin = "kubectl-napwake";
    completer
        .write_registration(VARIABLE, bin, bin, bin, &mut script)
        .context("can't write the script")?;
    Ok(script)
}

/// The names of the namespace's ManagedWorkloads that begin with `begun`; none
/// where the cluster can't be asked in time.
pub(crate) fn names(begun: &OsStr) -> Vec<CompletionCandidate> {
    let begun = begun.to_string_lossy();
    let names = list().unwrap_or_default();
    names
        .into_iter()
        .filter(|name| name.starts_with(&*begun))
        .map(CompletionCandidate::new)
        .collect()
}

fn list() -> Result<Vec<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let place = Place {
            namespace: None,
            context: None,
        };
        let asked = async {
            let api = Cluster::connect(&place).await?.here();
            let found = api.list_metadata(&ListParams::default()).await?;
            Ok(found
                .items
                .into_iter()
                .filter_map(|item| item.metadata.name)
                .collect())
        };
        tokio::time::timeout(PATIENCE, asked)
            .await
            .unwrap_or_else(|_| Ok(Vec::new()))
    })
}
