//! Holding a caller until a pod takes it.
//!
//! Owns the wait for a Ready pod, for a place to pass, and for a pod to accept
//! the connection. Everything it waits for shares the caller's one deadline.

use std::net::SocketAddr;
use std::pin::pin;

use napwake_api::stamp::RequestKind;
use napwake_gate::deadline::DIAL_RETRY;
use napwake_gate::pick::{Next, Tries};
use napwake_gate::places::PassedPlace;
use napwake_net::dial::{DialError, Dialed, NoneDialed};
use napwake_net::transport::Connect;
use tokio::net::TcpStream;
use tokio::time::{sleep, sleep_until};

use super::Conversation;
use super::budget::Caller;
use super::greet::Hearing;
use super::patience::{Impatience, Patience, Watcher};
use crate::metrics::WaitResult;
use crate::pods::Outlook;
use crate::report::NotServed;
use crate::routes::Route;
use crate::wake::{How, Stamper};

/// Endpoints dialed at a time: the next joins a second after the one before, or
/// as soon as that one failed.
const AT_A_TIME: usize = 3;

/// A pod took the connection.
#[derive(Debug)]
pub(super) struct Through {
    pub(super) target: TcpStream,
    pub(super) place: PassedPlace,
}

/// How far a caller has come.
#[derive(Debug)]
pub(super) struct Progress {
    /// What was heard of it.
    pub(super) hearing: Hearing,
    /// Whether it had to wait for a pod.
    pub(super) waited: bool,
    /// What it was held for.
    pub(super) held_for: HeldFor,
    /// What stood in the way last.
    hurdle: Hurdle,
    tries: Tries,
    /// What kind of request it was judged to be, if it was judged.
    pub(super) judged: Option<RequestKind>,
    /// As what kind it calls off a pause, if it does.
    asks: Option<RequestKind>,
    /// Its place among those who pass, taken before a pod is dialed.
    pub(super) place: Option<PassedPlace>,
}

impl Progress {
    /// Nothing was tried yet.
    pub(super) fn none() -> Self {
        Self {
            hearing: Hearing::default(),
            waited: false,
            held_for: HeldFor::Words,
            hurdle: Hurdle::default(),
            tries: Tries::none(),
            judged: None,
            asks: None,
            place: None,
        }
    }
}

/// What a caller is held for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeldFor {
    /// What it sent.
    Words,
    /// That it sent nothing. What it sends yet is judged when it comes (T-123).
    Silence,
}

/// Why no pod took it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HoldEnd {
    /// No pod is Ready, and nothing that the caller sent was ever judged.
    Unjudged,
    Left,
    TimedOut(NotServed),
    Stopped,
}

/// What stood in the way last, for the one who has to say why (OBS-09).
#[derive(Debug, Default)]
enum Hurdle {
    #[default]
    NotReady,
    NoPlace,
    Unreachable(String),
}

