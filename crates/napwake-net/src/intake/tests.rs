//! Held callers over real loopback sockets: what the kernel tells of a caller
//! that leaves can't be shown by anything else.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rstest::rstest;
use socket2::SockRef;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::timeout;

use super::*;

/// A pool of bytes that tells when some were freed.
struct Pool {
    left: watch::Sender<usize>,
    asked: AtomicUsize,
}

struct Share {
    pool: Arc<Pool>,
    left: watch::Receiver<usize>,
    taken: usize,
}

impl Pool {
    fn new(bytes: usize) -> Arc<Self> {
        let asked = AtomicUsize::new(0);
        let left = watch::Sender::new(bytes);
        Arc::new(Self { left, asked })
    }

    fn free(&self, bytes: usize) {
        self.left.send_modify(|left| *left += bytes);
    }

    fn left(&self) -> usize {
        *self.left.borrow()
    }

    fn share(self: &Arc<Self>) -> Share {
        Share {
            pool: self.clone(),
            left: self.left.subscribe(),
            taken: 0,
        }
    }
}

impl Budget for Share {
    fn take(&mut self, want: usize) -> usize {
        self.pool.asked.fetch_add(1, Ordering::Relaxed);
        self.left.mark_unchanged();
        let mut granted = 0;
        self.pool.left.send_if_modified(|left| {
            granted = want.min(*left);
            *left -= granted;
            false
        });
        self.taken += granted;
        granted
    }

    fn give_back(&mut self, bytes: usize) {
        self.taken -= bytes;
        self.pool.free(bytes);
    }

    async fn freed(&mut self) {
        if self.left.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.pool.free(self.taken);
    }
}

const BOUND: Duration = Duration::from_secs(10);

