//! How conversations see a route: its value now, and every later one.
//!
//! Owns the channels between the board and those who wait for a state of a
//! route. Each route has its own, so that a change wakes nobody but its callers.

use std::collections::BTreeMap;
use std::sync::Arc;

use napwake_gate::pick::Spread;
use tokio::sync::watch;
use tokio::time::Instant;

use super::model::Route;
use crate::pods::{Keeper, Keepers, Look};

/// The ports to listen on, and whose they are.
pub type Table = BTreeMap<u16, RouteHandle>;

/// The table as it changes; none before everything was seen once (T-113).
pub type TableChanges = watch::Receiver<Option<Arc<Table>>>;

/// One route, as it changes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RouteHandle {
    route: watch::Receiver<Arc<Route>>,
    cuts: watch::Receiver<Option<Instant>>,
    keeper: Arc<Keeper>,
    spread: Arc<Spread>,
}

impl RouteHandle {
    /// The route as it is now.
    pub fn now(&self) -> Arc<Route> {
        Arc::clone(&self.route.borrow())
    }

    /// The route as it is now; [`RouteHandle::changed`] waits for a newer one.
    pub fn latest(&mut self) -> Arc<Route> {
        Arc::clone(&self.route.borrow_and_update())
    }

    /// Waits for a newer value than the last one seen. Never completes once the
    /// route is no longer looked after. Cancel-safe.
    pub async fn changed(&mut self) {
        if self.route.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// When connections passing through are to be cut, as that changes (DRAIN-25).
    pub fn cuts(&self) -> watch::Receiver<Option<Instant>> {
        self.cuts.clone()
    }

    /// Begins to look at the Pods that the route's slices name.
    pub fn look(&self) -> Look {
        self.keeper.look(&self.route)
    }

    /// How the route's connections are spread over its endpoints.
    pub fn spread(&self) -> &Spread {
        &self.spread
    }

    /// Whether both are the same route.
    pub fn is_same(&self, other: &Self) -> bool {
        self.route.same_channel(&other.route)
    }
}

/// The board's end of a route.
#[derive(Debug)]
pub(super) struct RouteSender {
    route: watch::Sender<Arc<Route>>,
    cuts: watch::Sender<Option<Instant>>,
    keeper: Arc<Keeper>,
    spread: Arc<Spread>,
}

impl RouteSender {
    pub(super) fn new(route: Route, keepers: &Keepers) -> Self {
        let cuts = watch::Sender::new(route.serving.cuts());
        let route = watch::Sender::new(Arc::new(route));
        let keeper = keepers.keeper();
        Self {
            route,
            cuts,
            keeper,
            spread: Arc::default(),
        }
    }

    /// Gives the route a new value. One that says the same wakes no task.
    pub(super) fn put(&self, route: Route) {
        let cuts = route.serving.cuts();
        self.cuts.send_if_modified(|current| {
            let changed = *current != cuts;
            *current = cuts;
            changed
        });
        self.route.send_if_modified(|current| {
            let changed = !is_same(current, &route);
            if changed {
                *current = Arc::new(route);
            }
            changed
        });
    }

    pub(super) fn handle(&self) -> RouteHandle {
        RouteHandle {
            route: self.route.subscribe(),
            cuts: self.cuts.subscribe(),
            keeper: Arc::clone(&self.keeper),
            spread: Arc::clone(&self.spread),
        }
    }

    /// Whether a connection still needs to know of this route.
    pub(super) fn is_in_use(&self) -> bool {
        self.route.receiver_count() + self.cuts.receiver_count() > 0
    }
}

fn is_same(old: &Route, new: &Route) -> bool {
    old.serving == new.serving
        && old.candidates == new.candidates
        && old.lacks_port == new.lacks_port
        && old.workloads.len() == new.workloads.len()
        && old
            .workloads
            .iter()
            .zip(&new.workloads)
            .all(|(a, b)| Arc::ptr_eq(a, b))
}
