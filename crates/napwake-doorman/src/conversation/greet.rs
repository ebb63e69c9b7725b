//! Greeting a caller: straight on to a Ready pod, or judged by what it sends.
//!
//! Owns the first moments of a connection. With no Ready pod it does nothing
//! until the caller sends something, is silent for three seconds, or closes
//! (HOLD-13).

use std::time::Duration;

use napwake_api::stamp::RequestKind;
use napwake_api::workload::WakeMode;
use napwake_gate::Moment;
use napwake_gate::answer::{Answer, AnswerKind, Body};
use napwake_gate::caller::BodyForm;
use napwake_gate::deadline::{self, silent_at};
use napwake_gate::head::{Head, HeadScan};
use napwake_gate::verdict::{Door, Heard, Tally, Verdict, Wake, judge, would_wake};
use napwake_net::intake::IntakeEvent;
use napwake_net::transport::Connect;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until};

use super::Conversation;
use super::budget::Caller;
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
}

/// What a caller gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Greeting {
    /// A pod is Ready: straight on (HOLD-07).
    Ready,
    /// Held until one is, as a request of this kind.
    Hold(RequestKind),
    /// An answer.
    Answer(Answer, Tally),
    /// Closed, with nothing sent.
    Close(Tally),
    /// It was over before anything was decided.
    Ended(Impatience),
}

impl<C: Connect<Stream = TcpStream> + 'static, S: Stamper> Conversation<C, S> {
    /// Decides what the caller gets.
    pub(super) async fn greet(
        &self,
        caller: &mut Caller,
        watcher: &mut Watcher,
        hearing: &mut Hearing,
    ) -> Greeting {
        let steady = self.doorman.steady;
        let until = steady.instant(self.deadline.at());
        loop {
            let accepted = steady.moment(self.accepted);
            let silent = steady.instant(silent_at(accepted, hearing.last_byte));
            let (route, outlook) = watcher.latest();
            let wake_at = match outlook {
                Outlook::Ready(_) => return Greeting::Ready,
                Outlook::Unread if self.accepted.elapsed() < UNREAD => self.accepted + UNREAD,
                Outlook::Unread | Outlook::NotReady => {
                    let heard = self.heard(caller.bytes(), &mut hearing.scan, silent);
                    if let Some(greeting) = self.judge(&heard, &route) {
                        return greeting;
                    }
                    silent
                }
            };
            tokio::select! {
                biased;
                event = caller.next() => match event {
                    IntakeEvent::Bytes => hearing.last_byte = Some(steady.now()),
                    IntakeEvent::Left => return Greeting::Ended(Impatience::Left),
                },
                () = watcher.changed() => {}
                () = sleep_until(wake_at.min(until)) => if Instant::now() >= until {
                    return Greeting::Ended(Impatience::TimedOut);
                },
                () = self.doorman.cut.cancelled() => {
                    return Greeting::Ended(Impatience::Stopped);
                }
            }
        }
    }

    /// What was heard so far; `silent` is when the caller's silence speaks.
    fn heard<'a>(&self, bytes: &'a [u8], scan: &mut HeadScan, silent: Instant) -> Heard<'a> {
        let is_silent = Instant::now() >= silent;
        if bytes.is_empty() {
            if is_silent {
                Heard::Silence
            } else {
                Heard::Head(Head::MoreNeeded)
            }
        } else if is_silent || self.is_read_out(bytes) {
            Heard::Head(scan.settle(bytes))
        } else {
            Heard::Head(scan.look(bytes))
        }
    }

    /// Whether no more of this caller may be read for now: it is judged by what
    /// there is (T-44).
    fn is_read_out(&self, bytes: &[u8]) -> bool {
        let limits = self.doorman.budget_limits;
        bytes.len() >= limits.free && self.doorman.budget.counted() >= limits.all
    }

    fn judge(&self, heard: &Heard<'_>, route: &Route) -> Option<Greeting> {
        let agents = &self.doorman.agents;
        let now = self.doorman.clock.now();
        let verdict = self.doorman.key.with(|signer| {
            let door = Door {
                standing: route.standing(),
                sleepers: &route.sleepers(now),
                agents,
                signer,
                now,
                came: self.doorman.steady.moment(self.accepted),
            };
            judge(heard, &door)
        });
        match verdict {
            Verdict::MoreNeeded => None,
            // Only where a pod is Ready, which was looked at before.
            Verdict::Pass => Some(Greeting::Ready),
            Verdict::Hold(Wake::Yes(kind)) => Some(Greeting::Hold(kind)),
            // There is nothing to wake. Whether there is may change while the
            // caller is held, so what it would be then is kept. Browsers are
            // held, too, as long as they are given no page.
            Verdict::Hold(Wake::No) | Verdict::Waking(..) => {
                match would_wake(heard, WakeMode::Request, agents) {
                    Some(Wake::Yes(kind)) => Some(Greeting::Hold(kind)),
                    Some(Wake::No) | None => Some(Greeting::Hold(RequestKind::Request)),
                }
            }
            Verdict::Answer(answer, tally) => Some(Greeting::Answer(answer, tally)),
            // They are told that it is asleep, as long as they are given no page.
            Verdict::Asleep(_) | Verdict::Click(_) | Verdict::ReadKey(_) => {
                let kind = AnswerKind::Asleep(BodyForm::Plain);
                let body = Body::Sent;
                Some(Greeting::Answer(Answer { kind, body }, Tally::TurnedAway))
            }
            Verdict::Close(tally) => Some(Greeting::Close(tally)),
        }
    }
}

const _: () = assert!(UNREAD.as_nanos() < deadline::SILENCE.as_nanos());
