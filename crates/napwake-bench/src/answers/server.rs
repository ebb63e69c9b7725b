//! A process that answers: its core, and how long it has run there.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Who answers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Server {
    pub(super) process: u32,
    pub(super) address: SocketAddr,
}

/// The core of the load, and that of the server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cores {
    pub(super) load: usize,
    pub(super) server: usize,
}

impl Cores {
    /// The first and the last that this process may use.
    pub(super) fn of_here() -> Result<Self> {
        let list = allowed("self")?;
        let (load, server) = first_and_last(&list).with_context(|| format!("read {list:?}"))?;
        ensure!(load != server, "there is one core only");
        Ok(Self { load, server })
    }
}

fn allowed(process: &str) -> Result<String> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    Ok(line.context("no cores in it")?.trim().to_owned())
}

/// The first and the last of a list like `0-3,6`.
fn first_and_last(list: &str) -> Option<(usize, usize)> {
    let mut numbers = list.split([',', '-']).map(str::parse);
    let first = numbers.next()?.ok()?;
    let end = numbers.next_back().unwrap_or(Ok(first)).ok()?;
    Some((first, end))
}

/// For how many nanoseconds the threads of a process have run.
pub(super) fn ran(process: u32) -> Result<u64> {
    let mut ran = 0;
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        // A thread that ends meanwhile ran too little to matter.
        let times = fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        let time = times.split_whitespace().next();
        ran += time.and_then(|time| time.parse::<u64>().ok()).unwrap_or(0);
    }
    ensure!(ran > 0, "the kernel doesn't say how long {process} ran");
    Ok(ran)
}

/// Keeps a process on one core while it lives.
#[must_use]
#[derive(Debug)]
pub(super) struct Pinned {
    process: u32,
    before: String,
}

impl Pinned {
    pub(super) fn to(core: usize, process: u32) -> Result<Self> {
        let before = allowed(&process.to_string())?;
        pin(process, &core.to_string())?;
        Ok(Self { process, before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Err(error) = pin(self.process, &self.before) {
            crate::say(&format!("the doorman stays on one core: {error:#}"));
        }
    }
}

fn pin(process: u32, cores: &str) -> Result<()> {
    let mut taskset = Command::new("taskset");
    taskset.args(["--all-tasks", "--cpu-list", "--pid", cores]);
    let ended = taskset.arg(process.to_string()).output()?;
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "pin {process} to {cores}: {said}");
    Ok(())
}

/// A command on one core in the network of `process`. It becomes the program, so its
/// process is the program's.
pub(super) fn beside(process: u32, core: usize, program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{process}/ns/net"));
    command.args(["taskset", "--cpu-list", &core.to_string()]);
    command.arg(program.as_ref());
    command
}

/// Gives `process` the same share of the processors as `like` has: a pod's isn't that
/// of a program of the machine.
pub(super) fn share_alike(process: u32, like: u32) -> Result<()> {
    let groups = fs::read_to_string(format!("/proc/{like}/cgroup"))?;
    let group = groups.lines().find_map(|line| {
        let file = processes_of(line)?;
        file.is_file().then_some(file)
    });
    let group = group.context("the doorman is in no group that has a share")?;
    fs::write(&group, process.to_string()).with_context(|| format!("write {}", group.display()))
}

/// The file that puts a process into the group of a line of `/proc/PID/cgroup`, if
/// that group has a share of the processors.
fn processes_of(line: &str) -> Option<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let is_for_shares = controllers.split(',').any(|one| one == "cpu");
    if !is_for_shares && !controllers.is_empty() {
        return None;
    }
    let folder = Path::new("/sys/fs/cgroup").join(controllers);
    let group = folder.join(path.trim_start_matches('/'));
    Some(group.join("cgroup.procs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_the_ends_of_a_list() {
        assert_eq!(first_and_last("0-1"), Some((0, 1)));
        assert_eq!(first_and_last("0-3,6"), Some((0, 6)));
        assert_eq!(first_and_last("2"), Some((2, 2)));
        assert_eq!(first_and_last(""), None);
    }

    #[test]
    fn shares_are_of_either_version_of_control_groups() {
        let file = |line| processes_of(line).map(|file| file.display().to_string());
        let of = |path| Some(format!("/sys/fs/cgroup/{path}/cgroup.procs"));
        assert_eq!(file("4:cpu,cpuacct:/pods/a"), of("cpu,cpuacct/pods/a"));
        assert_eq!(file("0::/pods/a"), of("pods/a"));
        assert_eq!(file("3:memory:/pods/a"), None);
    }

    #[test]
    fn a_process_has_run() {
        assert!(ran(std::process::id()).unwrap() > 0);
    }
}
