//! A queue of keys that need work.
//!
//! A key is worked on by one at a time, waits at most once, and is worked on
//! again if it was asked for meanwhile. Wakes have a lane and room of their own,
//! so that none waits for other workloads' slower work; and whoever works on a
//! key learns from its [`Hurry`] that a wake waits for that very work to end.
//! Knows nothing of what the work is, and spawns nothing: all work is part of
//! the future that [`Queue::run`] is, and ends with it.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    convert::Infallible,
    future::Future,
    hash::Hash,
    time::Duration,
};

use futures::{StreamExt, stream::FuturesUnordered};
use parking_lot::Mutex;
use tokio::{sync::Notify, task::coop::consume_budget, time::Instant};
use tokio_util::{
    sync::CancellationToken,
    time::{DelayQueue, delay_queue},
};

/// Work that is due later than this is done then all the same: it does no harm.
const LONGEST_DELAY: Duration = Duration::from_hours(24);

/// For how long a wake hurries that nobody was there to work on: another leader takes
/// over in much less.
const MISSED: Duration = Duration::from_mins(1);

/// How much a key's work hurries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    Usual,
    /// Somebody may be waiting for a wake.
    Wake,
}

/// How many keys are worked on at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// In all, but for wakes that find no room among these.
    pub(crate) usual: usize,
    /// Wakes, in addition.
    pub(crate) wakes: usize,
}

/// When a key wants work again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Not before somebody asks.
    WhenAsked,
    /// After this time, unless somebody asks before.
    After(Duration),
    /// The same, and what asked meanwhile waits as well, as it may have been this work
    /// itself; but for wakes.
    NotBefore(Duration),
    /// The same, and then as a wake, whoever asks: one isn't done yet.
    WakeAfter(Duration),
}

/// Whether a wake has come up for what is being worked on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hurry(CancellationToken);

impl Hurry {
    /// Waits until one has.
    pub(crate) async fn comes_up(&self) {
        self.0.cancelled().await;
    }

