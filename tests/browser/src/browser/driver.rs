//! A driver's process, and whatever it starts: all of it ends with it.

use std::{fs, path::Path, process::Stdio};

use napwake_testkit::{Context, Result, bail};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::Child,
    task::JoinSet,
    time::timeout,
};

use super::Hosts;
use crate::{SOON, ending};

/// Runs a command with a file over /etc/hosts. Its processes have numbers of
/// their own, so that none of them outlives the first.
const IN_ITS_OWN: &str = r#"mount --bind "$1" /etc/hosts && shift && exec "$@""#;

/// A running driver.
#[derive(Debug)]
pub(super) struct Driver {
    child: Child,
    /// A screen, where the browser needs one.
    _screen: Option<Child>,
    /// Reads on what it prints, so that it never waits for us.
    reading: JoinSet<()>,
    /// What it and its browser keep, as long as they run.
    pub(super) home: TempDir,
}

/// What is started.
pub(super) struct Wanted<'a> {
    pub(super) program: &'a str,
    pub(super) args: Vec<String>,
    pub(super) variables: Vec<(&'static str, String)>,
    pub(super) screen: Option<Child>,
}

impl Driver {
    /// Starts a driver. It listens once it has been asked for its status.
    pub(super) fn start(wanted: Wanted<'_>, hosts: Hosts<'_>) -> Result<Self> {
        let home = tempfile::tempdir().context("make a folder for a browser")?;
        let names = home.path().join("hosts");
        fs::write(&names, hosts_file(hosts))?;
        let mut command = ending::command("unshare");
        command
            .args(["--mount", "--pid", "--fork", "--mount-proc"])
            .args(["--kill-child", "--", "sh", "-c", IN_ITS_OWN, "sh"])
            .arg(&names)
            .arg(wanted.program)
            .args(&wanted.args)
            .env("HOME", home.path())
            .env("TMPDIR", home.path())
            .env("XDG_RUNTIME_DIR", home.path())
            .env_remove("XDG_CACHE_HOME")
            .env_remove("DBUS_SESSION_BUS_ADDRESS")
            .envs(wanted.variables)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log(home.path(), "driver.log")?);
        let child = command.spawn();
        let child = child.with_context(|| format!("start {}", wanted.program))?;
        Ok(Self {
            home,
            child,
            _screen: wanted.screen,
            reading: JoinSet::new(),
        })
    }

    /// The port that it prints behind one of these words.
    pub(super) async fn printed_port(&mut self, words: &str) -> Result<u16> {
        let output = self.child.stdout.take().context("what it prints")?;
        let (port, rest) = printed(output, |line| {
            let (_, behind) = line.split_once(words)?;
            let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        })
        .await
        .with_context(|| format!("wait for {words:?} and a port; {}", self.last_words()))?;
        self.reading.spawn(rest);
        Ok(port)
    }

    /// What it complained about last.
    pub(super) fn last_words(&self) -> String {
        let text = fs::read_to_string(self.home.path().join("driver.log"));
        let text = text.unwrap_or_default();
        let lines: Vec<_> = text.lines().rev().take(15).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

/// Starts a screen that nobody sees, and gives its name.
pub(super) async fn screen() -> Result<(Child, String)> {
    let mut child = ending::command("Xvfb")
        .args(["-displayfd", "1", "-screen", "0", "1600x1200x24"])
        .args(["-nolisten", "tcp"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("start Xvfb")?;
    let output = child.stdout.take().context("what it prints")?;
    let number = |line: &str| line.trim().parse::<u32>().ok();
    let (number, _) = printed(output, number).await.context("wait for a screen")?;
    Ok((child, format!(":{number}")))
}

/// Reads lines until one has what is looked for. The rest is to be read on.
async fn printed<T>(
    output: impl AsyncRead + Unpin + Send + 'static,
    find: impl Fn(&str) -> Option<T>,
) -> Result<(T, impl Future<Output = ()> + Send + 'static)> {
    let mut lines = BufReader::new(output).lines();
    let looking = async {
        while let Some(line) = lines.next_line().await? {
            if let Some(found) = find(&line) {
                return Ok(found);
            }
        }
        bail!("it ended")
    };
    let found = timeout(SOON, looking).await;
    let found = found.unwrap_or_else(|_| bail!("it didn't say within {SOON:?}"))?;
    let rest = async move { while let Ok(Some(_)) = lines.next_line().await {} };
    Ok((found, rest))
}

fn log(home: &Path, name: &str) -> Result<Stdio> {
    let file = fs::File::create(home.join(name)).context("make a log")?;
    Ok(file.into())
}

fn hosts_file(hosts: Hosts<'_>) -> String {
    let own = hosts
        .iter()
        .map(|(name, address)| format!("{address} {name}\n"));
    format!("127.0.0.1 localhost\n{}", own.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_added_to_the_machines_own() {
        let hosts = hosts_file(&[("shop.napwake.test", [10, 88, 0, 1].into())]);
        assert_eq!(hosts, "127.0.0.1 localhost\n10.88.0.1 shop.napwake.test\n");
    }
}
