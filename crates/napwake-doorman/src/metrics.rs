//! The doorman's metrics.
//!
//! Owns their names, labels and buckets. Observes only: nothing here decides
//! what happens to a connection.

use std::fmt;
use std::time::Duration;

use napwake_gate::places::WorkloadKey;
use napwake_kit::metrics::Registry;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabel, EncodeLabelSet, EncodeMetric, LabelSetEncoder,
};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Unit;

use crate::routes::Route;

/// How a caller's wait ended: a closed list of label values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitResult {
    /// It was passed to a pod.
    Served,
    /// No pod was Ready by `maxWait`.
    TimedOut,
    /// Pods were Ready and couldn't be connected to by `maxWait`.
    Unreachable,
    /// The caller left.
    Left,
    /// It was over a cap, and closed at once.
    OverLimit,
    /// The workload asks before waking, and it wasn't a person's browser.
    TurnedAway,
}

impl WaitResult {
    const ALL: [Self; 6] = [
        Self::Served,
        Self::TimedOut,
        Self::Unreachable,
        Self::Left,
        Self::OverLimit,
        Self::TurnedAway,
    ];

    const fn label(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::TimedOut => "timed_out",
            Self::Unreachable => "unreachable",
            Self::Left => "left",
            Self::OverLimit => "over_limit",
            Self::TurnedAway => "turned_away",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct WakeLabels {
    workload: WorkloadKey,
    result: &'static str,
}

impl EncodeLabelSet for WakeLabels {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let labels = [
            ("namespace", self.workload.namespace()),
            ("workload", self.workload.name()),
            ("result", self.result),
        ];
        labels
            .into_iter()
            .try_for_each(|label| label.encode(encoder.encode_label()))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WaitLabels {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    answer: &'static str,
}

/// Seconds. Pods start within seconds, and callers wait an hour at most.
const WAITS: [f64; 14] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0,
];

/// Counters of what became of callers. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics {
    wakes: Family<WakeLabels, Counter>,
    waits: Family<WaitLabels, Histogram>,
    answers: Family<AnswerLabels, Counter>,
}

impl Metrics {
    /// Registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            wakes: Family::default(),
            waits: Family::new_with_constructor(|| Histogram::new(WAITS)),
            answers: Family::default(),
        };
        registry.register(
            "napwake_doorman_wakes",
            "Callers of workloads that were asleep or waking, by what became of them",
            metrics.wakes.clone(),
        );
        registry.register_with_unit(
            "napwake_doorman_wait",
            "How long callers were held, by what became of them",
            Unit::Seconds,
            metrics.waits.clone(),
        );
        registry.register(
            "napwake_doorman_answers",
            "Answers of the doorman's own, which count as no wake",
            metrics.answers.clone(),
        );
        metrics
    }

    /// A caller of `route` whose wait ended. It counts for each workload behind
    /// the route, as its place does (T-114).
    pub fn waited(&self, route: &Route, result: WaitResult, wait: Duration) {
        self.ended(route, result);
        let labels = WaitLabels {
            result: result.label(),
        };
        self.waits
            .get_or_create(&labels)
            .observe(wait.as_secs_f64());
    }

    /// A caller of `route` that never waited. It counts for no workload whose
    /// ManagedWorkload is gone: its series would stay for ever.
    pub fn ended(&self, route: &Route, result: WaitResult) {
        for workload in &route.workloads {
            if workload.slot.is_gone() {
                continue;
            }
            let labels = WakeLabels::new(&workload.key, result);
            self.wakes.get_or_create(&labels).inc();
            // It may have gone just now.
            if workload.slot.is_gone() {
                self.wakes.remove(&labels);
            }
        }
    }

    /// An answer of the doorman's own.
    pub fn answered(&self, answer: &'static str) {
        self.answers.get_or_create(&AnswerLabels { answer }).inc();
    }

    /// Forgets a ManagedWorkload that is gone, so that series don't pile up.
    pub fn forget(&self, workload: &WorkloadKey) {
        for result in WaitResult::ALL {
            self.wakes.remove(&WakeLabels::new(workload, result));
        }
    }
}

impl WakeLabels {
    fn new(workload: &WorkloadKey, result: WaitResult) -> Self {
        Self {
            workload: workload.clone(),
            result: result.label(),
        }
    }
}

/// What is read when somebody asks: gauges of things that others count.
pub struct Gauges {
    /// Connections that hold a place.
    pub held: ReadGauge,
    /// Connections that pass through.
    pub passed: ReadGauge,
    /// Bytes kept of held callers.
    pub held_bytes: ReadGauge,
    /// Ports listened on.
    pub routes: ReadGauge,
    /// Seconds since the watches last heard anything; the longest counts.
    pub cache_lag: ReadGauge,
}

/// Reads a gauge.
pub type ReadGauge = Box<dyn Fn() -> f64 + Send + Sync>;

impl fmt::Debug for Gauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gauges").finish_non_exhaustive()
    }
}

impl Gauges {
    /// Registers them.
    pub fn register(self, registry: &mut Registry) {
        registry.register_collector(Box::new(self));
    }
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let mut gauge = |name, help, unit: Option<&Unit>, read: &ReadGauge| {
            let gauge = ConstGauge::new(read());
            let metric = encoder.encode_descriptor(name, help, unit, gauge.metric_type())?;
            gauge.encode(metric)
        };
        gauge(
            "napwake_doorman_held_connections",
            "Connections that are held",
            None,
            &self.held,
        )?;
        gauge(
            "napwake_doorman_passed_connections",
            "Connections that pass through",
            None,
            &self.passed,
        )?;
        gauge(
            "napwake_doorman_held",
            "Bytes kept of held callers",
            Some(&Unit::Bytes),
            &self.held_bytes,
        )?;
        gauge(
            "napwake_doorman_routes",
            "Ports listened on",
            None,
            &self.routes,
        )?;
        gauge(
            "napwake_doorman_cache_lag",
            "Time since the watches last heard anything",
            Some(&Unit::Seconds),
            &self.cache_lag,
        )
    }
}
