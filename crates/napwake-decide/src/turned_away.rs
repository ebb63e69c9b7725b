//! What the doorman turned away, as the status tells it.
//!
//! Owns which pause the number is of. The number itself is the doorman's, which
//! counts in `napwake.dev/turned-away`; it stays there, and nothing is added here.

use napwake_api::{
    ManagedWorkloadStatus,
    names::signal,
    stamp,
    turned_away::TurnedAway,
    workload::{MicroTime, TurnedAwayStatus, WakeMode},
};

use crate::settle::Settled;

/// Brings the number up to date: of the pause under way, or else of the last one
/// (AWAY-09, AWAY-10). Never that of an older one (T-97).
pub(crate) fn note(s: &Settled, next: &mut ManagedWorkloadStatus) {
    let told = s.workload().annotations.get(signal::TURNED_AWAY);
    let told = told.and_then(|text| text.parse::<TurnedAway>().ok());
    let known = next.turned_away.take();
    let pause = match &next.pause {
        Some(pause) => pause.started_at.clone(),
        None => match &known {
            Some(known) => known.paused_at.clone(),
            None => return,
        },
    };
    let told = told.filter(|told| stamp::to_micros(told.pause) == stamp::to_micros(pause.0));
    let same = known.filter(|known| known.paused_at == pause);
    next.turned_away = match (told, same) {
        (Some(told), _) => Some(counted(pause, told.requests)),
        (None, Some(known)) => Some(known),
        // Which pause was the last is known only if it's written down, and the
        // doorman's last word comes after the wake.
        (None, None) if s.workload().spec.wake.mode == WakeMode::Ask => Some(counted(pause, 0)),
        (None, None) => None,
    };
}

fn counted(paused_at: MicroTime, requests: u64) -> TurnedAwayStatus {
    TurnedAwayStatus {
        paused_at,
        requests: i64::try_from(requests).unwrap_or(i64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use napwake_api::{
        names::signal,
        workload::{Phase, WakeMode},
    };
    use rstest::rstest;

    use crate::sim::{
        Cluster,
        objects::running,
        questions::{paused, turned_away},
    };

    /// When the pause under way began.
    fn pause(cluster: &Cluster) -> Timestamp {
        let status = cluster.status("api");
        status.pause.as_ref().expect("a pause").started_at.0
    }

    /// Doormen say so, of that pause.
    fn tells(cluster: &mut Cluster, pause: Timestamp, requests: u64) {
        let text = format!("{pause} {requests} 0000000a/1");
        cluster.annotate("api", signal::TURNED_AWAY, text);
        cluster.settle();
    }

    /// Paused, and it asks before waking.
    fn asking() -> Cluster {
        let mut cluster = running();
        cluster.workload("api").spec.wake.mode = WakeMode::Ask;
        cluster.pause("api");
        cluster
    }

    fn wake(cluster: &mut Cluster) {
        cluster.stamp("api", signal::WAKE_REQUESTED);
        cluster.until("api", Phase::Running);
    }

    /// AWAY-07, AWAY-09, AWAY-10, AWAY-11, AWAY-12, T-97: the number is of the
    /// pause under way, then of the last one; the next begins with its own.
    #[test]
    fn covers_the_pause_or_the_last_one() {
        let mut cluster = asking();
        let first = pause(&cluster);
        assert_eq!(turned_away(&cluster), Some((first, 0)));
        tells(&mut cluster, first, 3);
        tells(&mut cluster, first, 312);
        assert_eq!(turned_away(&cluster), Some((first, 312)));

        wake(&mut cluster);
        assert_eq!(turned_away(&cluster), Some((first, 312)));
        // A doorman's last word may come late.
        tells(&mut cluster, first, 315);
        assert_eq!(turned_away(&cluster), Some((first, 315)));

        cluster.pass_secs(100);
        cluster.pause("api");
        let second = pause(&cluster);
        assert_eq!(turned_away(&cluster), Some((second, 0)));
        // The doorman still says what it was in the first.
        tells(&mut cluster, first, 316);
        assert_eq!(turned_away(&cluster), Some((second, 0)));
        wake(&mut cluster);
        assert_eq!(turned_away(&cluster), Some((second, 0)));
    }

    /// One that requests wake turns nobody away, and its status doesn't speak of
    /// it; what was counted before the mode changed stays.
    #[test]
    fn is_absent_where_requests_wake() {
        let mut cluster = paused();
        assert_eq!(turned_away(&cluster), None);
        let now = pause(&cluster);
        tells(&mut cluster, now, 7);
        assert_eq!(turned_away(&cluster), Some((now, 7)));
    }

    /// What can't be read, or isn't of a pause that is known, changes nothing.
    #[rstest]
    #[case("many")]
    #[case("")]
    #[case("2026-01-01T00:00:00Z 5")]
    fn passes_over_what_says_nothing(#[case] text: &str) {
        let mut cluster = asking();
        let first = pause(&cluster);
        tells(&mut cluster, first, 3);
        cluster.annotate("api", signal::TURNED_AWAY, text.to_owned());
        cluster.settle();
        assert_eq!(turned_away(&cluster), Some((first, 3)));
    }

    /// More than the status can hold is as much as it can.
    #[test]
    fn a_number_without_end() {
        let mut cluster = asking();
        let first = pause(&cluster);
        tells(&mut cluster, first, u64::MAX);
        assert_eq!(turned_away(&cluster), Some((first, i64::MAX)));
    }
}
