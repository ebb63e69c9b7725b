//! A Pod that is followed no longer.

use super::*;
use crate::pods::turns::Turns;
use crate::tests::{Cluster, Lines};

fn followed(cluster: &Cluster, namespace: &str, name: &str, turns: &Turns) -> Followed {
    Followed {
        client: cluster.client(),
        pod: PodKey {
            namespace: namespace.into(),
            name: name.into(),
        },
        judge: Judge::new("napwake-system"),
        seen: watch::Sender::default(),
        turn: turns.of(namespace),
        end: CancellationToken::new(),
    }
}

/// With no watch left, so many Pods are read a second at most, each in its turn, and what
/// is wrong with reading one is told once.
#[tokio::test(start_paused = true)]
async fn without_watches_reads_are_bounded() {
    let (lines, _guard) = Lines::gather();
    let (cluster, turns) = (Cluster::default(), Turns::new(0, 64));
    cluster.break_down();
    let mut following = tokio::task::JoinSet::new();
    for number in 0..640 {
        let name = format!("api-{number}");
        following.spawn(followed(&cluster, "shop", &name, &turns).follow());
    }
    sleep(Duration::from_millis(20_470)).await;
    let calls = cluster.calls();
    let count = |number: usize| {
        let path = format!("/api/v1/namespaces/shop/pods/api-{number}");
        calls.iter().filter(|call| call.path == path).count()
    };
    let read: Vec<usize> = (0..640).map(count).collect();
    assert!(read.iter().all(|times| *times == 2), "{read:?}");
    assert_eq!(lines.with("a pod can't be read").len(), 640);
}

/// A namespace whose routes name very many Pods, whether they are there or not, has no
/// more than its part of the watches, and the others' Pods are read between its own.
#[rstest::rstest]
#[tokio::test(start_paused = true)]
async fn no_namespace_waits_behind_another(#[values(4, 100)] watches: usize) {
    let (cluster, turns) = (Cluster::default(), Turns::new(watches, 64));
    cluster.break_down();
    let mut following = tokio::task::JoinSet::new();
    for number in 0..4_000 {
        let name = format!("x-{number}");
        following.spawn(followed(&cluster, "hostile", &name, &turns).follow());
    }
    sleep(Duration::from_secs(1)).await;
    let theirs = followed(&cluster, "shop", "api", &turns);
    following.spawn(theirs.follow());
    sleep(Duration::from_millis(40)).await;
    let calls = cluster.calls();
    let is_theirs = |path: &str| path.starts_with("/api/v1/namespaces/shop/pods");
    assert!(calls.iter().any(|call| is_theirs(&call.path)));
}

/// T-135: what a follower still has to tell when it is ended stays untold, so that
/// nobody who looks later trusts it.
#[test]
fn one_that_is_ended_tells_nothing() {
    let seen = watch::Sender::<PodViews>::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    let followed = Followed {
        seen: seen.clone(),
        ..followed(&Cluster::default(), "shop", "api-0", &Turns::new(0, 64))
    };
    followed.tell(PodView::Leaving);
    assert_eq!(seen.borrow().len(), 1);
    // As its keeper does, and then forgets.
    followed.end.cancel();
    seen.send_replace(PodViews::new());
    followed.tell(PodView::Leaving);
    assert_eq!(seen.borrow().len(), 0);
}
