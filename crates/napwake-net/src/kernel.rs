//! What the kernel does for a connection, and what it keeps of one.
//!
//! Owns the options of every socket here: small writes go at once, a peer that vanished
//! is noticed, and what waits in the kernel is bounded (LIMIT-35). Left to itself a
//! socket's buffers grow with what flows, to some 20 MiB on Linux 6.18, and stay that
//! full when whoever should take it stops; a closed one keeps for minutes what its peer
//! doesn't take, and no cap counts it. None of these bounds changes what is delivered.

use std::time::Duration;

use socket2::{Socket, TcpKeepalive};

use crate::transport::Stream;

/// Silence after which the kernel probes a connection. Held connections carry
/// nothing for long, and NATs forget silent flows after 4 to 10 minutes.
pub(crate) const KEEPALIVE: Duration = Duration::from_mins(1);

/// Time between unanswered probes, and how many end the connection.
pub(crate) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(20);
pub(crate) const KEEPALIVE_PROBES: u32 = 3;

/// Bytes of a held caller that wait to be read. The kernel takes twice as much for
/// them, which is what it begins with by itself.
pub(crate) const HELD: usize = 64 * 1024;

/// Bytes that wait to be read on each side of a passed connection: enough for 1 Gbit/s
/// to a pod a millisecond away.
pub(crate) const PASSED: usize = 128 * 1024;

/// Bytes that wait to be sent. What is on its way isn't among them, so it slows nothing.
const UNSENT: u32 = 128 * 1024;

/// How long a closed connection waits for a peer that takes nothing.
pub(crate) const UNTAKEN: Duration = Duration::from_secs(10);

/// Sets what every connection here has: no delay of small writes, and probes
/// that notice a peer that vanished. A socket that refuses these is about to
/// fail on its own, so that isn't an error.
pub(crate) fn prepare(socket: &Socket) {
    let probes = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(KEEPALIVE_PROBES);
    tell(
        socket
            .set_tcp_nodelay(true)
            .and_then(|()| socket.set_tcp_keepalive(&probes)),
    );
}

/// Bounds what waits to be read of what `listener` accepts, for as long as it's held.
pub(crate) fn bound_held(listener: &Socket) {
    tell(listener.set_recv_buffer_size(HELD));
}

/// Bounds what waits in the kernel on one side of a relayed connection.
pub(crate) fn bound_passed(stream: &impl Stream) {
    if let Some(socket) = stream.options() {
        tell(
            socket
                .set_recv_buffer_size(PASSED)
                .and_then(|()| socket.set_tcp_notsent_lowat(UNSENT)),
        );
    }
}

/// Bounds how long what was written is kept for a peer that takes nothing, once the
/// connection is closed here. One that takes some of it has that long again.
pub(crate) fn bound_untaken(stream: &impl Stream, untaken: Duration) {
    if let Some(socket) = stream.options() {
        tell(socket.set_tcp_user_timeout(Some(untaken)));
    }
}

fn tell(set: std::io::Result<()>) {
    if let Err(error) = set {
        tracing::debug!(%error, "socket options not set");
    }
}
