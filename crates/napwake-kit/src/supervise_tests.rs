//! Tests of supervision, under a paused clock.

use std::{future::pending, io};

use tokio::time::sleep;

use super::*;

const GRACE: Duration = Duration::from_secs(25);

fn supervisor() -> (Supervisor, CancellationToken) {
    let token = CancellationToken::new();
    (Supervisor::new(token.clone()), token)
}

async fn until_cancelled(token: CancellationToken, drain: Duration) -> io::Result<()> {
    token.cancelled().await;
    sleep(drain).await;
    Ok(())
}

async fn never() -> io::Result<Infallible> {
    pending().await
}

#[tokio::test(start_paused = true)]
async fn cancelled_tasks_are_waited_for() {
    let (mut tasks, token) = supervisor();
    tasks.draining(
        "listeners",
        until_cancelled(token.clone(), Duration::from_secs(10)),
    );
    tasks.draining(
        "watches",
        until_cancelled(token.clone(), Duration::from_secs(1)),
    );
    tasks.endless("health", never());

    let start = Instant::now();
    token.cancel();
    tasks.run(GRACE).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ends_by_itself_stops_the_process() {
    let (mut tasks, token) = supervisor();
    tasks.draining("short", async { io::Result::Ok(()) });
    tasks.draining(
        "listeners",
        until_cancelled(token.clone(), Duration::from_secs(3)),
    );

    let start = Instant::now();
    let failure = tasks.run(GRACE).await.unwrap_err();
    assert_eq!(failure.to_string(), "task short ended by itself");
    assert!(token.is_cancelled());
    assert_eq!(
        start.elapsed(),
        Duration::from_secs(3),
        "the others drain first"
    );
}

#[tokio::test(start_paused = true)]
async fn an_endless_task_that_fails_stops_the_process() {
    let (mut tasks, token) = supervisor();
    tasks.endless("health", async {
        Err::<Infallible, _>(io::Error::other("address gone"))
    });
    tasks.draining("listeners", until_cancelled(token, Duration::ZERO));

    let failure = tasks.run(GRACE).await.unwrap_err();
    assert_eq!(
        Chain(&failure).to_string(),
        "task health failed: address gone"
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_names_its_task() {
    let (mut tasks, _token) = supervisor();
    tasks.draining("wake", async {
        sleep(Duration::from_secs(1)).await;
        panic!("boom");
        #[expect(unreachable_code, reason = "gives the block its type")]
        io::Result::Ok(())
    });

    let failure = tasks.run(GRACE).await.unwrap_err();
    assert_eq!(failure.to_string(), "task wake panicked");
}

#[tokio::test(start_paused = true)]
async fn draining_is_bounded() {
    let (mut tasks, token) = supervisor();
    tasks.draining(
        "stuck",
        until_cancelled(token.clone(), Duration::from_hours(1)),
    );
    tasks.draining("quick", until_cancelled(token.clone(), Duration::ZERO));
    token.cancel();

    let start = Instant::now();
    let failure = tasks.run(GRACE).await.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "still busy after 25 s of draining: stuck"
    );
    assert_eq!(start.elapsed(), GRACE);
}

#[tokio::test(start_paused = true)]
async fn a_failure_while_draining_is_reported_and_the_rest_drains() {
    let (mut tasks, token) = supervisor();
    let cancelled = token.clone();
    tasks.draining("tally", async move {
        cancelled.cancelled().await;
        Err(io::Error::other("last write refused"))
    });
    tasks.draining(
        "listeners",
        until_cancelled(token.clone(), Duration::from_secs(5)),
    );
    token.cancel();

    let start = Instant::now();
    let failure = tasks.run(GRACE).await.unwrap_err();
    assert_eq!(
        Chain(&failure).to_string(),
        "task tally failed: last write refused"
    );
    assert_eq!(start.elapsed(), Duration::from_secs(5));
}
