//! Command-line groups that every process shares, and helpers to read values.
//!
//! A value is checked while it is parsed, so one that can't be read ends the
//! process with exit code 2 before any port is bound. Flags and environment
//! are the only configuration; there is no file.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use clap::{Args, ValueEnum};

use crate::log::LogFilter;

/// How the process logs.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Logs")]
pub struct LogArgs {
    /// What is logged: off, error, warn, info, debug or trace, or a list such as
    /// "info,napwake_doorman=debug"
    #[arg(
        long,
        value_name = "FILTER",
        default_value = "info",
        env = "NAPWAKE_LOG_LEVEL"
    )]
    pub log_level: LogFilter,

    /// How a line looks
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        env = "NAPWAKE_LOG_FORMAT"
    )]
    pub log_format: LogFormat,
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people
    Text,
    /// One JSON object per line
    #[default]
    Json,
}

/// Where health and metrics are served.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Health and metrics")]
pub struct AdminArgs {
    /// Address of /healthz and /readyz, over plain HTTP
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:8081")]
    pub health_bind_address: BindAddress,

    /// Address of /metrics, over HTTPS unless --metrics-insecure is given
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:8443")]
    pub metrics_bind_address: BindAddress,

    /// Serve metrics over plain HTTP, to anyone who can connect
    #[arg(long, conflicts_with = "metrics_cert_dir")]
    pub metrics_insecure: bool,

    /// Directory with tls.crt and tls.key for the metrics, read again when they
    /// change; without it the certificate is self-signed
    #[arg(long, value_name = "DIR")]
    pub metrics_cert_dir: Option<PathBuf>,
}

/// An address to listen on: `[::]:8443`, `10.0.0.1:8443`, or `:8443` for every
/// address of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindAddress(pub SocketAddr);

/// A text that isn't a [`BindAddress`].
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an address to listen on, such as [::]:8443 or :8443")]
pub struct BindAddressError;

impl FromStr for BindAddress {
    type Err = BindAddressError;

    fn from_str(text: &str) -> Result<Self, BindAddressError> {
        if let Some(port) = text.strip_prefix(':') {
            let port = port.parse().map_err(|_| BindAddressError)?;
            return Ok(Self(SocketAddr::new(
                IpAddr::V6(Ipv6Addr::UNSPECIFIED),
                port,
            )));
        }
        text.parse().map(Self).map_err(|_| BindAddressError)
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A value parser: whole seconds within bounds, both included, with or without
/// an `s` behind the number.
pub fn seconds(
    bounds: std::ops::RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync + 'static {
    move |text| {
        let digits = text.strip_suffix('s').unwrap_or(text);
        let seconds: u64 = digits
            .parse()
            .map_err(|_| "not a number of seconds".to_owned())?;
        if bounds.contains(&seconds) {
            Ok(Duration::from_secs(seconds))
        } else {
            Err(format!(
                "must be {} to {} seconds",
                bounds.start(),
                bounds.end()
            ))
        }
    }
}

#[cfg(test)]
#[path = "args_tests.rs"]
mod tests;
