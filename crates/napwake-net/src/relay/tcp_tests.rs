//! Relaying between loopback sockets: bulk, held bytes, resets, and sizes.

use bytes::Bytes;
use rstest::rstest;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::tests::limits;
use super::*;
use crate::prefixed::Prefixed;

const BOUND: Duration = Duration::from_mins(1);

async fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (near, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    (near.unwrap(), accepted.unwrap().0)
}

/// Relays with `held` in front of the caller's bytes, while `script` plays both
/// ends; bounded in time.
async fn over_tcp<F>(pipes: &Pipes, held: Bytes, script: F) -> Outcome
where
    F: AsyncFnOnce(TcpStream, TcpStream),
{
    let (caller, near_caller) = connected().await;
    let (target, near_target) = connected().await;
    let (limits, _deadline) = limits(pipes);
    let relaying = relay(Prefixed::new(held, near_caller), near_target, limits, None);
    let both = async { tokio::join!(relaying, script(caller, target)).0 };
    timeout(BOUND, both).await.expect("the relay to end")
}

/// A prime length, so that a lost or repeated piece shows anywhere.
fn pattern() -> Vec<u8> {
    (0_u8..251).cycle().take(251 * 300).collect()
}

async fn send_bulk(writing: &mut (impl tokio::io::AsyncWrite + Unpin), length: usize) {
    let pattern = pattern();
    let mut left = length;
    while left > 0 {
        let piece = left.min(pattern.len());
        writing.write_all(&pattern[..piece]).await.unwrap();
        left -= piece;
    }
    writing.shutdown().await.unwrap();
}

/// Reads to the end, comparing byte by byte with what `send_bulk` sends.
async fn expect_bulk(reading: &mut (impl tokio::io::AsyncRead + Unpin), length: usize) {
    let pattern = pattern();
    let mut got = vec![0; 40_000];
    let mut total = 0;
    loop {
        let count = reading.read(&mut got).await.unwrap();
        if count == 0 {
            break;
        }
        let from = total % 251;
        assert!(got[..count] == pattern[from..from + count], "after {total}");
        total += count;
    }
    assert_eq!(total, length);
}

/// HOLD-17, LIMIT-24: a body held in part comes out whole, and so does the
/// answer, spliced, copied, and with a pipe for one direction only.
#[rstest]
#[tokio::test]
async fn large_bodies_arrive_whole_both_ways(
    #[values(0, 1, 64)] pipes: usize,
    #[values(0, 700 * 1024)] held: usize,
) {
    const LENGTH: usize = 24 << 20;
    let pipes = Pipes::new(pipes);
    let front: Vec<u8> = (0_u8..251).cycle().take(held).collect();
    let outcome = over_tcp(&pipes, front.into(), async |mut caller, mut target| {
        let (mut from_target, mut to_target) = caller.split();
        let (mut from_caller, mut to_caller) = target.split();
        // The held part ends within the pattern: the rest begins where it ends.
        let rest: Vec<u8> = pattern()[held % 251..][..251].to_vec();
        tokio::join!(
            async {
                for _ in 0..LENGTH / 251 {
                    to_target.write_all(&rest).await.unwrap();
                }
                to_target.shutdown().await.unwrap();
            },
            expect_bulk(&mut from_caller, held + LENGTH / 251 * 251),
            send_bulk(&mut to_caller, LENGTH),
            expect_bulk(&mut from_target, LENGTH),
        );
    })
    .await;
    assert!(matches!(outcome.ending, Ending::Closed { .. }));
    assert_eq!(outcome.to_target, (held + LENGTH / 251 * 251) as u64);
    assert_eq!(outcome.to_caller, LENGTH as u64);
    assert_eq!(pipes.lent(), 0);
}

/// Waits until `count` pipes are lent.
async fn lent(pipes: &Pipes, count: usize) {
    let lent = async {
        while pipes.lent() != count {
            tokio::task::yield_now().await;
        }
    };
    let waited = timeout(BOUND, lent).await;
    assert!(
        waited.is_ok(),
        "{} pipes are lent, not {count}",
        pipes.lent()
    );
}

/// A stalled transfer stands in one pipe, which goes back once all was read.
#[tokio::test]
async fn bulk_is_spliced_and_the_pipe_goes_back_at_rest() {
    const LENGTH: usize = 251 * 100_000;
    let pipes = Pipes::new(4);
    let outcome = over_tcp(&pipes, Bytes::new(), async |mut caller, mut target| {
        tokio::join!(
            async {
                let bytes: Vec<u8> = (0_u8..251).cycle().take(LENGTH).collect();
                caller.write_all(&bytes).await.unwrap();
                lent(&pipes, 0).await;
                caller.shutdown().await.unwrap();
            },
            async {
                lent(&pipes, 1).await;
                expect_bulk(&mut target, LENGTH).await;
            }
        );
    })
    .await;
    assert_eq!(outcome.to_target, LENGTH as u64);
    assert_eq!(pipes.lent(), 0);
}

/// A connection that is dropped with bytes on their way keeps no pipe.
#[tokio::test]
async fn a_dropped_relay_keeps_no_pipe() {
    let pipes = Pipes::new(4);
    let (mut caller, near_caller) = connected().await;
    let (_target, near_target) = connected().await;
    let (limits, _deadline) = limits(&pipes);
    tokio::select! {
        outcome = relay(near_caller, near_target, limits, None) => panic!("{outcome:?}"),
        result = async {
            let bytes = vec![0; 100 << 20];
            caller.write_all(&bytes).await
        } => panic!("nobody reads that much: {result:?}"),
        () = lent(&pipes, 1) => {}
    }
    assert_eq!(pipes.lent(), 0);
}

