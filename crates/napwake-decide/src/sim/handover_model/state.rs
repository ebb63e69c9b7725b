//! Where the hand-over stands: the cluster, its leader, a late write of the leader
//! before, and what each watch has shown.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
};

use jiff::Timestamp;
use napwake_api::workload::Phase;

use super::{
    super::{Cluster, Conflict, Doorman, Seen, SliceSpec, Workload, Write, objects},
    Rules,
    explore::Fingerprint,
    viewers::{self, Pod, Watch},
};

/// The whole.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// The objects, and what the leader keeps in memory: ports and checks.
    pub(super) cluster: Cluster,
    /// The doorman's pods, in the order of their numbers.
    pub(super) pods: Vec<Pod>,
    /// kube-proxy of a node.
    pub(super) proxy: Watch<SliceSpec>,
    /// A write of the leader before that may land still.
    pub(super) late: Option<Late>,
    /// What the leader takes a ManagedWorkload for, where a late write has
    /// changed it since.
    pub(super) outdated: Option<Outdated>,
    /// How often people or callers may still ask for something.
    pub(super) asks: u8,
    /// How often the leader may still change.
    pub(super) terms: u8,
    /// How many ticks the leader has left something undone.
    pub(super) idle: u8,
}

/// A write under way as its operator lost the Lease.
#[derive(Clone, Debug)]
pub(super) struct Late {
    pub(super) since: Timestamp,
    pub(super) app: String,
    pub(super) write: Write,
}

/// A ManagedWorkload as it was before a change that the leader hasn't seen.
#[derive(Clone, Debug)]
pub(super) struct Outdated {
    pub(super) since: Timestamp,
    pub(super) app: String,
    pub(super) workload: Workload,
}

impl State {
    /// Everybody has seen all there is.
    pub(super) fn new(cluster: Cluster, rules: &Rules) -> Self {
        let pods = doorman_pods(&cluster);
        Self {
            pods: vec![Pod::new(cluster.now, &cluster); pods],
            proxy: Watch::new(&viewers::slices(&cluster)),
            cluster,
            late: None,
            outdated: None,
            asks: rules.asks,
            terms: rules.terms,
            idle: 0,
        }
    }

    pub(super) fn apps(&self) -> Vec<String> {
        self.cluster.apps.keys().cloned().collect()
    }

    pub(super) fn phase(&self, app: &str) -> Option<Phase> {
        self.cluster.phase(app)
    }

    /// Everything that what comes later goes by. Versions count by what may still be
    /// written over them, so that it doesn't matter in which order they were given.
    pub(super) fn tell(&self, out: &mut Fingerprint) -> fmt::Result {
        write!(out, "{:?}", self.cluster.now)?;
        for (name, app) in &self.cluster.apps {
            let (workload, target) = (app.workload.as_ref(), app.target.as_ref());
            let workload = workload.map(|it| (&it.status, &it.annotations, &it.finalizers));
            let target = target.map(|it| (it.replicas, it.ready_replicas, &it.annotations));
            let pods = (app.ready_at, app.ended_at);
            write!(out, "{name}{workload:?}{target:?}{pods:?}{:?}", app.checks)?;
        }
        for slice in self.cluster.slices.values() {
            write!(out, "{:?}", slice.spec)?;
        }
        write!(
            out,
            "{:?}{:?}{:?}{:?}",
            self.cluster.ports.told(),
            self.cluster.behind,
            self.pods,
            self.proxy
        )?;
        if let Some(late) = &self.late {
            write!(out, "{:?}{}", late.since, late.app)?;
            tell_write(&late.write, out)?;
        }
        if let Some(Outdated {
            since,
            app,
            workload,
        }) = &self.outdated
        {
            write!(out, "{since:?}{app}{:?}", workload.status)?;
        }
        write!(out, "{} {} {}", self.asks, self.terms, self.idle)
    }

    /// Whether the late write would be refused from now on.
    fn is_late_in_vain(&self) -> bool {
        let Some(Late { app, write, .. }) = &self.late else {
            return true;
        };
        // Its name may become free again.
        let is_new = matches!(
            write,
            Write::ApplySlice {
                over: crate::plan::Over::Nothing,
                ..
            }
        );
        let is_gone = match write {
            Write::DeleteSlice { name, .. } => !self.cluster.slices.contains_key(name),
            _ => false,
        };
        let is_refused = || {
            let mut cluster = self.cluster.clone();
            cluster.is_overtaken = true;
            cluster.try_write(app, write) == Err(Conflict)
        };
        is_gone || (!is_new && is_refused())
    }

    /// Watches are told of what has changed, and what can't come any more is left out.
    pub(super) fn publish(&mut self) {
        let now = self.cluster.now;
        let listed: BTreeMap<_, _> = viewers::listed(&self.cluster);
        for pod in &mut self.pods {
            pod.statuses.change(now, &listed);
        }
        self.proxy.change(now, &viewers::slices(&self.cluster));
        if self.is_late_in_vain() {
            self.late = None;
        }
        self.forget_checks();
    }

    /// A check of a port that isn't the workload's any more says nothing.
    fn forget_checks(&mut self) {
        for app in self.cluster.apps.values_mut() {
            let doorman = app
                .workload
                .as_ref()
                .and_then(|it| it.status.doorman.as_ref());
            let routes = doorman.map(|it| it.routes.as_slice()).unwrap_or_default();
            let is_had = |port: u16| routes.iter().any(|route| route.doorman_port == port);
            app.checks.retain(|listener, _| is_had(listener.port));
        }
    }
}

fn doorman_pods(cluster: &Cluster) -> usize {
    match &cluster.doorman {
        Doorman::Enabled(Seen::Known(pods)) => pods.len(),
        _ => 0,
    }
}

fn tell_write(write: &Write, out: &mut Fingerprint) -> fmt::Result {
    match write {
        Write::WriteStatus { status, .. } => write!(out, "{status:?}"),
        Write::ApplySlice { slice, over } => {
            let is_new = matches!(over, crate::plan::Over::Nothing);
            write!(out, "{slice:?}{is_new}")
        }
        Write::DeleteSlice { name, .. } => write!(out, "{name}"),
        _ => write!(out, "{}", objects::kind(write)),
    }
}
