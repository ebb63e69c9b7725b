//! No pause that is asked for is dropped in silence.

use jiff::SignedDuration;
use napwake_api::names::signal;
use rstest::rstest;

use super::*;
use crate::sim::{Cluster, objects::running, questions::paused};

fn answer(cluster: &Cluster) -> Option<PauseAnswer> {
    let asked = cluster.status("api").pause_asked.as_ref();
    asked.map(|asked| asked.answer)
}

fn said(cluster: &Cluster) -> usize {
    let events = cluster.events("api");
    let said = events
        .iter()
        .filter(|&&reason| reason == event::PAUSE_OVERTAKEN);
    said.count()
}

/// The template was changed and a pause asked for before either was seen:
/// which came last can't be told, and in doubt it stays awake (T-127).
#[test]
fn one_overtaken_by_a_rollout_is_told_once() {
    let mut cluster = running();
    cluster.log.clear();
    cluster.roll_out("api");
    cluster.stamp("api", signal::PAUSE_REQUESTED);
    cluster.now += SignedDuration::from_millis(200);
    cluster.settle();
    assert_eq!(cluster.phase("api"), Some(Phase::Running));
    assert_eq!(answer(&cluster), Some(PauseAnswer::Overtaken));
    assert_eq!(said(&cluster), 1);
    cluster.pass_secs(60);
    assert_eq!(said(&cluster), 1, "it isn't said again");

    cluster.stamp("api", signal::PAUSE_REQUESTED);
    cluster.until("api", Phase::Paused);
    assert_eq!(answer(&cluster), Some(PauseAnswer::Taken));
    assert_eq!(said(&cluster), 1);
}

/// One that comes after the rollout was seen begins, if not a clock that lags
/// behind says otherwise.
#[test]
fn one_of_a_clock_that_lags_is_told_too() {
    let mut cluster = running();
    cluster.roll_out("api");
    cluster.settle();
    let before = cluster.now - SignedDuration::from_secs(2);
    cluster.annotate("api", signal::PAUSE_REQUESTED, before.to_string());
    cluster.log.clear();
    cluster.settle();
    assert_eq!(answer(&cluster), Some(PauseAnswer::Overtaken));
    assert_eq!(said(&cluster), 1);
}

/// A pause that was carried out isn't called overtaken by the wake that ends it.
#[test]
fn one_that_was_taken_stays_so() {
    let mut cluster = running();
    cluster.pass_secs(60);
    cluster.log.clear();
    cluster.stamp("api", signal::PAUSE_REQUESTED);
    cluster.until("api", Phase::Paused);
    cluster.pass_secs(60);
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.until("api", Phase::Running);
    cluster.pass_secs(60);
    assert_eq!(answer(&cluster), Some(PauseAnswer::Taken));
    assert_eq!(said(&cluster), 0);
}

/// T-12, HOLD-11: a pause asked for by a clock that runs ahead is called off by a
/// request as any other, and doesn't begin again while its stamp lies ahead.
#[rstest]
#[case::before_the_scale_down(2)]
#[case::asleep(50)]
fn one_of_a_clock_ahead_is_taken_once(#[case] later: i64) {
    let mut cluster = running();
    cluster.pass_secs(60);
    cluster.log.clear();
    let ahead = cluster.now + SignedDuration::from_secs(58);
    cluster.annotate("api", signal::PAUSE_REQUESTED, ahead.to_string());
    cluster.pass_secs(later);
    cluster.stamp("api", signal::LAST_REQUEST);
    cluster.pass_secs(100);
    assert_eq!(cluster.phase("api"), Some(Phase::Running));
    let events = cluster.events("api");
    let pauses = events.iter().filter(|&&reason| reason == event::PAUSING);
    assert_eq!(pauses.count(), 1, "{events:?}");
}

/// To ask for what is so already is no wish that a later wake overtakes.
#[test]
fn one_asked_for_while_paused_is_taken() {
    let mut cluster = paused();
    cluster.pass_secs(60);
    cluster.log.clear();
    cluster.stamp("api", signal::PAUSE_REQUESTED);
    cluster.settle();
    assert_eq!(answer(&cluster), Some(PauseAnswer::Taken));
    cluster.pass_secs(60);
    cluster.stamp("api", signal::WAKE_REQUESTED);
    cluster.until("api", Phase::Running);
    assert_eq!(said(&cluster), 0);
}
