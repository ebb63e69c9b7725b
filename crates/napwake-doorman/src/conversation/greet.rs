//! Greeting a caller: straight on to a Ready pod, or judged by what it sends.
//!
//! Owns the first moments of a connection. With no Ready pod it does nothing
//! until the caller sends something, is silent for three seconds, or closes
//! (HOLD-13).

use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use napwake_api::stamp::RequestKind;
use napwake_api::workload::WakeMode;
use napwake_gate::Moment;
use napwake_gate::answer::Answer;
use napwake_gate::deadline::{self, silent_at};
use napwake_gate::head::{Head, HeadScan};
use napwake_gate::places::PassedPlace;
use napwake_gate::verdict::{Counted, Door, Heard, Standing, Verdict, Wake, judge, would_wake};
use napwake_net::intake::IntakeEvent;
use napwake_net::transport::Connect;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Conversation;
use super::budget::Caller;
use super::errand::{Errand, Pressing};
use super::patience::{Impatience, Watcher};
use crate::pods::Outlook;
use crate::routes::Route;
use crate::wake::Stamper;

/// How long a caller may wait for the Pod to be read that a slice says is Ready,
/// before it is judged as if none were. A read takes milliseconds.
const UNREAD: Duration = Duration::from_secs(1);

/// What was heard of a caller, however often it is asked.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    scan: HeadScan,
    last_byte: Option<Moment>,
    /// Whether some of it was forgotten, so that it can't be passed on (T-42).
    pub(super) is_cut: bool,
    /// Whether the key was read for its token, or was to be.
    pub(super) is_key_read: bool,
    /// Whether its click was for another pause already.
    pub(super) is_pressed: bool,
    /// Whether it wakes, for one that is held though a pod is Ready, once that is clear.
    overheard: Option<Wake>,
    /// How much had been heard of it when that was asked last.
    length: u32,
}

impl Hearing {
    /// The caller was heard elsewhere meanwhile: the last of it, if there is any,
    /// counts as of now.
    pub(super) fn heard_elsewhere(&mut self, bytes: &[u8], now: Moment) {
        if !bytes.is_empty() {
            self.last_byte = Some(now);
        }
    }
}

/// What a caller gets.
#[derive(Debug)]
pub(super) enum Greeting {
    /// A pod is Ready: straight on (HOLD-07), with a place to pass if it has one.
    Ready(Option<PassedPlace>),
    /// Held until one is, as a request of this kind.
    Hold(RequestKind),
    /// The waking-up page, and whatever that wakes.
    Waking(Answer, Wake),
    /// Another answer.
    Answer(Answer, Counted),
    /// Closed, with nothing sent.
    Close(Counted),
    /// It was over before anything was decided.
    Ended(Impatience),
}

/// What is to be done now.
pub(super) enum Next {
    /// It gets this.
    Greeting(Greeting),
    /// More is to be heard of it, or of the route, until then.
    Listen(Instant),
    /// A pod is said to be Ready, and is to be read first.
    Look,
    /// Something is to be done before that's known.
    Errand(Errand),
    /// The bytes at these places aren't needed, whatever it gets (T-42).
    Forget(Vec<Range<usize>>),
}