impl<C: Connect<Stream = TcpStream> + 'static, S: Stamper> Conversation<C, S> {
    /// Waits until a pod took the connection, and wakes the workload meanwhile
    /// where the caller's request does. A caller that wasn't judged yet is
    /// brought to a Ready pod, and no further; held for that, it calls a pause off as
    /// one that is passed on does (HOLD-11).
    pub(super) async fn wait(
        &self,
        caller: &mut Caller,
        watcher: &mut Watcher,
        progress: &mut Progress,
    ) -> Result<Through, HoldEnd> {
        progress.asks = progress.judged;
        loop {
            let is_silent = caller.bytes().is_empty();
            match progress.judged {
                Some(_) if progress.held_for == HeldFor::Silence && !is_silent => {
                    progress.held_for = HeldFor::Words;
                    if !watcher.is_ready() {
                        return Err(HoldEnd::Unjudged);
                    }
                }
                // Asked again after each change: a pause may begin meanwhile.
                Some(kind) => self.wake(kind),
                None if !watcher.is_ready() => return Err(HoldEnd::Unjudged),
                // Whoever is passed on at once is overheard there.
                None if progress.waited || progress.place.is_none() => {
                    progress.asks = self.overhear(caller.bytes(), &mut progress.hearing);
                    self.call_off(progress.asks);
                }
                None => {}
            }
            match self.step(caller, watcher, progress).await {
                Ok(Some(through)) => return Ok(through),
                Ok(None) => progress.waited = true,
                Err(ended) => return Err(self.end(ended, std::mem::take(&mut progress.hurdle))),
            }
        }
    }

    /// Does the next thing: waits for a pod, for a place, dials, or waits to dial
    /// again. All but the first are boxed: most callers wait for a pod, and the
    /// largest wait is what each of them costs.
    async fn step(
        &self,
        caller: &mut Caller,
        watcher: &mut Watcher,
        progress: &mut Progress,
    ) -> Result<Option<Through>, Impatience> {
        let steady = self.doorman.steady;
        let patience = self.patience();
        let Outlook::Ready(ready) = watcher.latest().1 else {
            progress.place = None;
            let mut changed = pin!(watcher.changed());
            loop {
                let got = patience.wait_or_hear(caller, changed.as_mut()).await?;
                // What it sends beyond its first words changes nothing.
                if got.is_some() || progress.held_for == HeldFor::Silence {
                    return Ok(None);
                }
            }
        };
        let Some(place) = progress.place.take().or_else(|| self.place.try_pass()) else {
            // As if no pod were Ready, in the order of coming (LIMIT-08, T-61).
            progress.hurdle = Hurdle::NoPlace;
            let asks = progress.asks;
            let mut wanted = Box::pin(async {
                tokio::select! {
                    place = self.place.pass() => Some(place),
                    () = self.none_ready(watcher, asks) => None,
                }
            });
            progress.place = patience.wait(caller, wanted.as_mut()).await?;
            return Ok(None);
        };
        let spread = self.route.spread();
        match spread.next(&ready, &mut progress.tries, AT_A_TIME, steady.now()) {
            Next::Dial(targets) => {
                let dial = self.dial(&targets, watcher, &ready);
                match Box::pin(self.outwait(caller, dial, progress)).await? {
                    Some(Ok(Dialed { stream, .. })) => {
                        let target = stream;
                        return Ok(Some(Through { target, place }));
                    }
                    Some(Err(failed)) => progress.hurdle = self.note(&failed),
                    None => {}
                }
                progress.place = Some(place);
            }
            Next::Wait(again) => {
                drop(place);
                let again = steady.instant(again);
                let mut wanted = Box::pin(async {
                    tokio::select! {
                        () = sleep_until(again) => {}
                        () = watcher.other_than(&ready) => {}
                    }
                });
                patience.wait_or_hear(caller, wanted.as_mut()).await?;
            }
            Next::NoneReady => {}
        }
        Ok(None)
    }

    /// Waits until no pod is Ready. A pause that begins meanwhile is called off.
    async fn none_ready(&self, watcher: &mut Watcher, asks: Option<RequestKind>) {
        while watcher.is_ready() {
            self.call_off(asks);
            watcher.changed().await;
        }
    }

    /// Calls a pause off that is on, for a caller that would wake and is held though a
    /// pod is Ready.
    fn call_off(&self, asks: Option<RequestKind>) {
        if let Some(kind) = asks
            && self.route.now().is_pausing()
        {
            self.ask(kind, How::Passed);
        }
    }

    /// Dials; `None` if nobody has answered for a second and others are Ready
    /// now.
    async fn dial(
        &self,
        targets: &[SocketAddr],
        watcher: &mut Watcher,
        ready: &[SocketAddr],
    ) -> Option<Result<Dialed<TcpStream>, NoneDialed>> {
        let others = async {
            sleep(DIAL_RETRY).await;
            watcher.other_than(ready).await;
        };
        tokio::select! {
            biased;
            dialed = self.doorman.dialer.dial_first(targets) => Some(dialed),
            () = others => None,
        }
    }

    /// Waits for a dial. Who comes to a Ready pod isn't held before that can't be
    /// reached (T-58).
    async fn outwait<T>(
        &self,
        caller: &mut Caller,
        dial: impl Future<Output = T>,
        progress: &Progress,
    ) -> Result<T, Impatience> {
        let dial = pin!(dial);
        if progress.waited {
            self.patience().wait(caller, dial).await
        } else {
            self.patience().wait_unheld(caller, dial).await
        }
    }

    pub(super) fn patience(&self) -> Patience<'_> {
        Patience {
            until: self.doorman.steady.instant(self.deadline.at()),
            cut: &self.doorman.cut,
        }
    }

    /// Remembers who refused, for everybody's next turn.
    fn note(&self, failed: &NoneDialed) -> Hurdle {
        let now = self.doorman.steady.now();
        for error in &failed.errors {
            if let Some(address) = refused_by(error) {
                self.route.spread().refused(address, now);
            }
        }
        let last = failed.errors.last();
        tracing::debug!(
            service = %self.route.now().key.service,
            error = last.map(tracing::field::display),
            "no pod took the connection, trying on"
        );
        Hurdle::Unreachable(last.map(ToString::to_string).unwrap_or_default())
    }

    fn end(&self, ended: Impatience, hurdle: Hurdle) -> HoldEnd {
        let why = match hurdle {
            Hurdle::NotReady => return HoldEnd::of_nobody_ready(ended, &self.route.now()),
            Hurdle::NoPlace => NotServed::NoPlace,
            Hurdle::Unreachable(error) => NotServed::Unreachable(error),
        };
        HoldEnd::new(ended, why)
    }
}

impl HoldEnd {
    fn new(ended: Impatience, why: NotServed) -> Self {
        match ended {
            Impatience::Left => Self::Left,
            Impatience::Stopped => Self::Stopped,
            Impatience::TimedOut => Self::TimedOut(why),
        }
    }

    /// Of a caller for whom no pod was ever Ready.
    pub(super) fn of_nobody_ready(ended: Impatience, route: &Route) -> Self {
        let workloads = &route.workloads;
        let why = if !workloads.is_empty() && workloads.iter().all(|one| one.target_gone) {
            NotServed::TargetGone
        } else {
            let obstacle = workloads.iter().find_map(|one| one.slot.obstacle());
            match obstacle {
                Some(obstacle) => NotServed::NotWoken(obstacle),
                None if route.lacks_port => NotServed::NoSuchPort,
                None => NotServed::NoReadyPod,
            }
        };
        Self::new(ended, why)
    }
}

/// How a caller that wasn't served is counted.
pub(super) fn result_of(why: &NotServed) -> WaitResult {
    match why {
        NotServed::Unreachable(_) => WaitResult::Unreachable,
        NotServed::NoReadyPod
        | NotServed::NoSuchPort
        | NotServed::TargetGone
        | NotServed::NotWoken(_)
        | NotServed::NoPlace => WaitResult::TimedOut,
    }
}

fn refused_by(error: &DialError) -> Option<SocketAddr> {
    match error {
        DialError::NotAllowed { address, .. }
        | DialError::Refused { address }
        | DialError::TimedOut { address, .. }
        | DialError::Unreachable { address, .. } => Some(*address),
        // That was us.
        DialError::NoSocket { .. } => None,
    }
}
