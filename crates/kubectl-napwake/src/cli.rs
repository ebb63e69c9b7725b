//! The command line, and which command does what.

use std::{io::Write, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::{Shell, engine::ArgValueCompleter};
use napwake_api::Span;

use crate::{
    cluster::Cluster,
    complete,
    outcome::Failure,
    signal::{self, Sent, Signal},
    status,
};

/// Pauses workloads that nobody uses, and wakes them when somebody does.
#[derive(Debug, Parser)]
#[command(name = "kubectl-napwake", bin_name = "kubectl napwake", version)]
#[command(
    after_help = "Exits with 1 if it failed, 2 if the command line is wrong, and 3 if the time to\nwait ran out."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    command: Command,
}

/// Where to look, as kubectl's own flags say it.
#[derive(Debug, Default, Args)]
pub(crate) struct Place {
    /// Namespace to look in, instead of the context's
    #[arg(
        short,
        long,
        global = true,
        value_name = "NAMESPACE",
        value_parser = object_name,
        display_order = 100
    )]
    pub(crate) namespace: Option<String>,
    /// Context of the kubeconfig to use, instead of the current one
    #[arg(long, global = true, value_name = "NAME", display_order = 100)]
    pub(crate) context: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show where each workload stands, and which need attention
    Status {
        /// Look in all namespaces
        #[arg(short = 'A', long)]
        all_namespaces: bool,
        /// How to print the workloads
        #[arg(short, long, value_enum, default_value_t = Output::Table)]
        output: Output,
    },
    /// Wake a workload, whatever its wake setting
    Wake(Wish),
    /// Pause a workload now, without waiting until it's idle
    Pause(Wish),
    /// Print the script that completes this command in a shell
    ///
    /// The script completes kubectl-napwake. In bash:
    ///
    ///     source <(kubectl-napwake completion bash)
    ///
    /// To complete kubectl napwake, kubectl runs kubectl_complete-napwake, which is
    /// this program by another name:
    ///
    ///     ln -s "$(command -v kubectl-napwake)" ~/.local/bin/kubectl_complete-napwake
    #[command(verbatim_doc_comment)]
    Completion {
        /// The shell to complete in
        shell: Shell,
    },
}

/// A workload and whether to wait for it.
#[derive(Debug, Args)]
struct Wish {
    /// The ManagedWorkload's name, as `kubectl napwake status` lists it
    #[arg(add = ArgValueCompleter::new(complete::names), value_parser = object_name)]
    name: String,
    /// Wait until it's running, or paused
    #[arg(long)]
    wait: bool,
    /// How long to wait at most, with --wait
    #[arg(long, default_value = "5m", requires = "wait", value_name = "DURATION")]
    timeout: Span,
}

/// How `status` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// A table for people
    Table,
    /// The ManagedWorkloads as JSON
    Json,
    /// The ManagedWorkloads as YAML
    Yaml,
}

/// A name as Kubernetes allows it for objects (RFC 1123's subdomain, up to 253
/// characters), so that it can't lead to another place of the API.
fn object_name(text: &str) -> Result<String, &'static str> {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let ends = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if (1..=253).contains(&text.len())
        && text.chars().all(is_inner)
        && text.starts_with(ends)
        && text.ends_with(ends)
    {
        Ok(text.to_owned())
    } else {
        Err(
            "a name has lowercase letters, digits, '-' and '.', and begins and ends with a letter or digit",
        )
    }
}

/// Does what the command line asks for.
pub(crate) async fn run(cli: Cli) -> Result<(), Failure> {
    match cli.command {
        Command::Status {
            all_namespaces,
            output,
        } => {
            let cluster = Cluster::connect(&cli.place).await?;
            let scope = if all_namespaces {
                status::Scope::All
            } else {
                status::Scope::One
            };
            status::print(&cluster, scope, output).await
        }
        Command::Wake(wish) => send(&cli.place, Signal::Wake, &wish).await,
        Command::Pause(wish) => send(&cli.place, Signal::Pause, &wish).await,
        Command::Completion { shell } => {
            let script = complete::script(shell)?;
            Ok(anstream::stdout().write_all(&script)?)
        }
    }
}

async fn send(place: &Place, signal: Signal, wish: &Wish) -> Result<(), Failure> {
    let cluster = Cluster::connect(place).await?;
    let stamp = signal::send(&cluster, signal, &wish.name).await?;
    let mut out = anstream::stdout();
    if !wish.wait {
        return Ok(writeln!(
            out,
            "managedworkload/{} {}",
            wish.name,
            signal.asked()
        )?);
    }
    writeln!(
        out,
        "managedworkload/{} {}, waiting",
        wish.name,
        signal.asked()
    )?;
    let timeout: Duration = wish.timeout.get();
    let sent = Sent { signal, stamp };
    signal::wait(&cluster, sent, &wish.name, timeout).await?;
    Ok(writeln!(
        out,
        "managedworkload/{} {}",
        wish.name,
        signal.done()
    )?)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, error::ErrorKind};
    use rstest::rstest;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[rstest]
    #[case(&["wake", "web"])]
    #[case(&["wake", "a.b-2", "-n", "shop"])]
    fn a_name_is_taken(#[case] line: &[&str]) {
        let line = std::iter::once("kubectl-napwake").chain(line.iter().copied());
        assert!(Cli::try_parse_from(line).is_ok());
    }

    /// What is no name is refused before anything is asked of a cluster.
    #[rstest]
    #[case(&["wake", "../../x"])]
    #[case(&["pause", ""])]
    #[case(&["wake", "Web"])]
    #[case(&["wake", "-web"])]
    #[case(&["status", "-n", ""])]
    #[case(&["status", "-n", "shop/pods"])]
    fn what_is_no_name_is_refused(#[case] line: &[&str]) {
        let line = std::iter::once("kubectl-napwake").chain(line.iter().copied());
        let kind = Cli::try_parse_from(line).unwrap_err().kind();
        // A leading dash is taken for a flag.
        let expected = [
            ErrorKind::ValueValidation,
            ErrorKind::InvalidValue,
            ErrorKind::UnknownArgument,
        ];
        assert!(expected.contains(&kind), "{kind:?}");
    }
}
