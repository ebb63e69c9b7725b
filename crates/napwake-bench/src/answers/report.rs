//! Tables of both servers' answers. Pure.

use super::load::Outcome;
use crate::stats::Times;
use crate::table::{Table, verdict};

/// The least part of nginx's answers a second.
const RATE_BAR: f64 = 0.9;

/// The most times nginx's processor time for an answer.
const CPU_BAR: f64 = 1.1;

/// The most times nginx's latency, all but one in a hundred.
const LATENCY_BAR: f64 = 1.0;

/// What one server did in one run.
#[derive(Debug, Clone, Default)]
pub(super) struct Run {
    pub(super) outcome: Outcome,
    /// For how long the server ran, in nanoseconds.
    pub(super) ran: u64,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "for people to read, to three digits"
)]
impl Run {
    /// Answers a second.
    fn rate(&self) -> f64 {
        f64::from(self.outcome.done) / self.outcome.seconds
    }

    /// Microseconds of processor time for an answer.
    fn cost(&self) -> f64 {
        self.ran as f64 / 1e3 / f64::from(self.outcome.done)
    }

    /// What part of the time the server ran, in percent.
    fn busy(&self) -> f64 {
        self.ran as f64 / 1e7 / self.outcome.seconds
    }
}

/// A run of the doorman and one of nginx, one after the other.
#[derive(Debug, Clone, Default)]
pub(super) struct Pair {
    pub(super) ours: Run,
    pub(super) theirs: Run,
}

/// All of one answer.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) name: &'static str,
    /// How long the answer is, the doorman's and nginx's.
    pub(super) bytes: (usize, usize),
    /// With as much asked as can be.
    pub(super) rates: Vec<Pair>,
    /// At a fixed rate.
    pub(super) paced: Vec<Pair>,
}

/// A figure of a run.
type Figure = fn(&Run) -> f64;

fn middle(pairs: &[Pair], figure: impl Fn(&Pair) -> f64) -> f64 {
    let times: Times = pairs.iter().map(figure).collect();
    times.p50().unwrap_or(f64::NAN)
}

fn theirs(pairs: &[Pair], figure: Figure) -> f64 {
    middle(pairs, |pair| figure(&pair.theirs))
}

fn ours(pairs: &[Pair], figure: Figure) -> f64 {
    middle(pairs, |pair| figure(&pair.ours))
}

/// The median of the rounds' ratios, not the ratio of medians: the machine is nearly
/// the same within a round.
fn ratio(pairs: &[Pair], figure: Figure) -> f64 {
    middle(pairs, |pair| figure(&pair.ours) / figure(&pair.theirs))
}

fn done(pairs: &[Pair]) -> [String; 2] {
    let runs = || pairs.iter().flat_map(|pair| [&pair.ours, &pair.theirs]);
    let done: u32 = runs().map(|run| run.outcome.done).sum();
    let failed: u32 = runs().map(|run| run.outcome.failed).sum();
    [done.to_string(), failed.to_string()]
}

/// Answers a second, and what one costs.
pub(super) fn rates(parts: &[Part]) -> Table {
    let heads = [
        "answer",
        "bytes (nginx)",
        "rounds",
        "done",
        "failed",
        "nginx /s",
        "busy %",
        "Napwake /s",
        "busy %",
        "part (bar 0.90)",
        "nginx CPU µs",
        "Napwake CPU µs",
        "times (bar 1.10)",
    ];
    let title = "Own answers beside nginx, a core each, as many as can be";
    let mut table = Table::new(title, &heads);
    for part in parts {
        let pairs = &part.rates[..];
        let (rate, cost) = (ratio(pairs, Run::rate), ratio(pairs, Run::cost));
        let [done, failed] = done(pairs);
        table.row([
            part.name.to_owned(),
            format!("{} ({})", part.bytes.0, part.bytes.1),
            pairs.len().to_string(),
            done,
            failed,
            format!("{:.0}", theirs(pairs, Run::rate)),
            format!("{:.0}", theirs(pairs, Run::busy)),
            format!("{:.0}", ours(pairs, Run::rate)),
            format!("{:.0}", ours(pairs, Run::busy)),
            format!("{rate:.2} ({})", verdict(rate >= RATE_BAR)),
            format!("{:.1}", theirs(pairs, Run::cost)),
            format!("{:.1}", ours(pairs, Run::cost)),
            format!("{cost:.2} ({})", verdict(cost <= CPU_BAR)),
        ]);
    }
    table
}