async fn held(pool: &Arc<Pool>) -> (TcpStream, Intake<Share>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (caller, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    (
        caller.unwrap(),
        Intake::new(accepted.unwrap().0, pool.share()),
    )
}

async fn next(intake: &mut Intake<Share>) -> IntakeEvent {
    timeout(BOUND, intake.next()).await.expect("an event")
}

async fn read_until(intake: &mut Intake<Share>, length: usize) {
    while intake.bytes().len() < length {
        assert_eq!(next(intake).await, IntakeEvent::Bytes);
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0_u8..251).cycle().take(length).collect()
}

/// Waits until the kernel has `length` unread bytes for this end, by looking at
/// them without taking them.
async fn arrived(stream: &TcpStream, length: usize) {
    let mut seen = vec![0; length];
    timeout(BOUND, async {
        while stream.peek(&mut seen).await.unwrap() < length {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the bytes to arrive");
}

#[tokio::test]
async fn gives_what_was_sent_in_order_and_carries_the_budget_along() {
    let pool = Pool::new(1 << 20);
    let (mut caller, mut intake) = held(&pool).await;
    let sent = pattern(100_000);
    let (written, ()) = tokio::join!(caller.write_all(&sent), read_until(&mut intake, 100_000));
    written.unwrap();
    assert!(intake.bytes() == sent);
    assert_eq!(pool.left(), (1 << 20) - sent.len());
    assert!(intake.held.capacity() <= sent.len() + GROWTH);

    let (_stream, bytes) = intake.into_parts();
    assert!(bytes == sent);
    assert_eq!(pool.left(), (1 << 20) - sent.len());
    drop(bytes);
    assert_eq!(pool.left(), 1 << 20);
}

#[tokio::test]
async fn a_small_request_owns_just_its_size() {
    let pool = Pool::new(1 << 20);
    let (mut caller, mut intake) = held(&pool).await;
    caller.write_all(&pattern(300)).await.unwrap();
    read_until(&mut intake, 300).await;
    assert_eq!(intake.held.capacity(), 300);
}

#[derive(Debug, Clone, Copy)]
enum Leaving {
    Closes,
    ShutsSending,
    Resets,
}

/// What stands between the intake and the caller's leaving.
#[derive(Debug, Clone, Copy)]
enum Before {
    Nothing,
    ReadBytes,
    /// Sent, and not to be read: the budget is used up.
    UnreadBytes,
    /// Nothing sent, and nothing to be read.
    NoBudget,
}

#[rstest]
#[tokio::test]
async fn leaving_is_noticed(
    #[values(Leaving::Closes, Leaving::ShutsSending, Leaving::Resets)] leaving: Leaving,
    #[values(
        Before::Nothing,
        Before::ReadBytes,
        Before::UnreadBytes,
        Before::NoBudget
    )]
    before: Before,
) {
    let pool = Pool::new(match before {
        Before::Nothing | Before::ReadBytes => 1 << 20,
        Before::UnreadBytes | Before::NoBudget => 0,
    });
    let (mut caller, mut intake) = held(&pool).await;
    match before {
        Before::Nothing | Before::NoBudget => {}
        Before::ReadBytes => {
            caller.write_all(&pattern(4096)).await.unwrap();
            read_until(&mut intake, 4096).await;
        }
        Before::UnreadBytes => {
            caller.write_all(&pattern(4096)).await.unwrap();
            arrived(&intake.stream, 4096).await;
            let mut waiting = tokio_test::task::spawn(intake.next());
            tokio_test::assert_pending!(waiting.poll());
        }
    }
    let kept = match leaving {
        Leaving::Closes => {
            drop(caller);
            None
        }
        Leaving::ShutsSending => {
            caller.shutdown().await.unwrap();
            Some(caller)
        }
        Leaving::Resets => {
            SockRef::from(&caller)
                .set_linger(Some(Duration::ZERO))
                .unwrap();
            drop(caller);
            None
        }
    };
    let left = next(&mut intake).await;
    // Those who have more to say than may be read now look alike.
    match leaving {
        Leaving::Resets => assert_ne!(left, IntakeEvent::Bytes),
        Leaving::Closes | Leaving::ShutsSending => assert_eq!(left, IntakeEvent::Shut),
    }
    assert_eq!(next(&mut intake).await, left);
    drop(kept);
}

#[tokio::test]
async fn bytes_come_before_the_leaving_that_follows_them() {
    let pool = Pool::new(1 << 20);
    let (mut caller, mut intake) = held(&pool).await;
    caller.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    caller.shutdown().await.unwrap();
    assert_eq!(next(&mut intake).await, IntakeEvent::Bytes);
    assert_eq!(intake.bytes(), b"GET / HTTP/1.1\r\n\r\n");
    assert_eq!(next(&mut intake).await, IntakeEvent::Shut);
}

/// LIMIT-25: once others free some, a blocked caller goes on.
#[tokio::test]
async fn reading_goes_on_when_others_free_some() {
    let pool = Pool::new(1000);
    let (mut caller, mut intake) = held(&pool).await;
    caller.write_all(&pattern(3000)).await.unwrap();
    arrived(&intake.stream, 3000).await;
    read_until(&mut intake, 1000).await;
    let mut waiting = tokio_test::task::spawn(intake.next());
    tokio_test::assert_pending!(waiting.poll());
    pool.free(5000);
    assert!(waiting.is_woken());
    drop(waiting);
    read_until(&mut intake, 3000).await;
    assert!(intake.bytes() == pattern(3000));
    assert_eq!(pool.left(), 3000);
}

#[tokio::test]
async fn waiting_for_the_budget_is_not_spinning() {
    let pool = Pool::new(0);
    let (mut caller, mut intake) = held(&pool).await;
    let mut sent = 0;
    let mut waiting = tokio_test::task::spawn(async {
        intake.next().await;
    });
    for _ in 0..50 {
        caller.write_all(&pattern(100)).await.unwrap();
        sent += 100;
        tokio_test::assert_pending!(waiting.poll());
    }
    drop(waiting);
    arrived(&intake.stream, sent).await;
    let mut waiting = tokio_test::task::spawn(async {
        intake.next().await;
    });
    tokio_test::assert_pending!(waiting.poll());
    for _ in 0..10 {
        tokio::task::yield_now().await;
        assert!(!waiting.is_woken(), "woken by bytes that may not be read");
    }
    drop(waiting);
    let asked = pool.asked.load(Ordering::Relaxed);
    assert!(asked <= 3, "asked the budget {asked} times");
}

#[tokio::test]
async fn a_dropped_wait_loses_nothing() {
    let pool = Pool::new(1 << 20);
    let (mut caller, mut intake) = held(&pool).await;
    let sent = pattern(5000);
    for piece in sent.chunks(700) {
        tokio_test::assert_pending!(tokio_test::task::spawn(intake.next()).poll());
        caller.write_all(piece).await.unwrap();
        // Whether the runtime has heard of them by now doesn't matter.
        let _event = tokio_test::task::spawn(intake.next()).poll();
    }
    read_until(&mut intake, sent.len()).await;
    assert!(intake.bytes() == sent);
}

/// LIMIT-21: no more is read than the budget grants, whatever is sent.
#[tokio::test]
async fn no_more_is_read_than_granted() {
    let pool = Pool::new(1 << 20);
    let (mut caller, mut intake) = held(&pool).await;
    // 64 MiB, far more than the sockets' buffers take.
    let sent = pattern(251 * 4178);
    let mut upload = Box::pin(async {
        for _ in 0..64 {
            caller.write_all(&sent).await.unwrap();
        }
    });
    while pool.left() > 0 {
        tokio::select! {
            () = &mut upload => panic!("the sender wasn't held back"),
            event = next(&mut intake) => assert_eq!(event, IntakeEvent::Bytes),
        }
    }
    let mut waiting = tokio_test::task::spawn(intake.next());
    tokio_test::assert_pending!(waiting.poll());
    drop(waiting);
    assert_eq!(intake.bytes().len(), 1 << 20);
    assert!(intake.bytes() == &pattern(1 << 20)[..]);
}

/// What is forgotten is gone, and its share of the budget given back.
#[tokio::test]
async fn forgets_and_gives_back() {
    let pool = Pool::new(100_000);
    let (mut caller, mut intake) = held(&pool).await;
    let sent = pattern(50_000);
    let (written, ()) = tokio::join!(caller.write_all(&sent), read_until(&mut intake, 50_000));
    written.unwrap();
    intake.forget(&[10_000..20_000, 20_000..20_000, 30_000..50_000]);
    let kept = [&sent[..10_000], &sent[20_000..30_000]].concat();
    assert_eq!(intake.bytes(), kept);
    assert_eq!(pool.left(), 80_000);
    intake.forget(&[]);
    caller.write_all(b"more").await.unwrap();
    read_until(&mut intake, 20_004).await;
    assert_eq!(intake.bytes(), [&kept[..], b"more"].concat());
    drop(intake);
    assert_eq!(pool.left(), 100_000);
}

/// What is before the first of the forgotten bytes stays where it is: of a caller that
/// sends byte by byte what isn't needed, no more is moved each time than came since.
#[rstest]
#[case::nothing(&[], "abcdefgh", 0)]
#[case::the_last(&[(7, 8)], "abcdefg", 0)]
#[case::one(&[(2, 4)], "abefgh", 4)]
#[case::several(&[(1, 2), (4, 5), (6, 8)], "acdf", 3)]
#[case::all(&[(0, 8)], "", 0)]
fn what_is_kept_stays_where_it_is(
    #[case] gone: &[(usize, usize)],
    #[case] expected: &str,
    #[case] moved: usize,
) {
    let mut held = b"abcdefgh".to_vec();
    let gone: Vec<Range<usize>> = gone.iter().map(|(from, to)| *from..*to).collect();
    assert_eq!(close_up(&mut held, &gone), moved);
    assert_eq!(held, expected.as_bytes());
}
