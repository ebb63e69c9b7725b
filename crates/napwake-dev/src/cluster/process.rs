//! Processes by identity rather than by number: a pid that the system has given
//! to somebody else since is never signaled.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// One process of one run of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    pid: i32,
    /// When it started, in clock ticks since the machine did (proc(5), field 22).
    started: u64,
    /// Which run of the machine: ticks of another run mean nothing.
    boot: String,
}

/// What /proc says of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    state: char,
    started: u64,
}

impl Identity {
    /// The process that has this pid now, unless it is gone or dead.
    pub(super) fn of(pid: i32) -> Option<Self> {
        let stat = parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
        (!stat.is_dead()).then(|| Self {
            pid,
            started: stat.started,
            boot: boot(),
        })
    }

    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    pub(super) fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }

    /// Sends the signal, if the process is still the one that is meant.
    pub(super) fn signal(&self, signal: Signal) {
        // The descriptor holds on to the process first, and is checked then: a
        // pid that changes hands in between is not hit.
        let Some(process) = self.open() else { return };
        if !self.is_alive() {
            return;
        }
        match pidfd_send_signal(&process, signal) {
            // It ended by itself just now, which is what was wanted.
            Ok(()) | Err(_) => {}
        }
    }

    fn open(&self) -> Option<OwnedFd> {
        pidfd_open(Pid::from_raw(self.pid)?, PidfdFlags::empty()).ok()
    }
}

impl Stat {
    /// A zombie has ended: only its parent hasn't looked yet.
    fn is_dead(self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// The program's name is in brackets and may itself hold brackets and spaces:
/// the fields are counted from the last bracket.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let started = fields.nth(18)?.parse().ok()?;
    Some(Stat { state, started })
}

fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

/// The value of a variable in the environment that a process was started with.
pub(super) fn environment(pid: i32, variable: &str) -> Option<String> {
    let all = fs::read(format!("/proc/{pid}/environ")).ok()?;
    all.split(|byte| *byte == 0).find_map(|pair| {
        let text = String::from_utf8_lossy(pair);
        let (name, value) = text.split_once('=')?;
        (name == variable).then(|| value.to_owned())
    })
}

/// The program's name as the kernel keeps it, up to 15 bytes.
pub(super) fn command(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

/// Every pid there is now.
pub(super) fn all() -> Vec<i32> {
    pids_in(Path::new("/proc"))
}

fn pids_in(proc: &Path) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(proc) else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_is_read_over() {
        let fields = (4..=21)
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
            .join(" ");
        let text = format!("4711 (a) b (c)) S {fields} 123456 0 0\n");
        assert_eq!(
            parse_stat(&text),
            Some(Stat {
                state: 'S',
                started: 123_456
            })
        );
        assert_eq!(parse_stat("4711 (cut off"), None);
    }

    #[test]
    fn a_running_process_is_alive_and_a_zombie_is_not() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let identity = Identity::of(child.id().cast_signed()).unwrap();
        assert!(identity.is_alive());
        identity.signal(Signal::KILL);
        while identity.is_alive() {
            std::thread::yield_now();
        }
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn a_pid_in_other_hands_is_another_identity() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let now = Identity::of(child.id().cast_signed()).unwrap();
        for other in [
            Identity {
                started: now.started + 1,
                ..now.clone()
            },
            Identity {
                boot: "another run".to_owned(),
                ..now.clone()
            },
        ] {
            assert!(!other.is_alive());
            other.signal(Signal::KILL);
        }
        assert!(now.is_alive());
        child.kill().unwrap();
        assert!(!child.wait().unwrap().success());
    }
}
