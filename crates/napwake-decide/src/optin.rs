//! Opting in by label: which ManagedWorkload there should be for a Deployment
//! or StatefulSet that carries the label, or whose namespace does.
//!
//! Pure, and apart from the lifecycle: it says that a ManagedWorkload is made,
//! changed or taken away, never what becomes of the workload. Taking one away
//! wakes its workload first, since the finalizer does.

use napwake_api::{
    ManagedWorkloadSpec,
    names::{TRUE, opt},
    settings::{self, Defaults, Unreadable},
    workload::{MaxWait, TargetKind, TargetRef, WakeSpec},
};

use crate::world::Map;

/// The Deployment or StatefulSet in question.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its kind.
    pub kind: TargetKind,
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
    /// Whether it's being deleted.
    pub life: Life,
    /// Its labels.
    pub labels: &'a Map,
    /// Its annotations.
    pub annotations: &'a Map,
}

/// The namespace around it.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Whether the namespace is going.
    pub life: Life,
    /// The namespace's labels.
    pub labels: &'a Map,
    /// The namespace's annotations.
    pub annotations: &'a Map,
    /// Every ManagedWorkload of the namespace.
    pub existing: &'a [Existing<'a>],
    /// What the chart sets.
    pub defaults: Defaults,
}

/// Whether an object stays or is being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It stays.
    Stays,
    /// It has a deletion timestamp.
    Going,
}

/// A ManagedWorkload that is there.
#[derive(Clone, Copy, Debug)]
pub struct Existing<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its uid.
    pub uid: &'a str,
    /// Its resourceVersion.
    pub resource_version: &'a str,
    /// Whether it's being deleted.
    pub life: Life,
    /// Who made it.
    pub origin: Origin<'a>,
    /// Its spec.
    pub spec: &'a ManagedWorkloadSpec,
}

/// Who made a ManagedWorkload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<'a> {
    /// People or their tools: never changed here.
    ByHand,
    /// Napwake, for a label.
    ByLabel {
        /// The uid of the workload that owns it, if it still says so.
        owner: Option<&'a str>,
    },
}

/// What there should be, and what couldn't be read on the way.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct OptIn {
    /// What to do, at most one thing at a time.
    pub wish: Wish,
    /// Settings that couldn't be read, for `InvalidSetting` events on the
    /// workload (SET-10).
    pub unreadable: Vec<Unreadable>,
}

/// What to do about the workload's ManagedWorkload.
#[derive(Clone, Debug, PartialEq)]
pub enum Wish {
    /// Nothing: all is as it should be, or something has to go first.
    Nothing,
    /// Make one, owned by the workload.
    Make {
        /// Its name.
        name: String,
        /// Its spec.
        spec: Box<ManagedWorkloadSpec>,
    },
    /// Change the spec of the one that was made.
    ///
    /// Precondition: `uid` and `resource_version`.
    Change {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
        /// Its resourceVersion, as seen.
        resource_version: String,
        /// Its spec.
        spec: Box<ManagedWorkloadSpec>,
    },
    /// Delete the one that was made; its finalizer wakes the workload first.
    ///
    /// Precondition: `uid` and `resource_version`.
    Remove {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
        /// Its resourceVersion, as seen.
        resource_version: String,
    },
    /// One should be made, but other workloads' have both of its names.
    NamesTaken {
        /// The names, the preferred one first.
        names: [String; 2],
    },
}

