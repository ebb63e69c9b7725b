//! What a browser asked for, as a server sees it.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

/// One request.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When its head was read.
    pub at: Instant,
    /// Its method.
    pub method: String,
    /// Its target, as it was sent.
    pub target: String,
    headers: Vec<(String, String)>,
}

impl Seen {
    /// A request with these headers, seen now.
    pub fn now(method: &str, target: &str, headers: Vec<(String, String)>) -> Self {
        Self {
            at: Instant::now(),
            method: method.to_owned(),
            target: target.to_owned(),
            headers,
        }
    }

    /// The value of its first header of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let is_it = |(known, _): &&(String, String)| known.eq_ignore_ascii_case(name);
        self.headers
            .iter()
            .find(is_it)
            .map(|(_, value)| value.as_str())
    }

    /// Its method and target, as in `GET /x?y=1`.
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.target)
    }
}

/// All requests that a server has seen, in their order. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Record(Arc<Mutex<Vec<Seen>>>);

impl Record {
    /// Adds a request.
    pub fn add(&self, seen: Seen) {
        self.0.lock().push(seen);
    }

    /// All of them.
    pub fn all(&self) -> Vec<Seen> {
        self.0.lock().clone()
    }

    /// Their methods and targets, in their order.
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().iter().map(Seen::line).collect()
    }

    /// How many there are with that method and target.
    pub fn count(&self, line: &str) -> usize {
        self.lines().iter().filter(|seen| *seen == line).count()
    }
}
