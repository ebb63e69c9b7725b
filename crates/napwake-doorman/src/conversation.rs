//! One connection, from accept to end.
//!
//! Owns the order of the stages. A stage takes what it needs by value and says
//! what comes next; where a connection stands in [`Conversation::run`] is its
//! state. Decisions are made in `napwake_gate`, and bytes are moved in
//! `napwake_net`.

mod budget;
mod errand;
mod greet;
mod hold;
mod overhear;
mod pass;
mod patience;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use napwake_api::stamp::RequestKind;
use napwake_gate::budget::{Budget, Limits};
use napwake_gate::caller::Agents;
use napwake_gate::deadline::{Deadline, WAKE_RETRY};
use napwake_gate::places::{HeldPlace, Places, Source};
use napwake_gate::verdict::{Counted, Wake};
use napwake_kit::clock::Clock;
use napwake_net::dial::{Dialer, Tcp};
use napwake_net::linger::{self, LingerLimits};
use napwake_net::listen::Accepted;
use napwake_net::relay::Pipes;
use napwake_net::transport::Connect;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::budget::Caller;
use self::greet::Greeting;
use self::hold::{HeldFor, HoldEnd, Progress, Through};
use self::patience::{Impatience, Watcher};
use crate::key::WakeKey;
use crate::metrics::{Metrics, WaitResult};
use crate::report::Reporter;
use crate::routes::RouteHandle;
use crate::steady::Steady;
use crate::tally::Tallies;
use crate::wake::{Asker, How, Stamper, Wakes};

/// What every conversation lives with.
#[derive(Debug)]
pub struct Doorman<C, S> {
    /// How many may be held and passed.
    pub places: Places,
    /// How much may be read of those who are held.
    pub budget: Budget,
    /// How much that is.
    pub budget_limits: Limits,
    /// Known probes, scrapers and monitors.
    pub agents: Arc<Agents>,
    /// The only way to a pod.
    pub dialer: Dialer<C>,
    /// Where bulk gets its pipes from.
    pub pipes: Pipes,
    /// Wakes workloads.
    pub wakes: Wakes<S>,
    /// Tells in events.
    pub reporter: Reporter,
    /// Counts.
    pub metrics: Metrics,
    /// Signs and checks what the button posts.
    pub key: WakeKey,
    /// Counts what each pause turns away.
    pub tallies: Tallies,
    /// The clock of everything here.
    pub steady: Steady,
    /// The time of day.
    pub clock: Clock,
    /// Cancelled when whatever is still open must end (DRAIN-13).
    pub cut: CancellationToken,
    /// Where conversations run.
    pub tasks: TaskTracker,
}

/// A doorman's connector in production.
pub type Sockets = Tcp;

impl<C: Connect<Stream = TcpStream> + 'static, S: Stamper> Doorman<C, S> {
    /// Takes a caller in, or closes its connection at once where it is over a
    /// cap (LIMIT-05). Never blocks.
    pub fn welcome(self: &Arc<Self>, route: RouteHandle, caller: Accepted) {
        let source = Source::from(caller.caller.ip());
        let now = route.now();
        match self.places.hold(source, Arc::clone(&now.keys)) {
            Ok(place) => {
                let conversation = Conversation::new(Arc::clone(self), route, place);
                self.tasks.spawn(conversation.run(caller.stream));
            }
            Err(over) => {
                self.metrics.ended(&now, WaitResult::OverLimit);
                tracing::debug!(
                    namespace = &*now.key.service.namespace,
                    service = &*now.key.service.name,
                    %over,
                    "closed at once"
                );
            }
        }
    }
}

#[cfg(test)]
impl<C: Connect<Stream = TcpStream> + 'static, S: Stamper> Doorman<C, S> {
    /// How many bytes the futures of one held connection take together.
    pub(crate) fn size_of_one(self: &Arc<Self>, route: RouteHandle, stream: TcpStream) -> usize {
        let source = Source::from(std::net::IpAddr::from([192, 0, 2, 7]));
        let place = self.places.hold(source, route.now().keys.clone()).unwrap();
        let conversation = Conversation::new(Arc::clone(self), route, place);
        let mut caller = Caller::new(stream, budget::Share(self.budget.share()));
        let mut watcher = Watcher::new(&conversation.route);
        let mut progress = Progress::none();
        let wait = conversation.wait(&mut caller, &mut watcher, &mut progress);
        let waits = size_of_val(&wait);
        drop(wait);
        let greet = conversation.greet(&mut caller, &mut watcher, &mut progress.hearing);
        let greets = size_of_val(&greet);
        drop(greet);
        // One stage at a time.
        let outer = size_of_val(&conversation.run(caller.into_stream()));
        waits.max(greets) + outer
    }
}

/// One connection.
#[derive(Debug)]
struct Conversation<C, S> {
    doorman: Arc<Doorman<C, S>>,
    route: RouteHandle,
    place: HeldPlace,
    accepted: Instant,
    /// One clock for all it waits for (T-60).
    deadline: Deadline,
}

