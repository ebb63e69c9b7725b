//! File work with errors that say what was being done, and to what.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
#[error("can't {doing} {}", path.display())]
pub struct FileError {
    pub doing: &'static str,
    pub path: PathBuf,
    pub source: io::Error,
}

/// Makes an `io::Error` into one of ours: `.map_err(failed("read", path))`.
pub(crate) fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path = path.to_owned();
    move |source| FileError {
        doing,
        path,
        source,
    }
}

pub fn create_dir(path: &Path) -> Result<(), FileError> {
    fs::create_dir_all(path).map_err(failed("create", path))
}

pub fn read(path: &Path) -> Result<String, FileError> {
    fs::read_to_string(path).map_err(failed("read", path))
}

/// Reads a file that may well not be there.
pub fn read_if_there(path: &Path) -> Result<Option<String>, FileError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(gone) if gone.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(failed("read", path)(source)),
    }
}

/// Who may read or run what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// 0644
    Public,
    /// 0600: keys and what holds them.
    Secret,
    /// 0755
    Program,
}

impl Access {
    fn mode(self) -> u32 {
        match self {
            Self::Public => 0o644,
            Self::Secret => 0o600,
            Self::Program => 0o755,
        }
    }
}

/// Writes a file whole: a reader, or the next run after a crash, finds the old
/// content or the new one, never half of it.
pub fn write(path: &Path, content: impl AsRef<[u8]>, access: Access) -> Result<(), FileError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    // The access is set from the start: a key is never readable, not even briefly.
    remove(&beside)?;
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(access.mode())
        .open(&beside)
        .map_err(failed("create", &beside))?;
    file.write_all(content.as_ref())
        .map_err(failed("write", &beside))?;
    fs::set_permissions(&beside, fs::Permissions::from_mode(access.mode()))
        .map_err(failed("set the access of", &beside))?;
    fs::rename(&beside, path).map_err(failed("replace", path))
}

/// Removes a file, if it is there.
pub fn remove(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Removes a folder with all that is in it, if it is there.
pub fn remove_dir(path: &Path) -> Result<(), FileError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Makes `to` the same file as `from`, without copying where both are on one
/// file system.
pub fn link_or_copy(from: &Path, to: &Path) -> Result<(), FileError> {
    remove(to)?;
    if fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    fs::copy(from, to).map(drop).map_err(failed("copy to", to))
}

/// What is in a folder, by name; nothing where there is no folder.
pub fn list(path: &Path) -> Result<Vec<PathBuf>, FileError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(gone) if gone.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(failed("list", path)(source)),
    };
    let mut all = Vec::new();
    for entry in entries {
        all.push(entry.map_err(failed("list", path))?.path());
    }
    all.sort();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_readable_by_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        write(&path, "first", Access::Public).unwrap();
        write(&path, "second", Access::Secret).unwrap();
        assert_eq!(read(&path).unwrap(), "second");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(list(folder.path()).unwrap(), vec![path]);
    }

    #[test]
    fn what_is_not_there_can_be_removed_and_listed() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone");
        remove(&gone).unwrap();
        remove_dir(&gone).unwrap();
        assert!(list(&gone).unwrap().is_empty());
        assert!(read_if_there(&gone).unwrap().is_none());
    }
}
