//! What was measured of many paused Services, as tables. Pure.

use super::{Moves, Pauses};
use crate::clock::Millis;
use crate::stats::Times;
use crate::table::{self, Table, time};

/// From the decision to standing slices, all but one in twenty.
const ROUTED_BAR_MS: Millis = 300.0;

/// Moves of up to a thousand, whichever.
const MOVED_BAR_MS: Millis = 3000.0;

/// From the decision of a pause until its slices stood.
pub(crate) fn pauses(pauses: &[&Pauses]) -> Table {
    let heads = [
        "at once",
        "pauses",
        "p50",
        "p95 (bar 300)",
        "max",
        "two bare writes p50",
        "p95",
    ];
    let title = "From a pause's decision until its slices stand, ms";
    let mut table = Table::new(title, &heads);
    for pauses in pauses {
        let took: Times = pauses.took.iter().copied().collect();
        let bare: Times = pauses.bare.iter().copied().collect();
        table.row([
            pauses.at_once.to_string(),
            took.len().to_string(),
            time(took.p50()),
            table::within(took.p95(), ROUTED_BAR_MS),
            time(took.max()),
            time(bare.p50()),
            time(bare.p95()),
        ]);
    }
    table
}

/// From a doorman pod's deletion until no slice names it, and from the next one's
/// Ready until all do.
pub(crate) fn moves(moves: &[Moves]) -> Table {
    let heads = [
        "Services",
        "moves",
        "moved off p50",
        "max (bar 3000)",
        "moved onto p50",
        "max",
        "bare writes p50",
    ];
    let title = "Moves from a doorman pod that stops, and to the next, ms";
    let mut table = Table::new(title, &heads);
    for Moves { services, moves } in moves {
        let left: Times = moves.iter().map(|one| one.left).collect();
        let joined: Times = moves.iter().map(|one| one.joined).collect();
        let bare: Times = moves.iter().map(|one| one.bare).collect();
        table.row([
            services.to_string(),
            moves.len().to_string(),
            time(left.p50()),
            table::within(left.max(), MOVED_BAR_MS),
            time(joined.p50()),
            time(joined.max()),
            time(bare.p50()),
        ]);
    }
    table
}
