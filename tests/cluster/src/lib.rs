//! Tests on the real API server and the real cluster.
