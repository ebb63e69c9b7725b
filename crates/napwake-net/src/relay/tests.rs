//! Relaying over pipes on a paused clock. Cases that don't care which side is
//! which run once for each.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use rstest::rstest;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;

const MINUTE: Duration = Duration::from_mins(1);

/// What a test can do to a relay from outside.
struct Outside {
    deadline: watch::Sender<Option<Instant>>,
    stop: CancellationToken,
}

pub(super) fn limits(pipes: &Pipes) -> (Limits, watch::Sender<Option<Instant>>) {
    let (deadline, seen) = watch::channel(None);
    let limits = Limits {
        idle: 10 * MINUTE,
        deadline: seen,
        stop: CancellationToken::new(),
        pipes: pipes.clone(),
    };
    (limits, deadline)
}

/// Relays between two pipes while `script` plays both ends, that of `side`
/// first. The outcome comes with the time it took.
async fn over_pipes<F>(side: Side, script: F) -> (Outcome, Duration)
where
    F: AsyncFnOnce(DuplexStream, DuplexStream, Outside),
{
    let (caller, near_caller) = duplex(64);
    let (target, near_target) = duplex(64);
    let (limits, deadline) = limits(&Pipes::default());
    let stop = limits.stop.clone();
    let outside = Outside { deadline, stop };
    let begin = Instant::now();
    let relaying = async {
        let outcome = relay(near_caller, near_target, limits, None).await;
        (outcome, begin.elapsed())
    };
    let (first, second) = match side {
        Side::Caller => (caller, target),
        Side::Target => (target, caller),
    };
    tokio::join!(relaying, script(first, second, outside)).0
}

async fn send(end: &mut DuplexStream, bytes: &[u8]) {
    end.write_all(bytes).await.unwrap();
}

async fn expect(end: &mut DuplexStream, bytes: &[u8]) {
    let mut got = vec![0; bytes.len()];
    end.read_exact(&mut got).await.unwrap();
    assert_eq!(got, bytes);
}

async fn expect_end(end: &mut DuplexStream) {
    assert_eq!(end.read(&mut [0; 8]).await.unwrap(), 0);
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn bytes_pass_both_ways_and_are_counted(#[values(Side::Caller, Side::Target)] side: Side) {
    let (outcome, _) = over_pipes(side, async |mut first, mut second, _| {
        send(&mut first, b"ping").await;
        expect(&mut second, b"ping").await;
        send(&mut second, b"pong!").await;
        expect(&mut first, b"pong!").await;
        first.shutdown().await.unwrap();
        expect_end(&mut second).await;
    })
    .await;
    let (from_first, from_second) = match side {
        Side::Caller => (outcome.to_target, outcome.to_caller),
        Side::Target => (outcome.to_caller, outcome.to_target),
    };
    assert_eq!((from_first, from_second), (4, 5));
    assert_eq!(outcome.ending, Ending::Closed { first: side });
}

/// Field case 75: what is sent in pieces, small or large, arrives piece by piece, with
/// no time gone.
#[rstest]
#[tokio::test(start_paused = true)]
async fn nothing_is_held_back(
    #[values(Side::Caller, Side::Target)] side: Side,
    #[values(1, 40, 100_000)] size: usize,
) {
    over_pipes(side, async |mut first, mut second, _| {
        let begin = Instant::now();
        for number in 0..20 {
            let piece = vec![number; size];
            tokio::join!(send(&mut first, &piece), expect(&mut second, &piece));
        }
        assert_eq!(begin.elapsed(), Duration::ZERO);
    })
    .await;
}

/// T-58: one side's shutdown is relayed, and the other direction lives on.
#[rstest]
#[tokio::test(start_paused = true)]
async fn half_closed_connections_live_on(#[values(Side::Caller, Side::Target)] side: Side) {
    let (outcome, _) = over_pipes(side, async |mut first, mut second, _| {
        send(&mut first, b"last words").await;
        first.shutdown().await.unwrap();
        expect(&mut second, b"last words").await;
        expect_end(&mut second).await;
        for _ in 0..100 {
            tokio::time::sleep(MINUTE).await;
            send(&mut second, b"an answer that takes its time").await;
            expect(&mut first, b"an answer that takes its time").await;
        }
        second.shutdown().await.unwrap();
        expect_end(&mut first).await;
    })
    .await;
    assert_eq!(outcome.ending, Ending::Closed { first: side });
}

#[rstest]
#[tokio::test(start_paused = true)]
async fn a_side_that_goes_ends_the_connection_for_both(
    #[values(Side::Caller, Side::Target)] side: Side,
) {
    let (outcome, _) = over_pipes(side, async |mut first, mut second, _| {
        send(&mut first, b"bye").await;
        drop(first);
        expect(&mut second, b"bye").await;
        expect_end(&mut second).await;
        // What it sends now can't be delivered.
        send(&mut second, b"too late").await;
        expect_end(&mut second).await;
    })
    .await;
    let kind = io::ErrorKind::BrokenPipe;
    assert_eq!(outcome.ending, Ending::Failed { side, kind });
}

/// LIMIT-26: nothing either way for ten minutes.
#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed() {
    let (outcome, after) = over_pipes(Side::Caller, async |mut first, mut second, _| {
        send(&mut first, b"x").await;
        expect(&mut second, b"x").await;
        expect_end(&mut first).await;
        expect_end(&mut second).await;
    })
    .await;
    assert_eq!(outcome.ending, Ending::Idle);
    assert_eq!(after, 10 * MINUTE);
}

