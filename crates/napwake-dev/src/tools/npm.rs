//! Packages of npm that hold data, by a lock file.

use std::path::PathBuf;
use std::process::Command;

use super::ToolError;
use super::cache::{Cache, Key};
use super::packages::{self, Need};
use crate::files::{self, Access};
use crate::progress::Progress;
use crate::run;

/// Debian's own npm is a package apart from Node's; others bring both at once.
const NPM: Need = Need::program("npm", "npm");

/// Packages that are fetched together.
#[derive(Debug, Clone, Copy)]
pub struct NpmPackages<'a> {
    /// What they are kept under.
    pub name: &'a str,
    /// What a person reads while they come.
    pub title: &'a str,
    /// `package.json`.
    pub manifest: &'a str,
    /// `package-lock.json`, with the digest of each package.
    pub lock: &'a str,
}

/// The folder that holds each package by its name, fetched if the cache doesn't
/// have it. npm takes nothing whose digest isn't the lock file's, and runs nothing
/// of what it fetches.
pub fn npm_ci(wanted: &NpmPackages<'_>, progress: &Progress) -> Result<PathBuf, ToolError> {
    npm_ci_into(&Cache::open()?, wanted, progress)
}

fn npm_ci_into(
    cache: &Cache,
    wanted: &NpmPackages<'_>,
    progress: &Progress,
) -> Result<PathBuf, ToolError> {
    let key = Key::of([wanted.manifest, wanted.lock]);
    let entry = cache.entry(wanted.name, &key, |room| {
        packages::ensure(&[NPM], progress)?;
        progress.line(format_args!("fetching {}…", wanted.title));
        let put = |name: &str, text| files::write(&room.folder.join(name), text, Access::Public);
        put("package.json", wanted.manifest)?;
        put("package-lock.json", wanted.lock)?;
        let mut npm = Command::new("npm");
        npm.current_dir(room.folder)
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
            .args(["--no-update-notifier", "--loglevel=error"]);
        let failed = |source| ToolError::Fetch {
            what: wanted.title.to_owned(),
            source,
        };
        run::with_heartbeat(&mut npm, wanted.title, room.log, progress).map_err(failed)
    })?;
    Ok(entry.join("node_modules"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_not_fetched_again() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().to_owned());
        let wanted = NpmPackages {
            name: "data",
            title: "data",
            manifest: "no JSON: npm would refuse it",
            lock: "",
        };
        let key = Key::of([wanted.manifest, wanted.lock]);
        let kept = cache.entry("data", &key, |_| Ok(())).unwrap();
        let found = npm_ci_into(&cache, &wanted, &Progress::new()).unwrap();
        assert_eq!(found, kept.join("node_modules"));
    }
}
