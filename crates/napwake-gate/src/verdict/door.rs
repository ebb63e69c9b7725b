//! What a caller meets, apart from what it sent.
//!
//! Owns what the workloads behind a route mean for pages and clicks.

use std::time::Duration;

use jiff::Timestamp;
use napwake_api::{stamp::RequestKind, workload::WakeMode};

use super::{Sleeper, Standing, Wake};
use crate::{
    Moment,
    age::is_within,
    caller::Agents,
    click::{self, Asked, Press, Pressed},
    pages::{Address, AsleepPage, Said},
    token::{Refused, Signer, Subject, Token},
};

/// What a caller of one route meets at one time.
#[derive(Clone, Copy, Debug)]
pub struct Door<'a> {
    /// Where the route stands.
    pub standing: Standing,
    /// Every workload behind it.
    pub sleepers: &'a [Sleeper<'a>],
    /// The checkers that are known.
    pub agents: &'a Agents,
    /// The keys that the button's tokens are signed with.
    pub signer: Signer<'a>,
    /// The time of day.
    pub now: Timestamp,
    /// When the caller came, for whose token the key may be read again; none once
    /// it was, whatever came of that.
    pub came: Option<Moment>,
}

/// What a click comes to.
pub(super) enum Clicked {
    /// It wakes.
    Good,
    /// It wakes nothing, and the page says why.
    Bad(Said),
    /// The key is to be read before this is decided (T-23).
    ReadKey,
}

impl<'a> Door<'a> {
    /// Whether a browser that opens a page gets one. Where a workload that
    /// requests wake turned that off, it's held like any other caller (PAGE-34);
    /// one that asks doesn't mind the setting (PAGE-36).
    pub(super) fn gives_pages(&self) -> bool {
        let mut sleepers = self.sleepers.iter();
        sleepers.all(|one| one.mode == WakeMode::Ask || one.page.0)
    }

    /// Whether a request of this kind wakes.
    pub(super) fn wake(&self, kind: RequestKind) -> Wake {
        match self.standing {
            Standing::Wakes => Wake::Yes(kind),
            Standing::Served | Standing::Crowded | Standing::Waits | Standing::Asks => Wake::No,
        }
    }

    /// How long the first to wake has been Resuming (PAGE-08, PAGE-09).
    pub(super) fn starting_for(&self) -> Option<Duration> {
        let since = self.sleepers.iter().filter_map(|one| one.resuming_since);
        let since = since.min()?;
        // Somebody's clock may be ahead of ours.
        Some(Duration::try_from(self.now.duration_since(since)).unwrap_or_default())
    }

    /// Whether a workload that asks was asked for in this pause, so that whoever
    /// opens a page sees it waking: for as long as a caller would be held (T-06).
    pub(super) fn is_asked_for(&self) -> bool {
        self.sleepers.iter().any(|one| {
            let is_stamped = one.last_wake.is_some_and(|stamp| {
                stamp.is_newer_than(one.pause_started)
                    && is_within(one.max_wait, stamp.at(), self.now)
            });
            is_stamped || one.is_pending
        })
    }

    /// The asleep page with a fresh button (ASK-13).
    pub(super) fn asleep<'r>(&self, address: Address<'r>, said: Said) -> AsleepPage<'r> {
        AsleepPage {
            address,
            said,
            token: self.signer.sign(&self.subjects(), self.now),
        }
    }

    /// What a click from the page comes to: first its token, then the minute
    /// (T-19).
    pub(super) fn click(&self, token: Option<Token>) -> Clicked {
        let checked = token.map(|token| self.signer.check(&token, &self.subjects(), self.now));
        match checked {
            Some(Ok(())) => self.press(),
            Some(Err(Refused::UnknownKey)) if self.may_read_key() => Clicked::ReadKey,
            Some(Err(_)) | None => Clicked::Bad(Said::RanOut),
        }
    }

    fn may_read_key(&self) -> bool {
        let again = |came| self.signer.read_again_at(came);
        self.came.and_then(again).is_some()
    }

    fn press(&self) -> Clicked {
        let presses = self.sleepers.iter().map(|one| self.press_one(one));
        match click::pressed(presses) {
            Pressed::Waking => Clicked::Good,
            Pressed::TooSoon => Clicked::Bad(Said::TooSoon),
            Pressed::OtherPause => Clicked::Bad(Said::RanOut),
        }
    }

    fn press_one(&self, sleeper: &Sleeper<'_>) -> Press {
        let asked = Asked {
            phase: sleeper.phase,
            pause_started: sleeper.pause_started,
            last_wake: sleeper.last_wake,
        };
        click::press(asked, sleeper.pause_started, self.now)
    }

    /// What the page's button would wake: every workload behind the route (T-75).
    fn subjects(&self) -> Vec<Subject<'a>> {
        let subject = |sleeper: &Sleeper<'a>| Subject {
            workload: sleeper.workload,
            pause: sleeper.pause_started,
        };
        self.sleepers.iter().map(subject).collect()
    }
}
