//! Callers: stock clients run as processes, each with a bound.

use std::{process::Stdio, time::Duration};

use anyhow::{Context, Result, bail};
use tokio::{io::AsyncWriteExt, process::Command};

/// What a client printed and how it ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its exit status, none where a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub out: String,
    /// What it complained about.
    pub err: String,
    /// How long it took.
    pub took: Duration,
}

impl Ended {
    /// What it printed, if it ended well.
    pub fn ok(self) -> Result<String> {
        if self.code == Some(0) {
            Ok(self.out)
        } else {
            bail!("the client failed: {self:?}")
        }
    }
}

/// Runs a client to its end, for two minutes at most.
pub async fn run(program: &str, args: &[&str]) -> Result<Ended> {
    run_with(program, args, &[], b"").await
}

/// Runs a client with variables and something to read.
pub async fn run_with(
    program: &str,
    args: &[&str],
    variables: &[(&str, &str)],
    input: &[u8],
) -> Result<Ended> {
    let started = tokio::time::Instant::now();
    let mut child = Command::new(program)
        .args(args)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("start {program}"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A client that reads nothing may have ended already.
        drop(stdin.write_all(input).await);
    }
    let output = tokio::time::timeout(Duration::from_mins(2), child.wait_with_output())
        .await
        .with_context(|| format!("{program} {args:?} didn't end within 120 s"))??;
    Ok(Ended {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
        took: started.elapsed(),
    })
}

/// `curl` of a URL: no retry, no configuration of the user's, 100 s at most.
pub async fn curl(url: &str, more: &[&str]) -> Result<Ended> {
    let mut args = vec!["-q", "-sS", "--max-time", "100"];
    args.extend(more);
    args.push(url);
    run("curl", &args).await
}

/// One message over a WebSocket, and its echo, by Debian's client library for
/// Python: one connection, no retry.
const WEBSOCKET: &str = "
import asyncio, sys, websockets

async def main():
    async with websockets.connect(sys.argv[1], open_timeout=100) as socket:
        await socket.send(sys.argv[2])
        print(await socket.recv())

asyncio.run(main())
";

/// Sends a message to a `ws://` URL and gives what comes back.
pub async fn websocket(url: &str, message: &str) -> Result<Ended> {
    // Debian's own Python: another in PATH lacks Debian's libraries.
    run("/usr/bin/python3", &["-c", WEBSOCKET, url, message]).await
}
