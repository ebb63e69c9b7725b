//! Endings: of a doorman pod that stops, of a route that is removed, and of a
//! connection that is passed.
//!
//! Owns the spans. Closes nothing, and sets no timer.

use std::time::Duration;

use napwake_api::agreed;

/// How long after SIGTERM new connections are accepted (DRAIN-11).
pub const POD_ACCEPTS: Duration = Duration::from_secs(15);

/// How long after SIGTERM whatever is still open is closed (DRAIN-13).
pub const POD_ENDS: Duration = Duration::from_secs(25);

/// How long the port of a removed route is served (DRAIN-17).
pub const ROUTE_LISTENS: Duration = agreed::ROUTE_DRAIN.get();

/// How long connections of a removed route go on (DRAIN-25).
pub const ROUTE_PASSES: Duration = Duration::from_mins(5);

/// How long a passed connection may carry nothing either way (LIMIT-26).
pub const IDLE: Duration = Duration::from_mins(10);
