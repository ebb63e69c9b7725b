//! A doorman over a cluster in memory, with real sockets and a clock that only
//! the test moves.
//!
//! The connector is scripted: what each dial meets is said beforehand, and the
//! script must be used up to its last step.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use napwake_cluster::events::Events;
use napwake_cluster::watch::{Change, ObjectKey};
use napwake_gate::allowance::{Allowance, Rates};
use napwake_gate::budget::{Budget, Limits};
use napwake_gate::caller::Agents;
use napwake_gate::places::{Caps, Places, WorkloadKey};
use napwake_kit::clock::{Clock, ManualClock};
use napwake_kit::metrics::Registry;
use napwake_net::dial::{AddressRule, Dialer, Pace};
use napwake_net::listen::Accepted;
use napwake_net::relay::Pipes;
use napwake_net::transport::Connect;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Cluster;
use crate::conversation::Doorman;
use crate::key::WakeKey;
use crate::metrics::Metrics;
use crate::pods::{Judge, Keepers};
use crate::report::Reporter;
use crate::routes::{Board, Claimant, Now, RouteHandle, Slice, TableChanges, on_workload};
use crate::steady::Steady;
use crate::tally::Tallies;
use crate::wake::{ApiStamper, Wakes, WakesParts};

/// The Secret of the wake key.
pub(crate) const WAKE_KEY: &str = "napwake-doorman-wake-key";

/// As Linux numbers it; a kind of error alone wouldn't do.
const ECONNREFUSED: i32 = 111;

/// What a dial meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dial {
    Refuse,
    /// No answer, ever.
    Silence,
    Accept,
}

/// How a connection ended for its caller.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Closed in order, after these bytes.
    Closed(Vec<u8>),
    Reset,
}

impl Ending {
    /// Closed or reset with nothing sent.
    pub(crate) fn is_silent(&self) -> bool {
        matches!(self, Self::Reset) || *self == Self::Closed(Vec::new())
    }
}

#[derive(Clone)]
pub(crate) struct Scripted {
    steps: Arc<Mutex<VecDeque<Dial>>>,
    dialed: Arc<Mutex<Vec<(SocketAddr, Duration)>>>,
    backends: mpsc::UnboundedSender<TcpStream>,
    start: Instant,
}

impl Connect for Scripted {
    type Stream = TcpStream;

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.dialed.lock().push((address, self.start.elapsed()));
        let step = self.steps.lock().pop_front();
        match step.expect("a dial that the script doesn't have") {
            Dial::Refuse => Err(io::Error::from_raw_os_error(ECONNREFUSED)),
            Dial::Silence => std::future::pending().await,
            Dial::Accept => {
                let (near, far) = pair().await;
                self.backends.send(far).ok();
                Ok(near)
            }
        }
    }
}

/// Two ends of one connection.
async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let connecting = TcpStream::connect(listener.local_addr().unwrap());
    let (near, far) = tokio::join!(connecting, listener.accept());
    (near.unwrap(), far.unwrap().0)
}

/// A doorman and all around it.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) doorman: Arc<Doorman<Scripted, ApiStamper>>,
    pub(crate) clock: ManualClock,
    board: Mutex<Board>,
    script: Scripted,
    backends: mpsc::UnboundedReceiver<TcpStream>,
    registry: Registry,
    pub(crate) time: Clock,
    /// Ends the blocking task that keeps the runtime from moving the clock
    /// whenever it has nothing to do but wait for a socket.
    _still: std::sync::mpsc::Sender<()>,
}

impl World {
    /// With a script of dials. Needs a current-thread runtime whose clock is
    /// paused.
    pub(crate) fn new(script: impl IntoIterator<Item = Dial>) -> Self {
        Self::with_caps(script, Caps::default())
    }

    pub(crate) fn with_caps(script: impl IntoIterator<Item = Dial>, caps: Caps) -> Self {
        let clocks = Clock::manual(super::now());
        Self::over(Cluster::default(), clocks, script, caps)
    }

    /// Another pod over the same cluster, by the same clock, that dials nobody.
    pub(crate) fn beside(&self) -> Self {
        let clocks = (self.time.clone(), self.clock.clone());
        Self::over(self.cluster.clone(), clocks, [], Caps::default())
    }

    fn over(
        cluster: Cluster,
        (time, clock): (Clock, ManualClock),
        script: impl IntoIterator<Item = Dial>,
        caps: Caps,
    ) -> Self {
        let (still, end) = std::sync::mpsc::channel();
        tokio::task::spawn_blocking(move || end.recv().ok());
        let (send, backends) = mpsc::unbounded_channel();
        let script = Scripted {
            steps: Arc::new(Mutex::new(script.into_iter().collect())),
            dialed: Arc::default(),
            backends: send,
            start: Instant::now(),
        };
        let mut registry = Registry::default();
        let tasks = TaskTracker::new();
        let client = cluster.client();
        let keepers = Keepers::new(client.clone(), Judge::new("napwake-system"), tasks.clone());
        let events = Events::new(&client, time.clone(), "test", "doorman-0");
        let reporter = Reporter::new(Arc::new(events), tasks.clone());
        let steady = Steady::start();
        let wakes = Wakes::new(WakesParts {
            stamper: ApiStamper::new(client),
            allowance: Allowance::new(Rates::default()),
            clock: time.clone(),
            steady,
            reporter: reporter.clone(),
            tasks: tasks.clone(),
        });
        let rule = AddressRule::pods(|_| false);
        let doorman = Doorman {
            places: Places::new(caps),
            budget: Budget::new(Limits::default()),
            budget_limits: Limits::default(),
            agents: Arc::new(Agents::built_in()),
            dialer: Dialer::over(script.clone(), rule, Pace::default()),
            pipes: Pipes::new(4),
            wakes,
            reporter,
            metrics: Metrics::register(&mut registry),
            key: WakeKey::new(cluster.client(), "napwake-system", WAKE_KEY, steady),
            tallies: Tallies::new(cluster.client(), time.clone(), 0),
            steady,
            clock: time.clone(),
            cut: CancellationToken::new(),
            tasks,
        };
        Self {
            cluster,
            doorman: Arc::new(doorman),
            clock,
            board: Mutex::new(Board::new(keepers, AddressRule::pods(|_| false))),
            script,
            backends,
            registry,
            time,
            _still: still,
        }
    }

