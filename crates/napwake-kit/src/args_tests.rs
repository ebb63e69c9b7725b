//! Tests of the shared flags.

use clap::{CommandFactory, Parser};
use rstest::rstest;

use super::*;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    admin: AdminArgs,
    #[arg(long, default_value = "30", value_parser = seconds(5..=60))]
    silence: Duration,
}

fn parse(args: &[&str]) -> Result<Program, clap::Error> {
    Program::try_parse_from([&["program"], args].concat())
}

#[test]
fn the_definitions_are_sound() {
    Program::command().debug_assert();
}

#[test]
fn defaults() {
    let program = parse(&[]).unwrap();
    assert_eq!(program.admin.health_bind_address.to_string(), "[::]:8081");
    assert_eq!(program.admin.metrics_bind_address.to_string(), "[::]:8443");
    assert!(!program.admin.metrics_insecure);
    assert_eq!(program.log.log_format, LogFormat::Json);
    assert_eq!(program.silence, Duration::from_secs(30));
}

#[rstest]
#[case::any(":8443", "[::]:8443")]
#[case::ipv6("[fd00::1]:9000", "[fd00::1]:9000")]
#[case::ipv4("0.0.0.0:0", "0.0.0.0:0")]
fn bind_addresses(#[case] given: BindAddress, #[case] expected: &str) {
    assert_eq!(given.to_string(), expected);
}

/// A flag that can't be read is a usage error, found while parsing: exit code 2.
#[rstest]
#[case::no_port(&["--metrics-bind-address", "[::]"])]
#[case::name(&["--health-bind-address", "localhost:8081"])]
#[case::port_too_high(&["--health-bind-address", ":65536"])]
#[case::empty_port(&["--health-bind-address", ":"])]
#[case::format(&["--log-format", "yaml"])]
#[case::filter(&["--log-level", "napwake=loud"])]
#[case::both(&["--metrics-insecure", "--metrics-cert-dir", "/certs"])]
#[case::too_short(&["--silence", "4"])]
#[case::too_long(&["--silence", "61s"])]
#[case::not_a_number(&["--silence", "soon"])]
#[case::negative(&["--silence=-5"])]
#[case::unknown(&["--no-such-flag"])]
fn unreadable_flags(#[case] args: &[&str]) {
    let error = parse(args).unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error}");
}
