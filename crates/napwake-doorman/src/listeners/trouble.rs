//! Ports that can't be opened, and what is said of them.
//!
//! Owns how often: each is tried again every second, and said once for each cause.
//! While any is left, their number is said once a minute. Opens nothing.

use std::collections::HashMap;
use std::time::Duration;

use napwake_net::listen::ListenOn;
use tokio::time::Instant;

use crate::routes::Table;

/// How long after the last word of them the number is said.
const REMIND: Duration = Duration::from_mins(1);

/// The ports that couldn't be opened when they were last tried.
#[derive(Debug, Default)]
pub(super) struct Troubles {
    /// What each was last said to fail by.
    said: HashMap<(u16, ListenOn), String>,
    /// When anything was said.
    last: Option<Instant>,
}

impl Troubles {
    /// One failed by this; whether that is to be said.
    #[must_use]
    pub(super) fn is_news(&mut self, port: u16, on: ListenOn, cause: &str, now: Instant) -> bool {
        let said = self.said.entry((port, on)).or_default();
        let is_news = said != cause;
        if is_news {
            cause.clone_into(said);
            self.last = Some(now);
        }
        is_news
    }

    /// One is open; whether it was in trouble.
    pub(super) fn is_over(&mut self, port: u16, on: ListenOn) -> bool {
        self.said.remove(&(port, on)).is_some()
    }

    /// Forgets the ports that aren't to be opened any more.
    pub(super) fn keep(&mut self, table: &Table) {
        self.said.retain(|(port, _), _| table.contains_key(port));
    }

    /// How many are left, if it is time to say so again.
    #[must_use]
    pub(super) fn reminder(&mut self, now: Instant) -> Option<usize> {
        let is_time = self.last.is_some_and(|last| now >= last + REMIND);
        if self.said.is_empty() || !is_time {
            return None;
        }
        self.last = Some(now);
        Some(self.said.len())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const EVERYWHERE: ListenOn = ListenOn::Everywhere;

    /// Each port and cause is said once; of what stays so, the number once a minute.
    #[test]
    fn a_trouble_is_said_once_for_each_cause() {
        let mut troubles = Troubles::default();
        let start = Instant::now();
        let after = |secs| start + Duration::from_secs(secs);
        let loopback = ListenOn::Address(IpAddr::from(Ipv4Addr::LOCALHOST));
        assert!(troubles.is_news(20_001, EVERYWHERE, "in use", start));
        assert!(troubles.is_news(20_002, EVERYWHERE, "in use", start));
        assert!(troubles.is_news(20_002, loopback, "in use", start));
        let mut reminders = Vec::new();
        for secs in 1..=130 {
            assert!(!troubles.is_news(20_001, EVERYWHERE, "in use", after(secs)));
            assert!(!troubles.is_news(20_002, EVERYWHERE, "in use", after(secs)));
            assert!(!troubles.is_news(20_002, loopback, "in use", after(secs)));
            reminders.extend(troubles.reminder(after(secs)).map(|count| (secs, count)));
        }
        assert_eq!(reminders, [(60, 3), (120, 3)]);
        assert!(troubles.is_news(20_001, EVERYWHERE, "no more files", after(131)));
        assert_eq!(troubles.reminder(after(190)), None, "said 59 s ago");
    }

    /// One that is open, or isn't wanted any more, is no trouble, and said anew if
    /// it comes back.
    #[test]
    fn a_trouble_that_is_over_is_forgotten() {
        let mut troubles = Troubles::default();
        let start = Instant::now();
        assert!(troubles.is_news(20_001, EVERYWHERE, "in use", start));
        assert!(troubles.is_over(20_001, EVERYWHERE));
        assert!(!troubles.is_over(20_001, EVERYWHERE));
        assert!(troubles.is_news(20_001, EVERYWHERE, "in use", start));
        troubles.keep(&Table::new());
        assert_eq!(troubles.reminder(start + 2 * REMIND), None);
        assert!(troubles.is_news(20_001, EVERYWHERE, "in use", start));
    }
}
