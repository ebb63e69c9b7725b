//! Lists of real User-Agents that others keep, for the tests to read. Owns which
//! ones; never keeps anything of them in the tree.

use std::path::PathBuf;

use crate::progress::Progress;
use crate::tools::ToolError;
use crate::tools::npm::{NpmPackages, npm_ci};

const LISTS: NpmPackages<'_> = NpmPackages {
    name: "user-agents",
    title: "lists of User-Agents",
    manifest: include_str!("../user-agents/package.json"),
    lock: include_str!("../user-agents/package-lock.json"),
};

/// The folder with the packages.
pub fn lists(progress: &Progress) -> Result<PathBuf, ToolError> {
    npm_ci(&LISTS, progress)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Each package is of one version and has its digest, and no address of a
    /// registry is in the tree.
    #[test]
    fn the_lock_file_pins_what_is_fetched() {
        let lock: Value = serde_json::from_str(LISTS.lock).unwrap();
        let manifest: Value = serde_json::from_str(LISTS.manifest).unwrap();
        let wanted = manifest["dependencies"].as_object().unwrap();
        let locked = lock["packages"].as_object().unwrap();
        assert_eq!(locked.len(), wanted.len() + 1);
        for (name, version) in wanted {
            let package = &locked[&format!("node_modules/{name}")];
            assert_eq!(&package["version"], version);
            let digest = package["integrity"].as_str().unwrap();
            assert!(digest.starts_with("sha512-"), "{name}");
            assert_eq!(package["resolved"], Value::Null, "{name}");
        }
    }
}
