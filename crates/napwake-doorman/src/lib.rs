//! The proxy that holds callers of paused workloads and wakes them.
