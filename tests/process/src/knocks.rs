//! Counting who knocks: SYNs that come to an address, answered or not.

use std::{
    net::{IpAddr, SocketAddr},
    ops::RangeInclusive,
};

use napwake_testkit::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

/// A counter of the connections that are tried to an address. Dropping it
/// removes its rule.
#[derive(Debug)]
pub struct Knocks {
    table: String,
}

impl Knocks {
    /// Counts from now on.
    pub async fn count_at(address: SocketAddr) -> Result<Self> {
        let port = address.port();
        Self::count_at_any(address.ip(), port..=port).await
    }

    /// Counts those to any of these ports.
    pub async fn count_at_any(ip: IpAddr, ports: RangeInclusive<u16>) -> Result<Self> {
        let (first, last) = ports.into_inner();
        // 10.88.1.12 and 10.88.11.2 aren't one.
        let name = ip.to_string().replace(['.', ':'], "_");
        let table = format!("napwake_test_{name}_{first}");
        let family = if ip.is_ipv4() { "ip" } else { "ip6" };
        let rules = format!(
            "add table inet {table}\n\
             add chain inet {table} come {{ type filter hook input priority 0; }}\n\
             add rule inet {table} come {family} daddr {ip} tcp dport >= {first} tcp dport <= {last} \
             tcp flags & (syn | ack) == syn counter\n"
        );
        nft(&[&rules]).await?;
        Ok(Self { table })
    }

    /// How many came so far.
    pub async fn so_far(&self) -> Result<u64> {
        let text = nft(&["-j", &format!("list table inet {}", self.table)]).await?;
        let listed: Value = serde_json::from_str(&text)?;
        let counters = listed["nftables"].as_array().into_iter().flatten();
        let packets = counters
            .filter_map(|object| object["rule"]["expr"].as_array())
            .flatten()
            .find_map(|part| part["counter"]["packets"].as_u64());
        packets.with_context(|| format!("no counter in {text}"))
    }
}

impl Drop for Knocks {
    fn drop(&mut self) {
        let mut remove = std::process::Command::new("nft");
        remove.args(["delete", "table", "inet", &self.table]);
        // It goes with the network namespace at the latest.
        drop(remove.status());
    }
}

async fn nft(args: &[&str]) -> Result<String> {
    let output = Command::new("nft")
        .args(args)
        .output()
        .await
        .context("run nft")?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "nft {args:?}: {error}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
