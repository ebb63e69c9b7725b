//! Tests that end Napwake's own pods: others would feel it, so nothing runs
//! beside them (`.config/nextest.toml` goes by this module's name).

mod doorman;
mod moved;
mod nodes;
mod operator;
