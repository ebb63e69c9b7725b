//! The only connector.
//!
//! Owns every connection made to a target: the [`AddressRule`], asked at the last
//! moment before each one, how long an attempt may take, and what its failure
//! means. It never waits to try again: whoever dials knows what else to wait for.

mod rule;

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::io::Errno;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

pub use self::rule::{AddressRule, Refusal};
use crate::kernel::prepare;
use crate::transport::{Connect, Stream};

/// The times of dialing. One value for both would trade a silent target's cost
/// against a far target's reach: the first moves on by `stagger`, the second
/// may take `timeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// How long one attempt may take. The kernel repeats an unanswered SYN
    /// after 1 s and 3 s, so 5 s is three tries.
    pub timeout: Duration,
    /// How long an attempt stays alone before the next one joins it.
    pub stagger: Duration,
}

impl Default for Pace {
    /// 5 s an attempt, the next after 1 s.
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
            stagger: Duration::from_secs(1),
        }
    }
}

/// A dial that made no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The rule forbids the address; nothing was sent to it.
    #[error("dialing {address} isn't allowed")]
    NotAllowed {
        /// Where to.
        address: SocketAddr,
        /// Which rule.
        #[source]
        why: Refusal,
    },
    /// Nobody listens there yet, or it was reset.
    #[error("{address} refused the connection")]
    Refused {
        /// Where to.
        address: SocketAddr,
    },
    /// No answer in time.
    #[error("{address} didn't answer within {after:?}")]
    TimedOut {
        /// Where to.
        address: SocketAddr,
        /// How long was waited.
        after: Duration,
    },
    /// The network or a firewall says that there is no way.
    #[error("no way to {address}")]
    Unreachable {
        /// Where to.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// This process could make no socket: too many open files, no free port.
    #[error("no socket to dial {address} with")]
    NoSocket {
        /// Where to.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
}

impl DialError {
    /// Whether the same target may be dialed again, a second later (HOLD-21).
    pub fn may_retry(&self) -> bool {
        !matches!(self, Self::NotAllowed { .. })
    }

    /// Whether another target may fare better right now.
    pub fn try_another(&self) -> bool {
        !matches!(self, Self::NoSocket { .. })
    }
}

/// None of the targets could be connected to.
#[derive(Debug, thiserror::Error)]
#[error("none of {} targets answered", .errors.len())]
pub struct NoneDialed {
    /// Why, in the order of their failing. Empty if there was no target.
    pub errors: Vec<DialError>,
}

impl NoneDialed {
    /// Whether dialing the same targets again may succeed.
    pub fn may_retry(&self) -> bool {
        self.errors.iter().any(DialError::may_retry)
    }
}

/// A connection, and which of the targets it leads to.
#[derive(Debug)]
pub struct Dialed<S = TcpStream> {
    /// The connection.
    pub stream: S,
    /// Its target.
    pub address: SocketAddr,
}

/// TCP. Made only within this module, so that nothing connects past the rule.
#[derive(Debug, Clone)]
pub struct Tcp {
    _made_here: (),
}

impl Connect for Tcp {
    type Stream = TcpStream;

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let stream = TcpStream::connect(address).await?;
        prepare(&SockRef::from(&stream));
        Ok(stream)
    }
}

/// Connects to targets that its rule allows.
#[derive(Debug, Clone)]
pub struct Dialer<C = Tcp> {
    connector: C,
    rule: AddressRule,
    pace: Pace,
}

impl Dialer {
    /// A dialer over TCP.
    pub fn new(rule: AddressRule, pace: Pace) -> Self {
        Self::over(Tcp { _made_here: () }, rule, pace)
    }
}

impl<C: Connect> Dialer<C> {
    /// A dialer over another connector, such as a test's.
    pub fn over(connector: C, rule: AddressRule, pace: Pace) -> Self {
        Self {
            connector,
            rule,
            pace,
        }
    }

    /// Connects to one target. Dropping the future gives up.
    pub async fn dial(&self, address: SocketAddr) -> Result<C::Stream, DialError> {
        let target = self
            .rule
            .check(address)
            .map_err(|why| DialError::NotAllowed { address, why })?;
        let after = self.pace.timeout;
        match timeout(after, self.connector.connect(target)).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(source)) => Err(sorted(address, source, after)),
            Err(_) => Err(DialError::TimedOut { address, after }),
        }
    }

    /// Connects to the first target that answers.
    ///
    /// They are dialed in order. The next joins as soon as one has failed, or
    /// after [`Pace::stagger`] while the earlier ones go on; the others are
    /// dropped when one answers. A target may be named more than once: it is
    /// then tried again, which helps where a first SYN can be lost. Dropping the
    /// future gives up on all of them.
    pub async fn dial_first(
        &self,
        targets: &[SocketAddr],
    ) -> Result<Dialed<C::Stream>, NoneDialed> {
        let mut waiting = targets.iter().copied();
        let mut attempts: Attempts<'_, C::Stream> = Vec::new();
        let mut errors = Vec::new();
        loop {
            match waiting.next() {
                Some(address) => attempts.push(Box::pin(async move {
                    let stream = self.dial(address).await?;
                    Ok(Dialed { stream, address })
                })),
                None if attempts.is_empty() => return Err(NoneDialed { errors }),
                None => {}
            }
            let more = waiting.len() > 0;
            tokio::select! {
                biased;
                done = std::future::poll_fn(|cx| poll_any(cx, &mut attempts)) => match done {
                    Ok(dialed) => return Ok(dialed),
                    Err(error) => {
                        if !error.try_another() {
                            waiting = [].iter().copied();
                        }
                        errors.push(error);
                    }
                },
                () = sleep(self.pace.stagger), if more => {}
            }
        }
    }
}

type Attempt<'a, S> = Pin<Box<dyn Future<Output = Result<Dialed<S>, DialError>> + Send + 'a>>;
type Attempts<'a, S> = Vec<Attempt<'a, S>>;

/// The first attempt to end, taken out of `attempts`.
fn poll_any<S: Stream>(
    cx: &mut Context<'_>,
    attempts: &mut Attempts<'_, S>,
) -> Poll<Result<Dialed<S>, DialError>> {
    for index in 0..attempts.len() {
        if let Poll::Ready(done) = attempts[index].as_mut().poll(cx) {
            drop(attempts.remove(index));
            return Poll::Ready(done);
        }
    }
    Poll::Pending
}

fn sorted(address: SocketAddr, source: io::Error, after: Duration) -> DialError {
    match Errno::from_io_error(&source) {
        Some(Errno::CONNREFUSED | Errno::CONNRESET) => DialError::Refused { address },
        Some(Errno::TIMEDOUT) => DialError::TimedOut { address, after },
        Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM | Errno::ADDRNOTAVAIL) => {
            DialError::NoSocket { address, source }
        }
        _ => DialError::Unreachable { address, source },
    }
}

#[cfg(test)]
mod tests;