    /// Whether one has.
    pub(crate) fn is_up(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// Keys that wait, and keys that are worked on.
#[derive(Debug)]
pub(crate) struct Queue<K> {
    waiting: Mutex<Waiting<K>>,
    news: Notify,
}

/// What is being worked on.
#[derive(Debug)]
struct Running {
    hurry: Hurry,
    /// As what it was begun.
    urgency: Urgency,
}

#[derive(Debug)]
struct Waiting<K> {
    lanes: [VecDeque<K>; 2],
    queued: HashMap<K, Urgency>,
    running: HashMap<K, Running>,
    /// Asked for while being worked on.
    again: HashMap<K, Urgency>,
    /// Whose next work is a wake, whoever asks.
    owed: HashSet<K>,
    /// Of a queue that is shut, the wakes that were asked for last; none of one that's open.
    missed: Option<VecDeque<(K, Instant)>>,
}

impl<K: Clone + Eq + Hash> Queue<K> {
    pub(crate) fn new() -> Self {
        Self {
            waiting: Mutex::new(Waiting::new()),
            news: Notify::new(),
        }
    }

    /// Forgets all that waits or is worked on, and whatever is asked for until it's opened,
    /// but for wakes that aren't long ago: nobody works on it, and whoever will asks for
    /// everything.
    pub(crate) fn shut(&self) {
        let mut waiting = self.waiting.lock();
        let missed = waiting.missed.take().unwrap_or_default();
        let missed = missed.into_iter().chain(waiting.take_wakes()).collect();
        *waiting = Waiting {
            missed: Some(missed),
            ..Waiting::new()
        };
    }

    /// Takes in what is asked for.
    pub(crate) fn open(&self) {
        let mut waiting = self.waiting.lock();
        for (key, at) in waiting.missed.take().into_iter().flatten() {
            if at.elapsed() < MISSED {
                waiting.add(key, Urgency::Wake);
            }
        }
    }

    /// Asks for work on `key`, as soon as there's room. Never waits.
    pub(crate) fn add(&self, key: K, urgency: Urgency) {
        self.waiting.lock().add(key, urgency);
        self.news.notify_one();
    }

    /// How many keys wait for room.
    pub(crate) fn depth(&self) -> usize {
        let waiting = self.waiting.lock();
        waiting.queued.len() + waiting.again.len()
    }

    fn take(&self, room: Room) -> Option<(K, Hurry)> {
        self.waiting.lock().take(room)
    }

    /// Works on `key` from now on, for tests.
    #[cfg(test)]
    pub(crate) fn begin(&self, key: K) -> Hurry {
        let hurry = Hurry::default();
        let running = Running {
            hurry: hurry.clone(),
            urgency: Urgency::Usual,
        };
        self.waiting.lock().running.insert(key, running);
        hurry
    }

    /// Works for ever, and stops all work where it stands when dropped: then the
    /// keys that were being worked on are asked for again by nobody but the
    /// caller. Only one may run at a time.
    pub(crate) async fn run<W, F>(&self, room: Room, work: W) -> Infallible
    where
        W: Fn(K, Hurry) -> F,
        F: Future<Output = Next>,
    {
        self.waiting.lock().forget_running();
        let mut running = FuturesUnordered::new();
        let mut delays = DelayQueue::new();
        let mut timers: HashMap<K, delay_queue::Key> = HashMap::new();
        loop {
            // The work may all be done without ever waiting; whoever shares this
            // task gets a turn all the same.
            consume_budget().await;
            while let Some((key, hurry)) = self.take(room) {
                if let Some(timer) = timers.remove(&key) {
                    delays.remove(&timer);
                }
                let done = work(key.clone(), hurry);
                running.push(async move { (key, done.await) });
            }
            // Every arm is cancel-safe: an unread notification stays stored, and
            // the other two are streams.
            tokio::select! {
                () = self.news.notified() => {}
                Some((key, next)) = running.next(), if !running.is_empty() => {
                    self.waiting.lock().done(&key, next);
                    if let Next::After(delay) | Next::NotBefore(delay) | Next::WakeAfter(delay) = next {
                        let timer = delays.insert(key.clone(), delay.min(LONGEST_DELAY));
                        timers.insert(key, timer);
                    }
                }
                Some(due) = delays.next(), if !delays.is_empty() => {
                    let key = due.into_inner();
                    timers.remove(&key);
                    self.waiting.lock().add(key, Urgency::Usual);
                }
            }
        }
    }
}

impl<K: Clone + Eq + Hash> Waiting<K> {
    fn new() -> Self {
        Self {
            lanes: [VecDeque::new(), VecDeque::new()],
            queued: HashMap::new(),
            running: HashMap::new(),
            again: HashMap::new(),
            owed: HashSet::new(),
            missed: None,
        }
    }

    fn add(&mut self, key: K, urgency: Urgency) {
        if let Some(missed) = &mut self.missed {
            let is_over = |first: &(K, Instant)| first.1.elapsed() >= MISSED;
            while missed.front().is_some_and(is_over) {
                missed.pop_front();
            }
            if urgency == Urgency::Wake {
                missed.push_back((key, Instant::now()));
            }
            return;
        }
        if let Some(running) = self.running.get(&key) {
            if urgency == Urgency::Wake {
                running.hurry.0.cancel();
            }
            let known = self.again.entry(key).or_insert(urgency);
            *known = (*known).max(urgency);
            return;
        }
        let urgency = if self.owed.contains(&key) {
            Urgency::Wake
        } else {
            urgency
        };
        match self.queued.get(&key) {
            Some(known) if *known >= urgency => {}
            // It waits in the slower lane too, where it's passed over.
            _ => {
                self.lanes[lane(urgency)].push_back(key.clone());
                self.queued.insert(key, urgency);
            }
        }
    }

    /// The next key for which there's room; it counts as being worked on.
    fn take(&mut self, room: Room) -> Option<(K, Hurry)> {
        let busy = self.running.len();
        let wakes_too = busy < room.usual + room.wakes;
        let key = wakes_too
            .then(|| self.next_in(Urgency::Wake))
            .flatten()
            .or_else(|| {
                let any = busy < room.usual;
                any.then(|| self.next_in(Urgency::Usual)).flatten()
            })?;
        let urgency = self.queued.remove(&key).unwrap_or(Urgency::Usual);
        self.owed.remove(&key);
        let hurry = Hurry::default();
        let running = Running {
            hurry: hurry.clone(),
            urgency,
        };
        self.running.insert(key.clone(), running);
        Some((key, hurry))
    }

    /// Passes over those that have moved to the faster lane, or that were taken
    /// from it already.
    fn next_in(&mut self, urgency: Urgency) -> Option<K> {
        loop {
            let key = self.lanes[lane(urgency)].pop_front()?;
            if self.queued.get(&key) == Some(&urgency) {
                return Some(key);
            }
        }
    }

    fn done(&mut self, key: &K, next: Next) {
        self.running.remove(key);
        if matches!(next, Next::WakeAfter(_)) {
            self.owed.insert(key.clone());
        }
        let is_held_back =
            |urgency| matches!(next, Next::NotBefore(_)) && urgency == Urgency::Usual;
        let again = self.again.remove(key);
        if let Some(urgency) = again.filter(|urgency| !is_held_back(*urgency)) {
            self.add(key.clone(), urgency);
        }
    }

    /// The wakes that nobody is done with, as of now.
    fn take_wakes(&mut self) -> impl Iterator<Item = (K, Instant)> + use<K> {
        let is_wake = |urgency: &Urgency| *urgency == Urgency::Wake;
        let waiting = std::mem::take(&mut self.queued).into_iter();
        let again = std::mem::take(&mut self.again).into_iter();
        let asked = waiting
            .chain(again)
            .filter(move |(_, urgency)| is_wake(urgency));
        let running = std::mem::take(&mut self.running).into_iter();
        let begun = running.filter(move |(_, running)| is_wake(&running.urgency));
        let owed = std::mem::take(&mut self.owed).into_iter();
        let keys = asked
            .map(|(key, _)| key)
            .chain(begun.map(|(key, _)| key))
            .chain(owed);
        let now = Instant::now();
        keys.collect::<HashSet<_>>()
            .into_iter()
            .map(move |key| (key, now))
    }

    fn forget_running(&mut self) {
        self.running.clear();
        for (key, urgency) in std::mem::take(&mut self.again) {
            self.add(key, urgency);
        }
    }
}

const fn lane(urgency: Urgency) -> usize {
    match urgency {
        Urgency::Usual => 0,
        Urgency::Wake => 1,
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
