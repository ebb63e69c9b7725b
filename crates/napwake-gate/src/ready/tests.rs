use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn candidates<'a>(slices: impl IntoIterator<Item = &'a Slice>, port: &str) -> Vec<Candidate> {
    super::candidates(slices, port, |_| true)
}

fn pod(name: &str) -> PodKey {
    PodKey {
        namespace: "preview".to_owned(),
        name: name.to_owned(),
    }
}

fn ip(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

const SERVING: Conditions = conditions(Some(true), Some(true), Some(false));
const STARTING: Conditions = conditions(Some(false), Some(false), Some(false));
const STOPPING: Conditions = conditions(Some(false), Some(true), Some(true));

const fn conditions(
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
) -> Conditions {
    Conditions {
        ready,
        serving,
        terminating,
    }
}

fn endpoint(last: u8, conditions: Conditions) -> SliceEndpoint {
    SliceEndpoint {
        address: ip(last),
        conditions,
        pod: Some(pod(&format!("api-{last}"))),
    }
}

fn slice(ports: &[(&str, u16)], endpoints: Vec<SliceEndpoint>) -> Slice {
    Slice {
        ports: ports
            .iter()
            .map(|(name, number)| SlicePort {
                name: (*name).to_owned(),
                number: *number,
            })
            .collect(),
        endpoints,
    }
}

fn there(last: u8, state: PodState) -> PodView {
    PodView::There {
        addresses: vec![ip(last)],
        state,
    }
}

/// What candidates there are, as `address:port serving?`.
fn found(slices: &[Slice], port: &str) -> Vec<(String, SliceSays)> {
    candidates(slices, port)
        .into_iter()
        .map(|one| (one.address.to_string(), one.slice_says))
        .collect()
}

/// T-73, T-74: `serving` decides, then `ready`; terminating ones are
/// out, whatever else they say.
#[rstest]
#[case::serving(
    conditions(Some(true), Some(true), Some(false)),
    Some(SliceSays::Serving)
)]
#[case::not_serving(
    conditions(Some(false), Some(false), Some(false)),
    Some(SliceSays::Listed)
)]
#[case::published_though_not_ready(
    conditions(Some(true), Some(false), Some(false)),
    Some(SliceSays::Listed)
)]
#[case::serving_not_ready(
    conditions(Some(false), Some(true), Some(false)),
    Some(SliceSays::Serving)
)]
#[case::no_serving_but_ready(conditions(Some(true), None, None), Some(SliceSays::Serving))]
#[case::no_serving_not_ready(conditions(Some(false), None, None), Some(SliceSays::Listed))]
#[case::says_nothing(conditions(None, None, None), Some(SliceSays::Listed))]
#[case::stopping(STOPPING, None)]
#[case::published_though_stopping(conditions(Some(true), Some(true), Some(true)), None)]
fn reads_conditions(#[case] conditions: Conditions, #[case] says: Option<SliceSays>) {
    let slices = [slice(&[("http", 8080)], vec![endpoint(1, conditions)])];
    let expected: Vec<_> = says
        .into_iter()
        .map(|says| ("10.0.0.1:8080".to_owned(), says))
        .collect();
    assert_eq!(found(&slices, "http"), expected);
}

/// T-71: ports by name, each endpoint on the number of its own slice; a slice
/// without the port has nothing for it.
#[test]
fn dials_each_endpoint_on_its_own_slices_port() {
    let slices = [
        slice(&[("http", 8080), ("admin", 9)], vec![endpoint(1, SERVING)]),
        slice(&[("admin", 9), ("http", 8081)], vec![endpoint(2, SERVING)]),
        slice(&[("admin", 9)], vec![endpoint(3, SERVING)]),
        slice(&[], vec![]),
    ];
    let serving = |address: &str| (address.to_owned(), SliceSays::Serving);
    assert_eq!(
        found(&slices, "http"),
        [serving("10.0.0.1:8080"), serving("10.0.0.2:8081")]
    );
    assert_eq!(found(&slices, "grpc"), []);
}

