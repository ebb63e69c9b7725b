//! The report: tables of what was measured beside what it's held against. Pure.

use std::collections::{BTreeMap, BTreeSet};

use crate::clock::{Millis, Moment};
use crate::cold::{Round, Wake, Way};
use crate::memory::Held;
use crate::stats::Times;
use crate::table::{self, Table, time};
use crate::way_in::{Kinds, Log, Written};

/// What a request may take longer than the floor: half of them, and all but one
/// in twenty.
const BARS_MS: (Millis, Millis) = (2.0, 5.0);

/// From the first byte to the replicas, all but one in twenty.
const WAY_IN_BAR_MS: Millis = 10.0;

/// What an idle process may hold, in KiB.
const MEMORY_BAR_KIB: u64 = 30 * 1024;

/// What the image may weigh, in bytes.
const IMAGE_BAR: u64 = 30_000_000;

/// Rounds of one size.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) at_once: usize,
    pub(crate) rounds: Vec<Round>,
}

impl Part {
    fn wakes(&self, way: Way) -> impl Iterator<Item = &Wake> {
        let rounds = self.rounds.iter().filter(move |round| round.way == way);
        rounds.flat_map(|round| &round.wakes)
    }

    /// The answer after the pod was seen to be Ready.
    fn answers(&self, way: Way) -> Times {
        let wakes = self.wakes(way);
        wakes.map(|wake| wake.answered.after(wake.ready)).collect()
    }

    /// The two writes of a wake by themselves.
    fn bare(&self) -> Times {
        let rounds = self.rounds.iter();
        rounds
            .flat_map(|round| round.bare.iter().copied())
            .collect()
    }

    fn failed(&self, way: Way) -> usize {
        let rounds = self.rounds.iter().filter(|round| round.way == way);
        rounds.map(|round| round.failed.len()).sum()
    }
}

/// The answer after the pod's Ready.
pub(crate) fn cold_start(parts: &[Part]) -> Table {
    let heads = [
        "at once",
        "rounds",
        "wakes",
        "failed",
        "floor p50",
        "p95",
        "Napwake p50",
        "p95",
        "more p50 (bar 2)",
        "more p95 (bar 5)",
    ];
    let title = "Cold start: from the Pod's Ready to the answer, ms";
    let mut table = Table::new(title, &heads);
    for part in parts {
        let (floor, ours) = (part.answers(Way::Floor), part.answers(Way::Doorman));
        let failed = (part.failed(Way::Floor), part.failed(Way::Doorman));
        table.row([
            part.at_once.to_string(),
            (part.rounds.len() / 2).to_string(),
            ours.len().to_string(),
            format!("{}+{}", failed.0, failed.1),
            time(floor.p50()),
            time(floor.p95()),
            time(ours.p50()),
            time(ours.p95()),
            table::more(ours.p50(), floor.p50(), BARS_MS.0),
            table::more(ours.p95(), floor.p95(), BARS_MS.1),
        ]);
    }
    table
}

/// How far slices were behind the pods: nobody is passed on before a slice names
/// the address, and nobody has to wait until it says Ready.
pub(crate) fn slices(parts: &[Part]) -> Table {
    let heads = [
        "at once",
        "wakes",
        "named p50",
        "p95",
        "max",
        "Ready p50",
        "p95",
        "max",
    ];
    let title = "EndpointSlice: from the Pod's Ready until a slice names it, and says Ready, ms";
    let mut table = Table::new(title, &heads);
    let events: [fn(&Wake) -> Moment; 2] = [|wake| wake.named, |wake| wake.slice_ready];
    for part in parts {
        let lags = events.map(|event| {
            let wakes = part.wakes(Way::Doorman).chain(part.wakes(Way::Floor));
            wakes
                .map(|wake| event(wake).after(wake.ready))
                .collect::<Times>()
        });
        let figures = lags
            .iter()
            .flat_map(|lags| [time(lags.p50()), time(lags.p95()), time(lags.max())]);
        let first = [part.at_once.to_string(), lags[0].len().to_string()];
        table.row(first.into_iter().chain(figures));
    }
    table
}

/// The writes of each part's wakes.
pub(crate) fn written(parts: &[Part], log: &Log) -> Vec<(usize, Vec<Written>)> {
    let of = |part: &Part| {
        let wakes = part.wakes(Way::Doorman);
        wakes.filter_map(|wake| log.written(wake)).collect()
    };
    parts.iter().map(|part| (part.at_once, of(part))).collect()
}

/// From the first byte to the replicas.
pub(crate) fn way_in(parts: &[Part], written: &[(usize, Vec<Written>)]) -> Table {
    let heads = [
        "at once",
        "wakes",
        "two bare writes p50",
        "p95",
        "p50",
        "p95 (bar 10)",
        "max",
        "seen by a watch p50",
        "p95",
    ];
    let title = "First byte to replicas written (the API server's audit log), ms";
    let mut table = Table::new(title, &heads);
    for (part, (at_once, wakes)) in parts.iter().zip(written) {
        let bare = part.bare();
        let done: Times = wakes
            .iter()
            .map(|one| one.scale.1.after(one.sent))
            .collect();
        let seen: Times = wakes.iter().map(|one| one.seen.after(one.sent)).collect();
        table.row([
            at_once.to_string(),
            wakes.len().to_string(),
            time(bare.p50()),
            time(bare.p95()),
            time(done.p50()),
            table::within(done.p95(), WAY_IN_BAR_MS),
            time(done.max()),
            time(seen.p50()),
            time(seen.p95()),
        ]);
    }
    table
}

