//! Tests on a real API server without nodes: level A.
//!
//! Pods and endpoints are what a test writes. They run in the network of a
//! control plane of their own.

mod validation;
