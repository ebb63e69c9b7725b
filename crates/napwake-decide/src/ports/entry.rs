//! What one owner has one port for, and how a status records it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use napwake_api::{
    ManagedWorkloadStatus,
    workload::{Route, RouteState},
};

use super::Claim;
use crate::timing::{self, after};

/// What an owner has a port for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// A route that stands or is being opened.
    Live { claim: Claim, by: Option<String> },
    /// A route that leaves, and is served until then.
    Draining {
        claim: Claim,
        by: Option<String>,
        until: Option<Timestamp>,
    },
    /// Nothing any more, until then.
    Resting { until: Timestamp },
}

/// How much an owner holds on to a port, from the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hold {
    Resting,
    Draining,
    Live,
}

impl Use {
    pub(super) const fn hold(&self) -> Hold {
        match self {
            Self::Live { .. } => Hold::Live,
            Self::Draining { .. } => Hold::Draining,
            Self::Resting { .. } => Hold::Resting,
        }
    }
}

/// One owner's use of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) what: Use,
    /// How a status that was seen records it, if one does.
    pub(super) recorded: Option<Hold>,
}

impl Entry {
    /// Whether a route has the port for just this.
    pub(super) fn is_live_for(&self, wanted: &Claim, taker: Option<&String>) -> bool {
        matches!(&self.what, Use::Live { claim, by } if claim == wanted && by.as_ref() == taker)
    }

    /// Whether it's just what a status says by this route, a live one.
    pub(super) fn is_of(&self, route: &Route) -> bool {
        let is_live = route.state != RouteState::Draining;
        let is_so = match &self.what {
            Use::Live { claim, by } => {
                claim.service == route.service && claim.port == route.port && *by == route.taken_by
            }
            Use::Draining { .. } | Use::Resting { .. } => false,
        };
        is_live && is_so && self.recorded == Some(Hold::Live)
    }

    /// Whether a listener that is found there now is one for a route that's opened
    /// now, and not for one whose drain is about to end.
    pub(super) fn is_told_by_checks(&self, now: Timestamp) -> bool {
        match self.what {
            Use::Live { .. } => true,
            Use::Draining { until, .. } => {
                until.is_none_or(|until| now < after(until, -timing::DRAIN_ENDS))
            }
            Use::Resting { until } => {
                let ended = after(until, -timing::REST);
                now >= after(ended, timing::DRAIN_ENDS)
            }
        }
    }

    /// Whether a route has the port.
    pub(super) fn is_taken(&self) -> bool {
        match self.what {
            Use::Live { .. } | Use::Draining { .. } => true,
            Use::Resting { .. } => false,
        }
    }

    /// Whether nobody else may have the port.
    pub(super) fn is_busy(&self, now: Timestamp) -> bool {
        match self.what {
            Use::Live { .. } | Use::Draining { .. } => true,
            Use::Resting { until } => until > now,
        }
    }

    /// Whether the port counts against the caps: resting ones don't (T-119),
    /// and shared ones count where they were taken (T-76).
    pub(super) fn is_counted(&self) -> bool {
        match &self.what {
            Use::Live { by, .. } | Use::Draining { by, .. } => by.is_none(),
            Use::Resting { .. } => false,
        }
    }
}

/// What a status records.
pub(super) fn recorded(status: &ManagedWorkloadStatus) -> BTreeMap<u16, Entry> {
    let Some(doorman) = &status.doorman else {
        return BTreeMap::new();
    };
    let entry = |what: Use| Entry {
        recorded: Some(what.hold()),
        what,
    };
    let resting = doorman.resting.iter().map(|resting| {
        let until = resting.until.0;
        (resting.port, entry(Use::Resting { until }))
    });
    let routes = doorman.routes.iter().map(|route| {
        let claim = Claim {
            service: route.service.clone(),
            port: route.port.clone(),
        };
        let what = match route.state {
            RouteState::Opening | RouteState::Routed => Use::Live {
                claim,
                by: route.taken_by.clone(),
            },
            RouteState::Draining => Use::Draining {
                claim,
                by: route.taken_by.clone(),
                until: route.draining_until.as_ref().map(|until| until.0),
            },
        };
        (route.doorman_port, entry(what))
    });
    resting.chain(routes).collect()
}
