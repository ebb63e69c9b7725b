//! How long a decision takes for a workload of 32 ports, among as many routes as there
//! can be in a cluster and among few.

use divan::Bencher;
use napwake_decide::Plan;

#[path = "../tests/field/mod.rs"]
mod field;

use field::Field;

/// How many other workloads there are, of 32 routes each: those of the namespace alone,
/// and so many that nearly all doorman ports are in use.
const OTHERS: [u16; 2] = [7, 311];

fn main() {
    divan::main();
}

/// Nothing has changed: the decision that's made most often.
#[divan::bench(args = OTHERS)]
fn paused(bencher: Bencher<'_, '_>, others: u16) {
    of(bencher, Field::among(others).paused());
}

/// A port is found for each Service port.
#[divan::bench(args = OTHERS)]
fn asked_to_pause(bencher: Bencher<'_, '_>, others: u16) {
    of(bencher, Field::among(others).asked_to_pause());
}

/// The slices are written.
#[divan::bench(args = OTHERS)]
fn listened_for(bencher: Bencher<'_, '_>, others: u16) {
    of(bencher, Field::among(others).listened_for());
}

/// A request wakes it.
#[divan::bench(args = OTHERS)]
fn called(bencher: Bencher<'_, '_>, others: u16) {
    of(bencher, Field::among(others).called());
}

/// Decides over and over: the same world and ledger give the same plan.
fn of(bencher: Bencher<'_, '_>, field: Field) {
    let field = std::cell::RefCell::new(field);
    bencher.bench_local(|| -> Plan { field.borrow_mut().decide() });
}
