//! Condition types and reasons, each a closed list, and how a condition is set.

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The conditions of a ManagedWorkload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConditionType {
    /// The settings are valid, the target is found and Napwake manages it.
    Ready,
    /// The target exists and may be scaled.
    TargetAvailable,
    /// Requests to the paused workload are held and wake it.
    WakeOnRequest,
}

impl ConditionType {
    /// The type as it's written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::TargetAvailable => "TargetAvailable",
            Self::WakeOnRequest => "WakeOnRequest",
        }
    }
}

/// Why `Ready` is as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReadyReason {
    /// Napwake manages the workload.
    Managed,
    /// `spec.suspend` is true.
    Suspended,
    /// The target can't be managed; `TargetAvailable` says why.
    TargetUnavailable,
    /// A setting can't be read.
    InvalidSetting,
}

/// Why `TargetAvailable` is as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TargetReason {
    /// The target exists and may be scaled.
    TargetFound,
    /// There is no such Deployment or StatefulSet (ROUTE-62).
    TargetNotFound,
    /// Someone else scaled it to 0: it's left alone.
    TargetScaledToZero,
    /// Another controller owns it: it's left alone.
    OwnedByController,
    /// It carries `napwake.dev/ignore`.
    Ignored,
    /// Another, older ManagedWorkload has the same target.
    AlreadyManaged,
}

/// Why `WakeOnRequest` is as it is: a closed list (OBS-13).
///
/// In the order in which the reason is chosen where Services differ (T-133).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RouteReason {
    /// Requests are held and wake the workload.
    DoormanRouted,
    /// The doorman is turned off for the cluster.
    DoormanDisabled,
    /// No doorman pod is Ready.
    DoormanUnavailable,
    /// A slice could not be written.
    RoutingFailed,
    /// The workload or its namespace would hold too many doorman ports.
    TooManyPorts,
    /// Every doorman port is in use.
    NoFreePort,
    /// Behind GKE container-native load balancing.
    UnsupportedLoadBalancer,
    /// No forwarder pod is Ready yet.
    ForwarderNotReady,
    /// `internalTrafficPolicy: Local`.
    NodeLocalTraffic,
    /// An IP family in which no doorman pod has an address.
    UnsupportedIPFamily,
    /// Another workload's Ready pods serve the Service.
    ServedByOtherPods,
    /// No Service selects the workload, or none has a TCP port to route.
    NoServices,
    /// The workload is awake.
    NotPaused,
}

/// Implements the reason's text as its variant's name, which is what is written.
macro_rules! named_by_variant {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(self, f)
            }
        }
    )*};
}
named_by_variant!(ReadyReason, TargetReason, RouteReason);

/// The status of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It holds.
    True,
    /// It doesn't hold.
    False,
    /// It can't be told.
    Unknown,
}
named_by_variant!(Status);

/// A condition as it should be, before times are put to it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Wanted {
    /// Which condition.
    pub type_: ConditionType,
    /// Whether it holds.
    pub status: Status,
    /// Why, in one word: one of the reasons' enums.
    pub reason: String,
    /// Why, in a sentence for people.
    pub message: String,
}

/// Bytes that a message may have: what `metav1.Condition` says of it, and clients may
/// hold it to.
const LONGEST_MESSAGE: usize = 32_768;

/// A message as it may be written; one that was longer ends in `…`.
fn shorten(message: &str) -> String {
    const MARK: &str = "…";
    if message.len() <= LONGEST_MESSAGE {
        return message.to_owned();
    }
    let end = message.floor_char_boundary(LONGEST_MESSAGE - MARK.len());
    let kept = message.get(..end).unwrap_or_default();
    format!("{kept}{MARK}")
}

/// Sets `wanted` in `conditions`, keeping the transition time unless the
/// status changes, as the Kubernetes API conventions ask.
pub fn set(
    conditions: &mut Vec<Condition>,
    wanted: &Wanted,
    generation: Option<i64>,
    now: Timestamp,
) {
    let status = wanted.status.to_string();
    let message = shorten(&wanted.message);
    let known = conditions
        .iter_mut()
        .find(|known| known.type_ == wanted.type_.as_str());
    if let Some(known) = known {
        if known.status != status {
            known.status = status;
            known.last_transition_time = Time(now);
        }
        known.reason.clone_from(&wanted.reason);
        known.message = message;
        known.observed_generation = generation;
        return;
    }
    conditions.push(Condition {
        last_transition_time: Time(now),
        message,
        observed_generation: generation,
        reason: wanted.reason.clone(),
        status,
        type_: wanted.type_.as_str().to_owned(),
    });
}

/// The condition of that type, if it's there.
pub fn get(conditions: &[Condition], type_: ConditionType) -> Option<&Condition> {
    conditions
        .iter()
        .find(|known| known.type_ == type_.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(status: Status, message: &str) -> Wanted {
        Wanted {
            type_: ConditionType::Ready,
            status,
            reason: ReadyReason::Managed.to_string(),
            message: message.to_owned(),
        }
    }

    #[test]
    fn transition_time_moves_only_with_the_status() {
        let mut conditions = Vec::new();
        let at = |second| Timestamp::from_second(second).expect("in range");
        set(&mut conditions, &wanted(Status::True, "a"), Some(1), at(10));
        set(&mut conditions, &wanted(Status::True, "b"), Some(2), at(20));
        let known = get(&conditions, ConditionType::Ready).expect("set");
        assert_eq!(
            (known.last_transition_time.0, known.message.as_str()),
            (at(10), "b")
        );
        assert_eq!(known.observed_generation, Some(2));
        set(
            &mut conditions,
            &wanted(Status::False, "c"),
            Some(2),
            at(30),
        );
        assert_eq!(conditions.len(), 1);
        assert_eq!(conditions[0].last_transition_time.0, at(30));
    }

    /// A thousand Services with a cause each fit, and whatever else they say.
    #[test]
    fn a_message_is_as_long_as_it_may_be() {
        for (wished, written) in [(32_768, 32_768), (32_769, 32_767), (2_000_000, 32_767)] {
            let mut conditions = Vec::new();
            let message = "ä".repeat(wished / 2) + &"a".repeat(wished % 2);
            let wanted = wanted(Status::True, &message);
            set(&mut conditions, &wanted, None, Timestamp::UNIX_EPOCH);
            let found = &conditions[0].message;
            assert_eq!(found.len(), written);
            assert_eq!(found.ends_with('…'), written < wished);
        }
    }

    #[test]
    fn reasons_are_written_as_their_names() {
        assert_eq!(
            RouteReason::UnsupportedIPFamily.to_string(),
            "UnsupportedIPFamily"
        );
        assert_eq!(
            TargetReason::OwnedByController.to_string(),
            "OwnedByController"
        );
    }
}
