//! Pods as the doorman reads them.

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::tests::{World, claimant, slice};

fn pod(labels: &Value, namespace: &str) -> thin::Pod {
    serde_json::from_value(json!({
        "metadata": { "namespace": namespace, "name": "a", "labels": labels },
        "status": {
            "podIPs": [{ "ip": "10.1.0.9" }],
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    }))
    .unwrap()
}

/// T-72: a doorman is never connected to, its fellows included.
#[rstest]
#[case::a_fellow(json!({ "control-plane": "doorman" }), "napwake-system", true)]
#[case::a_users_own(json!({ "control-plane": "doorman" }), "shop", false)]
#[case::the_operator(json!({ "control-plane": "controller-manager" }), "napwake-system", false)]
#[case::plain(json!({}), "shop", false)]
fn own_pods_are_as_good_as_gone(
    #[case] labels: Value,
    #[case] namespace: &str,
    #[case] gone: bool,
) {
    let read = Judge::new("napwake-system").read(&pod(&labels, namespace));
    assert_eq!(read == PodView::Leaving, gone, "{read:?}");
}

/// What a route with this endpoint looks like to a caller, by what is known of
/// its Pod.
fn check(serving: bool, pod: PodView, expected: &Outlook) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let route = runtime.block_on(async {
        let world = World::new([]);
        world.put(claimant("Paused", "Routed", &json!({})));
        let conditions = json!({ "serving": serving });
        world.put_slice(slice("api-1", &[("a", "10.1.0.9", conditions)]));
        world.route(20_001).now()
    });
    let key = route.candidates[0].pod.clone();
    let seen = PodViews::from([(key, pod)]);
    assert_eq!(outlook(&route, &seen), *expected);
}

/// T-135: what the slice and the Pod say together.
#[rstest]
#[case::both(true, Some(PodState::Ready), true)]
#[case::the_slice(true, Some(PodState::NotReady), true)]
#[case::the_pod(false, Some(PodState::Ready), true)]
#[case::neither(false, Some(PodState::NotReady), false)]
#[case::leaving(true, None, false)]
fn either_says_ready(#[case] serving: bool, #[case] state: Option<PodState>, #[case] ready: bool) {
    let pod = state.map_or(PodView::Leaving, |state| PodView::There {
        addresses: vec!["10.1.0.9".parse().unwrap()],
        state,
    });
    let expected = if ready {
        Outlook::Ready(vec!["10.1.0.9:8080".parse().unwrap()])
    } else {
        Outlook::NotReady
    };
    check(serving, pod, &expected);
}