impl<C: Connect<Stream = TcpStream> + 'static, S: Stamper> Conversation<C, S> {
    fn new(doorman: Arc<Doorman<C, S>>, route: RouteHandle, place: HeldPlace) -> Self {
        let accepted = Instant::now();
        let max_wait = route.now().max_wait();
        let deadline = Deadline::new(doorman.steady.moment(accepted), max_wait);
        Self {
            doorman,
            route,
            place,
            accepted,
            deadline,
        }
    }

    /// From accept to end.
    async fn run(self, stream: TcpStream) {
        let mut caller = Caller::new(stream, budget::Share(self.doorman.budget.share()));
        let mut watcher = Watcher::new(&self.route);
        let mut progress = Progress::none();
        let through = loop {
            let greeting = self.greet(&mut caller, &mut watcher, &mut progress.hearing);
            match Box::pin(greeting).await {
                Greeting::Ready(place) => progress.place = place,
                Greeting::Hold(kind) => {
                    progress.waited = true;
                    if caller.bytes().is_empty() {
                        progress.held_for = HeldFor::Silence;
                    }
                    progress.judged = Some(kind);
                }
                Greeting::Waking(page, wake) => {
                    drop(watcher);
                    if let Wake::Yes(kind) = wake {
                        self.wake(kind);
                    }
                    return Box::pin(self.answer(caller.into_stream(), page)).await;
                }
                Greeting::Answer(answer, counted) => {
                    drop(watcher);
                    self.count(counted);
                    return Box::pin(self.answer(caller.into_stream(), answer)).await;
                }
                Greeting::Close(counted) => return self.count(counted),
                Greeting::Ended(ended) => return self.ended_early(ended),
            }
            let waiting = self.wait(&mut caller, &mut watcher, &mut progress);
            match Box::pin(waiting).await {
                Ok(through) => break through,
                // Its place is for whoever can be passed.
                Err(HoldEnd::Unjudged) => {
                    progress.place = None;
                    progress.judged = None;
                    let now = self.doorman.steady.now();
                    progress.hearing.heard_elsewhere(caller.bytes(), now);
                }
                // Whoever left without having waited never asked for anything.
                Err(HoldEnd::Left) if !progress.waited => return,
                Err(end) => return self.not_served(&end),
            }
        };
        drop(watcher);
        if progress.waited {
            let (route, wait) = (self.route.now(), self.accepted.elapsed());
            self.doorman
                .metrics
                .waited(&route, WaitResult::Served, wait);
        }
        let (stream, bytes) = caller.into_parts();
        Box::pin(self.pass(stream, bytes, through, progress.judged)).await;
    }

    /// Asks for the wake of what the route leads to, if that is asleep.
    fn wake(&self, kind: RequestKind) {
        self.ask(kind, How::Waits);
    }

    fn ask(&self, kind: RequestKind, how: How) {
        let asker = Asker {
            source: self.place.source(),
            kind,
            how,
        };
        // Once at least, though it is judged when its time is up (CLASS-04).
        let until = self.patience().until.max(Instant::now() + WAKE_RETRY);
        self.doorman.wakes.ask(&self.route, asker, until);
    }

    fn count(&self, counted: Counted) {
        if counted == Counted::TurnedAway {
            let route = self.route.now();
            self.doorman.metrics.ended(&route, WaitResult::TurnedAway);
            self.doorman.tallies.turned_away(&route);
        }
    }

    async fn answer(self, stream: TcpStream, answer: napwake_gate::answer::Answer) {
        self.doorman.metrics.answered(answer.kind.label());
        let bytes = answer.to_bytes();
        // The place is kept until the end, so that those who linger are bounded.
        linger::answer(stream, &bytes, LingerLimits::default()).await;
    }

    async fn pass(
        self,
        stream: TcpStream,
        bytes: Bytes,
        through: Through,
        judged: Option<RequestKind>,
    ) {
        let Self {
            doorman,
            route,
            place,
            ..
        } = self;
        let passed = pass::Passed {
            source: place.source(),
            place: through.place.instead_of(place),
            // Whoever was judged already has had its say.
            judged: judged.is_some(),
        };
        Box::pin(pass::relay(
            doorman,
            route,
            passed,
            stream,
            bytes,
            through.target,
        ))
        .await;
    }

    /// It ended before it was judged, so it never asked for anything.
    fn ended_early(&self, ended: Impatience) {
        if ended == Impatience::TimedOut {
            let end = HoldEnd::of_nobody_ready(ended, &self.route.now());
            self.not_served(&end);
        }
    }

    fn not_served(&self, end: &HoldEnd) {
        let route = self.route.now();
        let wait = self.accepted.elapsed();
        let result = match end {
            // T-84: a retry reaches another pod.
            HoldEnd::Stopped | HoldEnd::Unjudged => return,
            HoldEnd::Left => WaitResult::Left,
            HoldEnd::TimedOut(why) => {
                self.doorman.reporter.not_served(&route, wait, why);
                hold::result_of(why)
            }
        };
        log_end(&route.key.service, wait, end);
        self.doorman.metrics.waited(&route, result, wait);
    }
}

fn log_end(service: &crate::routes::ServiceKey, wait: Duration, end: &HoldEnd) {
    let (namespace, service) = (&*service.namespace, &*service.name);
    match end {
        HoldEnd::TimedOut(why) => {
            // The event tells of it, once a minute: a line for each of a flood is too many.
            tracing::debug!(namespace, service, ?wait, %why, "a held caller was not served");
        }
        HoldEnd::Left | HoldEnd::Stopped | HoldEnd::Unjudged => {
            tracing::debug!(namespace, service, ?wait, ?end, "a held caller is gone");
        }
    }
}

#[cfg(test)]
mod tests;
