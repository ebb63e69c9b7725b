//! World → [`Settled`]: what the rest of the crate goes by, each thing worked
//! out once. Decides nothing.

use jiff::Timestamp;
use napwake_api::{
    ManagedWorkloadStatus, names,
    workload::{PauseStatus, Phase},
};

use crate::{
    clock::{self, Signals},
    owners::{self, Change, Mark, Standing},
    world::{Target, Workload, World},
};

/// One world, worked out.
#[derive(Clone, Debug)]
pub(crate) struct Settled<'w> {
    pub(crate) world: &'w World,
    pub(crate) now: Timestamp,
    pub(crate) fate: Fate,
    pub(crate) standing: Standing,
    /// None only where the standing is `Missing`.
    pub(crate) target: Option<&'w Target>,
    pub(crate) mark: Mark,
    pub(crate) change: Change,
    pub(crate) signals: Signals,
}

/// Whether the ManagedWorkload stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It does.
    Stays,
    /// It's being deleted, and its workload is to be woken first (T-86).
    Leaves,
    /// It's being deleted, and nothing can be woken any more (T-130).
    Lost,
    /// It's being deleted, and the finalizer is off: it's nobody's any more.
    Gone,
}

/// Works the world out, or says what about it is unknown.
pub(crate) fn settle(world: &World, now: Timestamp) -> Result<Settled<'_>, String> {
    let target = owners::target(world)?;
    Ok(Settled {
        world,
        now,
        fate: fate(world, target),
        standing: owners::standing(world, target),
        target,
        mark: target.map_or(Mark::None, owners::mark),
        change: target.map_or(Change::New, |target| {
            owners::change(&world.workload.status, target)
        }),
        signals: clock::read(world, now),
    })
}

fn fate(world: &World, target: Option<&Target>) -> Fate {
    let is_terminating = world
        .namespace
        .known()
        .is_some_and(|namespace| namespace.deleted.is_some());
    match world.workload.deleted {
        None => Fate::Stays,
        Some(_) if !world.workload.finalizers.contains(names::FINALIZER) => Fate::Gone,
        Some(_) if target.is_none() || is_terminating => Fate::Lost,
        Some(_) => Fate::Leaves,
    }
}

impl Settled<'_> {
    pub(crate) fn workload(&self) -> &Workload {
        &self.world.workload
    }

    /// The status as it is.
    pub(crate) fn status(&self) -> &ManagedWorkloadStatus {
        &self.world.workload.status
    }

    /// The phase as it is, none for one that was never looked at.
    pub(crate) fn phase(&self) -> Option<Phase> {
        self.status().phase
    }

    /// Whether at least one of the target's pods is Ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.target.is_some_and(|target| target.ready_replicas > 0)
    }

    /// Whether the target is at 0 by Napwake's hand.
    pub(crate) fn is_asleep(&self) -> bool {
        self.target.is_some_and(|target| {
            target.replicas == 0 && owners::is_paused_by_us(self.status(), target)
        })
    }

    /// The pause whose scale-down is recorded and may be under way.
    pub(crate) fn stop_under_way(&self) -> Option<&PauseStatus> {
        let pause = self.status().pause.as_ref()?;
        (self.phase() == Some(Phase::Pausing) && pause.scaled_at.is_some()).then_some(pause)
    }

    /// Whether the target at 0 is as the status left it: then the sleep that the
    /// status speaks of is the one that the target is in, though the status as
    /// seen may be old. Generations only grow, and each scaling is a new one.
    pub(crate) fn is_as_recorded(&self) -> bool {
        let (Some(target), Some(known)) = (self.target, &self.status().target) else {
            return false;
        };
        let since = target.generation - known.generation;
        known.uid == target.id.uid
            && match self.phase() {
                // Recorded before the scale-down, or found at 0.
                Some(Phase::Pausing) => since == 0 || since == 1,
                Some(Phase::Paused) => since == 0,
                Some(Phase::Running | Phase::Resuming) | None => false,
            }
    }

    /// How many replicas a wake gives back, never 0: as the status says, which
    /// is written before the mark, or as the mark says.
    pub(crate) fn replicas_before(&self) -> i32 {
        let by_mark = match self.mark {
            Mark::Replicas(replicas) => Some(replicas),
            Mark::None | Mark::Spoilt => None,
        };
        let by_status = self
            .status()
            .pause
            .as_ref()
            .filter(|pause| pause.scaled_at.is_some())
            .map(|pause| pause.replicas);
        by_status.or(by_mark).unwrap_or(1).max(1)
    }
}
