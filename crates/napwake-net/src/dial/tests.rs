//! Dialing by script on a paused clock, and once for real.

use std::sync::{Arc, Mutex};

use rstest::rstest;
use socket2::SockRef;
use tokio::io::{DuplexStream, duplex};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::*;

/// What a target does with a connection attempt.
#[derive(Debug, Clone, Copy)]
enum Does {
    Answer(Duration),
    Fail(Errno),
    StaySilent,
}

const NOW: Does = Does::Answer(Duration::ZERO);

/// Targets by the last part of their address, and when each was dialed.
#[derive(Clone)]
struct Script {
    targets: Vec<Vec<Does>>,
    dialed: Arc<Mutex<Vec<(usize, u128)>>>,
    begin: Instant,
}

impl Connect for Script {
    type Stream = DuplexStream;

    async fn connect(&self, address: SocketAddr) -> io::Result<DuplexStream> {
        let target = usize::from(address.port()) - 8000;
        let times = {
            let mut dialed = self.dialed.lock().unwrap();
            dialed.push((target, self.begin.elapsed().as_millis()));
            dialed.iter().filter(|(t, _)| *t == target).count()
        };
        match self.targets[target][times - 1] {
            Does::Answer(after) => sleep(after).await,
            Does::Fail(errno) => return Err(errno.into()),
            Does::StaySilent => std::future::pending().await,
        }
        Ok(duplex(1).0)
    }
}

fn target(index: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 8000 + u16::try_from(index).unwrap()))
}

fn scripted(targets: &[&[Does]]) -> (Dialer<Script>, Script) {
    let script = Script {
        targets: targets.iter().map(|does| does.to_vec()).collect(),
        dialed: Arc::default(),
        begin: Instant::now(),
    };
    let rule = AddressRule::own_pods();
    (Dialer::over(script.clone(), rule, Pace::default()), script)
}

/// Dials `order` and tells which target answered after how many milliseconds,
/// and which were dialed when.
async fn first(
    targets: &[&[Does]],
    order: &[usize],
) -> (Result<usize, NoneDialed>, u128, Vec<(usize, u128)>) {
    let (dialer, script) = scripted(targets);
    let addresses: Vec<_> = order.iter().map(|index| target(*index)).collect();
    let result = dialer.dial_first(&addresses).await;
    let after = script.begin.elapsed().as_millis();
    let answered = result.map(|dialed| usize::from(dialed.address.port()) - 8000);
    let log = script.dialed.lock().unwrap().clone();
    (answered, after, log)
}