/// A part of the way in.
type Step = fn(&Written) -> Millis;

/// Where the time of the way in goes.
pub(crate) fn steps(written: &[(usize, Vec<Written>)]) -> Table {
    let heads = [
        "at once",
        "to the stamp p50",
        "p95",
        "stamp p50",
        "p95",
        "to the scale p50",
        "p95",
        "scale p50",
        "p95",
    ];
    let title = "Where that time goes: the doorman, its stamp, the operator, its scale, ms";
    let mut table = Table::new(title, &heads);
    let steps: [Step; 4] = [
        |one| one.stamp.0.after(one.sent),
        |one| one.stamp.1.after(one.stamp.0),
        |one| one.scale.0.after(one.stamp.1),
        |one| one.scale.1.after(one.scale.0),
    ];
    for (at_once, wakes) in written {
        let times = steps.map(|step| wakes.iter().map(step).collect::<Times>());
        let figures = times
            .iter()
            .flat_map(|times| [time(times.p50()), time(times.p95())]);
        table.row(std::iter::once(at_once.to_string()).chain(figures));
    }
    table
}

/// What was written for each wake.
pub(crate) fn writes(parts: &[Part], written: &[(usize, Vec<Written>)], log: &Log) -> Table {
    let counted: Vec<_> = parts
        .iter()
        .map(|part| log.kinds(part.rounds.iter()))
        .collect();
    let sizes = parts.iter().map(|part| format!("{} at once", part.at_once));
    let heads: Vec<_> = std::iter::once("Napwake's writes".to_owned())
        .chain(sizes)
        .collect();
    let heads: Vec<_> = heads.iter().map(String::as_str).collect();
    let title = "Writes per wake (the API server's audit log)";
    let mut table = Table::new(title, &heads);
    let most = written.iter().map(|(_, wakes)| {
        let counts = wakes.iter().map(|one| one.writes);
        counts.clone().min().zip(counts.max()).map_or_else(
            || "-".to_owned(),
            |(least, most)| format!("{least} to {most}"),
        )
    });
    let first = "up to the replicas (bar 2), least to most".to_owned();
    table.row(std::iter::once(first).chain(most));
    let kinds: BTreeSet<_> = counted.iter().flat_map(|(kinds, _)| kinds.keys()).collect();
    for kind in kinds {
        let (who, verb, resource) = kind;
        let means = counted.iter().map(|counted| mean(counted, kind));
        let name = format!("until Running: {} {verb} {resource}", who.word());
        table.row(std::iter::once(name).chain(means));
    }
    table
}

#[expect(
    clippy::cast_precision_loss,
    reason = "for people to read, to two digits"
)]
fn mean((kinds, wakes): &(Kinds, usize), kind: &(crate::audit::Who, String, String)) -> String {
    if *wakes == 0 {
        return "-".to_owned();
    }
    let count = kinds.get(kind).copied().unwrap_or(0);
    format!("{:.2}", count as f64 / *wakes as f64)
}

/// What each process held at each time.
pub(crate) fn memory(times: &[(&str, BTreeMap<String, Held>)]) -> Table {
    let mut heads = vec!["MiB resident (own)"];
    heads.extend(times.iter().map(|(when, _)| *when));
    heads.extend(["most ever", "bar 30"]);
    let mut table = Table::new("Memory of an idle Napwake", &heads);
    let pods: BTreeSet<_> = times.iter().flat_map(|(_, held)| held.keys()).collect();
    for pod in pods {
        let held: Vec<_> = times.iter().map(|(_, held)| held.get(pod)).collect();
        let figures = held.iter().map(|held| {
            held.map_or_else(
                || "-".to_owned(),
                |held| format!("{} ({})", mib(held.resident), mib(held.own)),
            )
        });
        let known: Vec<_> = held.iter().copied().flatten().collect();
        let peak = known.iter().map(|held| held.peak).max().unwrap_or(0);
        let holds = known.iter().all(|held| held.resident <= MEMORY_BAR_KIB);
        let last = [mib(peak), table::verdict(holds).to_owned()];
        table.row(std::iter::once(pod.clone()).chain(figures).chain(last));
    }
    table
}

#[expect(
    clippy::cast_precision_loss,
    reason = "for people to read, to one digit"
)]
fn mib(kib: u64) -> String {
    format!("{:.1}", kib as f64 / 1024.0)
}

/// What the image weighs.
#[expect(
    clippy::cast_precision_loss,
    reason = "for people to read, to one digit"
)]
pub(crate) fn image(bytes: u64) -> String {
    let verdict = table::verdict(bytes <= IMAGE_BAR);
    format!("Image: {:.1} MB ({verdict}; bar 30)\n", bytes as f64 / 1e6)
}

/// Those who got no answer, a line each.
pub(crate) fn failures(parts: &[Part]) -> String {
    let rounds = parts.iter().flat_map(|part| &part.rounds);
    let lines = rounds.flat_map(|round| {
        let failed = round.failed.iter();
        failed.map(move |why| {
            format!(
                "no answer ({:?}, {} at once): {why}\n",
                round.way, round.at_once
            )
        })
    });
    lines.collect()
}
