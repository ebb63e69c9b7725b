//! Listeners on loopback, on ports that are free.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};

use napwake_api::names::DOORMAN_PORTS;
use napwake_kit::ready::{Readiness, Status};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;
use crate::tests::{World, claimant};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Bounds each wait; nothing here takes as long.
const BOUND: Duration = Duration::from_secs(20);

/// A port that a route may have, taken. Each process looks for it elsewhere.
async fn take_port() -> TcpListener {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    const APART: usize = 37;
    let begin = std::process::id() as usize % DOORMAN_PORTS.len() * APART;
    for _ in DOORMAN_PORTS {
        let number = (begin + NEXT.fetch_add(1, Ordering::Relaxed)) % DOORMAN_PORTS.len();
        let port = DOORMAN_PORTS.start() + u16::try_from(number).unwrap();
        if let Ok(listener) = TcpListener::bind((LOOPBACK, port)).await {
            return listener;
        }
    }
    panic!("no port is free");
}

/// The number of one that was free a moment ago.
async fn free_port() -> u16 {
    take_port().await.local_addr().unwrap().port()
}

/// `api`, routed on that port.
fn on(port: u16) -> Value {
    json!({ "status": { "doorman": { "routes": [{
        "service": "api", "port": { "name": "http", "number": 80 }, "doormanPort": port,
        "families": ["IPv4"], "state": "Routed",
    }] } } })
}

struct Running {
    world: World,
    callers: mpsc::UnboundedReceiver<(u16, SocketAddr)>,
    readiness: Readiness,
    accepting: CancellationToken,
}

fn running() -> Running {
    let world = World::new([]);
    let (send, callers) = mpsc::unbounded_channel();
    let accepting = CancellationToken::new();
    let tasks = TaskTracker::new();
    let on_caller = move |route: RouteHandle, caller: Accepted| {
        send.send((route.now().key.doorman_port, caller.caller))
            .ok();
    };
    let listeners = Listeners::new(&[LOOPBACK], on_caller, accepting.clone(), tasks.clone());
    let readiness = Readiness::new(&CancellationToken::new());
    let opened = readiness.handle("listeners");
    tasks.spawn(listeners.follow(world.table(), opened));
    Running {
        world,
        callers,
        readiness,
        accepting,
    }
}

/// Waits until connecting to the port goes as wanted.
async fn until_open(port: u16, open: bool) {
    let waiting = async {
        while TcpStream::connect((LOOPBACK, port)).await.is_ok() != open {
            tokio::task::yield_now().await;
        }
    };
    timeout(BOUND, waiting).await.expect("it stays otherwise");
}

/// T-113, ROUTE-79: ports open with the table, and the process isn't ready before.
#[tokio::test]
async fn ports_open_with_the_table() {
    let mut running = running();
    let port = free_port().await;
    assert_eq!(
        running.readiness.status(),
        Status::Waiting(vec!["listeners".to_owned()])
    );
    running.world.put(claimant("Pausing", "Opening", &on(port)));
    timeout(BOUND, running.readiness.ready()).await.unwrap();

    let caller = TcpStream::connect((LOOPBACK, port)).await.unwrap();
    let (to, from) = running.callers.recv().await.unwrap();
    assert_eq!((to, from), (port, caller.local_addr().unwrap()));
}

/// A port that leaves the table is closed, and one that comes is opened.
#[tokio::test]
async fn ports_follow_the_table() {
    let running = running();
    let (first, second) = (free_port().await, free_port().await);
    running.world.put(claimant("Paused", "Routed", &on(first)));
    until_open(first, true).await;
    running.world.put(claimant("Paused", "Routed", &on(second)));
    until_open(second, true).await;
    // The first drains for 30 s, on the clock of the board.
    until_open(first, true).await;
    running.world.settle_after(Duration::from_secs(31));
    until_open(first, false).await;
    until_open(second, true).await;
}

/// One port that something else has keeps no other from its callers, nor the
/// process from being ready, and is opened once it is free.
#[tokio::test]
async fn a_taken_port_is_tried_again() {
    let running = running();
    let taken = take_port().await;
    let port = taken.local_addr().unwrap().port();
    let free = free_port().await;
    running.world.change(|board| {
        let (key, claimant) = claimant("Paused", "Routed", &on(port));
        board.put_workload(key, claimant);
        let more = json!({ "metadata": { "name": "other", "uid": "u2" } });
        let mut both = on(free);
        crate::tests::merge(&mut both, &more);
        let (key, claimant) = crate::tests::claimant("Paused", "Routed", &both);
        board.put_workload(key, claimant);
    });
    timeout(BOUND, running.readiness.ready()).await.unwrap();
    until_open(free, true).await;
    drop(taken);
    until_open(port, true).await;
}

/// DRAIN-12: once accepting ends, every port is closed, with no time gone.
#[tokio::test(start_paused = true)]
async fn ports_close_when_accepting_ends() {
    let running = running();
    let port = free_port().await;
    running.world.put(claimant("Paused", "Routed", &on(port)));
    until_open(port, true).await;
    running.accepting.cancel();
    until_open(port, false).await;
}
