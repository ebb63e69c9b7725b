//! Who else decides about the workload's replicas: whether Napwake may manage
//! it at all, what was changed since it was last looked at, and the mark on
//! what Napwake has paused.

use napwake_api::{
    ManagedWorkloadStatus,
    names::{self, opt, signal},
    workload::{Phase, TargetStatus},
};

use crate::world::{Controller, Seen, Target, World};

/// Whether Napwake manages the workload, or why it doesn't.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It does.
    Managed,
    /// There's no such workload (ROUTE-62).
    Missing,
    /// An older ManagedWorkload of that name has the same target.
    AlreadyManaged(String),
    /// Another controller owns it.
    Owned(Controller),
    /// It carries `napwake.dev/ignore` (LIFE-19).
    Ignored,
    /// `spec.suspend`.
    Suspended,
    /// It's at 0, and not by Napwake (T-128, T-136).
    ScaledToZero,
}

/// The mark that Napwake leaves on what it pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// There's none.
    None,
    /// It had so many replicas, at least 1.
    Replicas(i32),
    /// Somebody has spoilt it: it was paused, with how many can't be told.
    Spoilt,
}

/// Reads the mark.
pub(crate) fn mark(target: &Target) -> Mark {
    match target.annotations.get(signal::PAUSED_REPLICAS) {
        None => Mark::None,
        Some(text) => match text.parse::<i32>() {
            Ok(replicas) if replicas > 0 => Mark::Replicas(replicas),
            _ => Mark::Spoilt,
        },
    }
}

/// Whether Napwake manages the workload.
pub(crate) fn standing(world: &World, target: Option<&Target>) -> Standing {
    let Some(target) = target else {
        return Standing::Missing;
    };
    if let Some(older) = older_peer(world) {
        return Standing::AlreadyManaged(older);
    }
    if let Some(controller) = &target.controller {
        return Standing::Owned(controller.clone());
    }
    let is_true = |value: Option<&String>| value.is_some_and(|value| value == names::TRUE);
    if is_true(target.labels.get(opt::IGNORE)) || is_true(target.annotations.get(opt::IGNORE)) {
        return Standing::Ignored;
    }
    if world.workload.spec.suspend {
        return Standing::Suspended;
    }
    if target.replicas == 0 && !is_paused_by_us(&world.workload.status, target) {
        return Standing::ScaledToZero;
    }
    Standing::Managed
}

/// An older ManagedWorkload with the same target; of two as old, the name decides.
fn older_peer(world: &World) -> Option<String> {
    let own = (world.workload.created, &world.workload.key.name);
    world
        .peers
        .known()?
        .iter()
        .filter(|peer| peer.target == world.workload.spec.target_ref)
        .filter(|peer| (peer.created, &peer.name) < own)
        .min_by_key(|peer| (peer.created, &peer.name))
        .map(|peer| peer.name.clone())
}

/// Whether a target at 0 was put there by Napwake: it's marked, or the status
/// says so of this very target.
pub(crate) fn is_paused_by_us(status: &ManagedWorkloadStatus, target: &Target) -> bool {
    let scaled = status
        .pause
        .as_ref()
        .is_some_and(|pause| pause.scaled_at.is_some());
    let by_status = scaled && matches!(status.phase, Some(Phase::Pausing | Phase::Paused));
    mark(target) != Mark::None || (by_status && is_same(status, target))
}

/// Whether the status is about this very target.
fn is_same(status: &ManagedWorkloadStatus, target: &Target) -> bool {
    status
        .target
        .as_ref()
        .is_some_and(|known| known.uid == target.id.uid)
}

/// What others have done to the target since it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing that counts.
    None,
    /// It was never recorded, or it's another one under the same name.
    New,
    /// Another pod template.
    Rollout,
    /// More replicas.
    Raised,
}

/// Compares the target with what was recorded of it.
pub(crate) fn change(status: &ManagedWorkloadStatus, target: &Target) -> Change {
    match &status.target {
        Some(known) if known.uid == target.id.uid => {
            if target.replicas > known.replicas {
                Change::Raised
            } else if target.template.hash != known.template {
                Change::Rollout
            } else {
                Change::None
            }
        }
        _ => Change::New,
    }
}

/// The target, unless it's gone or going; or why it can't be told.
pub(crate) fn target(world: &World) -> Result<Option<&Target>, String> {
    match &world.target {
        Seen::Unknown(why) => Err(format!("the workload can't be read: {why}")),
        Seen::Absent => Ok(None),
        Seen::Known(target) if target.deleted.is_some() => Ok(None),
        Seen::Known(target) if is_outdated(&world.workload.status, target) => {
            Err("the workload as seen is older than what was last done to it".to_owned())
        }
        Seen::Known(target) => Ok(Some(target)),
    }
}

/// Whether the target as seen is older than what was recorded of it.
///
/// While resuming, one at 0 of the recorded generation is: that was recorded
/// before the scale-up.
fn is_outdated(status: &ManagedWorkloadStatus, target: &Target) -> bool {
    let Some(known) = status
        .target
        .as_ref()
        .filter(|known| known.uid == target.id.uid)
    else {
        return false;
    };
    let unscaled = status.phase == Some(Phase::Resuming)
        && target.replicas == 0
        && known.replicas > 0
        && target.generation == known.generation;
    target.generation < known.generation || unscaled
}

/// What to record of a target.
pub(crate) fn record(target: &Target) -> TargetStatus {
    TargetStatus {
        uid: target.id.uid.clone(),
        template: target.template.hash.clone(),
        replicas: target.replicas,
        generation: target.generation,
    }
}
