//! The cluster's long-running parts: started so that they outlive this program,
//! found again by the next one, restarted when they should be something else.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::ClusterError;
use super::process::{self, Identity};
use super::state::State;
use super::topology::Netns;
use crate::digest::sha256_of_parts;
use crate::files::{self, Access, failed};
use crate::run::tail;
use crate::wait::{self, Seen};

/// In the environment of every part: which cluster and part it is. It finds
/// those whose record was lost to a kill at the wrong moment.
const MARK: &str = "NAPWAKE_DEV_UNIT";

/// How long a part may take to end by itself before it is killed.
const GRACE: Duration = Duration::from_secs(8);

/// What a part of the cluster is.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub(super) name: String,
    pub(super) netns: Netns,
    pub(super) argv: Vec<String>,
    /// Written before it starts. A changed file restarts it.
    pub(super) files: Vec<(PathBuf, String)>,
    /// What its program was built from, for the same reason.
    pub(super) build: String,
}

/// What is kept of a part that was started.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    #[serde(flatten)]
    identity: Identity,
    fingerprint: String,
}

/// What [`converge`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Kept,
    Started,
}

/// A part as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) name: String,
    pub(super) pid: Option<i32>,
}

impl Unit {
    fn fingerprint(&self) -> String {
        let argv = self.argv.iter().map(String::as_bytes);
        let files = self.files.iter().map(|(_, content)| content.as_bytes());
        let rest = [self.netns.name().as_bytes(), self.build.as_bytes()];
        sha256_of_parts(argv.chain(files).chain(rest))
    }
}

/// Makes sure that the part runs as it should, and only once.
pub(super) fn converge(state: &State, unit: &Unit) -> Result<Change, ClusterError> {
    let fingerprint = unit.fingerprint();
    let record = record(state, &unit.name)?;
    if let Some(record) = &record
        && record.identity.is_alive()
        && record.fingerprint == fingerprint
    {
        return Ok(Change::Kept);
    }
    stop(state, |name| name == unit.name)?;
    for (path, content) in &unit.files {
        if let Some(folder) = path.parent() {
            files::create_dir(folder)?;
        }
        files::write(path, content, Access::Public)?;
    }
    let identity = start(state, unit)?;
    save(
        state,
        &unit.name,
        &Record {
            identity,
            fingerprint,
        },
    )?;
    Ok(Change::Started)
}

/// Ends parts, recorded or not, all at the same time, and forgets them.
pub(super) fn stop(state: &State, chosen: impl Fn(&str) -> bool) -> Result<(), ClusterError> {
    let mut running = strays(state, &chosen);
    let names: Vec<String> = recorded(state)?
        .into_iter()
        .filter(|name| chosen(name))
        .collect();
    for name in &names {
        let identity = record(state, name)?.map(|record| record.identity);
        running.extend(identity.filter(|identity| !running.contains(identity)));
    }
    end(&running, GRACE);
    for name in &names {
        files::remove(&path(state, name))?;
    }
    Ok(())
}

/// Kills every process that still carries this cluster's mark: by now these are
/// the keepers of containers (shims) that have nothing left to keep.
pub(super) fn sweep(state: &State) {
    end(&marked(state, |_| true), Duration::ZERO);
}

/// An error with its last words, if the part has ended.
pub(super) fn must_be_alive(state: &State, name: &str) -> Result<(), ClusterError> {
    if record(state, name)?.is_some_and(|record| record.identity.is_alive()) {
        return Ok(());
    }
    let log = state.log(name);
    let last_words = tail(&files::read_if_there(&log)?.unwrap_or_default(), 8);
    Err(ClusterError::PartEnded {
        name: name.to_owned(),
        log,
        last_words,
    })
}

/// All parts that were started, by name.
pub(super) fn seats(state: &State) -> Result<Vec<Seat>, ClusterError> {
    let mut seats = Vec::new();
    for name in recorded(state)? {
        let identity = record(state, &name)?.map(|record| record.identity);
        let pid = identity
            .filter(Identity::is_alive)
            .map(|identity| identity.pid());
        seats.push(Seat { name, pid });
    }
    Ok(seats)
}

/// Names of the parts there are records of.
fn recorded(state: &State) -> Result<Vec<String>, ClusterError> {
    let paths = files::list(&state.units())?;
    let records = paths
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "json"));
    Ok(records
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect())
}

/// Asks processes to end, waits, and kills those that don't.
pub(super) fn end(running: &[Identity], grace: Duration) {
    for identity in running {
        identity.signal(Signal::TERM);
    }
    if all_gone(running, grace) {
        return;
    }
    for identity in running {
        identity.signal(Signal::KILL);
    }
    // A killed process is gone in an instant, unless the kernel holds it; then
    // waiting longer wouldn't help.
    let _gone = all_gone(running, Duration::from_secs(2));
}

