//! A connection that a pod took.
//!
//! Owns what bounds it from here on, and that a pause is called off by it where
//! it must be. Its bytes are the net's.

use std::sync::Arc;

use bytes::Bytes;
use napwake_gate::drain::IDLE;
use napwake_gate::places::{PassedPlace, Source};
use napwake_gate::verdict::Wake;
use napwake_net::prefixed::Prefixed;
use napwake_net::relay::{self, Limits, Outcome};
use napwake_net::transport::Connect;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::Doorman;
use super::overhear::overhear;
use crate::routes::RouteHandle;
use crate::wake::{Asker, How, Stamper};

/// What is known of a passed connection.
#[derive(Debug)]
pub(super) struct Passed {
    pub(super) source: Source,
    pub(super) place: PassedPlace,
    /// Whether its first bytes were judged while it was held.
    pub(super) judged: bool,
}

/// Relays until the connection ends.
pub(super) async fn relay<C: Connect<Stream = TcpStream> + 'static, S: Stamper>(
    doorman: Arc<Doorman<C, S>>,
    route: RouteHandle,
    passed: Passed,
    caller: TcpStream,
    bytes: Bytes,
    target: TcpStream,
) {
    let limits = Limits {
        idle: IDLE,
        deadline: route.cuts(),
        stop: doorman.cut.clone(),
        pipes: doorman.pipes.clone(),
    };
    let caller = Prefixed::new(bytes, caller);
    // Before the first byte passes: the pause may be over a moment later, but
    // who comes while it is on calls it off (T-02).
    let outcome = if !passed.judged && route.now().is_pausing() {
        let (tap, heard) = overhear(Arc::clone(&doorman.agents));
        let mut relay = std::pin::pin!(relay::relay(caller, target, limits, Some(tap)));
        tokio::select! {
            biased;
            wake = heard.wake() => {
                call_off(&doorman, &route, passed.source, wake);
                relay.await
            }
            outcome = &mut relay => outcome,
        }
    } else {
        // The route's end is known by the limits alone from here on.
        relay::relay(caller, target, limits, None).await
    };
    drop(passed.place);
    log_outcome(&route, outcome);
}

/// Calls the pause off, if the request is one that would wake (HOLD-11).
fn call_off<C: Connect<Stream = TcpStream> + 'static, S: Stamper>(
    doorman: &Doorman<C, S>,
    route: &RouteHandle,
    source: Source,
    wake: Wake,
) {
    let Wake::Yes(kind) = wake else { return };
    let asker = Asker {
        source,
        kind,
        how: How::Passed,
    };
    let until = Instant::now() + route.now().max_wait();
    doorman.wakes.ask(route, asker, until);
}

fn log_outcome(route: &RouteHandle, outcome: Outcome) {
    let route = route.now();
    tracing::debug!(
        namespace = &*route.key.service.namespace,
        service = &*route.key.service.name,
        to_target = outcome.to_target,
        to_caller = outcome.to_caller,
        ending = ?outcome.ending,
        "passed connection ended"
    );
}