impl<C: Connect<Stream = TcpStream> + 'static, S: Stamper> Conversation<C, S> {
    /// Decides what the caller gets.
    pub(super) async fn greet(
        &self,
        caller: &mut Caller,
        watcher: &mut Watcher,
        hearing: &mut Hearing,
    ) -> Greeting {
        loop {
            let errand = match self.next(caller.bytes(), watcher, hearing) {
                Next::Greeting(greeting) => return greeting,
                Next::Errand(errand) => errand,
                Next::Look => match Box::pin(self.look(caller, watcher, hearing)).await {
                    Ok(()) => continue,
                    Err(ended) => return Greeting::Ended(ended),
                },
                Next::Forget(gone) => {
                    caller.forget(&gone);
                    hearing.is_cut = true;
                    continue;
                }
                Next::Listen(until) => match self.listen(caller, watcher, hearing, until).await {
                    Ok(()) => continue,
                    Err(ended) => return Greeting::Ended(ended),
                },
            };
            // Few have one, so it costs the others nothing.
            let errand = Box::pin(self.carry_out(errand, caller, watcher, hearing));
            if let Some(greeting) = errand.await {
                return greeting;
            }
        }
    }

    fn next(&self, bytes: &[u8], watcher: &mut Watcher, hearing: &mut Hearing) -> Next {
        let (route, outlook) = watcher.latest();
        match outlook {
            Outlook::Ready(_) if hearing.is_cut => {
                self.judge(bytes, hearing, &route, Standing::Served)
            }
            Outlook::Ready(_) => match self.place.try_pass() {
                Some(place) => Next::Greeting(Greeting::Ready(Some(place))),
                None => Next::Errand(Errand::Queue),
            },
            Outlook::Unread if Instant::now() < self.unread() => Next::Look,
            Outlook::Unread | Outlook::NotReady => {
                self.judge(bytes, hearing, &route, route.standing())
            }
        }
    }

    /// Waits until more is known of the pod that is said to be Ready, or for a while.
    /// One that shuts its sending side meanwhile isn't held yet (T-58).
    async fn look(
        &self,
        caller: &mut Caller,
        watcher: &mut Watcher,
        hearing: &mut Hearing,
    ) -> Result<(), Impatience> {
        let before = caller.bytes().len();
        let read = pin!(timeout_at(self.unread(), watcher.changed()));
        // Whether in time or not: what is known now is looked at next.
        match self.patience().wait_unheld(caller, read).await {
            Ok(_) | Err(Impatience::TimedOut) => {}
            Err(ended) => return Err(ended),
        }
        if caller.bytes().len() > before {
            hearing.last_byte = Some(self.doorman.steady.now());
        }
        Ok(())
    }

    /// Until when a Pod is waited for that is still to be read.
    fn unread(&self) -> Instant {
        self.patience().until.min(self.accepted + UNREAD)
    }

    /// Waits until more was heard of the caller or of the route, or for so long.
    /// Cancel-safe.
    pub(super) async fn listen(
        &self,
        caller: &mut Caller,
        watcher: &mut Watcher,
        hearing: &mut Hearing,
        until: Instant,
    ) -> Result<(), Impatience> {
        // Whoever comes this far was judged by its silence, and there is no more time.
        let is_over = Instant::now() >= self.patience().until;
        tokio::select! {
            biased;
            event = caller.next() => match event {
                IntakeEvent::Bytes => hearing.last_byte = Some(self.doorman.steady.now()),
                IntakeEvent::Shut | IntakeEvent::Reset => return Err(Impatience::Left),
            },
            () = watcher.changed() => {}
            () = sleep_until(until) => if is_over {
                return Err(Impatience::TimedOut);
            },
            () = self.doorman.cut.cancelled() => return Err(Impatience::Stopped),
        }
        Ok(())
    }

    /// When the caller's silence speaks: no later than it is held, for one that is
    /// closed unjudged would never wake anything.
    fn silent(&self, hearing: &Hearing) -> Instant {
        let steady = self.doorman.steady;
        let accepted = steady.moment(self.accepted);
        let silent = steady.instant(silent_at(accepted, hearing.last_byte));
        silent.min(self.patience().until)
    }

    /// More is to be heard. Of one who is only going to be answered no more is kept
    /// meanwhile than it takes.
    fn more(&self, bytes: &[u8], hearing: &mut Hearing, standing: Standing) -> Next {
        let gone = match standing {
            Standing::Asks => hearing.scan.forget(bytes),
            _ => Vec::new(),
        };
        if gone.is_empty() {
            Next::Listen(self.silent(hearing))
        } else {
            Next::Forget(gone)
        }
    }

    /// What was heard so far.
    fn heard<'a>(&self, bytes: &'a [u8], hearing: &mut Hearing) -> Heard<'a> {
        let is_silent = Instant::now() >= self.silent(hearing);
        if bytes.is_empty() {
            return if is_silent {
                Heard::Silence
            } else {
                Heard::Head(Head::MoreNeeded)
            };
        }
        let head = if is_silent || self.is_read_out(bytes) {
            hearing.scan.settle(bytes)
        } else {
            hearing.scan.look(bytes)
        };
        if hearing.is_cut {
            Heard::Cut(head)
        } else {
            Heard::Head(head)
        }
    }

    /// As what a caller wakes that is held though a pod is Ready, if it does: what it
    /// gets is the pod's to say, but a pause hears of it (HOLD-11).
    pub(super) fn overhear(&self, bytes: &[u8], hearing: &mut Hearing) -> Option<RequestKind> {
        if hearing.overheard.is_none() {
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            let before = std::mem::replace(&mut hearing.length, length);
            // Else when the last of it came is known.
            if before != length && (before > 0 || hearing.last_byte.is_none()) {
                hearing.last_byte = Some(self.doorman.steady.now());
            }
            let heard = self.heard(bytes, hearing);
            hearing.overheard = would_wake(&heard, WakeMode::Request, &self.doorman.agents);
        }
        match hearing.overheard {
            Some(Wake::Yes(kind)) => Some(kind),
            Some(Wake::No) | None => None,
        }
    }

    /// Whether no more of this caller may be read for now: it is judged by what
    /// there is (T-44).
    fn is_read_out(&self, bytes: &[u8]) -> bool {
        let limits = self.doorman.budget_limits;
        bytes.len() >= limits.free && self.doorman.budget.counted() >= limits.all
    }

    /// What the gate makes of it.
    pub(super) fn judge(
        &self,
        bytes: &[u8],
        hearing: &mut Hearing,
        route: &Arc<Route>,
        standing: Standing,
    ) -> Next {
        let agents = &self.doorman.agents;
        let heard = self.heard(bytes, hearing);
        let came = self.doorman.steady.moment(self.accepted);
        let now = self.doorman.clock.now();
        let verdict = self.doorman.key.with(|signer| {
            let door = Door {
                standing,
                sleepers: &route.sleepers(now),
                agents,
                signer,
                now,
                came: (!hearing.is_key_read).then_some(came),
            };
            judge(&heard, &door)
        });
        Next::Greeting(match verdict {
            Verdict::MoreNeeded => return self.more(bytes, hearing, standing),
            Verdict::ReadKey => return Next::Errand(Errand::ReadKey),
            Verdict::Click(click) => {
                let pressing = Pressing::new(&click, route);
                return Next::Errand(Errand::Press(Box::new(pressing)));
            }
            // Only where a pod is Ready, which was looked at before.
            Verdict::Pass => Greeting::Ready(None),
            Verdict::Hold(Wake::Yes(kind)) => Greeting::Hold(kind),
            // There is nothing to wake. Whether there is may change while the
            // caller is held, so what it would be then is kept.
            Verdict::Hold(Wake::No) => match would_wake(&heard, WakeMode::Request, agents) {
                Some(Wake::Yes(kind)) => Greeting::Hold(kind),
                Some(Wake::No) | None => Greeting::Hold(RequestKind::Request),
            },
            Verdict::Waking(page, body, wake) => Greeting::Waking(page.answer(body), wake),
            Verdict::Asleep(page) => Greeting::Answer(page.answer(), Counted::Not),
            Verdict::Answer(answer, counted) => Greeting::Answer(answer, counted),
            Verdict::Close(counted) => Greeting::Close(counted),
        })
    }
}

const _: () = assert!(UNREAD.as_nanos() < deadline::SILENCE.as_nanos());
