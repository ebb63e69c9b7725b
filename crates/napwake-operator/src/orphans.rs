//! Deletes the EndpointSlices that no ManagedWorkload stands for, as
//! `decide::orphans` says: all are looked at as a term begins, and each again
//! whenever it changes or a ManagedWorkload of its namespace goes.

use std::{convert::Infallible, time::Duration};

use napwake_cluster::plain;

use crate::{
    apply::{Applier, ApplyError, Deleted},
    backoff::{Failures, Waits},
    leader::Term,
    observe::Key,
    queue::{Next, Room, Urgency},
};

/// Slices that are looked at at once: there's no hurry.
const ROOM: Room = Room { usual: 4, wakes: 0 };

/// How soon one that couldn't be deleted is looked at again.
const RETRIES: Waits = Waits {
    first: Duration::from_secs(5),
    last: Duration::from_mins(5),
};

/// Looks at every slice of Napwake's, for as long as `term` lasts.
pub(crate) async fn collect(applier: &Applier, term: &Term) -> Infallible {
    let slices = &applier.shared.slices;
    let all: Vec<_> = applier
        .shared
        .with(|index, now| index.all_slices(now).collect());
    for key in all {
        slices.add(key, Urgency::Usual);
    }
    let failures = Failures::new(RETRIES);
    let failures = &failures;
    let work = |key: Key, _| async move {
        let next = look_at(applier, term, &key).await;
        match next {
            Looked::Settled => {
                failures.over(&key);
                Next::WhenAsked
            }
            // Where it's kept, the answer is news of it, which would ask again at once.
            Looked::Failed => Next::NotBefore(failures.another(key).1),
        }
    };
    slices.run(ROOM, work).await
}

/// What came of looking at a slice.
enum Looked {
    /// It's somebody's, or gone.
    Settled,
    Failed,
}

async fn look_at(applier: &Applier, term: &Term, key: &Key) -> Looked {
    let orphan = applier.shared.with(|index, now| index.orphan(key, now));
    let Some(orphan) = orphan else {
        return Looked::Settled;
    };
    let (namespace, slice) = key;
    let error = match applier.collect(term, &orphan).await {
        Ok(Deleted::Gone) => {
            let service = orphan.slice.spec.service.as_str();
            tracing::info!(namespace, slice, service, "nobody stands for it: deleted");
            return Looked::Settled;
        }
        Err(ApplyError::Stale { .. }) => return Looked::Failed,
        Ok(Deleted::Kept(why)) => why,
        Err(error) => plain(&error),
    };
    tracing::warn!(
        namespace,
        slice,
        error,
        "can't delete what nobody stands for"
    );
    Looked::Failed
}

#[cfg(test)]
#[path = "orphans_tests.rs"]
mod tests;
