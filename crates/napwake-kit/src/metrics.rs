//! The metrics of a process: the registry, its text, and what every process
//! shows of itself.
//!
//! Owns `napwake_build_info` and the `process_*` metrics; everyone else
//! registers their own before the process starts serving.

use std::{fmt, fs, io, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, prometheus_text, text},
    metrics::{counter::ConstCounter, gauge::ConstGauge, info::Info},
    registry::Unit,
};

pub use prometheus_client::registry::Registry;

/// A registry that shows the version and what the system says of the process.
pub fn registry(version: &'static str) -> Registry {
    let mut registry = Registry::default();
    registry.register(
        "napwake_build",
        "The version that runs",
        Info::new([("version", version)]),
    );
    registry.register_collector(Box::new(ProcessCollector));
    registry
}

/// The two text formats that scrapers read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    OpenMetrics,
    Prometheus,
}

impl Format {
    /// The format for an `Accept` header: OpenMetrics for those who name it.
    pub fn accepted(accept: Option<&str>) -> Self {
        match accept {
            Some(accept) if accept.contains("application/openmetrics-text") => Self::OpenMetrics,
            _ => Self::Prometheus,
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// A filled registry, to be read. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics(Arc<Registry>);

impl Metrics {
    pub fn new(registry: Registry) -> Self {
        Self(Arc::new(registry))
    }

    /// All metrics as text.
    pub fn encode(&self, format: Format) -> Result<String, fmt::Error> {
        let mut text = String::new();
        match format {
            Format::OpenMetrics => text::encode(&mut text, &self.0)?,
            Format::Prometheus => prometheus_text::encode(&mut text, &self.0)?,
        }
        Ok(text)
    }
}

/// What the system says of this process, read at each scrape.
#[derive(Debug)]
struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        // Where /proc can't be read, the metrics are left out rather than wrong.
        let Ok(process) = Process::read() else {
            return Ok(());
        };
        gauge(
            &mut encoder,
            "process_resident_memory",
            "Resident memory",
            Some(&Unit::Bytes),
            process.resident_bytes,
        )?;
        gauge(
            &mut encoder,
            "process_open_fds",
            "Open file descriptors",
            None,
            process.open_fds,
        )?;
        gauge(
            &mut encoder,
            "process_start_time",
            "When the process started, in seconds since the epoch",
            Some(&Unit::Seconds),
            process.start_seconds,
        )?;
        let cpu = ConstCounter::new(process.cpu_seconds);
        let metric = encoder.encode_descriptor(
            "process_cpu",
            "User and system CPU time",
            Some(&Unit::Seconds),
            cpu.metric_type(),
        )?;
        cpu.encode(metric)
    }
}

fn gauge(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    value: f64,
) -> Result<(), fmt::Error> {
    let gauge = ConstGauge::new(value);
    let metric = encoder.encode_descriptor(name, help, unit, gauge.metric_type())?;
    gauge.encode(metric)
}

#[derive(Debug)]
struct Process {
    resident_bytes: f64,
    open_fds: f64,
    cpu_seconds: f64,
    start_seconds: f64,
}

impl Process {
    fn read() -> io::Result<Self> {
        let malformed = || io::Error::from(io::ErrorKind::InvalidData);
        let stat = Stat::parse(&fs::read_to_string("/proc/self/stat")?).ok_or_else(malformed)?;
        let boot = boot_time(&fs::read_to_string("/proc/stat")?).ok_or_else(malformed)?;
        let ticks = to_f64(rustix::param::clock_ticks_per_second());
        // The listing itself holds one descriptor, which is gone afterwards.
        let open = fs::read_dir("/proc/self/fd")?.count().saturating_sub(1);
        Ok(Self {
            resident_bytes: to_f64(stat.resident_pages) * to_f64(rustix::param::page_size() as u64),
            open_fds: to_f64(open as u64),
            cpu_seconds: to_f64(stat.cpu_ticks) / ticks,
            start_seconds: to_f64(boot) + to_f64(stat.start_ticks) / ticks,
        })
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "metrics are floating point; these stay below 2^53"
)]
fn to_f64(value: u64) -> f64 {
    value as f64
}

/// The fields used of `/proc/self/stat` (proc_pid_stat(5)).
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    start_ticks: u64,
    resident_pages: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The second field, the command in parentheses, may hold anything.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // The first of these is field 3.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)? + field(15)?,
            start_ticks: field(22)?,
            resident_pages: field(24)?,
        })
    }
}

/// `btime` of `/proc/stat` (proc_stat(5)): seconds since the epoch.
fn boot_time(text: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix("btime "))?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::open_metrics(Format::OpenMetrics)]
    #[case::prometheus(Format::Prometheus)]
    fn shows_version_and_process(#[case] format: Format) {
        let text = Metrics::new(registry("1.2.3")).encode(format).unwrap();
        for line in [
            "napwake_build_info{version=\"1.2.3\"} 1",
            "process_resident_memory_bytes ",
            "process_open_fds ",
            "process_cpu_seconds_total ",
            "process_start_time_seconds ",
        ] {
            assert!(
                text.lines().any(|l| l.starts_with(line)),
                "{line} is missing in\n{text}"
            );
        }
        assert_eq!(text.ends_with("# EOF\n"), format == Format::OpenMetrics);
    }

    #[test]
    fn process_values_are_plausible() {
        let process = Process::read().unwrap();
        assert!(process.resident_bytes > 100_000.0, "{process:?}");
        assert!(process.open_fds >= 3.0, "{process:?}");
        let now = to_f64(
            crate::clock::Clock::system()
                .now()
                .as_second()
                .unsigned_abs(),
        );
        let age = now - process.start_seconds;
        assert!(
            (-2.0..86_400.0).contains(&age),
            "{process:?} is {age} s old"
        );
    }

    #[test]
    fn a_command_may_hold_spaces_and_parentheses() {
        let rest: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        let text = format!("17 (a ) b) {}", rest.join(" "));
        assert_eq!(
            Stat::parse(&text),
            Some(Stat {
                cpu_ticks: 29,
                start_ticks: 22,
                resident_pages: 24
            })
        );
        assert_eq!(Stat::parse("17 (a) R 1"), None);
    }

    #[rstest]
    #[case::none(None, Format::Prometheus)]
    #[case::any(Some("*/*"), Format::Prometheus)]
    #[case::prometheus(
        Some("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3"),
        Format::OpenMetrics
    )]
    fn formats(#[case] accept: Option<&str>, #[case] expected: Format) {
        assert_eq!(Format::accepted(accept), expected);
    }
}
