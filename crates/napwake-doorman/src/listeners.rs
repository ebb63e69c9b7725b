//! Open ports follow the table.
//!
//! Owns the listening sockets: a port of the table is open, every other is
//! closed. Hands each connection on with the route it came to, and never looks
//! at what a caller sends.

mod trouble;

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use napwake_kit::chain::Chain;
use napwake_kit::ready::ReadyHandle;
use napwake_kit::timer::until;
use napwake_net::listen::{Accepted, ListenError, ListenOn, Listener, accept_loop};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use self::trouble::Troubles;
use crate::routes::{RouteHandle, Table, TableChanges};

/// How long to wait before trying again to open a port.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Whoever is handed the connections. It must not block.
pub trait OnCaller: Fn(RouteHandle, Accepted) + Clone + Send + 'static {}

impl<F: Fn(RouteHandle, Accepted) + Clone + Send + 'static> OnCaller for F {}

/// The open ports.
#[derive(Debug)]
pub struct Listeners<F> {
    on: Vec<ListenOn>,
    on_caller: F,
    accepting: CancellationToken,
    tasks: TaskTracker,
    open: HashMap<u16, Port>,
    troubles: Troubles,
}

/// One port of the table.
#[derive(Debug)]
struct Port {
    /// Whose it is now; it may go from one route to another while it stays open.
    route: Arc<Mutex<RouteHandle>>,
    /// One for each address. Dropping it closes the port there.
    sockets: Vec<(ListenOn, DropGuard)>,
}

impl<F: OnCaller> Listeners<F> {
    /// Ports on these addresses, or on every address if there are none. They
    /// accept until `accepting` is cancelled, in tasks of `tasks`.
    pub fn new(
        addresses: &[IpAddr],
        on_caller: F,
        accepting: CancellationToken,
        tasks: TaskTracker,
    ) -> Self {
        let mut on: Vec<ListenOn> = addresses.iter().copied().map(ListenOn::Address).collect();
        if on.is_empty() {
            on.push(ListenOn::Everywhere);
        }
        Self {
            on,
            on_caller,
            accepting,
            tasks,
            open: HashMap::new(),
            troubles: Troubles::default(),
        }
    }

    /// Follows the table for ever. The handle is given back once each port of
    /// the first table is open, or was tried (T-113): one port that something
    /// else has must not keep every other from its callers, and the operator
    /// looks at each itself (ROUTE-79).
    pub async fn follow(
        mut self,
        mut table: TableChanges,
        opened: ReadyHandle,
    ) -> Result<Infallible, Infallible> {
        let mut opened = Some(opened);
        let mut complete = true;
        loop {
            let wanted = table.borrow_and_update().clone();
            if let Some(wanted) = wanted {
                complete = self.apply(&wanted);
                drop(opened.take());
            }
            let again = (!complete).then(|| Instant::now() + TRY_AGAIN);
            tokio::select! {
                changed = table.changed() => if changed.is_err() {
                    return std::future::pending().await;
                },
                () = until(again) => {}
            }
        }
    }

    /// Opens and closes what the table says; whether everything is open.
    fn apply(&mut self, table: &Table) -> bool {
        self.open.retain(|port, _| {
            let stays = table.contains_key(port);
            if !stays {
                tracing::debug!(port, "port closed");
            }
            stays
        });
        let mut complete = true;
        for (&port, route) in table {
            // Each is tried, whatever became of those before.
            complete &= self.open_port(port, route);
        }
        self.troubles.keep(table);
        if let Some(ports) = self.troubles.reminder(Instant::now()) {
            tracing::error!(ports, "ports still can't be opened, trying on");
        }
        complete
    }

    fn open_port(&mut self, number: u16, route: &RouteHandle) -> bool {
        let port = self.open.entry(number).or_insert_with(|| Port {
            route: Arc::new(Mutex::new(route.clone())),
            sockets: Vec::new(),
        });
        if !port.route.lock().is_same(route) {
            *port.route.lock() = route.clone();
        }
        for &on in &self.on {
            if port.sockets.iter().any(|(open, _)| *open == on) {
                continue;
            }
            match Listener::open(on, number) {
                Ok(listener) => {
                    let end = self.accepting.child_token();
                    let route = Arc::clone(&port.route);
                    let on_caller = self.on_caller.clone();
                    self.tasks
                        .spawn(accept_loop(listener, end.clone(), move |caller| {
                            let route = route.lock().clone();
                            on_caller(route, caller);
                        }));
                    port.sockets.push((on, end.drop_guard()));
                    if self.troubles.is_over(number, on) {
                        tracing::info!(port = number, "the port is open now");
                    }
                }
                Err(error) => complain(&mut self.troubles, on, &error),
            }
        }
        port.sockets.len() == self.on.len()
    }
}

fn complain(troubles: &mut Troubles, on: ListenOn, error: &ListenError) {
    let cause = Chain(error).to_string();
    if troubles.is_news(error.port, on, &cause, Instant::now()) {
        tracing::error!(port = error.port, error = cause, "trying on");
    }
}

#[cfg(test)]
mod tests;
