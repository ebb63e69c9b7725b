//! The tree's own files, as git knows them.

use std::{path::PathBuf, process::Command};

use anyhow::{Context, Result, ensure};

use crate::workspace::root;

/// Tracked and new files whose name ends in `.ext`, relative to the root.
pub fn files(ext: &str) -> Result<Vec<PathBuf>> {
    let pattern = format!("*.{ext}");
    let listed = Command::new("git")
        .current_dir(root())
        .args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "--",
        ])
        .arg(&pattern)
        .output()
        .context("run git ls-files")?;
    ensure!(
        listed.status.success(),
        "git ls-files failed: the checks read what git tracks"
    );
    let names = String::from_utf8(listed.stdout).context("file names must be UTF-8")?;
    let mut found: Vec<_> = names.lines().map(PathBuf::from).collect();
    found.retain(|path| root().join(path).is_file());
    Ok(found)
}

/// A file's text.
pub fn read(path: &std::path::Path) -> Result<String> {
    std::fs::read_to_string(root().join(path)).with_context(|| format!("read {}", path.display()))
}
