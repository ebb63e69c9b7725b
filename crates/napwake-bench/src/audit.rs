//! The API server's log of writes.
//!
//! Owns what a line of it says, and who writes what in a wake. Only reads.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use serde::Deserialize;

/// The accounts' names begin so, and end with the part's.
const ACCOUNTS: &str = "system:serviceaccount:napwake-system:napwake-";

/// A write that was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// When the API server had read the request.
    pub(crate) received: Timestamp,
    /// When it had answered it.
    pub(crate) done: Timestamp,
    pub(crate) who: Who,
    pub(crate) verb: String,
    /// With the subresource, as in `deployments/scale`.
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// Who wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    Doorman,
    Operator,
    Other,
}

impl Entry {
    /// A line, if it's of a write that succeeded.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let line: Line = serde_json::from_str(line).ok()?;
        let object = line.object_ref?;
        let code = line.response_status.map_or(0, |status| status.code);
        if !(200..300).contains(&code) {
            return None;
        }
        let resource = match object.subresource {
            Some(subresource) => format!("{}/{subresource}", object.resource),
            None => object.resource,
        };
        Some(Self {
            received: line.request_received_timestamp,
            done: line.stage_timestamp,
            who: Who::of(&line.user.username),
            verb: line.verb,
            resource,
            namespace: object.namespace.unwrap_or_default(),
            name: object.name.unwrap_or_default(),
        })
    }

    /// The doorman's stamp: the one write by which it wakes.
    pub(crate) fn is_stamp(&self) -> bool {
        self.who == Who::Doorman && self.resource == "managedworkloads"
    }

    /// The operator's scale: the one write by which pods are asked for.
    pub(crate) fn is_scale(&self) -> bool {
        self.who == Who::Operator && self.resource.ends_with("/scale")
    }
}

impl Who {
    fn of(user: &str) -> Self {
        match user.strip_prefix(ACCOUNTS) {
            Some("doorman") => Self::Doorman,
            Some("operator") => Self::Operator,
            _ => Self::Other,
        }
    }

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Doorman => "doorman",
            Self::Operator => "operator",
            Self::Other => "others",
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    verb: String,
    user: User,
    object_ref: Option<ObjectRef>,
    response_status: Option<ResponseStatus>,
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize)]
struct ObjectRef {
    resource: String,
    subresource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: u16,
}

/// The log from a moment on.
#[derive(Debug, Clone)]
pub(crate) struct AuditLog {
    path: PathBuf,
    from: u64,
}

impl AuditLog {
    /// What is logged from now on.
    pub(crate) fn from_now(path: &Path) -> Result<Self> {
        let there = std::fs::metadata(path)
            .with_context(|| format!("the audit log {} isn't there", path.display()))?;
        Ok(Self {
            path: path.to_owned(),
            from: there.len(),
        })
    }

    /// Everything that was logged since. A line that is being written is left out.
    pub(crate) fn read(&self) -> Result<Vec<Entry>> {
        let doing = || format!("read the audit log {}", self.path.display());
        let mut file = std::fs::File::open(&self.path).with_context(doing)?;
        let length = file.metadata().with_context(doing)?.len();
        anyhow::ensure!(
            length >= self.from,
            "the audit log was begun anew meanwhile"
        );
        file.seek(SeekFrom::Start(self.from)).with_context(doing)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).with_context(doing)?;
        let text = String::from_utf8_lossy(&text);
        Ok(text.lines().filter_map(Entry::parse).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const STAMP: &str = r#"{"kind":"Event","level":"Metadata","stage":"ResponseComplete",
        "verb":"patch","user":{"username":"system:serviceaccount:napwake-system:napwake-doorman"},
        "objectRef":{"resource":"managedworkloads","namespace":"a","name":"web"},
        "responseStatus":{"code":200},
        "requestReceivedTimestamp":"2026-01-02T03:04:05.000100Z",
        "stageTimestamp":"2026-01-02T03:04:05.004200Z"}"#;

    #[test]
    fn a_stamp_and_a_scale_are_told_by_who_wrote_what() {
        let stamp = Entry::parse(STAMP).unwrap();
        assert!(stamp.is_stamp() && !stamp.is_scale());
        assert_eq!(
            (stamp.namespace.as_str(), stamp.name.as_str()),
            ("a", "web")
        );
        assert_eq!(stamp.done.duration_since(stamp.received).as_micros(), 4100);
        let scale = STAMP
            .replace("napwake-doorman", "napwake-operator")
            .replace(
                r#""managedworkloads""#,
                r#""deployments","subresource":"scale""#,
            );
        let scale = Entry::parse(&scale).unwrap();
        assert!(scale.is_scale() && !scale.is_stamp());
        assert_eq!(scale.resource, "deployments/scale");
        let other = STAMP.replace("napwake-system:napwake-doorman", "kube-system:x");
        assert_eq!(Entry::parse(&other).unwrap().who, Who::Other);
    }

    #[test]
    fn what_failed_wrote_nothing() {
        assert_eq!(Entry::parse(&STAMP.replace("200", "409")), None);
        assert_eq!(Entry::parse("{"), None);
    }

    #[test]
    fn what_was_logged_before_is_left_out() {
        let line = STAMP.replace('\n', " ");
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "{line}").unwrap();
        let log = AuditLog::from_now(file.path()).unwrap();
        writeln!(file, "{}", line.replace("web", "second")).unwrap();
        write!(file, "{}", &line[..40]).unwrap();
        let names: Vec<_> = log.read().unwrap().into_iter().map(|e| e.name).collect();
        assert_eq!(names, ["second"]);
    }
}
