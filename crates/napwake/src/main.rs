//! The napwake binary: operator and doorman.

fn main() {}
