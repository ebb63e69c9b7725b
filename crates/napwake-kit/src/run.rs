//! From `main` to the exit code.
//!
//! Starts logging, the runtime and the signals, says what runs, runs it, and
//! turns its end into an exit code: 0 ended as asked, 1 failed, 2 wrong usage.
//! What runs is given to it.

use std::{
    error::Error,
    io::{self, Write},
    process::ExitCode,
};

use tokio_util::sync::CancellationToken;

use crate::{
    args::LogArgs,
    chain::Chain,
    clock::Clock,
    limits::{self, OpenFiles},
    log::{self, LogHandle},
    ready::Readiness,
    shutdown::{self, Signals},
    supervise::TaskError,
};

/// What runs, for logs and `napwake_build_info`.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Such as `doorman`.
    pub name: &'static str,
    /// The version of the binary, `env!("CARGO_PKG_VERSION")`.
    pub version: &'static str,
}

/// What a process is given to live with.
#[derive(Debug)]
pub struct Context {
    pub program: Program,
    pub clock: Clock,
    /// Cancelled when the process is asked to stop.
    pub token: CancellationToken,
    pub readiness: Readiness,
    pub log: LogHandle,
    /// `None` where the limit couldn't be raised; the reason is in the log.
    pub open_files: Option<OpenFiles>,
}

/// Why a process ended badly. Every error converts into [`Fault::Failed`].
#[derive(Debug)]
pub enum Fault {
    /// The flags make no sense together: exit code 2. (What clap finds by
    /// itself ends the process before it gets here.)
    Usage(TaskError),
    /// Anything else: exit code 1.
    Failed(TaskError),
}

impl<E: Error + Send + Sync + 'static> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Fault {
    fn code(&self) -> ExitCode {
        match self {
            Self::Failed(_) => ExitCode::FAILURE,
            Self::Usage(_) => ExitCode::from(2),
        }
    }

    fn error(&self) -> &(dyn Error + 'static) {
        match self {
            Self::Failed(error) | Self::Usage(error) => error.as_ref(),
        }
    }
}

/// Runs a process from its parsed flags to its exit code. Ends when `main`
/// ends, or at once when a signal says so.
pub fn run<F, Fut>(program: Program, log_args: &LogArgs, main: F) -> ExitCode
where
    F: FnOnce(Context) -> Fut,
    Fut: Future<Output = Result<(), Fault>>,
{
    let log = match log::init(log_args) {
        Ok(log) => log,
        Err(error) => {
            // There is no log to say it in; and if stderr is gone, nobody listens.
            writeln!(io::stderr(), "napwake {}: {error}", program.name).ok();
            return ExitCode::FAILURE;
        }
    };
    log_panics();
    tracing::info!(
        program = program.name,
        version = program.version,
        "starting"
    );
    let ended = start(program, log, main);
    match &ended {
        Ok(()) => {
            tracing::info!("ended");
            ExitCode::SUCCESS
        }
        Err(fault) => {
            tracing::error!(error = %Chain(fault.error()), "ended");
            fault.code()
        }
    }
}

fn start<F, Fut>(program: Program, log: LogHandle, main: F) -> Result<(), Fault>
where
    F: FnOnce(Context) -> Fut,
    Fut: Future<Output = Result<(), Fault>>,
{
    use_ring();
    let open_files = raise_open_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name(program.name)
        .build()?;
    let ended = runtime.block_on(async {
        let signals = Signals::system()?;
        let token = CancellationToken::new();
        let readiness = Readiness::new(&token);
        let clock = Clock::system();
        let context = Context {
            program,
            clock,
            token: token.clone(),
            readiness,
            log,
            open_files,
        };
        until_ended(signals, token, main(context)).await
    });
    // Whatever still runs has nobody left to report to.
    runtime.shutdown_background();
    ended
}

async fn until_ended(
    signals: Signals,
    token: CancellationToken,
    main: impl Future<Output = Result<(), Fault>>,
) -> Result<(), Fault> {
    tokio::select! {
        ended = main => ended,
        abort = shutdown::listen(signals, token) => Err(abort.into()),
    }
}

/// Makes ring the one provider of cryptography, as kube's client expects.
fn use_ring() {
    if rustls::crypto::ring::default_provider()
        .install_default()
        .is_err()
    {
        tracing::debug!("a provider of cryptography was installed before");
    }
}

fn raise_open_files() -> Option<OpenFiles> {
    match limits::raise_open_files() {
        Ok(files) => {
            tracing::info!(
                before = files.before,
                now = files.now,
                "limit of open files"
            );
            Some(files)
        }
        Err(error) => {
            tracing::warn!(error = %Chain(&error), "limit of open files stays as it is");
            None
        }
    }
}

/// Sends panics where everything else is logged.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or_default();
        tracing::error!(place, message, "panicked");
    }));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;
    use tokio::{
        sync::mpsc,
        time::{Instant, sleep},
    };

    use super::*;
    use crate::{ready::Status, shutdown::Signal};

    fn check(ended: Result<(), Fault>) -> String {
        match ended {
            Ok(()) => "ok".to_owned(),
            Err(fault) => Chain(fault.error()).to_string(),
        }
    }

    #[rstest]
    #[case::failed(Fault::from(io::Error::other("no")), ExitCode::FAILURE)]
    #[case::usage(Fault::Usage("no".into()), ExitCode::from(2))]
    fn exit_codes(#[case] fault: Fault, #[case] expected: ExitCode) {
        assert_eq!(format!("{:?}", fault.code()), format!("{expected:?}"));
    }

    #[tokio::test]
    async fn sigterm_lets_it_drain_and_a_second_signal_does_not() {
        let (send, receive) = mpsc::channel(2);
        send.send(Signal::Terminate).await.unwrap();
        let token = CancellationToken::new();
        let draining = token.clone();
        let drained = async move {
            draining.cancelled().await;
            Ok(())
        };
        assert_eq!(
            check(until_ended(Signals::given(receive), token, drained).await),
            "ok"
        );

        let (send, receive) = mpsc::channel(2);
        send.send(Signal::Terminate).await.unwrap();
        send.send(Signal::Terminate).await.unwrap();
        let never = std::future::pending();
        let ended = until_ended(Signals::given(receive), CancellationToken::new(), never).await;
        assert_eq!(
            check(ended),
            "draining was cut short by a second signal, SIGTERM"
        );
    }

    /// DRAIN-04: a process that drains isn't ready from the signal itself until it
    /// ends, with no time in between.
    #[tokio::test(start_paused = true)]
    async fn not_ready_from_the_signal_itself() {
        let (send, receive) = mpsc::channel(1);
        let token = CancellationToken::new();
        let readiness = Readiness::new(&token);
        let draining = token.clone();
        let drains = async move {
            assert_eq!(readiness.status(), Status::Ready);
            let told = Instant::now();
            send.send(Signal::Terminate).await?;
            draining.cancelled().await;
            assert_eq!(readiness.status(), Status::Stopping);
            assert_eq!(told.elapsed(), Duration::ZERO);
            sleep(Duration::from_secs(25)).await;
            assert_eq!(readiness.status(), Status::Stopping);
            Ok(())
        };
        let ended = until_ended(Signals::given(receive), token, drains).await;
        assert_eq!(check(ended), "ok");
    }
}
