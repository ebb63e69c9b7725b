//! Cold starts: rounds of wakes, by a request through the doorman and, as the
//! floor, by asking for the wake and dialing the pod once it's seen to be Ready.
//!
//! Owns the order of the rounds and what is noted of each wake. Judges nothing.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::future::{join_all, try_join_all};
use tokio::time::Instant;

use crate::caller;
use crate::clock::{Clock, Millis, Moment};
use crate::field::Field;
use crate::sights::{App, Sights};

/// Where the app listens.
const POD_PORT: u16 = 8080;

/// How a wake comes about and who is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// A request to the Service wakes it, and the doorman passes it on.
    Doorman,
    /// A tool that watches Pods dials the Ready one.
    Floor,
}

/// So many apps woken at once, in so many rounds of either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rounds {
    pub(crate) at_once: usize,
    pub(crate) rounds: usize,
}

/// One wake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wake {
    pub(crate) app: String,
    /// When its caller sent the first byte.
    pub(crate) sent: Moment,
    /// When the first byte of the answer came.
    pub(crate) answered: Moment,
    /// When its Deployment was seen to ask for pods.
    pub(crate) asked_for: Moment,
    /// When its pod was seen to be Ready.
    pub(crate) ready: Moment,
    /// When a slice was seen to name the pod's address, Ready or not.
    pub(crate) named: Moment,
    /// When a slice was seen to say that it's Ready.
    pub(crate) slice_ready: Moment,
}

/// One round.
#[derive(Debug, Clone)]
pub(crate) struct Round {
    pub(crate) way: Way,
    pub(crate) at_once: usize,
    pub(crate) wakes: Vec<Wake>,
    /// Callers who got no answer, and why.
    pub(crate) failed: Vec<String>,
    /// What the two writes of a wake took by themselves, right before: as many at
    /// once as there are wakes.
    pub(crate) bare: Vec<Millis>,
    pub(crate) begun: Moment,
    /// When all was Running.
    pub(crate) ended: Moment,
}

/// The ways of `rounds` rounds each: A B B A, so that whatever grows or wears off
/// meanwhile weighs the same on both.
fn ways(rounds: usize) -> impl Iterator<Item = Way> {
    use Way::{Doorman, Floor};
    let four = [Doorman, Floor, Floor, Doorman];
    // An odd number of rounds ends within the four, with one of each.
    four.into_iter().cycle().take(rounds * 2)
}

/// What measures.
#[derive(Clone)]
pub(crate) struct Cold {
    pub(crate) clock: Clock,
    pub(crate) field: Field,
    pub(crate) sights: Sights,
}

impl Cold {
    /// Rounds until their number is done or the time is up. Expects all of
    /// `services` asleep, and leaves them so.
    pub(crate) async fn run(
        &self,
        services: &[(String, SocketAddr)],
        wanted: Rounds,
        until: Instant,
    ) -> Result<Vec<Round>> {
        let at_once = wanted.at_once.min(services.len());
        let mut done = Vec::new();
        let mut fresh = services;
        for way in ways(wanted.rounds) {
            // A pair begun is ended, so that both ways have as many rounds.
            if done.len() % 2 == 0 && Instant::now() >= until {
                break;
            }
            if fresh.len() < at_once {
                self.put_to_sleep(&services[..services.len() - fresh.len()])
                    .await?;
                fresh = services;
            }
            let (group, rest) = fresh.split_at(at_once);
            fresh = rest;
            done.push(self.round(way, group).await?);
        }
        self.put_to_sleep(&services[..services.len() - fresh.len()])
            .await?;
        Ok(done)
    }

    /// Pauses what is awake, and waits until nothing but the routes is left.
    pub(crate) async fn put_to_sleep(&self, services: &[(String, SocketAddr)]) -> Result<()> {
        let names: Vec<_> = services.iter().map(|(name, _)| name.clone()).collect();
        self.field.pause(self.clock, &names).await?;
        self.sights
            .wait_for_all(&names, "asleep", App::is_asleep)
            .await
    }

    async fn round(&self, way: Way, group: &[(String, SocketAddr)]) -> Result<Round> {
        let apps: Vec<_> = group.iter().map(|(name, _)| name.as_str()).collect();
        let bare = self.field.write_barely(self.clock, &apps).await?;
        let begun = self.clock.now();
        let asked = group.iter().map(|(app, service)| async {
            let answered = match way {
                Way::Doorman => caller::ask(self.clock, *service, app).await,
                Way::Floor => self.dial_when_ready(app).await,
            };
            (app.clone(), answered)
        });
        let waking = async {
            if way == Way::Floor {
                let names: Vec<_> = group.iter().map(|(name, _)| name.clone()).collect();
                self.field.wake(self.clock, &names).await?;
            }
            anyhow::Ok(())
        };
        let (answers, woken) = tokio::join!(join_all(asked), waking);
        woken?;
        let (mut wakes, mut failed) = (Vec::new(), Vec::new());
        for (app, answered) in answers {
            match answered {
                Ok(answered) => wakes.push(self.wake(app, answered)),
                Err(error) => {
                    failed.push(format!("{app}: {error:#}"));
                    // Whoever failed to wake it, it has to be awake to be paused.
                    self.field
                        .wake(self.clock, std::slice::from_ref(&app))
                        .await?;
                    self.sights.wait(&app, "awake", App::is_awake).await?;
                }
            }
        }
        let wakes = try_join_all(wakes).await?;
        Ok(Round {
            way,
            at_once: group.len(),
            wakes,
            failed,
            bare,
            begun,
            ended: self.clock.now(),
        })
    }

    async fn dial_when_ready(&self, app: &str) -> Result<caller::Answered> {
        let seen = self.sights.wait(app, "Ready", |app| app.ready.is_some());
        let ready = seen.await?.ready.context("it is Ready")?;
        let address = SocketAddr::new(ready.address, POD_PORT);
        caller::ask(self.clock, address, app).await
    }

    /// Notes an answered wake once all of it was seen.
    async fn wake(&self, app: String, answered: caller::Answered) -> Result<Wake> {
        let seen = self.sights.wait(&app, "awake", App::is_awake).await?;
        let unseen = "an app that is awake has been seen to be";
        Ok(Wake {
            app,
            sent: answered.sent,
            answered: answered.answered,
            asked_for: seen.asked_for.context(unseen)?,
            ready: seen.ready.context(unseen)?.since,
            named: seen.named.context(unseen)?,
            slice_ready: seen.slice_ready.context(unseen)?,
        })
    }
}

/// The time of each of several parts, so that none starves: what one leaves is
/// shared by those that follow.
pub(crate) fn share(left: Duration, parts: usize) -> Duration {
    let parts = u32::try_from(parts.max(1)).unwrap_or(u32::MAX);
    left / parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_get_as_many_rounds_whoever_goes_first() {
        use Way::{Doorman, Floor};
        let four: Vec<_> = ways(2).collect();
        assert_eq!(four, [Doorman, Floor, Floor, Doorman]);
        for rounds in 0..9 {
            let doorman = ways(rounds).filter(|way| *way == Doorman).count();
            assert_eq!(doorman, rounds);
            assert_eq!(ways(rounds).count(), 2 * rounds);
        }
    }

    #[test]
    fn what_a_part_leaves_is_shared_by_the_rest() {
        assert_eq!(share(Duration::from_secs(9), 3), Duration::from_secs(3));
        assert_eq!(share(Duration::from_secs(8), 0), Duration::from_secs(8));
    }
}
