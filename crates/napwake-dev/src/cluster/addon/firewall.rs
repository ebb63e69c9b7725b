//! The machine's packet filter in the nodes' networks, as far as the engines
//! for network policies need a hand: packets queued for the one that waits for
//! them, and chains taken away that the other one leaves behind.
//!
//! Touches only chains and sets that are one engine's own.

use std::process::Command;
use std::time::Duration;

use super::super::ClusterError;
use super::super::handle::Cluster;
use super::super::net::inside;
use super::super::topology::{Netns, Node, POD_RANGES};
use crate::files::{self, Access};
use crate::run;
use crate::wait::{self, Seen};

/// Where kube-network-policies waits for packets.
pub(super) const QUEUE: u16 = 100;

/// How long it gets to take the first, once its pod is Ready.
const LISTENER_BOUND: Duration = Duration::from_secs(30);

/// The chain that queues them.
const CHAIN: &str = "NAPWAKE-DEV-QUEUE";

/// One of the two programs for the two families of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    const BOTH: [Self; 2] = [Self::V4, Self::V6];

    fn program(self) -> &'static str {
        match self {
            Self::V4 => "iptables",
            Self::V6 => "ip6tables",
        }
    }

    fn pods(self) -> &'static str {
        let (v4, v6) = POD_RANGES.split_once(',').unwrap_or((POD_RANGES, ""));
        match self {
            Self::V4 => v4,
            Self::V6 => v6,
        }
    }
}

/// Hands every pod's first packets to kube-network-policies, on every node.
/// Changes nothing where that is so.
pub(super) fn queue(cluster: &Cluster) -> Result<(), ClusterError> {
    for node in &cluster.topology().nodes {
        wait_for_listener(node)?;
        for family in Family::BOTH {
            restore(cluster, node, family, &queueing(family))?;
            let jump = ["POSTROUTING", "-j", CHAIN];
            if !run::succeeds(mangle(&node.netns, family, "-C").args(jump))? {
                run::check(mangle(&node.netns, family, "-A").args(jump))?;
            }
        }
    }
    Ok(())
}

/// Waits until somebody takes packets from the queue on this node.
fn wait_for_listener(node: &Node) -> Result<(), ClusterError> {
    let what = format!("kube-network-policies to listen on {}", node.name);
    wait::until(&what, LISTENER_BOUND, || {
        let list = "/proc/net/netfilter/nfnetlink_queue";
        let queues = run::output(inside(&node.netns).args(["cat", list]))?;
        Ok(if listens(&queues) {
            Seen::Done(())
        } else {
            Seen::NotYet(format!("queues: {queues}"))
        })
    })
}

/// Whether the kernel's list of queues, one a line, has ours.
fn listens(queues: &str) -> bool {
    let numbers = queues
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    numbers
        .into_iter()
        .any(|number| number.parse() == Ok(QUEUE))
}

pub(super) fn stop_queueing(cluster: &Cluster) -> Result<(), ClusterError> {
    forget(cluster, |chain| chain == CHAIN)
}

/// Takes kube-router's chains and sets away, which it leaves where they are.
pub(super) fn forget_kube_router(cluster: &Cluster) -> Result<(), ClusterError> {
    forget(cluster, is_kube_routers_chain)?;
    for node in &cluster.topology().nodes {
        let names = run::output(inside(&node.netns).args(["ipset", "list", "-name"]))?;
        for name in names.lines().filter(|name| is_kube_routers_set(name)) {
            run::check(inside(&node.netns).args(["ipset", "destroy", name]))?;
        }
    }
    Ok(())
}

fn is_kube_routers_chain(chain: &str) -> bool {
    let prefixes = ["KUBE-ROUTER-", "KUBE-POD-FW-", "KUBE-NWPLCY-"];
    prefixes.iter().any(|prefix| chain.starts_with(prefix))
}