/// How long an answer takes at a fixed rate.
pub(super) fn latencies(parts: &[Part]) -> Table {
    let heads = [
        "answer",
        "rounds",
        "done",
        "failed",
        "nginx p50",
        "p99",
        "Napwake p50",
        "p99",
        "times p50",
        "times p99 (bar 1.00)",
    ];
    let title = "Own answers beside nginx at 1,000/s, from when a request was due, µs";
    let mut table = Table::new(title, &heads);
    let p50: Figure = |run| run.outcome.p50;
    let p99: Figure = |run| run.outcome.p99;
    for part in parts {
        let pairs = &part.paced[..];
        let times = ratio(pairs, p99);
        let [done, failed] = done(pairs);
        table.row([
            part.name.to_owned(),
            pairs.len().to_string(),
            done,
            failed,
            format!("{:.0}", theirs(pairs, p50)),
            format!("{:.0}", theirs(pairs, p99)),
            format!("{:.0}", ours(pairs, p50)),
            format!("{:.0}", ours(pairs, p99)),
            format!("{:.2}", ratio(pairs, p50)),
            format!("{times:.2} ({})", verdict(times <= LATENCY_BAR)),
        ]);
    }
    table
}

/// The first failure of each answer and server, a line each.
pub(super) fn failures(parts: &[Part]) -> String {
    let lines = parts.iter().flat_map(|part| {
        let pairs = || part.rates.iter().chain(&part.paced);
        let ours = pairs().find_map(|pair| pair.ours.outcome.why.as_ref());
        let theirs = pairs().find_map(|pair| pair.theirs.outcome.why.as_ref());
        let told = [("Napwake", ours), ("nginx", theirs)].into_iter();
        told.filter_map(|(who, why)| Some(format!("no {} of {who}'s: {}\n", part.name, why?)))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(done: u32, ran_ms: u64, p99: f64) -> Run {
        Run {
            outcome: Outcome {
                done,
                seconds: 2.0,
                p50: p99 / 2.0,
                p99,
                ..Outcome::default()
            },
            ran: ran_ms * 1_000_000,
        }
    }

    fn part() -> Part {
        let pair = |ours: u32, theirs: u32| Pair {
            ours: run(ours, 2000, 300.0),
            theirs: run(theirs, 1000, 300.0),
        };
        Part {
            name: "page",
            bytes: (100, 99),
            rates: vec![pair(9000, 10_000), pair(8000, 20_000), pair(10_000, 10_000)],
            paced: vec![pair(2000, 2000)],
        }
    }

    #[test]
    fn the_middle_of_the_rounds_ratios_is_held_against_the_bar() {
        let table = rates(&[part()]).render();
        assert!(table.contains("0.90 (held)"), "{table}");
        assert!(
            table.contains("100 (99)") && table.contains("67000"),
            "{table}"
        );
        assert!(table.contains("MISSED"), "{table}");
        let table = latencies(&[part()]).render();
        assert!(table.contains("1.00 (held)"), "{table}");
    }

    #[test]
    fn nothing_measured_holds_no_bar() {
        let nothing = Part {
            rates: Vec::new(),
            paced: Vec::new(),
            ..part()
        };
        assert!(!rates(&[nothing]).render().contains("held"));
    }

    #[test]
    fn the_first_failure_is_told() {
        let mut part = part();
        part.paced[0].theirs.outcome.why = Some("reset".to_owned());
        assert_eq!(failures(&[part]), "no page of nginx's: reset\n");
    }
}