#[tokio::test(start_paused = true)]
async fn the_first_that_answers_is_the_only_one_dialed() {
    let (answered, after, log) = first(&[&[NOW], &[NOW]], &[0, 1]).await;
    assert_eq!((answered.unwrap(), after), (0, 0));
    assert_eq!(log, [(0, 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_moves_on_at_once() {
    let refuses: &[Does] = &[Does::Fail(Errno::CONNREFUSED)];
    let (answered, after, log) = first(&[refuses, refuses, &[NOW]], &[0, 1, 2]).await;
    assert_eq!((answered.unwrap(), after), (2, 0));
    assert_eq!(log, [(0, 0), (1, 0), (2, 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_target_delays_the_next_by_a_second() {
    let (answered, after, log) = first(&[&[Does::StaySilent], &[NOW]], &[0, 1]).await;
    assert_eq!((answered.unwrap(), after), (1, 1000));
    assert_eq!(log, [(0, 0), (1, 1000)]);
}

#[tokio::test(start_paused = true)]
async fn a_far_target_is_waited_for() {
    let far: &[Does] = &[Does::Answer(Duration::from_secs(2))];
    let (answered, after, log) = first(&[far], &[0]).await;
    assert_eq!((answered.unwrap(), after), (0, 2000));
    assert_eq!(log, [(0, 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_far_target_still_wins_over_silent_ones_that_joined() {
    let far: &[Does] = &[Does::Answer(Duration::from_millis(2500))];
    let silent: &[Does] = &[Does::StaySilent];
    let (answered, after, log) = first(&[far, silent, silent], &[0, 1, 2]).await;
    assert_eq!((answered.unwrap(), after), (0, 2500));
    assert_eq!(log, [(0, 0), (1, 1000), (2, 2000)]);
}

#[tokio::test(start_paused = true)]
async fn a_target_named_twice_is_dialed_again_beside_the_first_try() {
    let lossy: &[Does] = &[Does::StaySilent, NOW];
    let (answered, after, log) = first(&[lossy], &[0, 0]).await;
    assert_eq!((answered.unwrap(), after), (0, 1000));
    assert_eq!(log, [(0, 0), (0, 1000)]);
}

#[tokio::test(start_paused = true)]
async fn when_none_answers_every_failure_is_told() {
    let targets: &[&[Does]] = &[&[Does::StaySilent], &[Does::Fail(Errno::HOSTUNREACH)]];
    let (answered, after, _) = first(targets, &[0, 1]).await;
    let none = answered.unwrap_err();
    assert_eq!(after, 5000);
    assert!(none.may_retry());
    assert!(matches!(
        none.errors.as_slice(),
        [
            DialError::Unreachable { .. },
            DialError::TimedOut { after, .. }
        ] if *after == Duration::from_secs(5)
    ));
}

#[tokio::test(start_paused = true)]
async fn without_a_socket_no_other_is_tried() {
    let targets: &[&[Does]] = &[&[Does::Fail(Errno::MFILE)], &[NOW]];
    let (answered, _, log) = first(targets, &[0, 1]).await;
    assert!(answered.unwrap_err().may_retry());
    assert_eq!(log, [(0, 0)]);
}

#[tokio::test(start_paused = true)]
async fn no_target_is_no_answer() {
    let (answered, after, _) = first(&[], &[]).await;
    let none = answered.unwrap_err();
    assert!(none.errors.is_empty() && !none.may_retry());
    assert_eq!(after, 0);
}

/// The connector isn't asked for what the rule forbids, in whatever form.
#[rstest]
#[case::net_26("127.0.0.1:8000")]
#[case::net_26("[::1]:8000")]
#[case::net_26("[::ffff:127.0.0.1]:8000")]
#[case::net_27("169.254.1.1:8000")]
#[case::net_27("[fe80::1]:8000")]
#[case::net_28("169.254.169.254:8000")]
#[case::net_28("[fd00:ec2::254]:8000")]
#[tokio::test(start_paused = true)]
async fn forbidden_addresses_are_never_dialed(#[case] address: SocketAddr) {
    let (dialer, script) = scripted(&[&[NOW], &[NOW]]);
    let error = dialer.dial(address).await.unwrap_err();
    assert!(matches!(error, DialError::NotAllowed { .. }));
    assert!(!error.may_retry() && error.try_another());
    let dialed = dialer.dial_first(&[address, target(1)]).await.unwrap();
    assert_eq!(dialed.address, target(1));
    assert_eq!(*script.dialed.lock().unwrap(), [(1, 0)]);
}

#[rstest]
#[case(Errno::CONNREFUSED, "refused", true, true)]
#[case(Errno::CONNRESET, "refused", true, true)]
#[case(Errno::TIMEDOUT, "didn't answer", true, true)]
#[case(Errno::HOSTUNREACH, "no way", true, true)]
#[case(Errno::NETUNREACH, "no way", true, true)]
#[case(Errno::PERM, "no way", true, true)]
#[case(Errno::MFILE, "no socket", true, false)]
#[case(Errno::ADDRNOTAVAIL, "no socket", true, false)]
#[tokio::test(start_paused = true)]
async fn failures_answer_both_questions(
    #[case] errno: Errno,
    #[case] says: &str,
    #[case] may_retry: bool,
    #[case] try_another: bool,
) {
    let (dialer, _) = scripted(&[&[Does::Fail(errno)]]);
    let error = dialer.dial(target(0)).await.unwrap_err();
    assert!(error.to_string().contains(says), "{error}");
    assert_eq!(error.may_retry(), may_retry);
    assert_eq!(error.try_another(), try_another);
}

#[tokio::test]
async fn tcp_connects_with_its_options_set() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stream = Tcp { _made_here: () }.connect(address).await.unwrap();
    assert_eq!(stream.peer_addr().unwrap(), address);
    assert!(stream.nodelay().unwrap());
    assert!(SockRef::from(&stream).keepalive().unwrap());
}
