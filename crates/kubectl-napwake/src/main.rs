//! The kubectl plugin: status, wake, pause.

fn main() {}