fn is_kube_routers_set(set: &str) -> bool {
    let name = set.strip_prefix("inet6:").unwrap_or(set);
    let prefixes = ["kube-router-", "KUBE-SRC-", "KUBE-DST-"];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Takes chains away, with the rules that lead there, on every node.
fn forget(cluster: &Cluster, owned: impl Fn(&str) -> bool) -> Result<(), ClusterError> {
    for node in &cluster.topology().nodes {
        for family in Family::BOTH {
            let mut save = inside(&node.netns);
            let saved = run::output(save.arg(format!("{}-save", family.program())))?;
            let script = without(&saved, &owned);
            if !script.is_empty() {
                restore(cluster, node, family, &script)?;
            }
        }
    }
    Ok(())
}

fn mangle(netns: &Netns, family: Family, action: &str) -> Command {
    let mut command = inside(netns);
    command.args([family.program(), "-t", "mangle", action]);
    command
}

/// All of the script happens at once, or none of it.
fn restore(
    cluster: &Cluster,
    node: &Node,
    family: Family,
    script: &str,
) -> Result<(), ClusterError> {
    let file = cluster.state().node(&node.name).join("firewall.rules");
    files::write(&file, script, Access::Public)?;
    let mut restore = inside(&node.netns);
    restore.args([&format!("{}-restore", family.program()), "--noflush"]);
    Ok(run::check(restore.arg(&file))?)
}

/// Rules that queue the pods' packets. The node's own programs (the kubelet's
/// probes above all) and connections that were let in once are not asked about,
/// nor is what finds neighbors in IPv6. Without a listener packets pass, as they
/// do with the engine's own rules.
fn queueing(family: Family) -> String {
    let pods = family.pods();
    let mut rules = vec![
        "-m owner --uid-owner 0 -j RETURN".to_owned(),
        "-m conntrack --ctstate ESTABLISHED,RELATED -j RETURN".to_owned(),
    ];
    if family == Family::V6 {
        rules.push("-p ipv6-icmp -j RETURN".to_owned());
    }
    for side in ["-s", "-d"] {
        let queue = format!("-j NFQUEUE --queue-num {QUEUE} --queue-bypass");
        rules.push(format!("{side} {pods} {queue}"));
    }
    let rules = rules.join(&format!("\n-A {CHAIN} "));
    format!("*mangle\n:{CHAIN} - [0:0]\n-A {CHAIN} {rules}\nCOMMIT\n")
}

/// What takes chains out of the tables that were saved, as `iptables-restore
/// --noflush` reads it; nothing where there are none.
fn without(saved: &str, owned: &impl Fn(&str) -> bool) -> String {
    let mut script = String::new();
    let (mut table, mut chains, mut jumps) = ("", Vec::new(), Vec::new());
    for line in saved.lines() {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        if line == "COMMIT" {
            script.push_str(&removal(table, &chains, &jumps));
            (chains, jumps) = (Vec::new(), Vec::new());
        } else if let Some(name) = first.strip_prefix('*') {
            table = name;
        } else if let Some(chain) = first.strip_prefix(':').filter(|chain| owned(chain)) {
            chains.push(chain);
        } else if let Some(rule) = line.strip_prefix("-A ")
            && words.next().is_some_and(|chain| !owned(chain))
            && leads_to(rule, owned)
        {
            jumps.push(rule);
        }
    }
    script
}

/// Empties the chains, so that none is used by another; then removes them.
fn removal(table: &str, chains: &[&str], jumps: &[&str]) -> String {
    if chains.is_empty() {
        return String::new();
    }
    let emptied = chains.iter().map(|chain| format!(":{chain} - [0:0]\n"));
    let jumps = jumps.iter().map(|rule| format!("-D {rule}\n"));
    let removed = chains.iter().map(|chain| format!("-X {chain}\n"));
    let steps: String = emptied.chain(jumps).chain(removed).collect();
    format!("*{table}\n{steps}COMMIT\n")
}

fn leads_to(rule: &str, owned: &impl Fn(&str) -> bool) -> bool {
    let words: Vec<_> = rule.split_ascii_whitespace().collect();
    words
        .windows(2)
        .any(|pair| matches!(pair[0], "-j" | "-g") && owned(pair[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAVED: &str = "\
# Generated by iptables-save v1.8.9 (nf_tables) on Mon Nov 30 06:00:00 2026
*mangle
:PREROUTING ACCEPT [0:0]
COMMIT
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-NWPLCY-DEFAULT - [0:0]
:KUBE-POD-FW-X3 - [0:0]
:KUBE-ROUTER-FORWARD - [0:0]
-A INPUT -i lo -j ACCEPT
-A FORWARD -m comment --comment \"kube-router netpol - 4IA2\" -j KUBE-ROUTER-FORWARD
-A FORWARD -j KUBE-FORWARD
-A KUBE-POD-FW-X3 -j KUBE-NWPLCY-DEFAULT
-A KUBE-ROUTER-FORWARD -d 10.244.16.2/32 -j KUBE-POD-FW-X3
COMMIT
";

    #[test]
    fn an_engines_chains_go_with_the_ways_that_lead_there() {
        let expected = "\
*filter
:KUBE-NWPLCY-DEFAULT - [0:0]
:KUBE-POD-FW-X3 - [0:0]
:KUBE-ROUTER-FORWARD - [0:0]
-D FORWARD -m comment --comment \"kube-router netpol - 4IA2\" -j KUBE-ROUTER-FORWARD
-X KUBE-NWPLCY-DEFAULT
-X KUBE-POD-FW-X3
-X KUBE-ROUTER-FORWARD
COMMIT
";
        assert_eq!(without(SAVED, &is_kube_routers_chain), expected);
        assert_eq!(without(SAVED, &|chain: &str| chain == CHAIN), "");
    }

    #[test]
    fn a_queue_is_known_by_its_number() {
        assert!(listens(
            "    7  9  0 2   128  0  0  0  1\n  100  1  0 2   128  0  0  0  1\n"
        ));
        assert!(!listens(" 1000  100  0 2   128  0  0  0  1\n"));
        assert!(!listens(""));
    }

    #[test]
    fn sets_of_both_families_are_known() {
        let ours = ["KUBE-SRC-X", "inet6:KUBE-DST-X", "kube-router-local-ips"];
        assert!(ours.into_iter().all(is_kube_routers_set));
        assert!(!is_kube_routers_set("KUBE-CLUSTER-IP"));
    }

    #[test]
    fn both_directions_are_queued_and_neighbors_are_not() {
        let v4 = queueing(Family::V4);
        assert!(v4.contains("-s 10.244.0.0/16 -j NFQUEUE --queue-num 100"));
        assert!(v4.contains("-d 10.244.0.0/16 -j NFQUEUE --queue-num 100"));
        assert!(!v4.contains("icmp"));
        let v6 = queueing(Family::V6);
        let neighbors = v6.find("-p ipv6-icmp -j RETURN").unwrap();
        assert!(neighbors < v6.find("-s fd00:244::/56").unwrap());
    }
}
