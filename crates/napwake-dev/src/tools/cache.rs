//! A folder of built programs, each under a digest of all it was built from.
//!
//! It lies in the user's cache folder rather than in a clone, so that a second
//! clone builds nothing again. What is in it is never changed, only added.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use super::ToolError;
use crate::digest::sha256_of_parts;
use crate::files::{self, failed};

/// What a program was built from, as a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    pub fn of<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut digest = sha256_of_parts(parts.into_iter().map(str::as_bytes));
        digest.truncate(16);
        Self(digest)
    }
}

#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// Where a build puts what it makes.
#[derive(Debug)]
pub struct Room<'a> {
    /// An empty folder that becomes the entry when the build succeeds.
    pub folder: &'a Path,
    /// Where the build's output goes.
    pub log: &'a Path,
}

impl Cache {
    /// `$XDG_CACHE_HOME/napwake`, or `~/.cache/napwake`.
    pub fn open() -> Result<Self, ToolError> {
        let folder = |name: &str| {
            std::env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let base = folder("XDG_CACHE_HOME")
            .or_else(|| folder("HOME").map(|home| home.join(".cache")))
            .ok_or(ToolError::NoCacheFolder)?;
        Ok(Self::at(base.join("napwake")))
    }

    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// The entry's folder, built first if it isn't there. Two clones that ask
    /// at once build once: the second waits for the first.
    pub fn entry(
        &self,
        name: &str,
        key: &Key,
        build: impl FnOnce(&Room<'_>) -> Result<(), ToolError>,
    ) -> Result<PathBuf, ToolError> {
        let tools = self.root.join("tools");
        let entry = tools.join(format!("{name}-{}", key.0));
        if entry.is_dir() {
            return Ok(entry);
        }
        files::create_dir(&tools)?;
        let _lock = lock(&tools.join(format!(".{name}.lock")))?;
        if entry.is_dir() {
            return Ok(entry);
        }
        // Left over from a build that was killed; we hold the lock.
        let folder = tools.join(format!(".{name}.building"));
        files::remove_dir(&folder)?;
        files::create_dir(&folder)?;
        build(&Room {
            folder: &folder,
            log: &tools.join(format!(".{name}.log")),
        })?;
        fs::rename(&folder, &entry).map_err(failed("move a finished build to", &entry))?;
        Ok(entry)
    }
}

fn lock(path: &Path) -> Result<fs::File, ToolError> {
    let file = fs::File::create(path).map_err(failed("create", path))?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive)
        .map_err(|error| failed("lock", path)(error.into()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().to_owned());
        (folder, cache)
    }

    fn build(room: &Room<'_>) -> Result<(), ToolError> {
        files::write(&room.folder.join("program"), "new", files::Access::Program)?;
        Ok(())
    }

    #[test]
    fn an_entry_is_built_once() {
        let (_folder, cache) = cache();
        let key = Key::of(["source"]);
        let first = cache.entry("tool", &key, build).unwrap();
        let second = cache.entry("tool", &key, |_| Err(ToolError::NoGo)).unwrap();
        assert_eq!(first, second);
        assert_eq!(files::read(&second.join("program")).unwrap(), "new");
    }

    #[test]
    fn another_source_is_another_entry() {
        let (_folder, cache) = cache();
        let first = cache.entry("tool", &Key::of(["a", "b"]), build).unwrap();
        let second = cache.entry("tool", &Key::of(["ab"]), build).unwrap();
        assert_ne!(first, second);
    }

    #[test]
    fn a_failed_or_killed_build_leaves_no_entry_and_no_rest() {
        let (_folder, cache) = cache();
        let key = Key::of(["source"]);
        let failed = cache.entry("tool", &key, |room| {
            files::write(&room.folder.join("half"), "", files::Access::Public)?;
            Err(ToolError::NoGo)
        });
        assert!(failed.is_err());
        let entry = cache.entry("tool", &key, build).unwrap();
        assert_eq!(files::list(&entry).unwrap(), vec![entry.join("program")]);
    }
}
