//! Test helpers: object builders, callers, waiting for a state.
