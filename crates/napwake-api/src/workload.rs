//! `ManagedWorkload`: the API that users write and read.
//!
//! Owns the spec with its defaults and bounds, and the status. The CRD is
//! generated from these types; nothing here decides what a field leads to.

#![expect(
    unreachable_pub,
    reason = "KubeSchema repeats the structs in functions to derive rules from them"
)]

pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Span, settings};

/// A Deployment or StatefulSet that Napwake pauses while nobody uses it, and
/// wakes when somebody does.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[kube(
    group = "napwake.dev",
    version = "v1alpha1",
    kind = "ManagedWorkload",
    plural = "managedworkloads",
    singular = "managedworkload",
    shortname = "mw",
    namespaced,
    status = "ManagedWorkloadStatus",
    derive = "PartialEq",
    doc = "A Deployment or StatefulSet that Napwake pauses while nobody uses it, and wakes when somebody does",
    printcolumn(name = "Kind", type_ = "string", json_path = ".spec.targetRef.kind"),
    printcolumn(name = "Target", type_ = "string", json_path = ".spec.targetRef.name"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(
        name = "Wake",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="WakeOnRequest")].status"#
    ),
    printcolumn(
        name = "Last Activity",
        type_ = "date",
        json_path = ".status.clock.lastActivity"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="WakeOnRequest")].reason"#
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ManagedWorkloadSpec {
    /// The workload to pause and wake, in the same namespace. It can't be changed.
    #[x_kube(validation = Rule::new("self == oldSelf")
        .message("targetRef can't be changed: delete this ManagedWorkload and make another"))]
    pub target_ref: TargetRef,

    /// How long nobody must have used the workload before it is paused. At least 1m.
    #[serde(default = "default_idle_after")]
    #[x_kube(validation = Rule::new(
        "self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') && duration(self) >= duration('1m')")
        .message("idleAfter must be a duration such as 90s, 2m or 1h30m, of at least 1m"))]
    pub idle_after: Span,

    /// How long the route stands beside the pods before they stop, so that
    /// whoever is using the workload is noticed. 0s to 10m.
    #[serde(default = "default_lookout")]
    #[x_kube(validation = Rule::new(
        "self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') && duration(self) <= duration('10m')")
        .message("lookout must be a duration such as 30s or 2m, of at most 10m"))]
    pub lookout: Span,

    /// What wakes the workload through the doorman, and how long callers wait.
    #[serde(default)]
    pub wake: WakeSpec,

    /// Leaves the workload as it is: neither paused nor woken.
    #[serde(default)]
    pub suspend: bool,
}

fn default_idle_after() -> Span {
    settings::DEFAULT_IDLE_AFTER
}

fn default_lookout() -> Span {
    settings::DEFAULT_LOOKOUT
}

/// The workload that a ManagedWorkload pauses and wakes.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Hash, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetRef {
    /// `Deployment` or `StatefulSet`, of the group apps/v1.
    pub kind: TargetKind,
    /// The workload's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// The kinds of workload that can be paused (LIFE-20).
#[derive(
    Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema,
)]
pub enum TargetKind {
    /// apps/v1 Deployment.
    Deployment,
    /// apps/v1 StatefulSet.
    StatefulSet,
}

impl TargetKind {
    /// The kind as Kubernetes writes it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
        }
    }
}

/// What wakes a paused workload through the doorman.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct WakeSpec {
    /// `Request`: any request wakes it. `Ask`: only a person does.
    #[serde(default)]
    pub mode: WakeMode,

    /// Whether a browser opening a page gets the waking-up page at once; `false`
    /// holds it like any other caller. With `Ask`, a browser always gets a page.
    #[serde(default)]
    pub page: WakePage,

    /// How long the doorman holds a connection. More than zero, at most 1h (SET-15).
    #[serde(default)]
    #[x_kube(validation = Rule::new(
        "self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') && duration(self) > duration('0s') \
         && duration(self) <= duration('1h')")
        .message("maxWait must be a duration such as 90s, 2m or 1h, of more than 0s and at most 1h"))]
    pub max_wait: MaxWait,
}

/// Whether browsers get the waking-up page, as a boolean whose default is true
/// (SET-12).
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct WakePage(pub bool);

impl Default for WakePage {
    fn default() -> Self {
        Self(true)
    }
}

/// How long a connection is held, as a [`Span`] whose default is 2m (SET-14).
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct MaxWait(pub Span);

impl Default for MaxWait {
    fn default() -> Self {
        Self(settings::DEFAULT_MAX_WAIT)
    }
}

/// Who wakes a paused workload through the doorman (SET-02).
#[derive(Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq, Hash, JsonSchema)]
pub enum WakeMode {
    /// Any request wakes it.
    #[default]
    Request,
    /// Only a person wakes it.
    Ask,
}

/// What Napwake found, did and expects. Written by the operator alone.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedWorkloadStatus {
    /// The generation of the spec that this status is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// A summary of where the workload stands; the conditions have the details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The idle clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockStatus>,
    /// The pause under way, or none while the workload runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseStatus>,
    /// The last pause that was asked for, and what came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_asked: Option<PauseAsked>,
    /// The wake under way, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<ResumeStatus>,
    /// What was last seen of the workload, to tell rollouts and scale-ups by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetStatus>,
    /// The routes to the doorman and the ports that rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doorman: Option<DoormanStatus>,
    /// What the doorman turned away in the pause under way, or in the last one
    /// while the workload is awake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turned_away: Option<TurnedAwayStatus>,
    /// `Ready`, `TargetAvailable` and `WakeOnRequest`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["type"]
    ))]
    pub conditions: Vec<Condition>,
}

