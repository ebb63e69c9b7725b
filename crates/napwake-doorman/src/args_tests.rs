//! Tests of the doorman's flags.

use clap::{CommandFactory, Parser};
use rstest::rstest;

use super::*;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    doorman: DoormanArgs,
}

const NEEDED: [&str; 5] = [
    "napwake",
    "--namespace",
    "napwake-system",
    "--pod-name",
    "doorman-0",
];

fn parse(args: &[&str]) -> Result<DoormanArgs, clap::Error> {
    Program::try_parse_from([&NEEDED, args].concat()).map(|program| program.doorman)
}

#[test]
fn the_definitions_are_sound() {
    Program::command().debug_assert();
}

#[test]
fn what_the_chart_gives() {
    let args = parse(&[
        "--pod-ips=10.1.0.7,fd00::7",
        "--wake-key-secret=team-a-doorman-wake-key",
        "--health-check-user-agent=MyCorpMonitor/",
        "--health-check-user-agent=status-checker",
    ])
    .unwrap();
    assert_eq!(args.pod_ips.len(), 2);
    assert_eq!(args.wake_key_secret, "team-a-doorman-wake-key");
    let agents = args.agents().unwrap();
    for agent in ["MyCorpMonitor/3", "status-checker", "kube-probe/1.30"] {
        assert!(
            agents.checker("GET", Some(agent.as_bytes())).is_some(),
            "{agent}"
        );
    }
}

/// TOKEN-18: as the chart names it for a release named napwake.
#[test]
fn the_wake_key_has_a_name_without_being_told() {
    let args = parse(&[]).unwrap();
    assert_eq!(args.wake_key_secret, "napwake-doorman-wake-key");
}

/// T-38: an empty prefix is refused at the start, with the exit code of a usage
/// error; so is whatever else can't be read.
#[rstest]
#[case::empty("--health-check-user-agent=")]
#[case::address("--pod-ips=doorman-0")]
#[case::unknown("--no-such-flag")]
fn what_cannot_be_read(#[case] flag: &str) {
    assert_eq!(parse(&[flag]).unwrap_err().exit_code(), 2);
}
