//! A Pod that is followed no longer.

use super::*;
use crate::tests::{Cluster, Lines};

fn followed(cluster: &Cluster, name: &str, reads: &Reads) -> Followed {
    Followed {
        client: cluster.client(),
        pod: PodKey {
            namespace: "shop".into(),
            name: name.into(),
        },
        judge: Judge::new("napwake-system"),
        seen: watch::Sender::default(),
        watches: Arc::new(Semaphore::new(0)),
        reads: reads.clone(),
        end: CancellationToken::new(),
    }
}

/// With no watch left, so many Pods are read a second at most, each in its turn, and what
/// is wrong with reading one is told once.
#[tokio::test(start_paused = true)]
async fn without_watches_reads_are_bounded() {
    let (lines, _guard) = Lines::gather();
    let (cluster, reads) = (Cluster::default(), Reads::new());
    cluster.break_down();
    let mut following = tokio::task::JoinSet::new();
    for number in 0..640 {
        following.spawn(followed(&cluster, &format!("api-{number}"), &reads).follow());
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
        ..followed(&Cluster::default(), "api-0", &Reads::new())
    };
    followed.tell(PodView::Leaving);
    assert_eq!(seen.borrow().len(), 1);
    // As its keeper does, and then forgets.
    followed.end.cancel();
    seen.send_replace(PodViews::new());
    followed.tell(PodView::Leaving);
    assert_eq!(seen.borrow().len(), 0);
}
