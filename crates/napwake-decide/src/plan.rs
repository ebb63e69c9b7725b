//! What to write, in order ([`Plan`]).
//!
//! Plain data: carrying it out is the operator's, putting it into words is
//! `render`'s.

use std::collections::BTreeSet;

use jiff::Timestamp;
use napwake_api::ManagedWorkloadStatus;

use crate::{
    timing::{self, after},
    world::{Listener, SliceSpec, TargetId},
};

/// What to write next for one ManagedWorkload.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Plan {
    /// The writes, to be carried out in this order, one after the other.
    ///
    /// One that fails ends the plan, and the world is looked at again. Only slices
    /// and events are passed over: a slice's failure goes to
    /// [`crate::world::World::slice_failures`], since routing holds nothing up
    /// (ROUTE-38, ROUTE-39), and an event is lost.
    pub writes: Vec<Write>,
    /// The Services of which [`crate::world::World::served`] is asked for. Where
    /// nothing is to be written it's read, and decided again with that.
    pub reads: BTreeSet<String>,
    /// The Services of which it's asked who serves them. Where nothing is to be
    /// written that's read into [`crate::world::World::behind`], and decided again.
    pub asks: BTreeSet<String>,
    /// When to be asked again though nothing has changed, if ever; never a time that
    /// is past.
    pub again: Option<Timestamp>,
    /// What can't be told, and why, that it would go on by: for people, should it last.
    pub unknown: Vec<String>,
}

impl Plan {
    /// A plan that writes nothing.
    pub fn nothing() -> Self {
        Self {
            writes: Vec::new(),
            reads: BTreeSet::new(),
            asks: BTreeSet::new(),
            again: None,
            unknown: Vec::new(),
        }
    }

    /// A plan that writes nothing and looks again soon, for something that
    /// can't be told.
    pub(crate) fn waiting(why: String, now: Timestamp) -> Self {
        Self {
            again: Some(after(now, timing::LOOK_AGAIN)),
            unknown: vec![why],
            ..Self::nothing()
        }
    }

    /// Whether nothing is to be written.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}

/// One write, with the precondition that it was decided under.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Sets the target's replicas through its scale subresource.
    ///
    /// Precondition: the uid is `target.uid`, the replicas are `from`, and the
    /// resourceVersion is `unchanged_since` (a JSON patch with `test` operations
    /// on the scale holds all three).
    ///
    /// A scale-down comes right behind a [`Write::WriteStatus`] that records it,
    /// of a target that was seen with its mark. Whoever ends such a pause
    /// changes the target first and the status then, so that none of its
    /// scale-downs can come true any more, however late it is.
    ScaleTarget {
        /// The workload.
        target: TargetId,
        /// The replicas it was seen with.
        from: i32,
        /// The replicas it should have.
        to: i32,
        /// The target's resourceVersion as seen.
        unchanged_since: String,
    },
    /// Sets or takes off the target's annotation `napwake.dev/paused-replicas`.
    ///
    /// Precondition: the uid is `target.uid`, and the resourceVersion is
    /// `unchanged_since`, even where nothing is to be changed.
    MarkTarget {
        /// The workload.
        target: TargetId,
        /// How many replicas it had, at least 1; none takes the mark off.
        paused_replicas: Option<i32>,
        /// The target's resourceVersion as seen.
        unchanged_since: String,
    },
    /// Makes or rewrites one EndpointSlice.
    ApplySlice {
        /// What it should say.
        slice: SliceSpec,
        /// What it's written over.
        over: Over,
    },
    /// Deletes one EndpointSlice of Napwake's.
    ///
    /// Precondition: the uid and the resourceVersion.
    DeleteSlice {
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
        /// Its resourceVersion as seen.
        resource_version: String,
    },
    /// Begins to connect to each listener, for about a second at most, and
    /// closes at once (ROUTE-79).
    ///
    /// Not waited for, since a wake must not wait behind it. A listener that is
    /// being checked already isn't checked twice. The results go to
    /// [`crate::world::World::checks`] and lead to another decision.
    CheckListeners(Vec<Listener>),
    /// Replaces the status.
    ///
    /// Precondition: `resource_version`. So a stamp that came after the world
    /// was read stops a scale-down planned behind this write.
    #[expect(clippy::enum_variant_names, reason = "the name says what is done")]
    WriteStatus {
        /// The ManagedWorkload's, as seen.
        resource_version: String,
        /// The whole status.
        status: Box<ManagedWorkloadStatus>,
    },
    /// Puts [`napwake_api::names::FINALIZER`] on the ManagedWorkload.
    ///
    /// Precondition: `resource_version`.
    AddFinalizer {
        /// The ManagedWorkload's, as seen.
        resource_version: String,
    },
    /// Takes [`napwake_api::names::FINALIZER`] off the ManagedWorkload.
    ///
    /// Precondition: `resource_version`.
    RemoveFinalizer {
        /// The ManagedWorkload's, as seen.
        resource_version: String,
    },
    /// Emits an event about the ManagedWorkload.
    Event(Event),
}

/// What a slice is written over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    /// Nothing: it's created, and it's a failure if the name is taken.
    Nothing,
    /// The slice of this uid and resourceVersion.
    Existing {
        /// `metadata.uid`.
        uid: String,
        /// `metadata.resourceVersion`.
        resource_version: String,
    },
}

/// An event about the ManagedWorkload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Normal or Warning.
    pub type_: EventType,
    /// One of [`napwake_api::names::event`].
    pub reason: &'static str,
    /// What happened, for people.
    pub note: String,
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// As it should be.
    Normal,
    /// Somebody should look.
    Warning,
}
