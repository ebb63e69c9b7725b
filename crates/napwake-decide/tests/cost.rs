//! What a decision costs: no more with a cluster full of routes than with few.

use allocation_counter::{AllocationInfo, measure};
use napwake_decide::Write;
use rstest::rstest;

mod field;

use field::{Field, PORTS};

/// With the seven others of its namespace, and with so many of other namespaces that
/// nearly all doorman ports are in use.
const FEW: u16 = 7;
const MANY: u16 = 311;

fn allocated(mut field: Field) -> AllocationInfo {
    let info = measure(|| drop(field.decide()));
    assert!(info.count_total > 0, "nothing was decided");
    info
}

/// Whether `many` is no more than `few`, but for the nodes of trees, which are cut and
/// joined at other places.
fn is_no_more(many: u64, few: u64) -> bool {
    many <= few + few / 50 + 8
}

/// With ten thousand routes in the cluster no more is allocated for one workload's
/// decision than with its own namespace's.
#[rstest]
#[case::running(|field: Field| field)]
#[case::asked_to_pause(Field::asked_to_pause)]
#[case::listened_for(Field::listened_for)]
#[case::paused(Field::paused)]
#[case::called(Field::called)]
fn nothing_is_allocated_for_other_namespaces(#[case] moment: fn(Field) -> Field) {
    let [few, many] = [FEW, MANY].map(|others| allocated(moment(Field::among(others))));
    assert!(
        is_no_more(many.count_total, few.count_total),
        "{few:?} {many:?}"
    );
    assert!(
        is_no_more(many.bytes_max, few.bytes_max),
        "{few:?} {many:?}"
    );
}

/// That the moments are what they're called.
#[test]
fn all_ports_are_routed() {
    let mut field = Field::among(MANY).listened_for();
    let plan = field.decide();
    let ports = plan.writes.iter().map(|write| match write {
        Write::ApplySlice { slice, .. } => slice.ports.len(),
        _ => 0,
    });
    assert_eq!(ports.sum::<usize>(), usize::from(PORTS), "{plan:#?}");
}