/// T-71: an unnamed port is the one whose name is empty.
#[test]
fn an_unnamed_port_has_an_empty_name() {
    let slices = [slice(&[("", 5432)], vec![endpoint(1, SERVING)])];
    assert_eq!(found(&slices, "").len(), 1);
    assert_eq!(found(&slices, "http"), []);
}

/// F-22: copies are merged by address and port; one that serves is enough, and
/// one that is terminating says nothing.
#[rstest]
#[case(&[STARTING, SERVING], Some(SliceSays::Serving))]
#[case(&[SERVING, STARTING], Some(SliceSays::Serving))]
#[case(&[STARTING, STARTING], Some(SliceSays::Listed))]
#[case(&[STOPPING, SERVING], Some(SliceSays::Serving))]
#[case(&[STOPPING, STARTING], Some(SliceSays::Listed))]
#[case(&[STOPPING, STOPPING], None)]
fn merges_copies(#[case] copies: &[Conditions], #[case] expected: Option<SliceSays>) {
    let slices: Vec<_> = copies
        .iter()
        .map(|copy| slice(&[("http", 8080)], vec![endpoint(1, *copy)]))
        .collect();
    let says: Vec<_> = found(&slices, "http")
        .into_iter()
        .map(|one| one.1)
        .collect();
    assert_eq!(says, Vec::from_iter(expected));
}

#[test]
fn an_endpoint_without_a_pod_is_never_dialed() {
    let mut nameless = endpoint(1, SERVING);
    nameless.pod = None;
    assert_eq!(found(&[slice(&[("http", 80)], vec![nameless])], "http"), []);
}

/// T-135: the Pod must have the address and must not be leaving; then either
/// the slice or the Pod saying so is enough.
#[rstest]
#[case::both(SERVING, there(1, PodState::Ready), Readiness::Ready)]
#[case::only_the_slice(SERVING, there(1, PodState::NotReady), Readiness::Ready)]
#[case::only_the_pod(STARTING, there(1, PodState::Ready), Readiness::Ready)]
#[case::neither(STARTING, there(1, PodState::NotReady), Readiness::NotReady)]
#[case::another_address(SERVING, there(9, PodState::Ready), Readiness::NotReady)]
#[case::leaving(SERVING, PodView::Leaving, Readiness::NotReady)]
#[case::unread(SERVING, PodView::Unread, Readiness::PodUnread)]
#[case::unread_and_starting(STARTING, PodView::Unread, Readiness::PodUnread)]
fn is_ready(#[case] says: Conditions, #[case] view: PodView, #[case] expected: Readiness) {
    let slices = [slice(&[("http", 8080)], vec![endpoint(1, says)])];
    let candidates = candidates(&slices, "http");
    assert_eq!(candidates[0].readiness(&view), expected);
}

/// Two Pods of the same node address: each by its own Pod. One address that two
/// slices give to two Pods is dialed once.
#[test]
fn each_address_is_dialed_once() {
    let mut old = endpoint(1, STARTING);
    old.pod = Some(pod("old"));
    let slices = [
        slice(&[("http", 8080)], vec![endpoint(1, SERVING), old]),
        slice(&[("http", 8081)], vec![endpoint(1, SERVING)]),
    ];
    let candidates = candidates(&slices, "http");
    assert_eq!(candidates.len(), 3);
    let view = there(1, PodState::Ready);
    let addresses = ["10.0.0.1:8080", "10.0.0.1:8081"].map(|address| address.parse().expect("one"));
    let expected = Outlook::Ready(addresses.into());
    assert_eq!(outlook(&candidates, |_| Some(&view)), expected);
}

/// A Pod is read before it is connected to, and only one that a slice calls Ready is
/// worth waiting for before a caller is judged.
#[rstest]
#[case::ready(SERVING, Some(there(1, PodState::Ready)), Outlook::Ready(vec![SocketAddr::new(ip(1), 8080)]))]
#[case::leaving(SERVING, Some(PodView::Leaving), Outlook::NotReady)]
#[case::unread(SERVING, None, Outlook::Unread)]
#[case::unread_and_starting(STARTING, None, Outlook::NotReady)]
fn a_pod_is_read_first(
    #[case] says: Conditions,
    #[case] view: Option<PodView>,
    #[case] expected: Outlook,
) {
    let slices = [slice(&[("http", 8080)], vec![endpoint(1, says)])];
    let candidates = candidates(&slices, "http");
    assert_eq!(outlook(&candidates, |_| view.as_ref()), expected);
}