fn all_gone(running: &[Identity], bound: Duration) -> bool {
    let waited: Result<(), wait::TimedOut> = wait::until("processes to end", bound, || {
        let alive = running
            .iter()
            .filter(|identity| identity.is_alive())
            .count();
        Ok(if alive == 0 {
            Seen::Done(())
        } else {
            Seen::NotYet(format!("{alive} alive"))
        })
    });
    waited.is_ok()
}

/// Starts the program in its network, in a session of its own, with nothing of
/// this program's environment: a proxy set there would swallow its traffic.
fn start(state: &State, unit: &Unit) -> Result<Identity, ClusterError> {
    let log_path = state.log(&unit.name);
    let log = fs::File::create(&log_path).map_err(failed("create", &log_path))?;
    let errors = log.try_clone().map_err(failed("open", &log_path))?;
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let child = Command::new("setsid")
        .arg("nsenter")
        .arg(format!("--net={}", unit.netns.path()))
        .arg("--")
        .args(&unit.argv)
        .current_dir("/")
        .env_clear()
        .env("PATH", path)
        .env("HOME", state.dir())
        .env(MARK, mark(state, &unit.name))
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .spawn()
        .map_err(|source| ClusterError::Start {
            name: unit.name.clone(),
            source,
        })?;
    // setsid and nsenter become the program: the pid and the start stay.
    Identity::of(child.id().cast_signed()).ok_or_else(|| ClusterError::PartEnded {
        name: unit.name.clone(),
        last_words: String::new(),
        log: log_path,
    })
}

fn mark(state: &State, unit: &str) -> String {
    state.dir().join(unit).to_string_lossy().into_owned()
}

/// Processes with this cluster's mark whose part is chosen.
fn marked(state: &State, chosen: impl Fn(&str) -> bool) -> Vec<Identity> {
    let prefix = mark(state, "");
    process::all()
        .into_iter()
        .filter_map(|pid| {
            // Identity first: if the pid changes hands after it, the identity
            // is no longer alive and nothing happens to the newcomer.
            let identity = Identity::of(pid)?;
            let mark = process::environment(pid, MARK)?;
            chosen(mark.strip_prefix(&prefix)?).then_some(identity)
        })
        .collect()
}

/// Marked processes that are the part itself. containerd hands its environment
/// on to the shims, which live on when it restarts.
fn strays(state: &State, chosen: impl Fn(&str) -> bool) -> Vec<Identity> {
    let mut strays = marked(state, chosen);
    strays.retain(|identity| !process::command(identity.pid()).starts_with("containerd-shim"));
    strays
}

fn path(state: &State, name: &str) -> PathBuf {
    state.units().join(format!("{name}.json"))
}

fn record(state: &State, name: &str) -> Result<Option<Record>, ClusterError> {
    let text = files::read_if_there(&path(state, name))?;
    // A record that can't be read is as good as none: the mark finds the process.
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
}

fn save(state: &State, name: &str, record: &Record) -> Result<(), ClusterError> {
    let path = path(state, name);
    let text = serde_json::to_string(record).map_err(|source| ClusterError::BadState {
        path: path.clone(),
        source,
    })?;
    Ok(files::write(&path, text, Access::Public)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::name::ClusterName;
    use crate::cluster::settings::NodeCount;
    use crate::cluster::topology::Topology;

    fn unit() -> Unit {
        let topology = Topology::new(&ClusterName::default(), NodeCount::One);
        Unit {
            name: "part".to_owned(),
            netns: topology.control,
            argv: vec!["program".to_owned(), "--flag".to_owned()],
            files: vec![(PathBuf::from("/config"), "content".to_owned())],
            build: "built".to_owned(),
        }
    }

    #[test]
    fn whatever_a_part_depends_on_changes_its_fingerprint() {
        let base = unit();
        assert_eq!(base.fingerprint(), unit().fingerprint());
        let others = [
            Unit {
                argv: vec!["program".to_owned()],
                ..unit()
            },
            Unit {
                files: Vec::new(),
                ..unit()
            },
            Unit {
                build: "built anew".to_owned(),
                ..unit()
            },
        ];
        for other in others {
            assert_ne!(base.fingerprint(), other.fingerprint(), "{other:?}");
        }
    }

    #[test]
    fn records_survive_and_broken_ones_count_as_none() {
        let root = tempfile::tempdir().unwrap();
        let state = State::below(root.path(), &ClusterName::default());
        files::create_dir(&state.units()).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let identity = Identity::of(own).unwrap();
        save(
            &state,
            "part",
            &Record {
                identity,
                fingerprint: "f".to_owned(),
            },
        )
        .unwrap();
        assert_eq!(
            seats(&state).unwrap(),
            [Seat {
                name: "part".to_owned(),
                pid: Some(own)
            }]
        );
        files::write(&path(&state, "part"), "{", Access::Public).unwrap();
        assert_eq!(
            seats(&state).unwrap(),
            [Seat {
                name: "part".to_owned(),
                pid: None
            }]
        );
    }
}
