//! Spans of time that both processes go by, so that neither is out of step with
//! what the other does.

use crate::Span;

/// How long a route that leaves is still served: the operator puts the end on
/// record, the doorman counts from when it sees the drain begin (DRAIN-17).
pub const ROUTE_DRAIN: Span = Span::from_secs(30);

/// How far ahead of one's own clock a stamp may be, for clocks differ (T-12).
pub const CLOCK_SKEW: Span = Span::from_secs(60);
