//! The end of a doorman pod, on a paused clock.

use rstest::rstest;
use tokio::time::sleep;

use super::*;

struct Stop {
    asked: CancellationToken,
    steps: Stopping,
    connections: TaskTracker,
    ending: tokio::task::JoinHandle<Result<(), Infallible>>,
    since: Instant,
}

/// Told to stop now.
#[expect(clippy::disallowed_methods, reason = "a test waits for its own task")]
fn stop() -> Stop {
    let (asked, steps, connections) = <(CancellationToken, Stopping, TaskTracker)>::default();
    let ending = steps.clone().carry_out(asked.clone(), connections.clone());
    let ending = tokio::spawn(ending);
    asked.cancel();
    Stop {
        asked,
        steps,
        connections,
        ending,
        since: Instant::now(),
    }
}

/// DRAIN-11, DRAIN-12, T-82: 15 s of accepting; and where nothing is open any more,
/// that is all.
#[tokio::test(start_paused = true)]
async fn accepts_for_fifteen_seconds() {
    let stop = stop();
    stop.steps.accepting.cancelled().await;
    assert_eq!(stop.since.elapsed(), Duration::from_secs(15));
    stop.ending.await.unwrap().unwrap();
    assert_eq!(stop.since.elapsed(), Duration::from_secs(15));
}

/// DRAIN-13: what ends within 25 s ends by itself, those accepted meanwhile too.
#[tokio::test(start_paused = true)]
async fn connections_have_the_rest() {
    let stop = stop();
    sleep(Duration::from_secs(14)).await;
    let cut = stop.steps.cut.clone();
    let connection = stop.connections.spawn(async move {
        sleep(Duration::from_secs(9)).await;
        cut.is_cancelled()
    });
    sleep(Duration::from_secs(8)).await;
    assert!(!stop.steps.ended.is_cancelled());
    stop.ending.await.unwrap().unwrap();
    assert_eq!(stop.since.elapsed(), Duration::from_secs(23));
    assert!(stop.steps.ended.is_cancelled());
    assert!(!connection.await.unwrap());
}

/// DRAIN-13, T-82, T-84: what is still open at 25 s is cut.
#[tokio::test(start_paused = true)]
async fn what_is_left_is_cut() {
    let stop = stop();
    let cut = stop.steps.cut.clone();
    let connection = stop.connections.spawn(async move { cut.cancelled().await });
    stop.ending.await.unwrap().unwrap();
    assert_eq!(stop.since.elapsed(), Duration::from_secs(25));
    connection.await.unwrap();
    assert!(stop.asked.is_cancelled());
}

/// T-84: what connections led to is written before the process ends, also what one
/// of them led to at its very end, and no longer than there is time for.
#[rstest]
#[case::done_in_time(Duration::from_secs(3), Duration::from_secs(28))]
#[case::endless(Duration::MAX, Duration::from_secs(30))]
#[tokio::test(start_paused = true)]
async fn the_last_writes_are_waited_for(#[case] takes: Duration, #[case] expected: Duration) {
    let stop = stop();
    let writing = TaskTracker::new();
    let last = stop.steps.clone().last_writes(writing.clone());
    let (cut, spawning) = (stop.steps.cut.clone(), writing.clone());
    stop.connections.spawn(async move {
        cut.cancelled().await;
        spawning.spawn(sleep(takes));
    });
    last.await.unwrap();
    assert_eq!(stop.since.elapsed(), expected);
    assert_eq!(writing.is_empty(), takes != Duration::MAX);
}
