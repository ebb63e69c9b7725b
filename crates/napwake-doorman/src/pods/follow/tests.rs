//! A Pod that is followed no longer.

use super::*;
use crate::tests::Cluster;

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
        client: Cluster::default().client(),
        pod: PodKey {
            namespace: "shop".into(),
            name: "api-0".into(),
        },
        judge: Judge::new("napwake-system"),
        seen: seen.clone(),
        watches: Arc::new(Semaphore::new(1)),
        end: CancellationToken::new(),
    };
    followed.tell(PodView::Leaving);
    assert_eq!(seen.borrow().len(), 1);
    // As its keeper does, and then forgets.
    followed.end.cancel();
    seen.send_replace(PodViews::new());
    followed.tell(PodView::Leaving);
    assert_eq!(seen.borrow().len(), 0);
}