/// An endpoint of this Pod at this address.
fn of_pod(number: u32, name: &str, conditions: Conditions) -> SliceEndpoint {
    let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + number);
    SliceEndpoint {
        address: address.into(),
        conditions,
        pod: Some(pod(name)),
    }
}

/// However much slices list, few of them are kept, and those that serve are among them.
#[rstest]
#[case::of_many_pods(|number| format!("api-{number}"), MOST_PODS)]
#[case::of_one_pod(|_| "api".to_owned(), MOST_CANDIDATES)]
fn few_are_kept(#[case] name: fn(u32) -> String, #[case] most: usize) {
    let listed = (0..5_000).map(|number| of_pod(number, &name(number), STARTING));
    let mut endpoints: Vec<_> = listed.collect();
    endpoints.extend((0..5_000).map(|number| of_pod(number, &name(number), STARTING)));
    endpoints.extend((9_000..9_010).map(|number| of_pod(number, &name(number), SERVING)));
    endpoints.extend((9_000..9_010).map(|number| of_pod(number, &name(number), STARTING)));
    let found = candidates(&[slice(&[("http", 8080)], endpoints)], "http");
    assert_eq!(found.len(), most);
    assert!(found.is_sorted_by_key(|one| one.address));
    let serving = |one: &&Candidate| one.slice_says == SliceSays::Serving;
    assert_eq!(found.iter().filter(serving).count(), 10);
}

fn any_condition() -> impl Strategy<Value = Option<bool>> {
    prop::option::of(any::<bool>())
}

prop_compose! {
    fn any_slice()(
        port in 1u16..3,
        endpoints in prop::collection::vec(
            (0u8..4, any_condition(), any_condition(), any_condition()), 0..4),
    ) -> Slice {
        let endpoints = endpoints
            .into_iter()
            .map(|(last, ready, serving, terminating)| {
                endpoint(last, conditions(ready, serving, terminating))
            })
            .collect();
        slice(&[("http", port)], endpoints)
    }
}

proptest! {
    /// The order of slices doesn't matter, and no address comes twice.
    #[test]
    fn slices_have_no_order(mut slices in prop::collection::vec(any_slice(), 0..4)) {
        let forward = candidates(&slices, "http");
        slices.reverse();
        prop_assert_eq!(&candidates(&slices, "http"), &forward);
        let views: Vec<_> = (0..4).map(|last| there(last, PodState::Ready)).collect();
        let of = |key: &PodKey| {
            let last: usize = key.name.trim_start_matches("api-").parse().expect("a number");
            Some(&views[last])
        };
        let Outlook::Ready(mut addresses) = outlook(&forward, of) else {
            prop_assert!(forward.is_empty());
            return Ok(());
        };
        let count = addresses.len();
        addresses.sort_unstable();
        addresses.dedup();
        prop_assert_eq!(addresses.len(), count);
    }
}

/// F-21: pods that serve and whose slices lack the port are told from those that aren't
/// Ready.
#[rstest]
#[case::nobody(&[], false)]
#[case::with_the_port(&[slice(&[("http", 80)], vec![endpoint(1, SERVING)])], false)]
#[case::without_it(&[slice(&[("admin", 81)], vec![endpoint(1, SERVING)])], true)]
#[case::without_any(&[slice(&[], vec![endpoint(1, SERVING)])], true)]
#[case::starting(&[slice(&[], vec![endpoint(1, STARTING)])], false)]
#[case::stopping(&[slice(&[], vec![endpoint(1, STOPPING)])], false)]
#[case::some_have_it(
    &[slice(&[], vec![endpoint(1, SERVING)]), slice(&[("http", 80)], vec![endpoint(2, STARTING)])],
    false
)]
fn a_port_that_no_pod_has_is_told(#[case] slices: &[Slice], #[case] expected: bool) {
    assert_eq!(lack_port(slices, "http"), expected);
}
