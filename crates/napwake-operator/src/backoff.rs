//! Waits after failures in a row: doubled each time, up to a bound.

use std::{collections::HashMap, hash::Hash, time::Duration};

use parking_lot::Mutex;

/// The first wait and the longest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) first: Duration,
    pub(crate) last: Duration,
}

impl Waits {
    /// How long to wait after the `count`th failure in a row.
    pub(crate) fn after(self, count: u32) -> Duration {
        let doublings = count.saturating_sub(1).min(16);
        self.first.saturating_mul(1 << doublings).min(self.last)
    }
}

/// Failures in a row, of each key apart.
#[derive(Debug)]
pub(crate) struct Failures<K> {
    waits: Waits,
    counts: Mutex<HashMap<K, u32>>,
}

impl<K: Eq + Hash> Failures<K> {
    pub(crate) fn new(waits: Waits) -> Self {
        Self {
            waits,
            counts: Mutex::default(),
        }
    }

    /// One more: which in a row, and how long to wait.
    pub(crate) fn another(&self, key: K) -> (u32, Duration) {
        let mut counts = self.counts.lock();
        let count = counts.entry(key).or_insert(0);
        *count = count.saturating_add(1);
        (*count, self.waits.after(*count))
    }

    /// Whether there's any.
    pub(crate) fn is_on(&self, key: &K) -> bool {
        self.counts.lock().contains_key(key)
    }

    /// It's done, or needn't be any more.
    pub(crate) fn over(&self, key: &K) {
        self.counts.lock().remove(key);
    }

    pub(crate) fn forget_all(&self) {
        self.counts.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITS: Waits = Waits {
        first: Duration::from_secs(1),
        last: Duration::from_secs(5),
    };

    #[test]
    fn waits_double_up_to_a_bound() {
        let waits = [0, 1, 2, 3, 4, u32::MAX].map(|count| WAITS.after(count).as_secs());
        assert_eq!(waits, [1, 1, 2, 4, 5, 5]);
    }

    #[test]
    fn each_key_counts_apart_and_anew_once_it_is_over() {
        let failures = Failures::new(WAITS);
        let count = |key| failures.another(key).0;
        assert_eq!((count("a"), count("a"), count("b")), (1, 2, 1));
        failures.over(&"a");
        assert_eq!((count("a"), count("b")), (1, 2));
        failures.forget_all();
        assert_eq!(count("b"), 1);
    }
}
