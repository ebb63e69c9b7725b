//! Tests on the real binaries with stock clients.
