//! The operator's metrics.
//!
//! Owns their names, labels and buckets. Observes only: nothing here decides.

use std::{fmt, sync::Arc, time::Duration};

use napwake_api::{ManagedWorkloadStatus, workload::Phase};
use napwake_kit::metrics::Registry;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::Histogram,
    },
    registry::Unit,
};

use crate::shared::Shared;

/// Seconds. A decision with its writes takes milliseconds.
const TIMES: [f64; 12] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 20.0,
];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PauseLabels {
    reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WakeLabels {
    source: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    write: &'static str,
}

/// Counters of what the operator did. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct OperatorMetrics {
    pauses: Family<PauseLabels, Counter>,
    wakes: Family<WakeLabels, Counter>,
    errors: Family<ErrorLabels, Counter>,
    times: Histogram,
    /// Slice writes that wait for their turn.
    pub(crate) slices_waiting: Gauge,
    /// 1 while this process leads.
    pub(crate) leads: Gauge,
}

impl OperatorMetrics {
    /// Registers them.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            pauses: Family::default(),
            wakes: Family::default(),
            errors: Family::default(),
            times: Histogram::new(TIMES),
            slices_waiting: Gauge::default(),
            leads: Gauge::default(),
        };
        registry.register(
            "napwake_operator_pauses",
            "Pauses begun, by reason",
            metrics.pauses.clone(),
        );
        registry.register(
            "napwake_operator_wakes",
            "Wakes begun, by what woke the workload",
            metrics.wakes.clone(),
        );
        registry.register(
            "napwake_operator_reconcile_errors",
            "Writes that failed, by what was written",
            metrics.errors.clone(),
        );
        registry.register_with_unit(
            "napwake_operator_reconcile",
            "How long one workload took from being looked at to nothing left to write",
            Unit::Seconds,
            metrics.times.clone(),
        );
        registry.register(
            "napwake_operator_slice_writes_waiting",
            "EndpointSlice writes that wait for their turn",
            metrics.slices_waiting.clone(),
        );
        registry.register(
            "napwake_operator_leads",
            "Whether this process is the one that writes",
            metrics.leads.clone(),
        );
        metrics
    }

    /// Counts what a status says that the one before didn't.
    pub(crate) fn count_transition(
        &self,
        before: &ManagedWorkloadStatus,
        after: &ManagedWorkloadStatus,
    ) {
        let began = |status: &ManagedWorkloadStatus| {
            status.pause.as_ref().map(|pause| pause.started_at.clone())
        };
        if let Some(pause) = &after.pause
            && began(before) != began(after)
        {
            let reason = format!("{:?}", pause.reason);
            self.pauses.get_or_create(&PauseLabels { reason }).inc();
        }
        if let Some(resume) = &after.resume
            && before.resume.is_none()
        {
            let source = format!("{:?}", resume.source).to_ascii_lowercase();
            self.wakes.get_or_create(&WakeLabels { source }).inc();
        }
    }

    pub(crate) fn count_error(&self, write: &'static str) {
        self.errors.get_or_create(&ErrorLabels { write }).inc();
    }

    pub(crate) fn observe_time(&self, took: Duration) {
        self.times.observe(took.as_secs_f64());
    }
}

/// What is read anew at each scrape.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) shared: Arc<Shared>,
    pub(crate) metrics: OperatorMetrics,
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        gauge(
            &mut encoder,
            "napwake_operator_queue_depth",
            "ManagedWorkloads that wait to be looked at",
            self.shared.workloads.depth(),
        )?;
        // Followers see the same, and must not be added up with the leader.
        if self.metrics.leads.get() == 0 {
            return Ok(());
        }
        let counts = self.phases();
        let kind = ConstGauge::new(0_i64).metric_type();
        let mut family = encoder.encode_descriptor(
            "napwake_operator_workloads",
            "ManagedWorkloads, by phase",
            None,
            kind,
        )?;
        for (phase, count) in PHASES.iter().zip(counts) {
            let labels = [("phase", format!("{phase:?}"))];
            ConstGauge::new(count).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

const PHASES: [Phase; 4] = [
    Phase::Running,
    Phase::Pausing,
    Phase::Paused,
    Phase::Resuming,
];

impl Snapshot {
    fn phases(&self) -> [i64; 4] {
        self.shared.with(|index, now| {
            let mut counts = [0; 4];
            for observed in index.all_workloads(now) {
                let phase = observed.workload.status.phase;
                let place = PHASES.iter().position(|known| Some(*known) == phase);
                if let Some(place) = place {
                    counts[place] += 1;
                }
            }
            counts
        })
    }
}

fn gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: usize) -> fmt::Result {
    let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
    let metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
    gauge.encode(metric)
}

#[cfg(test)]
mod tests {
    use napwake_kit::metrics::{Format, Metrics};
    use serde_json::json;

    use super::*;
    use crate::fixtures::{index, workload};

    fn status(status: serde_json::Value) -> ManagedWorkloadStatus {
        serde_json::from_value(status).unwrap()
    }

    #[test]
    fn pauses_and_wakes_are_counted_once() {
        let mut registry = Registry::default();
        let metrics = OperatorMetrics::register(&mut registry);
        let pause =
            json!({"startedAt": "2026-11-30T11:00:00.000000Z", "reason": "Idle", "replicas": 1});
        let resume = json!({"startedAt": "2026-11-30T12:00:00.000000Z", "source": "request"});
        let running = status(json!({}));
        let pausing = status(json!({"pause": pause}));
        let resuming = status(json!({"pause": pause, "resume": resume}));
        for (before, after) in [
            (&running, &pausing),
            (&pausing, &pausing),
            (&pausing, &resuming),
            (&resuming, &resuming),
            (&resuming, &running),
        ] {
            metrics.count_transition(before, after);
        }
        let text = Metrics::new(registry).encode(Format::Prometheus).unwrap();
        let has = |line: &str| text.lines().any(|known| known == line);
        assert!(
            has("napwake_operator_pauses_total{reason=\"Idle\"} 1"),
            "{text}"
        );
        assert!(
            has("napwake_operator_wakes_total{source=\"request\"} 1"),
            "{text}"
        );
    }

    /// Followers know the same and would be added up with the leader.
    #[test]
    fn only_the_leader_counts_phases() {
        let mut index = index();
        let paused = json!({"status": {"phase": "Paused"}});
        index.apply_workload(workload("a", 1, paused), tokio::time::Instant::now());
        let mut registry = Registry::default();
        let metrics = OperatorMetrics::register(&mut registry);
        registry.register_collector(Box::new(Snapshot {
            shared: Arc::new(Shared::new(index)),
            metrics: metrics.clone(),
        }));
        let encoded = Metrics::new(registry);
        let text = || encoded.encode(Format::Prometheus).unwrap();
        assert!(!text().contains("napwake_operator_workloads"));
        metrics.leads.set(1);
        let line = "napwake_operator_workloads{phase=\"Paused\"} 1";
        assert!(text().lines().any(|known| known == line), "{}", text());
    }
}
