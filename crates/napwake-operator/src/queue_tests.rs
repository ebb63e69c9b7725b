//! What the queue promises, under a paused clock.

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use rstest::rstest;
use tokio::{
    sync::Semaphore,
    time::{Instant, advance, timeout},
};

use super::*;

const ROOM: Room = Room { usual: 2, wakes: 1 };

/// Work that notes when it begins and ends once it's let go.
#[derive(Clone)]
struct Bench {
    begun: Rc<RefCell<Vec<&'static str>>>,
    gates: Rc<RefCell<BTreeMap<&'static str, Rc<Semaphore>>>>,
    next: Next,
}

impl Bench {
    fn new(next: Next) -> Self {
        Self {
            begun: Rc::default(),
            gates: Rc::default(),
            next,
        }
    }

    fn gate(&self, key: &'static str) -> Rc<Semaphore> {
        let mut gates = self.gates.borrow_mut();
        Rc::clone(
            gates
                .entry(key)
                .or_insert_with(|| Rc::new(Semaphore::new(0))),
        )
    }

    fn let_go(&self, key: &'static str) {
        self.gate(key).add_permits(1);
    }

    async fn work(self, key: &'static str, hurry: Hurry) -> Next {
        self.begun.borrow_mut().push(key);
        let gate = self.gate(key);
        tokio::select! {
            permit = gate.acquire() => permit.unwrap().forget(),
            () = hurry.comes_up() => {}
        }
        self.next
    }

    /// Runs until nothing more happens by itself, and says what began.
    async fn settle(&self, queue: &Queue<&'static str>, running: &mut Running<'_>) -> String {
        let _ = queue;
        for _ in 0..32 {
            futures::future::poll_immediate(running.as_mut()).await;
        }
        self.begun
            .borrow_mut()
            .drain(..)
            .collect::<Vec<_>>()
            .join(" ")
    }
}

type Running<'a> = std::pin::Pin<Box<dyn Future<Output = Infallible> + 'a>>;

fn start<'a>(queue: &'a Queue<&'static str>, bench: &Bench) -> Running<'a> {
    let bench = bench.clone();
    Box::pin(queue.run(ROOM, move |key, hurry| bench.clone().work(key, hurry)))
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_once_and_is_worked_on_by_one() {
    let (queue, bench) = (Queue::new(), Bench::new(Next::WhenAsked));
    let mut running = start(&queue, &bench);
    queue.add("a", Urgency::Usual);
    queue.add("a", Urgency::Usual);
    assert_eq!(bench.settle(&queue, &mut running).await, "a");
    // Asked for meanwhile, any number of times: once more, afterwards.
    queue.add("a", Urgency::Usual);
    queue.add("a", Urgency::Usual);
    assert_eq!(bench.settle(&queue, &mut running).await, "");
    assert_eq!(queue.depth(), 1);
    bench.let_go("a");
    assert_eq!(bench.settle(&queue, &mut running).await, "a");
    bench.let_go("a");
    assert_eq!(bench.settle(&queue, &mut running).await, "");
    assert_eq!(queue.depth(), 0);
}

#[tokio::test(start_paused = true)]
async fn wakes_overtake_and_have_room_of_their_own() {
    let (queue, bench) = (Queue::new(), Bench::new(Next::WhenAsked));
    let mut running = start(&queue, &bench);
    for key in ["a", "b", "c", "d"] {
        queue.add(key, Urgency::Usual);
    }
    assert_eq!(bench.settle(&queue, &mut running).await, "a b");
    // It waited already, and now it hurries.
    queue.add("d", Urgency::Wake);
    assert_eq!(bench.settle(&queue, &mut running).await, "d");
    bench.let_go("a");
    bench.let_go("b");
    bench.let_go("d");
    assert_eq!(bench.settle(&queue, &mut running).await, "c");
    bench.let_go("c");
    assert_eq!(bench.settle(&queue, &mut running).await, "");
    assert_eq!(queue.depth(), 0);
}

/// Work that goes on for long ends for a wake of the same key, and for nothing
/// else.
#[tokio::test(start_paused = true)]
async fn a_wake_is_told_to_whoever_works_on_it() {
    let (queue, bench) = (Queue::new(), Bench::new(Next::WhenAsked));
    let mut running = start(&queue, &bench);
    queue.add("a", Urgency::Usual);
    assert_eq!(bench.settle(&queue, &mut running).await, "a");
    queue.add("a", Urgency::Usual);
    queue.add("b", Urgency::Wake);
    assert_eq!(bench.settle(&queue, &mut running).await, "b");
    queue.add("a", Urgency::Wake);
    assert_eq!(bench.settle(&queue, &mut running).await, "a");
}

/// A wake that couldn't be done is tried again as one, whether its time has come
/// or something has changed.
#[rstest]
#[case::when_due(false)]
#[case::when_asked(true)]
#[tokio::test(start_paused = true)]
async fn a_wake_that_is_owed_overtakes(#[case] is_asked: bool) {
    let delay = Duration::from_secs(30);
    let (queue, bench) = (Queue::new(), Bench::new(Next::WakeAfter(delay)));
    let mut running = start(&queue, &bench);
    queue.add("a", Urgency::Wake);
    bench.let_go("a");
    assert_eq!(bench.settle(&queue, &mut running).await, "a");
    // All other room is taken, and more wait for it.
    for key in ["b", "c", "d"] {
        queue.add(key, Urgency::Usual);
    }
    assert_eq!(bench.settle(&queue, &mut running).await, "b c");
    if is_asked {
        queue.add("a", Urgency::Usual);
    } else {
        advance(delay + Duration::from_secs(1)).await;
    }
    assert_eq!(bench.settle(&queue, &mut running).await, "a");
}

#[tokio::test(start_paused = true)]
async fn works_again_when_due_or_asked_whichever_is_first() {
    let (queue, bench) = (
        Queue::new(),
        Bench::new(Next::After(Duration::from_secs(30))),
    );
    let mut running = start(&queue, &bench);
    queue.add("a", Urgency::Usual);
    bench.let_go("a");
    assert_eq!(bench.settle(&queue, &mut running).await, "a");
    advance(Duration::from_secs(29)).await;
    assert_eq!(bench.settle(&queue, &mut running).await, "");
    bench.let_go("a");
    advance(Duration::from_secs(2)).await;
    assert_eq!(bench.settle(&queue, &mut running).await, "a");
    // Asked for after 10 s: the 30 s count from then.
    advance(Duration::from_secs(10)).await;
    queue.add("a", Urgency::Usual);
    bench.let_go("a");
    assert_eq!(bench.settle(&queue, &mut running).await, "a");
    advance(Duration::from_secs(25)).await;
    assert_eq!(bench.settle(&queue, &mut running).await, "");
    advance(Duration::from_secs(6)).await;
    assert_eq!(bench.settle(&queue, &mut running).await, "a");
}

/// What was being worked on when a term ended can be asked for in the next one.
#[tokio::test(start_paused = true)]
async fn dropping_it_stops_the_work() {
    let (queue, bench) = (Queue::new(), Bench::new(Next::WhenAsked));
    let mut running = start(&queue, &bench);
    queue.add("a", Urgency::Usual);
    assert_eq!(bench.settle(&queue, &mut running).await, "a");
    drop(running);
    let mut running = start(&queue, &bench);
    queue.add("a", Urgency::Usual);
    assert_eq!(bench.settle(&queue, &mut running).await, "a");
}

#[tokio::test(start_paused = true)]
async fn asks_from_outside_wake_it_up() {
    let (queue, bench) = (Queue::new(), Bench::new(Next::WhenAsked));
    let begin = Instant::now();
    let ask = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        queue.add("a", Urgency::Wake);
    };
    let running = async {
        let ended = timeout(Duration::from_secs(6), start(&queue, &bench)).await;
        assert!(ended.is_err());
    };
    tokio::join!(ask, running);
    assert_eq!(*bench.begun.borrow(), ["a"]);
    assert_eq!(begin.elapsed(), Duration::from_secs(6));
}