/// LIMIT-27: one byte one way every nine minutes keeps it open.
#[rstest]
#[tokio::test(start_paused = true)]
async fn traffic_in_either_direction_keeps_it_open(
    #[values(Side::Caller, Side::Target)] side: Side,
) {
    let (outcome, after) = over_pipes(side, async |mut first, mut second, _| {
        for _ in 0..7 {
            tokio::time::sleep(9 * MINUTE).await;
            send(&mut first, b".").await;
            expect(&mut second, b".").await;
        }
        expect_end(&mut first).await;
    })
    .await;
    assert_eq!(outcome.ending, Ending::Idle);
    assert_eq!(after, 73 * MINUTE);
}

/// T-116: the same limit holds for a connection shut one way.
#[rstest]
#[tokio::test(start_paused = true)]
async fn a_half_closed_connection_has_the_same_idle_limit(
    #[values(Side::Caller, Side::Target)] side: Side,
) {
    let (outcome, after) = over_pipes(side, async |mut first, mut second, _| {
        first.shutdown().await.unwrap();
        expect_end(&mut second).await;
        tokio::time::sleep(9 * MINUTE).await;
        send(&mut second, b".").await;
        expect(&mut first, b".").await;
        expect_end(&mut first).await;
    })
    .await;
    assert_eq!(outcome.ending, Ending::Idle);
    assert_eq!(after, 19 * MINUTE);
}

/// A reader that takes nothing stops the bytes, and so doesn't keep it open.
#[rstest]
#[tokio::test(start_paused = true)]
async fn bytes_that_nobody_takes_are_no_traffic(#[values(Side::Caller, Side::Target)] side: Side) {
    let (outcome, after) = over_pipes(side, async |mut first, _second, _| {
        while first.write_all(b"more, more, more").await.is_ok() {}
    })
    .await;
    assert_eq!(outcome.ending, Ending::Idle);
    assert_eq!(after, 10 * MINUTE);
}