/// Which ManagedWorkload there should be for `subject`.
pub fn opt_in(subject: &Subject<'_>, around: &Surroundings<'_>) -> OptIn {
    let nothing = OptIn {
        wish: Wish::Nothing,
        unreadable: Vec::new(),
    };
    if subject.life == Life::Going || around.life == Life::Going {
        // The garbage collector takes the ManagedWorkload with it.
        return nothing;
    }
    let same_target =
        |one: &&Existing<'_>| targets(&one.spec.target_ref, subject) && one.life == Life::Stays;
    let made = around
        .existing
        .iter()
        .filter(same_target)
        .find(|one| one.origin != Origin::ByHand);
    let by_hand = around
        .existing
        .iter()
        .filter(same_target)
        .any(|one| one.origin == Origin::ByHand);
    if by_hand || !is_wanted(subject, around) {
        return OptIn {
            wish: made.map_or(Wish::Nothing, remove),
            ..nothing
        };
    }
    let (settings, unreadable) =
        settings::read(subject.annotations, around.annotations, around.defaults);
    let spec = ManagedWorkloadSpec {
        target_ref: TargetRef {
            kind: subject.kind,
            name: subject.name.to_owned(),
        },
        // Where it can't be read the workload isn't paused on its own, whatever
        // stands here: see `never_idle`.
        idle_after: settings.idle_after.unwrap_or(around.defaults.idle_after),
        lookout: settings.lookout,
        wake: WakeSpec {
            mode: settings.wake,
            page: settings.page,
            max_wait: MaxWait(settings.max_wait),
        },
        // People may suspend one that was made for a label.
        suspend: made.is_some_and(|one| one.spec.suspend),
    };
    let wish = match made {
        Some(one) => change(one, subject, spec),
        None => make(subject, around, spec),
    };
    OptIn { wish, unreadable }
}

/// Why a workload opted in by label isn't paused on its own, if a setting of it
/// can't be read.
pub fn never_idle(workload: &Map, namespace: &Map, defaults: Defaults) -> Option<String> {
    let (settings, unreadable) = settings::read(workload, namespace, defaults);
    if settings.idle_after.is_some() {
        return None;
    }
    let why = unreadable
        .iter()
        .find(|one| one.annotation == napwake_api::names::setting::IDLE_AFTER);
    Some(why.map_or_else(
        || "idle-after can't be read".to_owned(),
        ToString::to_string,
    ))
}

/// The workload's own label wins over its namespace's, and `ignore` over both
/// (LIFE-18, LIFE-19).
fn is_wanted(subject: &Subject<'_>, around: &Surroundings<'_>) -> bool {
    let ignored = |labels: &Map, annotations: &Map| {
        [labels, annotations]
            .iter()
            .any(|map| map.get(opt::IGNORE).is_some_and(|value| value == TRUE))
    };
    if ignored(subject.labels, subject.annotations) || ignored(around.labels, around.annotations) {
        return false;
    }
    subject
        .labels
        .get(opt::MANAGED)
        .or_else(|| around.labels.get(opt::MANAGED))
        .is_some_and(|value| value == TRUE)
}

fn targets(target: &TargetRef, subject: &Subject<'_>) -> bool {
    target.kind == subject.kind && target.name == subject.name
}

fn remove(one: &Existing<'_>) -> Wish {
    Wish::Remove {
        name: one.name.to_owned(),
        uid: one.uid.to_owned(),
        resource_version: one.resource_version.to_owned(),
    }
}

fn change(one: &Existing<'_>, subject: &Subject<'_>, spec: ManagedWorkloadSpec) -> Wish {
    let of_this_one = one.origin
        == Origin::ByLabel {
            owner: Some(subject.uid),
        };
    if !of_this_one {
        // It was made for an earlier workload of that name.
        return remove(one);
    }
    if *one.spec == spec {
        return Wish::Nothing;
    }
    Wish::Change {
        name: one.name.to_owned(),
        uid: one.uid.to_owned(),
        resource_version: one.resource_version.to_owned(),
        spec: Box::new(spec),
    }
}

fn make(subject: &Subject<'_>, around: &Surroundings<'_>, spec: ManagedWorkloadSpec) -> Wish {
    let kind = subject.kind.as_str().to_ascii_lowercase();
    let names = [subject.name.to_owned(), format!("{}-{kind}", subject.name)];
    // One that is going keeps its name until its ports have rested; the same
    // workload's next one waits for it rather than taking the other name.
    let going = around
        .existing
        .iter()
        .any(|one| one.life == Life::Going && targets(&one.spec.target_ref, subject));
    if going {
        return Wish::Nothing;
    }
    let free = |name: &&String| !around.existing.iter().any(|one| one.name == **name);
    match names.iter().find(free) {
        Some(name) => Wish::Make {
            name: name.clone(),
            spec: Box::new(spec),
        },
        None => Wish::NamesTaken { names },
    }
}

#[cfg(test)]
#[path = "optin_tests.rs"]
mod tests;