    /// Changes what is known of routes.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Board)) {
        change(&mut self.board.lock());
        self.settle_after(Duration::ZERO);
    }

    /// Settles the board as if so much time had passed.
    pub(crate) fn settle_after(&self, span: Duration) {
        self.board.lock().settle(Now {
            instant: Instant::now() + span,
            time: self.time.now(),
        });
    }

    /// The ports to listen on.
    pub(crate) fn table(&self) -> TableChanges {
        self.board.lock().table()
    }

    pub(crate) fn put(&self, (key, claimant): (WorkloadKey, Claimant)) {
        self.change(|board| board.put_workload(key, claimant));
    }

    /// Its ManagedWorkload is gone.
    pub(crate) fn remove(&self, key: &WorkloadKey) {
        let key = ObjectKey::new(key.namespace(), key.name());
        let gone = Change::Removed { key, old: None };
        self.change(|board| on_workload(board, &self.doorman.metrics, gone));
    }

    pub(crate) fn put_slice(&self, slice: Slice) {
        self.change(|board| board.put_slice(Arc::new(slice)));
    }

    /// The route on a port.
    pub(crate) fn route(&self, port: u16) -> RouteHandle {
        let table = self.table().borrow().clone().expect("settled");
        table.get(&port).expect("a route on that port").clone()
    }

    /// A caller on port 20001, from 192.0.2.7.
    pub(crate) async fn call(&self) -> TcpStream {
        self.call_from("192.0.2.7").await
    }

    pub(crate) async fn call_from(&self, source: &str) -> TcpStream {
        let (near, stream) = pair().await;
        let caller = SocketAddr::new(source.parse().unwrap(), 40_000);
        self.doorman
            .welcome(self.route(20_001), Accepted { stream, caller });
        self.quiet().await;
        near
    }

    /// A caller that had sent this and shut its sending side before it was accepted.
    pub(crate) async fn say_all(&self, bytes: &[u8]) -> TcpStream {
        let (mut near, stream) = pair().await;
        near.write_all(bytes).await.unwrap();
        near.shutdown().await.unwrap();
        let caller = SocketAddr::from(([192, 0, 2, 7], 40_000));
        self.doorman
            .welcome(self.route(20_001), Accepted { stream, caller });
        self.quiet().await;
        near
    }

    /// A caller that has sent this.
    pub(crate) async fn say(&self, bytes: &[u8]) -> TcpStream {
        let mut caller = self.call().await;
        caller.write_all(bytes).await.unwrap();
        self.quiet().await;
        caller
    }

    /// The pod's end of the next connection that a dial made.
    pub(crate) async fn backend(&mut self) -> TcpStream {
        self.backends.recv().await.expect("a connection")
    }

    /// The pod's end of a connection that was made already, if any.
    pub(crate) fn made(&mut self) -> Option<TcpStream> {
        self.backends.try_recv().ok()
    }

    /// Where was dialed, and how long after the start.
    pub(crate) fn dialed(&self) -> Vec<(SocketAddr, Duration)> {
        self.script.dialed.lock().clone()
    }

    /// How many bytes the future of a connection takes, its boxed stages apart.
    pub(crate) async fn held_size(&self) -> usize {
        let (_near, stream) = pair().await;
        self.doorman.size_of_one(self.route(20_001), stream)
    }

    /// Moves both clocks.
    pub(crate) async fn pass(&self, span: Duration) {
        self.quiet().await;
        self.clock
            .advance_millis(span.as_millis().try_into().unwrap());
        tokio::time::advance(span).await;
        self.quiet().await;
    }

    /// Lets everything happen that needs no time.
    pub(crate) async fn quiet(&self) {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }

    /// A metric's value as text, empty if it has none.
    pub(crate) fn metric(&self, name: &str) -> String {
        let mut text = String::new();
        prometheus_client::encoding::prometheus_text::encode(&mut text, &self.registry).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    }

    /// Once all that needs no time has happened, nothing is left over: no dial of
    /// the script, no place, no byte.
    pub(crate) async fn ends(&self) {
        self.quiet().await;
        let left = self.script.steps.lock();
        assert!(left.is_empty(), "dials that never came: {left:?}");
        let places = &self.doorman.places;
        assert_eq!(
            (places.held(), places.passed()),
            (0, 0),
            "places not given back"
        );
        assert_eq!(self.doorman.budget.held(), 0, "bytes not given back");
    }
}

/// Reads until the end.
pub(crate) async fn ending(caller: &mut TcpStream) -> Ending {
    let mut bytes = Vec::new();
    match caller.read_to_end(&mut bytes).await {
        Ok(_) => Ending::Closed(bytes),
        Err(_) => Ending::Reset,
    }
}

/// Reads just these many bytes.
pub(crate) async fn read(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).await.unwrap();
    bytes
}
