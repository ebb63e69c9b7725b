//! Workloads with the mark of a pause that no ManagedWorkload names, so that
//! nobody would wake them: what an uninstall does about them.

use crate::{
    owners::{self, Mark},
    world::Target,
};

/// What frees a workload that was left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freeing {
    /// It's at 0: it gets its replicas back. It keeps its mark meanwhile, by
    /// which it's found again should that be lost.
    Wake {
        /// How many, never 0.
        replicas: i32,
    },
    /// It has pods: its mark comes off.
    Unmark,
}

/// What frees that workload; `None` where it isn't marked, or is going anyway.
pub fn free(target: &Target) -> Option<Freeing> {
    if target.deleted.is_some() {
        return None;
    }
    let replicas = match owners::mark(target) {
        Mark::None => return None,
        Mark::Replicas(replicas) => replicas,
        // How many it had can't be told, but not none.
        Mark::Spoilt => 1,
    };
    Some(if target.replicas > 0 {
        Freeing::Unmark
    } else {
        Freeing::Wake { replicas }
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use napwake_api::names::signal;
    use rstest::rstest;

    use super::*;
    use crate::sim::questions::paused;

    fn marked(mark: Option<&str>, replicas: i32) -> Target {
        let mut target = paused().target("api").clone();
        target.annotations.remove(signal::PAUSED_REPLICAS);
        let mark = mark.map(|mark| (signal::PAUSED_REPLICAS.to_owned(), mark.to_owned()));
        target.annotations.extend(mark);
        target.replicas = replicas;
        target
    }

    #[rstest]
    #[case::at_none(Some("3"), 0, Some(Freeing::Wake { replicas: 3 }))]
    #[case::with_pods(Some("3"), 2, Some(Freeing::Unmark))]
    #[case::spoilt(Some("three"), 0, Some(Freeing::Wake { replicas: 1 }))]
    #[case::of_zero(Some("0"), 0, Some(Freeing::Wake { replicas: 1 }))]
    #[case::below_zero(Some("-2"), 0, Some(Freeing::Wake { replicas: 1 }))]
    #[case::spoilt_with_pods(Some(""), 1, Some(Freeing::Unmark))]
    #[case::by_somebody_else(None, 0, None)]
    #[case::awake(None, 2, None)]
    fn only_what_is_marked_is_freed(
        #[case] mark: Option<&str>,
        #[case] replicas: i32,
        #[case] expected: Option<Freeing>,
    ) {
        assert_eq!(free(&marked(mark, replicas)), expected);
    }

    #[test]
    fn what_is_being_deleted_is_left_alone() {
        let mut target = marked(Some("3"), 0);
        target.deleted = Some(Timestamp::UNIX_EPOCH);
        assert_eq!(free(&target), None);
    }
}
