//! Addresses of a test's own, and who listens on them.

use std::{
    collections::HashSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    process::Stdio,
};

use napwake_testkit::{Context, Result, block::Block, ensure};
use tokio::{io::AsyncWriteExt, process::Command};

/// An IP family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// Who has which of a block's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// The doorman; a test may have two.
    Doorman(u16),
    /// A pod, 0 to 5.
    Pod(u16),
    /// A caller, 0 to 5.
    Caller(u16),
    /// The way to the API server.
    Api,
    /// The operator, with a way of its own.
    Operator,
}

impl Host {
    fn index(self) -> u16 {
        match self {
            Self::Doorman(number) => number % 2,
            Self::Pod(number) => 2 + number % 6,
            Self::Caller(number) => 8 + number % 6,
            Self::Api => 14,
            Self::Operator => 15,
        }
    }

    /// Its address.
    pub fn at(self, block: Block, family: Family) -> IpAddr {
        match family {
            Family::V4 => block.v4(self.index()),
            Family::V6 => block.v6(self.index()),
        }
    }
}

/// Puts all addresses of a block on the namespace's loopback device.
pub async fn add_all(block: Block) -> Result<()> {
    let all =
        (0..napwake_testkit::block::SIZE).flat_map(|index| [block.v4(index), block.v6(index)]);
    add(&all.collect::<Vec<_>>()).await
}

/// Puts addresses on the namespace's loopback device, so that they are its own
/// and, unless they lie in the loopback ranges, no loopback addresses.
pub async fn add(addresses: &[IpAddr]) -> Result<()> {
    let lines: String = addresses.iter().map(line).collect();
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("run ip")?;
    let mut stdin = child.stdin.take().context("ip's input")?;
    stdin.write_all(lines.as_bytes()).await?;
    drop(stdin);
    let output = child.wait_with_output().await?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "ip -batch: {error}");
    Ok(())
}

fn line(address: &IpAddr) -> String {
    match address {
        IpAddr::V4(v4) => format!("address replace {v4}/32 dev lo\n"),
        IpAddr::V6(v6) => format!("address replace {v6}/128 dev lo nodad\n"),
    }
}

/// Whether something in this network namespace listens on exactly this address.
pub async fn is_listened_on(address: SocketAddr) -> Result<bool> {
    Ok(listening(address.is_ipv4()).await?.contains(&address))
}

/// The addresses that are listened on, by the kernel's own table. Nobody who
/// listens notices that it is read, as one would who is connected to.
async fn listening(v4: bool) -> Result<HashSet<SocketAddr>> {
    let path = if v4 {
        "/proc/self/net/tcp"
    } else {
        "/proc/self/net/tcp6"
    };
    let table = tokio::fs::read_to_string(path)
        .await
        .with_context(|| format!("read {path}"))?;
    Ok(table.lines().skip(1).filter_map(listener).collect())
}

/// The local address of a row, if it is a listener's (state `0A`).
fn listener(row: &str) -> Option<SocketAddr> {
    let mut fields = row.split_ascii_whitespace().skip(1);
    let (local, state) = (fields.next()?, fields.nth(1)?);
    if state != "0A" {
        return None;
    }
    let (address, port) = local.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(SocketAddr::new(parse(address)?, port))
}

/// Words of four bytes, each in the machine's own order.
fn parse(hex: &str) -> Option<IpAddr> {
    let mut bytes = Vec::with_capacity(16);
    for start in (0..hex.len()).step_by(8) {
        let word = u32::from_str_radix(hex.get(start..start + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    if let Ok(v4) = <[u8; 4]>::try_from(bytes.as_slice()) {
        return Some(Ipv4Addr::from(v4).into());
    }
    let v6 = <[u8; 16]>::try_from(bytes.as_slice()).ok()?;
    Some(Ipv6Addr::from(v6).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_rows_of_listeners_alone() {
        let row =
            "   0: 0100580A:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 1";
        assert_eq!(listener(row), Some("10.88.0.1:8080".parse().unwrap()));
        assert_eq!(listener(&row.replace(" 0A ", " 01 ")), None);
        let row = "   0: 000000FD8800000000000000010000000:1F90 0:0 0A 0";
        assert_eq!(listener(row), None);
    }
}
