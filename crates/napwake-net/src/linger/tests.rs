//! Answers to callers that still send, don't read, or stay.

use std::net::SocketAddr;

use rstest::rstest;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, duplex};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const PAGE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\nno";

async fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (near, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    (near.unwrap(), accepted.unwrap().0)
}

/// T-52: a caller in the middle of its body reads the whole answer, then its end,
/// and no reset.
#[rstest]
#[case::small_body(4 * 1024)]
#[case::body_beyond_the_socket_buffers(900 * 1024)]
#[tokio::test]
async fn a_caller_that_still_sends_reads_the_answer(#[case] body: usize) {
    let (mut caller, stream) = connected().await;
    let half = vec![b'x'; body / 2];
    let (ended, got) = tokio::join!(
        async {
            stream.readable().await.unwrap();
            answer(stream, PAGE, LingerLimits::default()).await
        },
        async move {
            caller.write_all(&half).await.unwrap();
            caller.write_all(&half).await.unwrap();
            let mut got = Vec::new();
            caller.read_to_end(&mut got).await.unwrap();
            drop(caller);
            got
        }
    );
    assert_eq!(got, PAGE);
    assert_eq!(ended, AnswerEnd::Closed);
}

/// Whether the kernel has a connection from `here` to `there`.
fn is_known(here: SocketAddr, there: SocketAddr) -> bool {
    let ends = [here, there].map(|end| format!(":{:04X}", end.port()));
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().any(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let mut is_at = |end: &String| words.next().is_some_and(|word| word.ends_with(end));
        is_at(&ends[0]) && is_at(&ends[1])
    })
}

/// LIMIT-35: an answer that its caller never takes, whether it stays or shuts its side,
/// isn't kept for long once no cap counts it.
#[rstest]
#[tokio::test]
async fn an_answer_that_nobody_takes_is_not_kept(#[values(false, true)] shuts: bool) {
    let (mut caller, stream) = connected().await;
    SockRef::from(&caller).set_recv_buffer_size(1).unwrap();
    let (here, there) = (stream.local_addr().unwrap(), caller.local_addr().unwrap());
    if shuts {
        caller.shutdown().await.unwrap();
    }
    let limits = LingerLimits {
        wait: Duration::from_millis(1),
        untaken: Duration::from_millis(500),
        ..LingerLimits::default()
    };
    answer(stream, &vec![b'x'; 200_000], limits).await;
    assert!(is_known(here, there), "all of it was taken");
    let gone = async {
        while is_known(here, there) {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(10), gone).await.unwrap();
}

/// An answer that takes many packets is whole, whatever of it waits for the end.
#[rstest]
#[case::nothing(0)]
#[case::a_page(6000)]
#[case::more_than_the_buffers_hold(8 * 1024 * 1024)]
#[tokio::test]
async fn an_answer_of_any_size_is_whole(#[case] size: usize) {
    let (mut caller, stream) = connected().await;
    let whole: Vec<u8> = (0..251).cycle().take(size).collect();
    let mut got = Vec::new();
    let (ended, read) = tokio::join!(answer(stream, &whole, LingerLimits::default()), async {
        let read = caller.read_to_end(&mut got).await;
        drop(caller);
        read
    });
    assert_eq!(read.unwrap(), size);
    assert!(got == whole, "the bytes are the same");
    assert_eq!(ended, AnswerEnd::Closed);
}

/// T-52: the write side is shut before the caller has done anything.
#[tokio::test(start_paused = true)]
async fn the_answer_ends_before_the_waiting_does() {
    let (mut caller, stream) = duplex(1024);
    let limits = LingerLimits::default();
    let begin = Instant::now();
    let (ended, ()) = tokio::join!(answer(stream, PAGE, limits), async {
        let mut got = Vec::new();
        caller.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, PAGE);
        assert_eq!(begin.elapsed(), Duration::ZERO);
        // It stays, and so keeps the other direction open.
        tokio::time::sleep(Duration::from_mins(1)).await;
    });
    assert_eq!(ended, AnswerEnd::TimeUp);
}

async fn ended_after(limits: LingerLimits, stream: tokio::io::DuplexStream) -> (AnswerEnd, u128) {
    let begin = Instant::now();
    let ended = answer(stream, PAGE, limits).await;
    (ended, begin.elapsed().as_millis())
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_stays_is_left_after_the_wait() {
    let (_caller, stream) = duplex(1024);
    let (ended, after) = ended_after(LingerLimits::default(), stream).await;
    assert_eq!(ended, AnswerEnd::TimeUp);
    assert_eq!(after, 2_000);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_never_reads_is_left_after_the_write_limit() {
    let (_caller, stream) = duplex(4);
    let (ended, after) = ended_after(LingerLimits::default(), stream).await;
    assert_eq!(ended, AnswerEnd::Unsent(io::ErrorKind::TimedOut));
    assert_eq!(after, 10_000);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_left_before_gets_nothing() {
    let (caller, stream) = duplex(1024);
    drop(caller);
    let (ended, after) = ended_after(LingerLimits::default(), stream).await;
    assert_eq!(ended, AnswerEnd::Unsent(io::ErrorKind::BrokenPipe));
    assert_eq!(after, 0);
}

/// What a caller sends past the limit isn't read, and doesn't shorten its time.
#[tokio::test(start_paused = true)]
async fn a_flood_is_read_up_to_the_limit() {
    let (mut caller, stream) = duplex(1000);
    let limits = LingerLimits {
        dropped: 5_000,
        ..LingerLimits::default()
    };
    let mut taken = 0_usize;
    let ((ended, after), ()) = tokio::join!(ended_after(limits, stream), async {
        while caller.write_all(&[0; 100]).await.is_ok() {
            taken += 100;
        }
    });
    assert_eq!(ended, AnswerEnd::TimeUp);
    assert_eq!(after, 2_000);
    // The limit, one read beyond it, and what the pipe holds.
    assert!((5_000..=7_100).contains(&taken), "{taken} bytes were taken");
}
