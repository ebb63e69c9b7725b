//! Calls about the Lease that fail in a row: each trouble is told once, and how
//! soon to try again.

use std::time::Duration;

use napwake_cluster::plain;

use crate::backoff::Waits;

/// How soon a failed call is made again: often enough before the Lease is lost.
/// What the API server refuses, as in a namespace that is being deleted, it will
/// go on to refuse, and is tried later and later.
pub(super) const AGAIN: Waits = Waits {
    first: Duration::from_millis(500),
    last: Duration::from_secs(30),
};

/// Why a call failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The API server said why, or can't be reached.
    Told(kube::Error),
    /// It took too long.
    Silence,
}

/// Failures in a row of one kind of call.
#[derive(Debug)]
pub(super) struct Trouble {
    what: &'static str,
    told: Option<String>,
    refusals: u32,
}

impl Trouble {
    /// None so far; `what` is said of each.
    pub(super) const fn new(what: &'static str) -> Self {
        Self {
            what,
            told: None,
            refusals: 0,
        }
    }

    /// One more; how long to wait before the next try.
    pub(super) fn failed(&mut self, failure: &Failure) -> Duration {
        let (why, is_refusal) = match failure {
            Failure::Told(error) => (plain(error), is_refusal(error)),
            Failure::Silence => ("no answer in time".to_owned(), false),
        };
        let what = self.what;
        if self.told.as_ref() == Some(&why) {
            tracing::debug!(error = why, "still: {what}");
        } else {
            tracing::warn!(error = why, "{what}");
            self.told = Some(why);
        }
        self.refusals = if is_refusal {
            self.refusals.saturating_add(1)
        } else {
            0
        };
        AGAIN.after(self.refusals)
    }

    /// A call went well.
    pub(super) fn over(&mut self) {
        self.refusals = 0;
        if self.told.take().is_some() {
            tracing::info!(was = self.what, "the lease is all right again");
        }
    }
}

/// Whether the API server understood, and won't.
fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status)
        if (400..500).contains(&status.code) && !matches!(status.code, 408 | 409 | 429))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(code: u16, message: &str) -> Failure {
        let status = json!({"code": code, "message": message});
        Failure::Told(kube::Error::Api(serde_json::from_value(status).unwrap()))
    }

    #[test]
    fn each_trouble_is_news_once() {
        let mut trouble = Trouble::new("can't write the lease");
        trouble.failed(&refused(403, "no"));
        assert_eq!(trouble.told.as_deref(), Some("no"));
        trouble.failed(&refused(403, "no"));
        trouble.failed(&Failure::Silence);
        assert_eq!(trouble.told.as_deref(), Some("no answer in time"));
        trouble.over();
        assert_eq!(trouble.told, None);
    }

    /// A leader must not lose its Lease to a server that is merely slow.
    #[test]
    fn only_what_is_refused_is_tried_later_and_later() {
        let mut trouble = Trouble::new("can't write the lease");
        for _ in 0..3 {
            assert_eq!(trouble.failed(&Failure::Silence), AGAIN.first);
            assert_eq!(trouble.failed(&refused(500, "oh")), AGAIN.first);
            assert_eq!(trouble.failed(&refused(429, "busy")), AGAIN.first);
        }
        assert_eq!(trouble.failed(&refused(403, "no")), AGAIN.first);
        assert_eq!(trouble.failed(&refused(403, "no")), 2 * AGAIN.first);
        trouble.over();
        assert_eq!(trouble.failed(&refused(403, "no")), AGAIN.first);
    }
}
