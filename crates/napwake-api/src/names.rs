//! Every label, annotation, finalizer, field manager, port and name that
//! Napwake writes or reads in a cluster: each string once.
//!
//! Holds strings and numbers only; what they mean is decided elsewhere.

/// The API group, and the prefix of every label and annotation.
pub const GROUP: &str = "napwake.dev";

/// Labels and annotations that people set to opt in or out.
pub mod opt {
    /// Label on a workload or a namespace; the value that counts is [`super::TRUE`].
    pub const MANAGED: &str = "napwake.dev/managed";
    /// Label or annotation that keeps an object out (LIFE-19).
    pub const IGNORE: &str = "napwake.dev/ignore";
    /// Label on a ManagedWorkload that Napwake made for [`MANAGED`]: only such
    /// ones does it change or delete by itself. The value is [`super::TRUE`].
    pub const OPTED_IN: &str = "napwake.dev/opted-in";
}

/// The value that turns a label or annotation on.
pub const TRUE: &str = "true";

/// Annotations that set something, on a workload and some on its namespace.
pub mod setting {
    /// `request` or `ask`; on the workload or its namespace (SET-03, SET-04).
    pub const WAKE: &str = "napwake.dev/wake";
    /// A duration of at most one hour; on the workload (SET-16).
    pub const WAKE_MAX_WAIT: &str = "napwake.dev/wake-max-wait";
    /// `true` or `false`; on the workload (SET-13).
    pub const WAKE_PAGE: &str = "napwake.dev/wake-page";
    /// A duration of at least one minute; on the workload or its namespace.
    pub const IDLE_AFTER: &str = "napwake.dev/idle-after";
    /// A duration up to ten minutes; on the workload.
    pub const LOOKOUT: &str = "napwake.dev/lookout";
    /// Names and numbers of ports never routed, by commas; on a Service (SET-17).
    pub const DOORMAN_IGNORE_PORTS: &str = "napwake.dev/doorman-ignore-ports";
}

/// Annotations that say that something happened.
pub mod signal {
    /// RFC 3339, on the workload or the ManagedWorkload: counts as activity, and wakes.
    pub const ACTIVITY: &str = "napwake.dev/activity";
    /// RFC 3339, on the ManagedWorkload, by people's tooling (TOKEN-29).
    pub const WAKE_REQUESTED: &str = "napwake.dev/wake-requested";
    /// RFC 3339, on the ManagedWorkload, by people's tooling.
    pub const PAUSE_REQUESTED: &str = "napwake.dev/pause-requested";
    /// The doorman's alone: `<RFC 3339 in microseconds> <kind> <service>` (HOLD-14).
    pub const LAST_REQUEST: &str = "napwake.dev/last-request";
    /// The doorman's alone: the caller's address (HOLD-32).
    pub const LAST_REQUEST_FROM: &str = "napwake.dev/last-request-from";
    /// The doorman's, though others aren't stopped: how many requests a pause has
    /// turned away (AWAY-16).
    pub const TURNED_AWAY: &str = "napwake.dev/turned-away";
    /// On a paused workload: how many replicas it had, never 0.
    pub const PAUSED_REPLICAS: &str = "napwake.dev/paused-replicas";
}

/// Labels on the EndpointSlices that Napwake writes.
pub mod slice {
    /// Ties a slice to a Service (F-01).
    pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
    /// Names who manages a slice (F-02).
    pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
    /// What the EndpointSlice controller writes there: only such slices are dialed (NET-25).
    pub const MANAGED_BY_CONTROLLER: &str = "endpointslice-controller.k8s.io";
    /// What Napwake writes there.
    pub const MANAGED_BY_NAPWAKE: &str = "napwake.dev";
}

/// Labels on Napwake's own pods, and how they are found.
pub mod pod {
    /// Names the part of Napwake that a pod is (NET-03, NET-04).
    pub const CONTROL_PLANE: &str = "control-plane";
    /// The doorman's pods (NET-03).
    pub const DOORMAN: &str = "doorman";
    /// The operator's pods (NET-04).
    pub const OPERATOR: &str = "controller-manager";
}

/// Keeps a ManagedWorkload until its workload is awake and its ports have
/// rested (T-86, T-130).
pub const FINALIZER: &str = "napwake.dev/wake-first";

/// The field manager of the operator's writes.
pub const OPERATOR_FIELD_MANAGER: &str = "napwake-operator";

/// The field manager of the doorman's writes.
pub const DOORMAN_FIELD_MANAGER: &str = "napwake-doorman";

/// The field of the wake key's Secret that holds the key.
pub const WAKE_KEY_FIELD: &str = "key";

/// The Lease by which operators elect their leader, in Napwake's namespace.
pub const LEADER_LEASE: &str = "napwake-operator";

/// Ports on which the doorman listens for routes: 20000 to 29999 (ROUTE-04, ROUTE-66).
pub const DOORMAN_PORTS: std::ops::RangeInclusive<u16> = 20_000..=29_999;

/// Names of events, as their `reason`.
pub mod event {
    /// A request woke the workload (OBS-01).
    pub const WOKEN_BY_REQUEST: &str = "WokenByRequest";
    /// A held caller was not served (OBS-06).
    pub const REQUEST_NOT_SERVED: &str = "RequestNotServed";
    /// No container has a readiness probe (OBS-04).
    pub const NO_READINESS_PROBE: &str = "NoReadinessProbe";
    /// A setting could not be read (OBS-05).
    pub const INVALID_SETTING: &str = "InvalidSetting";
    /// A Service isn't routed, for it's in NEGs (OBS-11).
    pub const UNSUPPORTED_LOAD_BALANCER: &str = "UnsupportedLoadBalancer";
    /// A route could not be written (OBS-12).
    pub const ROUTING_FAILED: &str = "RoutingFailed";
    /// No ManagedWorkload can be made for a labeled workload, for others have its names.
    pub const NAMES_TAKEN: &str = "NamesTaken";
    /// An object could not be read and is passed over.
    pub const UNREADABLE_OBJECT: &str = "UnreadableObject";
    /// The workload isn't brought on: something can't be told, or a write is refused or
    /// undone over and over.
    pub const HELD_UP: &str = "HeldUp";
    /// The workload starts to pause.
    pub const PAUSING: &str = "Pausing";
    /// The workload's pods are gone.
    pub const PAUSED: &str = "Paused";
    /// Activity ended a pause before its pods were gone.
    pub const PAUSE_CALLED_OFF: &str = "PauseCalledOff";
    /// A pause that was asked for isn't begun, for activity counts as later.
    pub const PAUSE_OVERTAKEN: &str = "PauseOvertaken";
    /// The workload starts to wake.
    pub const RESUMING: &str = "Resuming";
    /// A pod of the woken workload is Ready.
    pub const RUNNING: &str = "Running";
}
