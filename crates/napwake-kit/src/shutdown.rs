//! How a process is asked to stop.
//!
//! One token for the whole process. SIGTERM cancels it, and everything drains;
//! SIGINT, or a second signal while draining, ends the process at once. Only
//! listens and tells: ending is done by `run`.

use std::{fmt, io};

use tokio::{signal::unix, sync::mpsc};
use tokio_util::sync::CancellationToken;

/// A signal that asks the process to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM, as the kubelet sends it: drain, then end.
    Terminate,
    /// SIGINT, as a terminal sends it: end at once.
    Interrupt,
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminate => "SIGTERM",
            Self::Interrupt => "SIGINT",
        })
    }
}

/// The signals this process gets.
#[derive(Debug)]
pub struct Signals(Source);

#[derive(Debug)]
enum Source {
    System {
        terminate: unix::Signal,
        interrupt: unix::Signal,
    },
    Given(mpsc::Receiver<Signal>),
}

impl Signals {
    /// Listens to the system's signals from now on; the first call takes them
    /// over for the life of the process. Needs a tokio runtime.
    pub fn system() -> io::Result<Self> {
        Ok(Self(Source::System {
            terminate: unix::signal(unix::SignalKind::terminate())?,
            interrupt: unix::signal(unix::SignalKind::interrupt())?,
        }))
    }

    /// Signals from a channel, for tests. When the channel closes, no more come.
    pub fn given(signals: mpsc::Receiver<Signal>) -> Self {
        Self(Source::Given(signals))
    }

    async fn next(&mut self) -> Signal {
        let next = match &mut self.0 {
            Source::System {
                terminate,
                interrupt,
            } => tokio::select! {
                Some(()) = terminate.recv() => Some(Signal::Terminate),
                Some(()) = interrupt.recv() => Some(Signal::Interrupt),
                else => None,
            },
            Source::Given(signals) => signals.recv().await,
        };
        match next {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }
}

/// The process is to end now, without draining further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Abort {
    #[error("ended at once by {0}")]
    AtOnce(Signal),
    #[error("draining was cut short by a second signal, {0}")]
    WhileDraining(Signal),
}

/// Cancels `token` at the first SIGTERM, and ends when the process is to end at
/// once. Keep it running beside the work for as long as that drains.
pub async fn listen(mut signals: Signals, token: CancellationToken) -> Abort {
    // The process may already drain for another reason: then any signal is the second.
    if !token.is_cancelled() {
        let first = tokio::select! {
            () = token.cancelled() => None,
            signal = signals.next() => Some(signal),
        };
        match first {
            Some(Signal::Interrupt) => return Abort::AtOnce(Signal::Interrupt),
            Some(Signal::Terminate) => {
                tracing::info!(signal = %Signal::Terminate, "stopping: draining");
                token.cancel();
            }
            None => {}
        }
    }
    Abort::WhileDraining(signals.next().await)
}

#[cfg(test)]
mod tests {
    use by_hand::poll_once;
    use rstest::rstest;

    use super::*;

    /// Polls a future once, without a runtime's help.
    mod by_hand {
        use std::{
            pin::Pin,
            task::{Context, Poll, Waker},
        };

        pub(super) fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
            future.poll(&mut Context::from_waker(Waker::noop()))
        }
    }

    #[rstest]
    #[case::interrupt(&[Signal::Interrupt], Abort::AtOnce(Signal::Interrupt))]
    #[case::twice(
        &[Signal::Terminate, Signal::Terminate],
        Abort::WhileDraining(Signal::Terminate)
    )]
    #[case::impatient(
        &[Signal::Terminate, Signal::Interrupt],
        Abort::WhileDraining(Signal::Interrupt)
    )]
    #[tokio::test]
    async fn aborts(#[case] given: &[Signal], #[case] expected: Abort) {
        let (send, receive) = mpsc::channel(4);
        for &signal in given {
            send.send(signal).await.unwrap();
        }
        assert_eq!(
            listen(Signals::given(receive), CancellationToken::new()).await,
            expected
        );
    }

    #[tokio::test]
    async fn the_first_sigterm_cancels_and_goes_on_listening() {
        let (send, receive) = mpsc::channel(4);
        let token = CancellationToken::new();
        let mut listening = Box::pin(listen(Signals::given(receive), token.clone()));

        assert!(poll_once(listening.as_mut()).is_pending());
        assert!(!token.is_cancelled());

        send.send(Signal::Terminate).await.unwrap();
        assert!(poll_once(listening.as_mut()).is_pending());
        assert!(token.is_cancelled());
    }

    #[tokio::test]
    async fn any_signal_cuts_short_a_draining_that_a_failure_began() {
        let (send, receive) = mpsc::channel(4);
        let token = CancellationToken::new();
        token.cancel();
        send.send(Signal::Terminate).await.unwrap();
        let abort = listen(Signals::given(receive), token).await;
        assert_eq!(abort, Abort::WhileDraining(Signal::Terminate));
    }

    #[tokio::test]
    async fn a_real_sigterm_is_heard() {
        let signals = Signals::system().unwrap();
        let token = CancellationToken::new();
        let listening = listen(signals, token.clone());
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM)
            .unwrap();
        tokio::select! {
            abort = listening => panic!("one signal must not abort: {abort}"),
            () = token.cancelled() => {}
        }
    }
}