/// A deadline that is set later, moved, and taken back.
#[tokio::test(start_paused = true)]
async fn the_last_deadline_counts() {
    let (outcome, after) = over_pipes(Side::Caller, async |mut first, mut second, outside| {
        let begin = Instant::now();
        tokio::time::sleep(MINUTE).await;
        outside.deadline.send_replace(Some(begin + 2 * MINUTE));
        tokio::time::sleep(MINUTE / 2).await;
        outside.deadline.send_replace(None);
        tokio::time::sleep(5 * MINUTE).await;
        outside.deadline.send_replace(Some(begin + 8 * MINUTE));
        drop(outside.deadline);
        send(&mut first, b"in time").await;
        expect(&mut second, b"in time").await;
        expect_end(&mut first).await;
    })
    .await;
    assert_eq!(outcome.ending, Ending::Deadline);
    assert_eq!(after, 8 * MINUTE);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_in_the_past_ends_it_at_once() {
    let (outcome, after) = over_pipes(Side::Caller, async |mut first, _second, outside| {
        outside.deadline.send_replace(Some(Instant::now()));
        expect_end(&mut first).await;
    })
    .await;
    assert_eq!(outcome.ending, Ending::Deadline);
    assert!(after < Duration::from_millis(5));
}

/// T-81: of the idle limit and the deadline, whichever comes first.
#[rstest]
#[case::t_81_deadline_first(5, Ending::Deadline, 5)]
#[case::t_81_idle_first(15, Ending::Idle, 10)]
#[tokio::test(start_paused = true)]
async fn the_earlier_limit_counts(
    #[case] deadline: u32,
    #[case] ending: Ending,
    #[case] minutes: u32,
) {
    let (outcome, after) = over_pipes(Side::Caller, async |mut first, _second, outside| {
        let at = Instant::now() + deadline * MINUTE;
        outside.deadline.send_replace(Some(at));
        expect_end(&mut first).await;
    })
    .await;
    assert_eq!(outcome.ending, ending);
    assert_eq!(after, minutes * MINUTE);
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_it_at_once() {
    let (outcome, after) = over_pipes(Side::Caller, async |mut first, mut second, outside| {
        tokio::time::sleep(MINUTE).await;
        outside.stop.cancel();
        expect_end(&mut first).await;
        expect_end(&mut second).await;
    })
    .await;
    assert_eq!(outcome.ending, Ending::Stopped);
    assert_eq!(after, MINUTE);
}

/// A reader that always has more and a writer that always takes it.
struct Torrent;

impl tokio::io::AsyncRead for Torrent {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        buf.initialize_unfilled();
        buf.set_filled(buf.capacity());
        Poll::Ready(Ok(()))
    }
}

impl tokio::io::AsyncWrite for Torrent {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Stream for Torrent {}

/// Bytes without end starve neither the limits nor other tasks.
#[tokio::test]
async fn a_torrent_is_still_cut() {
    let (limits, deadline) = limits(&Pipes::default());
    let (outcome, ()) = tokio::join!(relay(Torrent, Torrent, limits, None), async {
        tokio::task::yield_now().await;
        deadline.send_replace(Some(Instant::now()));
    });
    assert_eq!(outcome.ending, Ending::Deadline);
    assert!(outcome.to_target > 0 && outcome.to_caller > 0);
}

/// What a tap saw, and whether it is still there.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<u8>>>);

impl Seen {
    fn tap(&self, enough: usize) -> Tap {
        let seen = self.clone();
        Tap::new(move |bytes| {
            let mut seen = seen.0.lock().unwrap();
            seen.extend_from_slice(bytes);
            if seen.len() >= enough {
                TapVerdict::Enough
            } else {
                TapVerdict::More
            }
        })
    }

    fn is_tapped(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }
}

/// Sends `sent` from the caller through a tapped relay; what the target got.
async fn tapped(seen: &Seen, enough: usize, sent: &[u8]) -> Vec<u8> {
    let (mut caller, near_caller) = duplex(4096);
    let (mut target, near_target) = duplex(64);
    let (limits, _deadline) = limits(&Pipes::default());
    let relaying = relay(near_caller, near_target, limits, Some(seen.tap(enough)));
    let (_, (), got) = tokio::join!(
        relaying,
        async {
            caller.write_all(sent).await.unwrap();
            caller.shutdown().await.unwrap();
            expect_end(&mut caller).await;
        },
        async {
            let mut got = Vec::new();
            target.read_to_end(&mut got).await.unwrap();
            assert!(!seen.is_tapped(), "the tap outlived the caller's end");
            target.shutdown().await.unwrap();
            got
        }
    );
    got
}

/// T-02: a copy of the first bytes, up to 16 KiB, and the bytes pass unchanged.
#[rstest]
#[case::all_of_a_little(100, usize::MAX, 100)]
#[case::just_the_limit(TAP_LIMIT, usize::MAX, TAP_LIMIT)]
#[case::the_first_16_kib(50_000, usize::MAX, TAP_LIMIT)]
#[tokio::test]
async fn a_tap_sees_the_first_bytes(
    #[case] sent: usize,
    #[case] enough: usize,
    #[case] expected: usize,
) {
    let bytes: Vec<u8> = (0_u8..251).cycle().take(sent).collect();
    let seen = Seen::default();
    assert!(tapped(&seen, enough, &bytes).await == bytes);
    assert!(*seen.0.lock().unwrap() == bytes[..expected]);
}

#[tokio::test]
async fn a_tap_that_has_seen_enough_is_dropped() {
    let (mut caller, near_caller) = duplex(64);
    let (mut target, near_target) = duplex(64);
    let (limits, _deadline) = limits(&Pipes::default());
    let seen = Seen::default();
    let relaying = relay(near_caller, near_target, limits, Some(seen.tap(3)));
    tokio::join!(relaying, async {
        send(&mut caller, b"ab").await;
        expect(&mut target, b"ab").await;
        assert!(seen.is_tapped());
        send(&mut caller, b"cd").await;
        expect(&mut target, b"cd").await;
        assert!(!seen.is_tapped());
        send(&mut caller, b"ef").await;
        expect(&mut target, b"ef").await;
        drop((caller, target));
    });
    assert_eq!(*seen.0.lock().unwrap(), b"abcd");
}

/// The target's bytes aren't shown.
#[tokio::test]
async fn a_tap_sees_the_caller_only() {
    let (caller, near_caller) = duplex(64);
    let (mut target, near_target) = duplex(64);
    let (limits, _deadline) = limits(&Pipes::default());
    let seen = Seen::default();
    let relaying = relay(near_caller, near_target, limits, Some(seen.tap(100)));
    tokio::join!(relaying, async {
        send(&mut target, b"220 ready").await;
        drop((caller, target));
    });
    assert!(seen.0.lock().unwrap().is_empty());
}

/// What each end gets when `sent` bytes pass in pieces of `step`, each end
/// shutting its side afterwards.
async fn exchange(
    caller: DuplexStream,
    target: DuplexStream,
    sent: &[Vec<u8>; 2],
    step: usize,
) -> [Vec<u8>; 2] {
    let play = async |mut end: DuplexStream, bytes: &[u8]| {
        let (mut reading, mut writing) = tokio::io::split(&mut end);
        let mut got = Vec::new();
        let (read, ()) = tokio::join!(reading.read_to_end(&mut got), async {
            for piece in bytes.chunks(step) {
                writing.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            writing.shutdown().await.unwrap();
        });
        read.unwrap();
        got
    };
    let [from_caller, from_target] = sent;
    let (caller, target) = tokio::join!(play(caller, from_caller), play(target, from_target));
    [caller, target]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is sent in whatever pieces through whatever buffers, both ends
    /// get what tokio's own copy gives them.
    #[test]
    fn carries_what_the_reference_carries(
        sent in proptest::array::uniform2(proptest::collection::vec(any::<u8>(), 0..40_000)),
        step in 1_usize..20_000,
        buffer in 1_usize..30_000,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let (ours, theirs) = runtime.block_on(async {
            let (caller, near_caller) = duplex(buffer);
            let (target, near_target) = duplex(buffer);
            let (limits, _deadline) = limits(&Pipes::default());
            let (outcome, ours) = tokio::join!(
                relay(near_caller, near_target, limits, None),
                exchange(caller, target, &sent, step),
            );
            assert_eq!(outcome.to_target, sent[0].len() as u64);
            assert_eq!(outcome.to_caller, sent[1].len() as u64);

            let (caller, mut near_caller) = duplex(buffer);
            let (target, mut near_target) = duplex(buffer);
            let (copied, theirs) = tokio::join!(
                async {
                    let counts =
                        tokio::io::copy_bidirectional(&mut near_caller, &mut near_target).await;
                    drop((near_caller, near_target));
                    counts
                },
                exchange(caller, target, &sent, step),
            );
            copied.unwrap();
            (ours, theirs)
        });
        prop_assert!(ours == theirs);
        prop_assert!(ours[0] == sent[1] && ours[1] == sent[0]);
    }
}
