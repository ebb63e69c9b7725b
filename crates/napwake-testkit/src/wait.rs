//! Waiting for a state, with a bound.

use std::{fmt::Debug, future::Future, time::Duration};

use anyhow::{Result, bail};
use tokio::time::Instant;

/// How often a state is looked at.
const EVERY: Duration = Duration::from_millis(25);

/// How often one is looked at that takes long.
const LATER_EVERY: Duration = Duration::from_millis(250);

/// Looks until `probe` gives a state that `is_reached` accepts, for `bound` at
/// most; the error then holds the last state.
pub async fn until<S, F, P>(
    what: &str,
    bound: Duration,
    mut probe: F,
    is_reached: impl Fn(&S) -> bool,
) -> Result<S>
where
    S: Debug,
    P: Future<Output = Result<S>>,
    F: FnMut() -> P,
{
    let start = Instant::now();
    loop {
        let state = match probe().await {
            Ok(state) if is_reached(&state) => return Ok(state),
            state => state,
        };
        let waited = start.elapsed();
        if waited >= bound {
            bail!("waited {bound:?} for {what}; the last state was {state:#?}");
        }
        // Late by a twentieth at most: many tests look at one API server.
        let pause = (waited / 20).clamp(EVERY, LATER_EVERY);
        tokio::time::sleep(pause).await;
    }
}

/// Looks for as long as `span` that every state is one that `holds` accepts.
pub async fn throughout<S, F, P>(
    what: &str,
    span: Duration,
    mut probe: F,
    holds: impl Fn(&S) -> bool,
) -> Result<()>
where
    S: Debug,
    P: Future<Output = Result<S>>,
    F: FnMut() -> P,
{
    let start = Instant::now();
    while start.elapsed() < span {
        let state = probe().await?;
        if !holds(&state) {
            bail!(
                "{what} held for {:?} only; then the state was {state:#?}",
                start.elapsed()
            );
        }
        tokio::time::sleep(EVERY).await;
    }
    Ok(())
}
