//! Numbers that no other test of the run has: addresses and doorman ports.
//!
//! Tests are processes of their own, so the counter is a locked file.

use std::{
    fs::OpenOptions,
    io::{Read, Seek, SeekFrom, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::PathBuf,
};

use anyhow::{Context, Result};

/// How many doorman ports and addresses a block has.
pub const SIZE: u16 = 16;

/// A test's own addresses and ports.
#[derive(Clone, Copy, Debug)]
pub struct Block(u16);

impl Block {
    /// Takes the next block.
    pub fn take() -> Result<Self> {
        let path = counter_path();
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .with_context(|| format!("open {}", path.display()))?;
        file.lock().context("lock the counter of test blocks")?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let number: u16 = text.trim().parse().unwrap_or(0);
        // 10,000 doorman ports in blocks of 16, then from the start again.
        let next = (number + 1) % (10_000 / SIZE);
        file.seek(SeekFrom::Start(0))?;
        file.set_len(0)?;
        write!(file, "{next}")?;
        Ok(Self(number))
    }

    /// Its doorman port number `index`, 0 to 15.
    pub fn port(self, index: u16) -> u16 {
        20_000 + self.0 * SIZE + index % SIZE
    }

    /// Its IPv4 address number `index`, 0 to 15: part of 10.88.0.0/16.
    pub fn v4(self, index: u16) -> IpAddr {
        let [high, low] = (self.0 * SIZE + index % SIZE + 1).to_be_bytes();
        Ipv4Addr::new(10, 88, high, low).into()
    }

    /// Its IPv6 address number `index`, 0 to 15: part of fd00:88::/112.
    pub fn v6(self, index: u16) -> IpAddr {
        let last = self.0 * SIZE + index % SIZE + 1;
        Ipv6Addr::new(0xfd00, 0x88, 0, 0, 0, 0, 0, last).into()
    }
}

/// One counter for each network namespace, since addresses are the namespace's.
fn counter_path() -> PathBuf {
    let link = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    let inode: String = link
        .to_string_lossy()
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    std::env::temp_dir().join(format!("napwake-test-blocks-{inode}"))
}

/// Makes the IPv4 addresses of all blocks the machine's own, by a route: whenever an
/// address is added to a device, Chromium ends its connections, those of the test
/// beside too. Does nothing where the route is there.
pub async fn own_addresses() -> Result<()> {
    let mut ip = tokio::process::Command::new("ip");
    ip.args(["route", "replace", "local", "10.88.0.0/16", "dev", "lo"]);
    let output = ip.output().await.context("run ip")?;
    let error = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "ip route replace: {error}");
    Ok(())
}
