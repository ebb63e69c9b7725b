//! How a process logs: lines on stderr, as text or JSON, with a filter that can
//! be changed while it runs.
//!
//! Messages are constant and the rest is key-value; what may be logged of a
//! request is the caller's business.

use std::{fmt, io, str::FromStr};

use tracing::Subscriber;
use tracing_subscriber::{
    EnvFilter, Layer, Registry, fmt::MakeWriter, layer::SubscriberExt, reload,
    util::SubscriberInitExt,
};

use crate::args::{LogArgs, LogFormat};

/// A filter that reads: `info`, or `info,napwake_doorman=debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter(String);

/// A filter that doesn't read.
#[derive(Debug, thiserror::Error)]
#[error("not a log filter, such as info or info,napwake_doorman=debug")]
pub struct LogFilterError(#[from] tracing_subscriber::filter::ParseError);

impl FromStr for LogFilter {
    type Err = LogFilterError;

    fn from_str(text: &str) -> Result<Self, LogFilterError> {
        EnvFilter::builder().parse(text)?;
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl LogFilter {
    fn to_env_filter(&self) -> EnvFilter {
        // It was parsed before; a lossy reading can't lose anything.
        EnvFilter::builder().parse_lossy(&self.0)
    }
}

/// Logging couldn't be set up, or the filter not changed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("logging is set up already")]
    SetUpAlready(#[from] tracing_subscriber::util::TryInitError),
    #[error("logging has ended")]
    Ended(#[from] reload::Error),
}

/// Changes what is logged while the process runs. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LogHandle(reload::Handle<EnvFilter, Registry>);

impl LogHandle {
    /// Replaces the filter, until the next change or the end of the process.
    pub fn set_filter(&self, filter: &LogFilter) -> Result<(), LogError> {
        Ok(self.0.reload(filter.to_env_filter())?)
    }
}

/// Sets up logging for this process, once.
pub fn init(args: &LogArgs) -> Result<LogHandle, LogError> {
    let (subscriber, handle) = subscriber(args, io::stderr);
    subscriber.try_init()?;
    Ok(handle)
}

fn subscriber<W>(args: &LogArgs, writer: W) -> (impl Subscriber + Send + Sync + use<W>, LogHandle)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(args.log_level.to_env_filter());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        .with_ansi(false);
    let lines: Box<dyn Layer<_> + Send + Sync> = match args.log_format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .boxed(),
    };
    (
        tracing_subscriber::registry().with(filter).with(lines),
        LogHandle(handle),
    )
}

/// A handle to logging that goes nowhere, for tests of those who hold one.
#[cfg(test)]
pub(crate) fn detached(args: &LogArgs) -> LogHandle {
    let (subscriber, handle) = subscriber(args, io::sink);
    // The handle works only while its subscriber lives.
    std::mem::forget(subscriber);
    handle
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;
    use rstest::rstest;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Lines {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut *self.0.lock())).unwrap()
        }
    }

    fn set_up(level: &str, format: LogFormat) -> (impl Subscriber + Send + Sync, LogHandle, Lines) {
        let lines = Lines::default();
        let writer = lines.clone();
        let args = LogArgs {
            log_level: level.parse().unwrap(),
            log_format: format,
        };
        let (subscriber, handle) = subscriber(&args, move || writer.clone());
        (subscriber, handle, lines)
    }

    #[test]
    fn a_json_line_is_flat() {
        let (subscriber, _handle, lines) = set_up("info", LogFormat::Json);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(namespace = "preview", port = 80, "routed");
        });
        let line = lines.take();
        for part in [
            r#""timestamp":"20"#,
            r#""level":"INFO""#,
            r#""message":"routed""#,
            r#""namespace":"preview""#,
            r#""port":80"#,
        ] {
            assert!(line.contains(part), "{part} is missing in {line}");
        }
        assert_eq!(line.lines().count(), 1);
    }

    #[test]
    fn a_text_line_has_no_colors() {
        let (subscriber, _handle, lines) = set_up("info", LogFormat::Text);
        tracing::subscriber::with_default(subscriber, || tracing::warn!(wait = 3, "slow"));
        let line = lines.take();
        assert!(line.contains("WARN"), "{line}");
        assert!(line.trim_end().ends_with("slow wait=3"), "{line}");
        assert!(!line.contains('\u{1b}'), "{line}");
    }

    #[test]
    fn the_filter_can_be_changed_while_running() {
        let (subscriber, handle, lines) = set_up("warn", LogFormat::Text);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("before");
            handle
                .set_filter(&"warn,napwake_kit=info".parse().unwrap())
                .unwrap();
            tracing::info!("after");
            tracing::debug!("never");
        });
        let lines = lines.take();
        assert!(lines.contains("after"), "{lines}");
        assert!(
            !lines.contains("before") && !lines.contains("never"),
            "{lines}"
        );
    }

    #[rstest]
    #[case::level("debug", true)]
    #[case::list("info,napwake_doorman=trace,hyper=off", true)]
    #[case::unknown_level("napwake=loud", false)]
    #[case::broken("napwake=[", false)]
    fn filters(#[case] text: &str, #[case] reads: bool) {
        assert_eq!(text.parse::<LogFilter>().is_ok(), reads);
    }
}
