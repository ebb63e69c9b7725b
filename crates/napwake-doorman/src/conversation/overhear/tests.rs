//! Judging by a copy, on a paused clock.

use std::time::Duration;

use napwake_api::stamp::RequestKind;
use napwake_net::relay::{Limits, Pipes, relay};
use rstest::rstest;
use tokio::io::{AsyncWriteExt, duplex};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::*;

/// What is judged of a caller that sends these pieces, each so many
/// milliseconds after the one before, and after how long.
async fn check(pieces: &[(u64, &str)]) -> (Wake, Duration) {
    let (tap, heard) = overhear(Arc::new(Agents::built_in()));
    let (mut caller, near) = duplex(1 << 16);
    let (target, _far) = duplex(1 << 16);
    let limits = Limits {
        idle: Duration::from_mins(10),
        deadline: watch::channel(None).1,
        stop: CancellationToken::new(),
        pipes: Pipes::new(0),
    };
    let start = Instant::now();
    let sending = async {
        for (after, piece) in pieces {
            sleep(Duration::from_millis(*after)).await;
            match *piece {
                END => caller.shutdown().await.unwrap(),
                piece => caller.write_all(piece.as_bytes()).await.unwrap(),
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        wake = heard.wake() => (wake, start.elapsed()),
        _ = relay(near, target, limits, Some(tap)) => panic!("ended"),
        () = sending => unreachable!(),
    }
}

/// It shuts its sending side.
const END: &str = "the end";

const YES: Wake = Wake::Yes(RequestKind::Request);

/// T-02, T-03, T-43: by the bytes, or three seconds after the last of them. CLASS-07:
/// one that ends without having said enough wakes nothing, though its pod stays.
#[rstest]
#[case::at_once(&[(0, "GET / HTTP/1.1\r\n\r\n")], YES, 0)]
#[case::in_pieces(&[(0, "GET / HT"), (1_000, "TP/1.1\r\n\r\n")], YES, 1_000)]
#[case::not_http(&[(500, "\u{0}\u{0}")], YES, 500)]
#[case::probe(&[(0, "GET / HTTP/1.1\r\nUser-Agent: kube-probe/1\r\n\r\n")], Wake::No, 0)]
#[case::hidden(&[(0, "GET /.env HTTP/1.1\r\n\r\n")], Wake::No, 0)]
#[case::silent(&[], YES, 3_000)]
#[case::shuts(&[(0, "GET / HTTP/1.1\r\n\r\n"), (0, END)], YES, 0)]
#[case::closes(&[(500, END)], Wake::No, 500)]
#[case::closes_too_early(&[(0, "GET / HT"), (500, END)], Wake::No, 500)]
#[case::slow(&[(2_000, "GET / HTTP/1.1\r\n"), (2_000, "A: b\r\n")], YES, 7_000)]
#[tokio::test(start_paused = true)]
async fn judged_when_clear(#[case] pieces: &[(u64, &str)], #[case] wake: Wake, #[case] after: u64) {
    assert_eq!(check(pieces).await, (wake, Duration::from_millis(after)));
}
