//! Connect checks by script, under a paused clock.

use std::{collections::BTreeMap, io};

use napwake_decide::Seen;
use rstest::rstest;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, DuplexStream, duplex},
    sync::mpsc,
    time::Instant,
};

use super::*;
use crate::fixtures::{NOW, doorman_pod, index, key, routed, workload};

/// What a doorman pod does with a connection.
#[derive(Clone, Copy, Debug)]
enum Does {
    Accept,
    Refuse,
    StaySilent,
}

/// Doorman pods by port, and the far ends of what was connected.
struct Pods {
    does: BTreeMap<u16, Does>,
    accepted: mpsc::Sender<DuplexStream>,
}

impl Connect for Pods {
    type Stream = DuplexStream;

    async fn connect(&self, address: SocketAddr) -> io::Result<DuplexStream> {
        match self.does[&address.port()] {
            Does::Accept => {
                let (near, far) = duplex(64);
                self.accepted.try_send(far).unwrap();
                Ok(near)
            }
            Does::Refuse => Err(io::ErrorKind::ConnectionRefused.into()),
            Does::StaySilent => std::future::pending().await,
        }
    }
}

fn listener(port: u16) -> Listener {
    Listener {
        pod: "pod-d-1".to_owned(),
        address: [10, 1, 0, 1].into(),
        port,
    }
}

struct Bench {
    prober: Arc<Prober<Pods>>,
    shared: Arc<Shared>,
    accepted: mpsc::Receiver<DuplexStream>,
}

impl Bench {
    fn new(does: &[(u16, Does)]) -> Self {
        let (mut index, now) = (index(), Instant::now());
        index.apply_pod(doorman_pod("d-1", 1, json!({})), now);
        index.apply_workload(workload("a", 1, routed("Pausing", "a", 20_000)), now);
        let shared = Arc::new(Shared::new(index));
        let (clock, _) = Clock::manual(NOW.parse().unwrap());
        let (send, accepted) = mpsc::channel(16);
        let pods = Pods {
            does: does.iter().copied().collect(),
            accepted: send,
        };
        let pace = Pace {
            timeout: PATIENCE,
            stagger: PATIENCE,
        };
        let dialer = Dialer::over(pods, AddressRule::own_pods(), pace);
        let stop = CancellationToken::new();
        let prober = Prober::over(dialer, Arc::clone(&shared), clock, stop);
        Self {
            prober: Arc::new(prober),
            shared,
            accepted,
        }
    }

    async fn idle(&self) {
        self.prober.tasks.close();
        self.prober.tasks.wait().await;
        self.prober.tasks.reopen();
    }

    fn outcome(&self, port: u16) -> Option<CheckOutcome> {
        let world = self
            .shared
            .with(|index, now| index.world(&key("a"), Seen::Absent, now))?;
        world.checks.get(&listener(port)).map(|check| check.outcome)
    }
}

#[rstest]
#[case::listens(Does::Accept, CheckOutcome::Listening, 0)]
#[case::refuses(Does::Refuse, CheckOutcome::Silent, 0)]
#[case::silent(Does::StaySilent, CheckOutcome::Silent, 1)]
#[tokio::test(start_paused = true)]
async fn what_comes_of_a_check_is_in_the_world(
    #[case] does: Does,
    #[case] expected: CheckOutcome,
    #[case] seconds: u64,
) {
    let bench = Bench::new(&[(20_000, does)]);
    let begun = Instant::now();
    bench.prober.check(&key("a"), vec![listener(20_000)]);
    bench.idle().await;
    assert_eq!(bench.outcome(20_000), Some(expected));
    assert_eq!(begun.elapsed(), Duration::from_secs(seconds));
    // And it's decided again.
    assert_eq!(bench.shared.workloads.depth(), 1);
}

/// Closed at once, without a byte.
#[tokio::test(start_paused = true)]
async fn a_check_sends_nothing_and_closes() {
    let mut bench = Bench::new(&[(20_000, Does::Accept)]);
    bench.prober.check(&key("a"), vec![listener(20_000)]);
    bench.idle().await;
    let mut far = bench.accepted.recv().await.unwrap();
    let mut read = Vec::new();
    far.read_to_end(&mut read).await.unwrap();
    assert!(read.is_empty());
}

/// All at once, so that a silent pod holds up no other; and none twice.
#[tokio::test(start_paused = true)]
async fn checks_run_side_by_side_and_not_twice() {
    let silent = [(20_000, Does::StaySilent), (20_001, Does::Accept)];
    let mut bench = Bench::new(&silent);
    let both = vec![listener(20_000), listener(20_001)];
    bench.prober.check(&key("a"), both);
    bench.prober.check(&key("a"), vec![listener(20_000)]);
    let begun = Instant::now();
    bench.accepted.recv().await.unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);
    bench.idle().await;
    assert_eq!(begun.elapsed(), PATIENCE);
    assert_eq!(bench.prober.under_way.lock().len(), 0);
}

/// An address that may not be dialed counts as silent.
#[tokio::test(start_paused = true)]
async fn loopback_is_not_dialed() {
    let mut bench = Bench::new(&[(20_000, Does::Accept)]);
    let own = Listener {
        address: [127, 0, 0, 1].into(),
        ..listener(20_000)
    };
    bench.prober.check(&key("a"), vec![own]);
    bench.idle().await;
    assert!(bench.accepted.try_recv().is_err());
}

/// A stop is a stop: nothing is under way after it, however silent the pods are.
#[tokio::test(start_paused = true)]
async fn a_stop_ends_checks_and_waits_for_them() {
    let bench = Bench::new(&[(20_000, Does::StaySilent), (20_001, Does::StaySilent)]);
    bench.prober.check(&key("a"), vec![listener(20_000)]);
    let begun = Instant::now();
    let stop = async {
        tokio::task::yield_now().await;
        bench.prober.stop.cancel();
        bench.prober.check(&key("a"), vec![listener(20_001)]);
    };
    let (stopped, ()) = tokio::join!(Arc::clone(&bench.prober).stopped(), stop);
    stopped.unwrap();
    assert!(bench.prober.tasks.is_empty());
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(bench.outcome(20_000), None);
}
