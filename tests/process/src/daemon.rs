//! A process of Napwake's that a test starts, and its health.

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use napwake_testkit::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::{Child, Command},
    time::{Instant, timeout},
};

use crate::SOON;

/// Lines of its log that are shown when a test fails.
const SHOWN: usize = 200;

/// A running process. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    health: SocketAddr,
    log: PathBuf,
}

impl Daemon {
    /// Starts `napwake` with these arguments and waits until it says at `health`
    /// that it's Ready. What it logs is added to `log`.
    pub(crate) async fn start(
        args: &[String],
        kubeconfig: PathBuf,
        health: SocketAddr,
        log: PathBuf,
    ) -> Result<Self> {
        let program = std::env::var_os("NAPWAKE_PROGRAM").context("NAPWAKE_PROGRAM must be set")?;
        let written = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&log)?;
        let child = Command::new(program)
            .args(args)
            .args(["--log-format", "text"])
            .arg(format!("--health-bind-address={health}"))
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .stdout(written.try_clone()?)
            .stderr(written)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("start napwake {args:?}"))?;
        let mut daemon = Self { child, health, log };
        daemon.until_ready().await?;
        Ok(daemon)
    }

    async fn until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + 3 * SOON;
        loop {
            if let Some(status) = self.child.try_wait()? {
                bail!("the process ended: {status}\n{}", self.log());
            }
            match self.readiness().await {
                Ok(true) => return Ok(()),
                last => ensure!(
                    Instant::now() < deadline,
                    "not Ready: {last:?}\n{}",
                    self.log()
                ),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Whether it says that it's Ready.
    pub(crate) async fn readiness(&self) -> Result<bool> {
        let answer = get(self.health, "/readyz").await?;
        Ok(answer.starts_with("HTTP/1.1 200 "))
    }

    /// Its number among processes.
    pub(crate) fn pid(&self) -> Result<u32> {
        self.child.id().context("the process has ended")
    }

    /// Tells it to stop, as a kubelet does.
    pub(crate) fn stop(&self) -> Result<()> {
        let id = i32::try_from(self.pid()?)?;
        let pid = Pid::from_raw(id).context("a process id")?;
        Ok(kill_process(pid, Signal::TERM)?)
    }

    /// Ends it at once, and waits until it has.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        self.child.kill().await.context("kill the process")
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self, bound: Duration) -> Result<ExitStatus> {
        let ended = timeout(bound, self.child.wait()).await;
        Ok(ended.with_context(|| format!("still running after {bound:?}"))??)
    }

    /// What it logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// The last lines of every log in a folder.
pub(crate) fn logs(folder: &std::path::Path) -> String {
    let mut shown = String::new();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()) {
        if path.extension().is_some_and(|extension| extension == "log") {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            let last = &lines[lines.len().saturating_sub(SHOWN)..];
            let last = last.join("\n");
            shown.extend(["--- ", &path.to_string_lossy(), " ---\n", &last, "\n"]);
        }
    }
    shown
}

/// One HTTP answer, head and body.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Result<String> {
    let asking = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: napwake\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let answer = timeout(SOON, asking).await;
    Ok(answer.with_context(|| format!("no answer from {address}"))??)
}