/// Where a workload stands.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema)]
pub enum Phase {
    /// Awake: its traffic goes straight to its pods.
    Running,
    /// Its route stands and its pods are about to stop.
    Pausing,
    /// Asleep: no pods.
    Paused,
    /// Waking up: its pods have been asked for and none is Ready yet.
    Resuming,
}

/// The idle clock.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClockStatus {
    /// When the workload was last used, as far as Napwake knows.
    pub last_activity: MicroTime,
    /// What that was.
    pub last_activity_source: ActivitySource,
    /// When it last became Running: the idle clock doesn't run out before
    /// `idleAfter` has passed since then either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_since: Option<MicroTime>,
    /// When the workload will have been idle for `idleAfter`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_at: Option<MicroTime>,
}

/// What restarts the idle clock.
#[derive(
    Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum ActivitySource {
    /// A request or a click at the doorman.
    Request,
    /// The activity annotation.
    Annotation,
    /// `napwake.dev/wake-requested`, as `kubectl napwake wake` sets it.
    Command,
    /// A Prometheus activity query above its threshold.
    Query,
    /// Bytes that the pods received.
    Traffic,
    /// A new pod template.
    Rollout,
    /// Replicas raised by someone else.
    Scale,
    /// A workload that depends on it woke.
    Dependent,
    /// It became Running, or was first seen.
    Started,
}

/// A pause, from its start to the wake that ends it.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PauseStatus {
    /// When it began: this names the pause (OBS-15).
    pub started_at: MicroTime,
    /// When its route stood and the lookout began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routed_at: Option<MicroTime>,
    /// When the workload was scaled to zero.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaled_at: Option<MicroTime>,
    /// When its pods were gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_at: Option<MicroTime>,
    /// Why it began.
    pub reason: PauseReason,
    /// How many replicas the workload had, never 0.
    #[schemars(range(min = 1))]
    pub replicas: i32,
}

/// Why a pause began.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema)]
pub enum PauseReason {
    /// Nobody used it for `idleAfter`.
    Idle,
    /// `napwake.dev/pause-requested`, as `kubectl napwake pause` sets it.
    Requested,
    /// Found at 0 with the mark that Napwake leaves on what it pauses.
    Recovered,
}

/// A pause that was asked for.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PauseAsked {
    /// When, as `napwake.dev/pause-requested` says.
    pub at: MicroTime,
    /// What came of it.
    pub answer: PauseAnswer,
}

/// What comes of a pause that is asked for.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema)]
pub enum PauseAnswer {
    /// A pause began, or was under way already.
    Taken,
    /// The workload was used at a time that counts as later: it stays awake.
    Overtaken,
}

/// A wake under way.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResumeStatus {
    /// When the workload changed to Resuming (T-121).
    pub started_at: MicroTime,
    /// What woke it.
    pub source: ActivitySource,
}

/// What was last seen of the workload.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TargetStatus {
    /// The workload's uid: another one under the same name starts afresh.
    pub uid: String,
    /// A hash of its pod template: another one is a rollout.
    pub template: String,
    /// Its `spec.replicas`: more by someone else's hand is a scale-up.
    pub replicas: i32,
    /// Its `metadata.generation`: one seen with a lower number is out of date.
    #[serde(default)]
    pub generation: i64,
}

/// The routes to the doorman and the ports that rest.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DoormanStatus {
    /// One for each routed port of each Service.
    #[serde(default)]
    pub routes: Vec<Route>,
    /// Ports that no other workload gets yet (DRAIN-21, DRAIN-22).
    #[serde(default)]
    pub resting: Vec<RestingPort>,
}

/// What the doorman turned away in one pause.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnedAwayStatus {
    /// When the pause began, which names it (AWAY-11, T-97).
    pub paused_at: MicroTime,
    /// How many requests (AWAY-12). Many mean that something automated calls the
    /// workload, such as a monitor, a webhook or another service.
    #[schemars(range(min = 0))]
    pub requests: i64,
}

/// One Service port that the doorman serves.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// The Service's name, in the ManagedWorkload's namespace.
    pub service: String,
    /// The Service's port.
    pub port: RoutePort,
    /// The port on which the doorman's pods listen for it, 20000 to 29999.
    pub doorman_port: u16,
    /// The Service's IP families in which it is routed.
    pub families: Vec<IpFamily>,
    /// Whether it goes through a forwarder (OBS-17).
    #[serde(default)]
    pub forwarded: bool,
    /// How far the route is.
    pub state: RouteState,
    /// When the doorman's pods were told to open their listeners for it: a
    /// connect check from before then says nothing about it (ROUTE-79).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opened_at: Option<MicroTime>,
    /// Until when a draining route is still served (DRAIN-17).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draining_until: Option<MicroTime>,
    /// The ManagedWorkload that took the doorman port, where it's another one
    /// behind the same Service (T-76).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_by: Option<String>,
}

/// A port of a Service.
#[derive(
    Serialize, Deserialize, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct RoutePort {
    /// Its name, empty where the Service's only port has none.
    #[serde(default)]
    pub name: String,
    /// Its number on the Service.
    pub number: u16,
}

/// How far a route is.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema)]
pub enum RouteState {
    /// The doorman's pods open their listeners; no slice points at them yet.
    Opening,
    /// The Service's slices point at the doorman.
    Routed,
    /// The slices are gone; strays are still passed, waking nothing (DRAIN-17 to DRAIN-19).
    Draining,
}

/// An IP family, as Services name them.
#[derive(
    Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema,
)]
pub enum IpFamily {
    /// IPv4.
    IPv4,
    /// IPv6.
    IPv6,
}

/// A doorman port that no other workload gets yet.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestingPort {
    /// The port, 20000 to 29999.
    pub port: u16,
    /// Until when it rests.
    pub until: MicroTime,
}

#[cfg(test)]
mod tests;