/// What nobody works on is forgotten, or the names of all that came and went would be
/// kept; but a wake that has just been missed hurries whoever opens it.
#[tokio::test(start_paused = true)]
async fn a_queue_that_is_shut_keeps_only_late_wakes() {
    let queue = Queue::new();
    queue.add("a", Urgency::Wake);
    queue.add("usual", Urgency::Usual);
    queue.shut();
    queue.add("b", Urgency::Wake);
    advance(MISSED).await;
    queue.add("c", Urgency::Usual);
    queue.add("d", Urgency::Wake);
    let kept = |queue: &Queue<&str>| queue.waiting.lock().missed.as_ref().map(VecDeque::len);
    assert_eq!((queue.depth(), kept(&queue)), (0, Some(1)));
    queue.open();
    queue.add("e", Urgency::Usual);
    let bench = Bench::new(Next::WhenAsked);
    let mut running = start(&queue, &bench);
    assert_eq!(bench.settle(&queue, &mut running).await, "d e");
}

/// A wake that wasn't done with when a term ended hurries in the next one, too: one that
/// waits, one that's worked on, and one that's to be looked at again.
#[tokio::test(start_paused = true)]
async fn wakes_of_a_term_that_ended_hurry_in_the_next() {
    let (queue, bench) = (
        Queue::new(),
        Bench::new(Next::WakeAfter(Duration::from_secs(30))),
    );
    let mut running = start(&queue, &bench);
    queue.add("owed", Urgency::Wake);
    bench.let_go("owed");
    assert_eq!(bench.settle(&queue, &mut running).await, "owed");
    queue.add("begun", Urgency::Wake);
    queue.add("usual", Urgency::Usual);
    assert_eq!(bench.settle(&queue, &mut running).await, "begun usual");
    drop(running);
    queue.add("waits", Urgency::Wake);
    queue.shut();
    queue.open();
    let waiting = queue.waiting.lock();
    let mut wakes: Vec<_> = waiting.queued.iter().collect();
    wakes.sort_unstable();
    let wake = &Urgency::Wake;
    assert_eq!(wakes, [(&"begun", wake), (&"owed", wake), (&"waits", wake)]);
}
