//! EndpointSlices of Napwake's that no ManagedWorkload stands for any more.
//!
//! Each ManagedWorkload sees to its own slices, and its finalizer keeps it until
//! they are gone. One whose finalizer was taken off by hand leaves them behind,
//! and a leader that stalled may make one too late. They'd send callers to a
//! port that nobody listens on for as long as the Service lives.

use napwake_api::{names::slice::MANAGED_BY_NAPWAKE, workload::Route};

use crate::{
    slices::slice_name,
    world::{Seen, Slice},
};

/// Whether a slice is Napwake's by its label and its name, and none of the
/// routes that the ManagedWorkloads of its namespace record is for its Service.
///
/// Routes are recorded before their slices are made, so one without a record is
/// no one's. What can't be known of any ManagedWorkload may be a record.
pub fn is_orphan(slice: &Slice, routes: &Seen<Vec<&Route>>) -> bool {
    let spec = &slice.spec;
    let is_ours = slice.managed_by.as_deref() == Some(MANAGED_BY_NAPWAKE)
        && spec.name == slice_name(&spec.service, spec.family);
    let is_recorded = match routes {
        Seen::Known(routes) => routes.iter().any(|route| route.service == spec.service),
        Seen::Absent => false,
        Seen::Unknown(_) => true,
    };
    is_ours && !is_recorded
}

#[cfg(test)]
mod tests {
    use napwake_api::workload::IpFamily;
    use rstest::rstest;

    use super::*;
    use crate::sim::{Cluster, questions::paused};

    fn routes(cluster: &Cluster) -> Vec<&Route> {
        let doorman = cluster.status("api").doorman.as_ref();
        doorman
            .into_iter()
            .flat_map(|doorman| &doorman.routes)
            .collect()
    }

    fn slice(cluster: &Cluster) -> Slice {
        cluster.slices.values().next().expect("a slice").clone()
    }

    #[test]
    fn only_a_slice_without_a_record_is_an_orphan() {
        let cluster = paused();
        let slice = slice(&cluster);
        assert!(!is_orphan(&slice, &Seen::Known(routes(&cluster))));
        assert!(is_orphan(&slice, &Seen::Known(Vec::new())));
        assert!(is_orphan(&slice, &Seen::Absent));
    }

    /// What can't be told is left alone, and so is whatever is another's.
    #[rstest]
    #[case::unknown(|_: &mut Slice| {}, Seen::Unknown("can't be read".to_owned()))]
    #[case::another_manager(
        |slice: &mut Slice| slice.managed_by = Some("somebody".to_owned()),
        Seen::Known(Vec::new())
    )]
    #[case::no_manager(|slice: &mut Slice| slice.managed_by = None, Seen::Known(Vec::new()))]
    #[case::another_name(
        |slice: &mut Slice| slice.spec.name = "api-mine".to_owned(),
        Seen::Known(Vec::new())
    )]
    #[case::the_name_of_another_family(
        |slice: &mut Slice| slice.spec.family = IpFamily::IPv6,
        Seen::Known(Vec::new())
    )]
    #[case::no_service(|slice: &mut Slice| slice.spec.service.clear(), Seen::Known(Vec::new()))]
    fn it_is_left_alone(#[case] change: fn(&mut Slice), #[case] routes: Seen<Vec<&Route>>) {
        let mut slice = slice(&paused());
        change(&mut slice);
        assert!(!is_orphan(&slice, &routes));
    }
}
