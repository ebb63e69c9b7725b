//! Who looks after the Pods of a route.
//!
//! Owns one task for each route that callers wait on, and the Pods it follows.
//! The task begins with the first caller and ends with the last.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use napwake_gate::ready::{PodKey, SliceSays};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::follow::Followed;
use super::turns::{Turns, WATCHES, WATCHES_OF_ONE};
use super::{Judge, PodViews};
use crate::routes::{Route, State};
use crate::wake::warm;

/// How long Pods are still followed after the last caller. It spares a read and
/// a watch for each connection where many come one after another, as they do
/// while a workload pauses.
const LINGER: Duration = Duration::from_secs(2);

/// Makes keepers, and has what they need. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Keepers {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    judge: Judge,
    tasks: TaskTracker,
    turns: Turns,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Keepers {
    /// Keepers that read Pods with `client`, in tasks of `tasks`.
    pub fn new(client: Client, judge: Judge, tasks: TaskTracker) -> Self {
        Self {
            shared: Arc::new(Shared {
                client,
                judge,
                tasks,
                turns: Turns::new(WATCHES, WATCHES_OF_ONE),
            }),
        }
    }

    /// A keeper for one route.
    pub fn keeper(&self) -> Arc<Keeper> {
        Arc::new(Keeper {
            shared: Arc::clone(&self.shared),
            seen: watch::Sender::default(),
            desk: Mutex::new(Desk::default()),
            left: Notify::new(),
        })
    }
}

/// Looks after the Pods of one route.
#[derive(Debug)]
pub struct Keeper {
    shared: Arc<Shared>,
    seen: watch::Sender<PodViews>,
    desk: Mutex<Desk>,
    /// Told when the last caller leaves.
    left: Notify,
}

/// The Pods that are followed, each as long as its guard lives.
type Follows = HashMap<PodKey, DropGuard>;

#[derive(Debug, Default)]
struct Desk {
    callers: usize,
    open: bool,
}

/// A caller's interest in the Pods of a route: they are followed while it lives.
#[must_use = "the Pods are followed no longer than this lives"]
#[derive(Debug)]
pub struct Look {
    keeper: Arc<Keeper>,
    seen: watch::Receiver<PodViews>,
}

impl Keeper {
    /// Follows the Pods of `route`, whose keeper this is.
    pub fn look(self: &Arc<Self>, route: &watch::Receiver<Arc<Route>>) -> Look {
        let opens = {
            let mut desk = self.desk.lock();
            desk.callers += 1;
            !std::mem::replace(&mut desk.open, true)
        };
        let look = Look {
            keeper: Arc::clone(self),
            seen: self.seen.subscribe(),
        };
        if opens {
            let keep = Arc::clone(self).keep(route.clone());
            self.shared.tasks.spawn(keep);
        }
        look
    }

    /// Follows what the route's slices name, until nobody has asked for a while.
    async fn keep(self: Arc<Self>, mut route: watch::Receiver<Arc<Route>>) {
        let mut followed = Follows::new();
        let mut is_warm = false;
        loop {
            let (wanted, is_waking) = {
                let route = route.borrow_and_update();
                (wanted(&route), is_waking(&route))
            };
            if is_waking && wanted.is_empty() && !std::mem::replace(&mut is_warm, true) {
                self.warm();
            }
            followed.retain(|pod, _| wanted.contains(pod));
            self.forget_all_but(&wanted);
            for pod in wanted {
                followed
                    .entry(pod.clone())
                    .or_insert_with(|| self.follow(pod));
            }
            tokio::select! {
                () = self.is_left(&mut followed) => return,
                changed = route.changed() => if changed.is_err() {
                    // The route is forgotten, so nobody new can come.
                    return self.is_left(&mut followed).await;
                },
            }
        }
    }

    /// Has a connection to the API server ready for the first Pod that is named: it
    /// may be Ready by then, and its callers shouldn't wait for a handshake on top.
    fn warm(&self) {
        let client = self.shared.client.clone();
        self.shared.tasks.spawn(async move { warm(&client).await });
    }

    fn follow(&self, pod: PodKey) -> DropGuard {
        let end = CancellationToken::new();
        let followed = Followed {
            end: end.clone(),
            client: self.shared.client.clone(),
            turn: self.shared.turns.of(&pod.namespace),
            pod,
            judge: self.shared.judge.clone(),
            seen: self.seen.clone(),
        };
        self.shared.tasks.spawn(followed.follow());
        end.drop_guard()
    }

    fn forget_all_but(&self, wanted: &[PodKey]) {
        self.seen.send_if_modified(|seen| {
            seen.retain(|pod, _| wanted.contains(pod));
            // Nobody waits for something to be forgotten.
            false
        });
    }

    /// Waits until nobody has looked for a while, and closes the desk: nothing is
    /// followed from then on. Cancel-safe.
    async fn is_left(&self, followed: &mut Follows) {
        loop {
            let left = self.left.notified();
            if self.desk.lock().callers > 0 {
                left.await;
            }
            sleep(LINGER).await;
            let mut desk = self.desk.lock();
            if desk.callers == 0 {
                desk.open = false;
                // What was seen grows old from here on. Whoever looks next waits. The
                // followers end first, or one of them could tell again.
                followed.clear();
                self.seen.send_replace(PodViews::new());
                return;
            }
        }
    }
}

impl Look {
    /// What is known of the Pods now.
    pub fn seen(&mut self) -> watch::Ref<'_, PodViews> {
        self.seen.borrow_and_update()
    }

    /// Waits for more than [`Look::seen`] gave. Cancel-safe.
    pub async fn changed(&mut self) {
        if self.seen.changed().await.is_err() {
            // Unreachable while this holds the keeper.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        let mut desk = self.keeper.desk.lock();
        desk.callers = desk.callers.saturating_sub(1);
        if desk.callers == 0 {
            self.keeper.left.notify_one();
        }
    }
}

/// Whether Pods were asked for that nobody has seen yet.
fn is_waking(route: &Route) -> bool {
    let mut workloads = route.workloads.iter();
    workloads.any(|workload| workload.state == State::Resuming)
}

/// The Pods to follow: those said to be Ready first, then the others in the
/// order of their addresses.
fn wanted(route: &Route) -> Vec<PodKey> {
    let mut wanted: Vec<PodKey> = Vec::new();
    for says in [SliceSays::Serving, SliceSays::Listed] {
        let candidates = route.candidates.iter();
        for candidate in candidates.filter(|one| one.slice_says == says) {
            if !wanted.contains(&candidate.pod) {
                wanted.push(candidate.pod.clone());
            }
        }
    }
    wanted
}
