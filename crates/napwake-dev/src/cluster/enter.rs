//! The script that runs a command inside of the cluster's network.
//!
//! A script rather than a list of words, so that it can be given to whatever
//! takes the name of one program: Cargo's runner setting, a test, a person.

use super::ClusterError;
use super::settings::Dns;
use super::state::State;
use super::topology::{DNS_SERVICE, Netns};
use crate::files::{self, Access};

pub(super) fn write(state: &State, netns: &Netns, dns: Dns) -> Result<(), ClusterError> {
    // In place: a process that is already inside sees the change, too.
    let resolv_conf = state.resolv_conf();
    std::fs::write(&resolv_conf, name_servers(dns))
        .map_err(files::failed("write", &resolv_conf))?;
    Ok(files::write(
        &state.enter(),
        script(state, netns),
        Access::Program,
    )?)
}

/// The machine's own name servers can't be reached from inside. Without one of
/// the cluster's, looking a name up fails at once instead of after a timeout.
fn name_servers(dns: Dns) -> String {
    match dns {
        Dns::Off => "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n".to_owned(),
        Dns::On => format!(
            "nameserver {DNS_SERVICE}\n\
             search default.svc.cluster.local svc.cluster.local cluster.local\n\
             options ndots:5\n"
        ),
    }
}

fn script(state: &State, netns: &Netns) -> String {
    format!(
        r#"#!/bin/sh
# Runs a command inside of the cluster's network, with its name servers, its
# kubectl and the administrator's kubeconfig.
if [ $# -eq 0 ]; then
    echo "usage: $0 COMMAND [ARGUMENT]..." >&2
    exit 2
fi
# There is no way out to a proxy.
unset http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY
export PATH="{bin}:$PATH"
export KUBECONFIG="{kubeconfig}"
export KUBECACHEDIR="{cache}"
exec nsenter --net={netns} unshare --mount --propagation slave -- sh -c '
    if [ -e /etc/resolv.conf ]; then
        mount --bind "$1" /etc/resolv.conf || exit 125
    fi
    shift
    exec "$@"
' "$0" "{resolv_conf}" "$@"
"#,
        bin = state.bin().display(),
        kubeconfig = state.kubeconfig().display(),
        cache = state.dir().join("kubectl-cache").display(),
        netns = netns.path(),
        resolv_conf = state.resolv_conf().display(),
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use crate::cluster::name::ClusterName;
    use crate::cluster::settings::NodeCount;
    use crate::cluster::topology::Topology;

    #[test]
    fn the_script_is_shell_and_asks_for_a_command() {
        let name = ClusterName::default();
        let root = tempfile::tempdir().unwrap();
        let state = State::below(root.path(), &name);
        files::create_dir(&state.bin()).unwrap();
        let topology = Topology::new(&name, NodeCount::One);
        write(&state, &topology.control, Dns::Off).unwrap();
        assert!(
            files::read(&state.resolv_conf())
                .unwrap()
                .contains("127.0.0.1")
        );
        let ended = Command::new(state.enter()).output().unwrap();
        assert_eq!(ended.status.code(), Some(2));
    }

    #[test]
    fn with_name_resolution_the_clusters_server_is_asked() {
        assert!(name_servers(Dns::On).starts_with("nameserver 10.96.0.10\nsearch default.svc"));
    }

    #[test]
    fn a_command_runs_in_the_clusters_own_network() {
        let name = ClusterName::default();
        let topology = Topology::new(&name, NodeCount::Three);
        let text = script(&State::below(Path::new("/state"), &name), &topology.control);
        assert!(
            text.contains("nsenter --net=/run/netns/napwake-dev unshare"),
            "{text}"
        );
    }
}
