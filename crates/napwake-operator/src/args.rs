//! The flags of `napwake operator`.
//!
//! Owns what can be set and how it is checked: a flag that can't be read ends
//! the process with exit code 2 before any port is bound.

use clap::{ArgAction, Args, ValueEnum, builder::RangedU64ValueParser};
use napwake_api::{
    Span,
    names::DOORMAN_PORTS,
    settings::{Defaults, MIN_IDLE_AFTER},
    workload::WakeMode,
};
use napwake_decide::{ports::Caps, world::TargetRefs};
use napwake_kit::args::{AdminArgs, LogArgs};

/// What the operator is told at its start.
#[derive(Args, Clone, Debug)]
pub struct OperatorArgs {
    /// The namespace this pod runs in
    #[arg(long, value_name = "NAME", env = "POD_NAMESPACE")]
    pub namespace: String,

    /// This pod's name, which its events and the Lease carry
    #[arg(long, value_name = "NAME", env = "POD_NAME")]
    pub pod_name: String,

    /// This pod's uid, which tells it from an earlier one of its name
    #[arg(long, value_name = "UID", env = "POD_UID", default_value = "")]
    pub pod_uid: String,

    /// Name of the Service, in this namespace, whose selector finds the
    /// doorman's pods; empty keeps the doorman off the whole cluster
    #[arg(long, value_name = "NAME", default_value = "napwake-doorman")]
    pub doorman_service: String,

    /// For labeled workloads whose own and namespace's annotations don't say:
    /// whether any request wakes them, or only a person
    #[arg(long, value_name = "WAKE", value_enum, default_value_t)]
    pub default_wake: DefaultWake,

    /// Likewise: how long nobody must have used a workload before it is paused
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = idle_after)]
    pub default_idle_after: Span,

    /// How many doorman ports one workload may hold
    #[arg(long, value_name = "COUNT", default_value_t = Caps::default().per_workload,
          value_parser = ports())]
    pub ports_per_workload: usize,

    /// How many doorman ports the workloads of one namespace may hold
    #[arg(long, value_name = "COUNT", default_value_t = Caps::default().per_namespace,
          value_parser = ports())]
    pub ports_per_namespace: usize,

    /// Whether the endpoints of paused Services name the doorman's pods as their
    /// targetRef
    #[arg(long, value_name = "REF", value_enum, default_value_t)]
    pub endpoint_target_ref: EndpointTargetRef,

    /// Whether to take turns with other operators by a Lease; without it there
    /// must be only one
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1,
          default_missing_value = "true", action = ArgAction::Set)]
    pub leader_elect: bool,

    /// Wake every workload, delete every ManagedWorkload and end, as before an
    /// uninstall
    #[arg(long)]
    pub wake_everybody: bool,

    /// With --wake-everybody: name of the operator's Deployment in this
    /// namespace, which is stopped first
    #[arg(long, value_name = "NAME", requires = "wake_everybody")]
    pub operator_deployment: Option<String>,

    #[command(flatten)]
    pub admin: AdminArgs,

    #[command(flatten)]
    pub log: LogArgs,
}

impl OperatorArgs {
    /// What holds for labeled workloads that don't say.
    pub fn defaults(&self) -> Defaults {
        Defaults {
            wake: match self.default_wake {
                DefaultWake::Request => WakeMode::Request,
                DefaultWake::Ask => WakeMode::Ask,
            },
            idle_after: self.default_idle_after,
        }
    }

    /// How many doorman ports may be held.
    pub fn caps(&self) -> Caps {
        Caps {
            per_workload: self.ports_per_workload,
            per_namespace: self.ports_per_namespace,
        }
    }

    /// Whether slices name the doorman's pods.
    pub fn target_refs(&self) -> TargetRefs {
        match self.endpoint_target_ref {
            EndpointTargetRef::Auto => TargetRefs::Auto,
            EndpointTargetRef::Pod => TargetRefs::Always,
            EndpointTargetRef::None => TargetRefs::Never,
        }
    }

    /// Who this process is among operators.
    pub fn identity(&self) -> String {
        format!("{}_{}", self.pod_name, self.pod_uid)
    }
}

/// `--default-wake` (SET-06, SET-07).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DefaultWake {
    /// Any request
    #[default]
    Request,
    /// Only a person
    Ask,
}

/// `--endpoint-target-ref` (T-132).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EndpointTargetRef {
    /// They do, but for Services in Istio's ambient mesh
    #[default]
    Auto,
    /// They do
    Pod,
    /// They don't
    None,
}

/// As many as there are. With none nothing could be routed: for that there is
/// `--doorman-service=""`.
fn ports() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=DOORMAN_PORTS.len() as u64)
}

fn idle_after(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    if span < MIN_IDLE_AFTER {
        return Err("must be at least 1m".to_owned());
    }
    Ok(span)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;

    use super::*;

    #[derive(Parser, Debug)]
    struct Cli {
        #[command(flatten)]
        operator: OperatorArgs,
    }

    fn parse(flags: &[&str]) -> Result<OperatorArgs, clap::Error> {
        let fixed = ["operator", "--namespace=ns", "--pod-name=pod"];
        Cli::try_parse_from(fixed.iter().chain(flags)).map(|cli| cli.operator)
    }

    #[test]
    fn the_charts_flags_are_read() {
        let args = parse(&[
            "--doorman-service=",
            "--default-wake=ask",
            "--endpoint-target-ref=none",
            "--default-idle-after=1h30m",
            "--log-level=debug",
            "--log-format=text",
        ]);
        let args = args.unwrap();
        let expected = Defaults {
            wake: WakeMode::Ask,
            idle_after: Span::from_mins(90),
        };
        assert_eq!(args.defaults(), expected);
        assert_eq!(args.doorman_service, "");
        assert_eq!(args.target_refs(), TargetRefs::Never);
        assert!(args.leader_elect && !args.wake_everybody);
    }

    /// Bad input ends the process with exit code 2 before any port is bound.
    #[rstest]
    #[case("--default-wake=Ask")]
    #[case("--default-wake=true")]
    #[case("--default-idle-after=59s")]
    #[case("--default-idle-after=soon")]
    #[case("--endpoint-target-ref=Pod")]
    #[case("--leader-elect=maybe")]
    #[case("--operator-deployment=a")]
    #[case("--ports-per-workload=-1")]
    #[case("--ports-per-workload=0")]
    #[case("--ports-per-namespace=0")]
    #[case("--ports-per-namespace=10001")]
    fn what_cannot_be_read_is_a_usage_error(#[case] flag: &str) {
        let error = parse(&[flag]).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{error}");
    }
}
