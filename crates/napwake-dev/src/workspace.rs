//! Where things lie in the clone that these tools were built from.

use std::path::{Path, PathBuf};

/// The clone's first folder.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

/// The Helm chart.
pub fn chart() -> PathBuf {
    root().join("charts/napwake")
}

/// The folder that Cargo builds into.
pub fn target() -> PathBuf {
    let set = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    set.unwrap_or_else(|| root().join("target"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_holds_the_lock_file_and_the_chart() {
        assert!(root().join("Cargo.lock").is_file());
        assert!(chart().join("Chart.yaml").is_file());
    }
}