/// Small exchanges are never spliced, however many there are.
#[tokio::test]
async fn small_exchanges_are_copied() {
    let pipes = Pipes::new(4);
    over_tcp(&pipes, Bytes::new(), async |mut caller, mut target| {
        let mut got = [0; 1000];
        for _ in 0..500 {
            caller.write_all(&[1; 1000]).await.unwrap();
            target.read_exact(&mut got).await.unwrap();
            target.write_all(&[2; 1000]).await.unwrap();
            caller.read_exact(&mut got).await.unwrap();
            assert_eq!(pipes.lent(), 0);
        }
    })
    .await;
    assert_eq!(pipes.spare(), 0, "a pipe was made");
}

/// Field case 75: nothing is held back where it's spliced either. The clock stands
/// still, so whoever waited for it would wait for ever.
#[rstest]
#[tokio::test(start_paused = true)]
async fn nothing_is_held_back(#[values(40, 100_000)] size: usize) {
    let (still, end) = std::sync::mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || end.recv().ok());
    let pipes = Pipes::new(4);
    over_tcp(&pipes, Bytes::new(), async |mut caller, mut target| {
        let mut got = vec![0; size];
        for number in 0..20 {
            let piece = vec![number; size];
            let (sent, read) = tokio::join!(target.write_all(&piece), caller.read_exact(&mut got));
            sent.and(read).unwrap();
            assert!(got == piece);
        }
    })
    .await;
    drop(still);
}

/// LIMIT-35: where a caller, or a target, stops reading, no more than these bounds
/// waits in the kernel, however fast it read before.
#[rstest]
#[tokio::test]
async fn what_waits_for_one_that_stops_reading_is_bounded(#[values(false, true)] up: bool) {
    const AT_FIRST: usize = 64 << 20;
    // Two sockets' buffers, a pipe, and those of both ends.
    const WAITING: usize = 2 << 20;
    let none = Bytes::new();
    over_tcp(&Pipes::default(), none, async |caller, target| {
        let (sender, mut reader) = if up {
            (caller, target)
        } else {
            (target, caller)
        };
        SockRef::from(&sender)
            .set_send_buffer_size(64 << 10)
            .unwrap();
        SockRef::from(&reader)
            .set_recv_buffer_size(64 << 10)
            .unwrap();
        let bytes = vec![0; 64 << 10];
        let (mut sent, mut got) = (0, vec![0; AT_FIRST]);
        let mut send = async || {
            sender.writable().await.unwrap();
            sent += sender.try_write(&bytes).unwrap_or(0);
        };
        let sending = async {
            loop {
                send().await;
            }
        };
        tokio::select! {
            () = sending => {}
            read = reader.read_exact(&mut got) => assert_eq!(read.unwrap(), AT_FIRST),
        }
        while timeout(Duration::from_millis(500), send()).await.is_ok() {}
        assert!(sent - AT_FIRST < WAITING, "{} wait", sent - AT_FIRST);
    })
    .await;
}

fn reset(stream: TcpStream) {
    let at_once = Some(Duration::ZERO);
    SockRef::from(&stream).set_linger(at_once).unwrap();
    drop(stream);
}

#[tokio::test]
async fn a_reset_by_the_caller_ends_the_targets_side() {
    let none = Bytes::new();
    let outcome = over_tcp(&Pipes::default(), none, async |mut caller, mut target| {
        caller.write_all(b"before").await.unwrap();
        let mut got = [0; 6];
        target.read_exact(&mut got).await.unwrap();
        reset(caller);
        assert!(!matches!(target.read(&mut got).await, Ok(1..)));
    })
    .await;
    let side = Side::Caller;
    assert!(matches!(outcome.ending, Ending::Failed { side: s, .. } if s == side));
    assert_eq!(outcome.to_target, 6);
}

#[derive(Debug, Clone, Copy)]
enum Going {
    /// With the caller's bytes unread, which makes the kernel reset.
    Closes,
    Resets,
}

/// A target that answers and goes while the caller still sends: the caller reads
/// the whole answer and then an end, not a reset.
#[rstest]
#[tokio::test]
async fn an_early_answer_comes_through(#[values(Going::Closes, Going::Resets)] going: Going) {
    let none = Bytes::new();
    let outcome = over_tcp(&Pipes::default(), none, async |mut caller, mut target| {
        let (mut reading, mut writing) = caller.split();
        tokio::join!(
            async move {
                target.read_exact(&mut [0; 1]).await.unwrap();
                // Small enough to leave this socket at once.
                target.write_all(&[b'a'; 1000]).await.unwrap();
                match going {
                    Going::Closes => drop(target),
                    Going::Resets => reset(target),
                }
            },
            async {
                for _ in 0..200 {
                    writing.write_all(&[b'x'; 1000]).await.unwrap();
                    tokio::task::yield_now().await;
                }
            },
            async {
                let mut got = Vec::new();
                reading.read_to_end(&mut got).await.unwrap();
                assert!(got == [b'a'; 1000]);
            }
        );
    })
    .await;
    let side = Side::Target;
    assert!(matches!(outcome.ending, Ending::Failed { side: s, .. } if s == side));
}

/// An idle passed connection owns no buffer, and its future stays small.
#[tokio::test]
async fn the_future_is_small() {
    let (_caller, near_caller) = connected().await;
    let (_target, near_target) = connected().await;
    let (limits, _deadline) = limits(&Pipes::default());
    let caller = Prefixed::new(Bytes::new(), near_caller);
    let relaying = relay(caller, near_target, limits, None);
    let size = size_of_val(&relaying);
    assert!(size <= 1024, "{size} bytes");
}
