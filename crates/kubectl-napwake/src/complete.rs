//! Completion in shells: of commands and flags, and of workloads' names.
//!
//! A shell asks for `kubectl-napwake` by the script that `completion` prints.
//! For `kubectl napwake` kubectl asks instead, in its own way, of a program by
//! the name of [`FOR_KUBECTL`].

use std::{
    ffi::{OsStr, OsString},
    fmt::Write as _,
    io::Write as _,
    path::Path,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use clap::{CommandFactory, FromArgMatches};
use clap_complete::{CompleteEnv, CompletionCandidate, Shell, engine, env::Shells};
use kube::api::ListParams;

use crate::{
    cli::{Cli, Place},
    cluster::Cluster,
};

/// How long a shell waits for names: a slow cluster must not hang a prompt.
const PATIENCE: Duration = Duration::from_secs(2);

/// The variable by which the script asks this program for candidates.
const VARIABLE: &str = "COMPLETE";

/// What this program is called as by kubectl, to complete `kubectl napwake`.
const FOR_KUBECTL: &str = "kubectl_complete-napwake";

/// What it's called as else.
const PROGRAM: &str = "kubectl-napwake";

/// Tells kubectl that files complete nothing (cobra's `ShellCompDirectiveNoFileComp`).
const NO_FILES: &str = ":4";

/// Answers kubectl, if it's the one that asks: then the process is done.
pub(crate) fn answer_kubectl() -> Option<ExitCode> {
    if !is_for_kubectl(&std::env::args_os().next()?) {
        return None;
    }
    let told = candidates(typed(std::env::args_os()))
        .and_then(|told| Ok(anstream::stdout().write_all(told.as_bytes())?));
    // A shell shows no errors while it completes; there's just nothing to offer.
    Some(told.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS))
}

fn is_for_kubectl(program: &OsStr) -> bool {
    Path::new(program).file_stem() == Some(OsStr::new(FOR_KUBECTL))
}

/// What could stand where the last of `words` is begun, as kubectl reads it: one
/// on a line, a tab and what it does, and at last what else completes it.
fn candidates(mut words: Vec<OsString>) -> Result<String> {
    if words.len() < 2 {
        words.push(OsString::new());
    }
    let last = words.len() - 1;
    let found = engine::complete(&mut Cli::command(), words, last, None)?;
    let mut told = String::new();
    for one in found.iter().filter(|one| !one.is_hide_set()) {
        told.push_str(&one.get_value().to_string_lossy());
        let help = one.get_help().map(ToString::to_string).unwrap_or_default();
        if let Some(help) = help.lines().next() {
            write!(told, "\t{help}")?;
        }
        told.push('\n');
    }
    told.push_str(NO_FILES);
    told.push('\n');
    Ok(told)
}

/// The command line that is being completed, by what this program was called
/// with: kubectl gives what stands behind `napwake`, a shell all of it behind `--`.
fn typed(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args = args.peekable();
    if args.peek().is_some_and(|program| is_for_kubectl(program)) {
        return std::iter::once(PROGRAM.into())
            .chain(args.skip(1))
            .collect();
    }
    args.skip_while(|arg| arg != "--").skip(1).collect()
}

/// Where that command line looks, as far as it's typed.
fn place(words: &[OsString]) -> Place {
    let matches = Cli::command()
        .ignore_errors(true)
        .try_get_matches_from(words);
    let place = matches.and_then(|matches| Place::from_arg_matches(&matches));
    place.unwrap_or_default()
}

/// Answers a shell that asks for candidates, and ends the process then.
pub(crate) fn answer_shell() {
    CompleteEnv::with_factory(Cli::command)
        .var(VARIABLE)
        .bin(PROGRAM)
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
    completer
        .write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)
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
        let place = place(&typed(std::env::args_os()));
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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(Into::into).collect()
    }

    fn offered(line: &str) -> Vec<String> {
        let told = candidates(words(line)).expect("completes");
        told.lines().map(str::to_owned).collect()
    }

    #[test]
    fn kubectl_is_offered_commands_with_what_they_do() {
        let offered = offered("kubectl-napwake s");
        let status = "status\tShow where each workload stands, and which need attention";
        assert_eq!(offered, [status, ":4"]);
    }

    #[test]
    fn kubectl_is_offered_values_of_flags() {
        let offered = offered("kubectl-napwake status -o y");
        assert_eq!(offered.len(), 2, "{offered:?}");
        assert!(offered[0].starts_with("yaml"), "{offered:?}");
    }

    #[test]
    fn an_empty_line_is_a_word_to_begin() {
        assert!(offered("kubectl-napwake").len() > 3);
    }

    #[rstest]
    #[case::by_kubectl("/bin/kubectl_complete-napwake wake -n shop d")]
    #[case::by_a_shell("/bin/kubectl-napwake -- kubectl-napwake wake -n shop d")]
    fn the_same_line_is_completed_whoever_asks(#[case] args: &str) {
        let typed = typed(words(args).into_iter());
        assert_eq!(typed, words("kubectl-napwake wake -n shop d"));
    }

    #[rstest]
    #[case::behind("wake -n shop d", Some("shop"), None)]
    #[case::before("-n shop wake d", Some("shop"), None)]
    #[case::after_the_name("wake d -n shop", Some("shop"), None)]
    #[case::in_one_word("pause -nshop ", Some("shop"), None)]
    #[case::long("pause --namespace=shop --context kind d", Some("shop"), Some("kind"))]
    #[case::with_others("pause --wait --namespace shop --timeout 1m d", Some("shop"), None)]
    #[case::unfinished("wake -n", None, None)]
    #[case::none("wake d", None, None)]
    fn names_are_looked_for_where_the_line_says(
        #[case] line: &str,
        #[case] namespace: Option<&str>,
        #[case] context: Option<&str>,
    ) {
        let place = place(&words(&format!("kubectl-napwake {line}")));
        assert_eq!(place.namespace.as_deref(), namespace);
        assert_eq!(place.context.as_deref(), context);
    }
}
