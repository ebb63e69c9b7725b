//! Accepting over real loopback sockets, and over scripted errors.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use rstest::rstest;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::*;
use crate::kernel::{HELD, KEEPALIVE, KEEPALIVE_INTERVAL, KEEPALIVE_PROBES};

/// Gives what the script says, then waits for ever.
struct Script {
    results: VecDeque<io::Result<u32>>,
    asked: Arc<Mutex<Vec<Instant>>>,
}

impl Accept for Script {
    type Stream = u32;

    async fn accept(&mut self) -> io::Result<(u32, SocketAddr)> {
        match self.results.pop_front() {
            Some(result) => {
                self.asked.lock().unwrap().push(Instant::now());
                Ok((result?, SocketAddr::from(([10, 0, 0, 1], 1000))))
            }
            None => std::future::pending().await,
        }
    }
}

fn failing(errno: Errno) -> io::Result<u32> {
    Err(errno.into())
}

/// Runs the loop over `results` until `wanted` streams came; the streams, and how
/// long each accept came after the beginning.
async fn run(results: Vec<io::Result<u32>>, wanted: usize) -> (Vec<u32>, Vec<Duration>) {
    let begin = Instant::now();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let script = Script {
        results: results.into(),
        asked: asked.clone(),
    };
    let cancel = CancellationToken::new();
    let mut streams = Vec::new();
    accept_loop(script, cancel.clone(), |accepted| {
        streams.push(accepted.stream);
        if streams.len() == wanted {
            cancel.cancel();
        }
    })
    .await;
    let asked = asked.lock().unwrap();
    let times = asked.iter().map(|at| at.duration_since(begin)).collect();
    (streams, times)
}

#[rstest]
#[case(Errno::CONNABORTED)]
#[case(Errno::CONNRESET)]
#[case(Errno::PERM)]
#[case(Errno::PROTO)]
#[case(Errno::HOSTUNREACH)]
#[case(Errno::NETDOWN)]
#[case(Errno::INTR)]
#[tokio::test(start_paused = true)]
async fn an_error_of_one_connection_is_passed_over(#[case] errno: Errno) {
    let (streams, times) = run(vec![failing(errno), Ok(1)], 1).await;
    assert_eq!(streams, [1]);
    assert_eq!(times, [Duration::ZERO, Duration::ZERO]);
}

#[rstest]
#[case(Errno::MFILE)]
#[case(Errno::NFILE)]
#[case(Errno::NOBUFS)]
#[case(Errno::NOMEM)]
#[case(Errno::INVAL)]
#[case(Errno::OPNOTSUPP)]
#[tokio::test(start_paused = true)]
async fn any_other_error_waits_and_goes_on(#[case] errno: Errno) {
    let results = vec![failing(errno), failing(errno), Ok(1), Ok(2)];
    let (streams, times) = run(results, 2).await;
    assert_eq!(streams, [1, 2]);
    let twice = ACCEPT_PAUSE * 2;
    // A timer of tokio's rounds up to the next millisecond.
    assert!(times[2] >= twice && times[2] < twice + Duration::from_millis(5));
    assert_eq!(times[3], times[2]);
}

#[tokio::test(start_paused = true)]
async fn errors_without_end_neither_spin_nor_hinder_the_end() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let script = Script {
        results: (0..1000).map(|_| failing(Errno::MFILE)).collect(),
        asked: asked.clone(),
    };
    let cancel = CancellationToken::new();
    tokio::join!(accept_loop(script, cancel.clone(), |_| {}), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel();
    });
    let asked = asked.lock().unwrap().len();
    assert!((9..=12).contains(&asked), "asked {asked} times in a second");
}

fn open() -> (Listener, SocketAddr) {
    let on = ListenOn::Address(Ipv4Addr::LOCALHOST.into());
    let listener = Listener::open(on, 0).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[tokio::test]
async fn callers_already_connected_are_taken_before_the_port_closes() {
    let (listener, address) = open();
    let mut callers = Vec::new();
    for _ in 0..20 {
        callers.push(TcpStream::connect(address).await.unwrap());
    }
    let cancel = CancellationToken::new();
    cancel.cancel();
    let mut taken = Vec::new();
    accept_loop(listener, cancel, |accepted| taken.push(accepted)).await;
    assert_eq!(taken.len(), callers.len());
    let refused = TcpStream::connect(address).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}

/// T-80: the port closes while its connections live on, and it can be opened
/// again at once.
#[tokio::test]
async fn a_port_is_opened_again_while_its_connections_live() {
    let (mut listener, address) = open();
    let mut caller = TcpStream::connect(address).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    drop(listener);
    assert!(TcpStream::connect(address).await.is_err());

    let again = Listener::open(ListenOn::Address(address.ip()), address.port()).unwrap();
    assert_eq!(again.local_addr().unwrap(), address);
    TcpStream::connect(address).await.unwrap();
    caller.write_all(b"still").await.unwrap();
    let mut got = [0; 5];
    stream.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"still");
}

/// T-66: an IPv4 caller of the dual-stack socket has an IPv4 address.
#[tokio::test]
async fn callers_of_both_families_come_by_their_own_address() {
    let mut listener = Listener::open(ListenOn::Everywhere, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut ways: Vec<IpAddr> = vec![Ipv4Addr::LOCALHOST.into()];
    if address.is_ipv6() {
        ways.push(Ipv6Addr::LOCALHOST.into());
    }
    for way in ways {
        let to = SocketAddr::new(way, address.port());
        let caller = TcpStream::connect(to).await.unwrap();
        let (_stream, from) = listener.accept().await.unwrap();
        assert_eq!(from, caller.local_addr().unwrap());
        assert_eq!(from.ip(), way);
    }
}

#[tokio::test]
async fn accepted_streams_have_their_options() {
    let (mut listener, address) = open();
    let _caller = TcpStream::connect(address).await.unwrap();
    let (stream, _) = listener.accept().await.unwrap();
    let socket = SockRef::from(&stream);
    assert!(stream.nodelay().unwrap());
    assert!(socket.keepalive().unwrap());
    assert_eq!(socket.tcp_keepalive_time().unwrap(), KEEPALIVE);
    let interval = socket.tcp_keepalive_interval().unwrap();
    assert_eq!(interval, KEEPALIVE_INTERVAL);
    let probes = socket.tcp_keepalive_retries().unwrap();
    assert_eq!(probes, KEEPALIVE_PROBES);
}

/// LIMIT-35: what waits to be read of a held caller has its bound, however fast the
/// caller sent what was read of it.
#[tokio::test]
async fn what_waits_of_a_held_caller_is_bounded() {
    const READ: usize = 32 << 20;
    let (mut listener, address) = open();
    let mut caller = TcpStream::connect(address).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    let bytes = vec![0; READ];
    let mut got = vec![0; READ];
    let (sent, read) = tokio::join!(caller.write_all(&bytes), stream.read_exact(&mut got));
    sent.and(read.map(drop)).unwrap();
    let socket = SockRef::from(&stream);
    assert_eq!(socket.recv_buffer_size().unwrap(), 2 * HELD);
}

#[tokio::test]
async fn a_port_in_use_is_an_error_that_names_it() {
    let (_listener, address) = open();
    let error = Listener::open(ListenOn::Address(address.ip()), address.port()).unwrap_err();
    assert_eq!(error.port, address.port());
    assert_eq!(error.source.kind(), io::ErrorKind::AddrInUse);
}
