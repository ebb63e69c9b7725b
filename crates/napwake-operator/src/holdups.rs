//! What keeps a workload from being brought on, told once it has lasted: each such
//! hold-up once, however often it's met.
//!
//! Most are over in a moment, as where a watch is behind, and nobody need know of
//! them.

use std::{collections::HashMap, hash::Hash, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long one lasts before it's told.
const LASTS: Duration = Duration::from_secs(10);

/// Hold-ups, of each key apart.
#[derive(Debug)]
pub(crate) struct Holdups<K>(Mutex<HashMap<K, Holdup>>);

#[derive(Debug)]
struct Holdup {
    since: Instant,
    is_told: bool,
}

impl<K> Default for Holdups<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> Holdups<K> {
    /// It's held up, still or anew: whether that's to be told now.
    pub(crate) fn met(&self, key: K) -> bool {
        let now = Instant::now();
        let mut holdups = self.0.lock();
        let holdup = holdups.entry(key).or_insert(Holdup {
            since: now,
            is_told: false,
        });
        let is_due = !holdup.is_told && now.duration_since(holdup.since) >= LASTS;
        holdup.is_told |= is_due;
        is_due
    }

    /// It goes on, or needn't any more.
    pub(crate) fn over(&self, key: &K) {
        self.0.lock().remove(key);
    }

    pub(crate) fn forget_all(&self) {
        self.0.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_lasts_is_told_once() {
        let holdups = Holdups::default();
        let mut told = Vec::new();
        for second in 0..60 {
            if holdups.met("a") {
                told.push(second);
            }
            advance(Duration::from_secs(1)).await;
        }
        assert_eq!(told, [10]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_over_in_a_moment_is_not_told() {
        let holdups = Holdups::default();
        for _ in 0..10 {
            assert!(!holdups.met("a") && !holdups.met("b"));
            advance(Duration::from_secs(9)).await;
            holdups.over(&"a");
            holdups.forget_all();
        }
    }
}
