//! The files of an image, and which of this machine's files a program needs
//! beside it.
//!
//! Writes the same files as a layer of an archive and as a folder.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::oci::{Layer, Packing};
use crate::digest::sha256_of_parts;
use crate::files::{self, Access, FileError, failed};
use crate::run::{self, RunError};

/// Parts of the C library that it loads by itself to resolve names. Newer ones
/// have them built in: what isn't there isn't needed.
const LOADED_BY_NAME: [&str; 3] = ["libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2"];

/// Where distributions keep the licenses of what is copied.
const LICENSES: [&str; 4] = [
    "/usr/share/doc/libc6/copyright",
    "/usr/share/doc/libgcc-s1/copyright",
    "/usr/share/common-licenses/LGPL-2.1",
    "/usr/share/common-licenses/GPL-3",
];

const NSSWITCH: &str = "passwd: files\ngroup: files\nhosts: files dns\n";
const PASSWD: &str = "root:x:0:0:root:/:/sbin/nologin\n\
    napwake:x:65532:65532:napwake:/:/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nnapwake:x:65532:\n";

/// Said once, wherever the licenses' own texts are.
const NOTICE: &str = "\
This image holds parts of the GNU C Library and of GCC's runtime library, copied
unchanged from the distribution on which it was built. Where that is Debian, their
copyright notices and licenses are in /usr/share/doc and /usr/share/common-licenses,
and their sources at https://sources.debian.org under the versions that
/usr/share/doc/napwake/libraries names. The C library is under the GNU LGPL 2.1 or
later; GCC's runtime library is under the GNU GPL 3 with the GCC Runtime Library
Exception 3.1. Both may be replaced by putting other files in their place.
";

#[derive(Debug, thiserror::Error)]
pub enum RootfsError {
    #[error("can't tell which libraries {} needs", program.display())]
    Ldd { program: PathBuf, source: RunError },
    #[error("{} needs {library}, which this machine doesn't have", program.display())]
    Missing { program: PathBuf, library: String },
    #[error(transparent)]
    File(#[from] FileError),
}

/// Files by their path in the image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rootfs {
    files: BTreeMap<String, File>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct File {
    mode: Mode,
    content: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Data,
    Program,
}

impl Mode {
    fn bits(self) -> u32 {
        match self {
            Self::Data => 0o644,
            Self::Program => 0o755,
        }
    }

    fn access(self) -> Access {
        match self {
            Self::Data => Access::Public,
            Self::Program => Access::Program,
        }
    }
}

impl Rootfs {
    pub fn new() -> Self {
        Self::default()
    }

    /// All that a program of this machine needs beside itself, name resolution
    /// included.
    pub fn of(program: &Path) -> Result<Self, RootfsError> {
        let mut libraries = libraries(program)?;
        libraries.extend(loaded_by_name(&libraries));
        let mut rootfs = Self::new()
            .data("/etc/nsswitch.conf", NSSWITCH)
            .data("/etc/passwd", PASSWD)
            .data("/etc/group", GROUP);
        if libraries.is_empty() {
            return Ok(rootfs);
        }
        rootfs = rootfs
            .data("/usr/share/doc/napwake/NOTICE", NOTICE)
            .data("/usr/share/doc/napwake/libraries", versions(&libraries));
        for library in libraries {
            rootfs = rootfs.copied(&library, Mode::Program)?;
        }
        for license in LICENSES
            .map(Path::new)
            .into_iter()
            .filter(|path| path.is_file())
        {
            rootfs = rootfs.copied(license, Mode::Data)?;
        }
        Ok(rootfs)
    }

    #[must_use]
    pub fn program(self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        self.with(path, Mode::Program, content.into())
    }

    #[must_use]
    pub fn data(self, path: &str, content: impl Into<Vec<u8>>) -> Self {
        self.with(path, Mode::Data, content.into())
    }

    fn copied(self, path: &Path, mode: Mode) -> Result<Self, RootfsError> {
        let content = std::fs::read(path).map_err(failed("read", path))?;
        Ok(self.with(&path.to_string_lossy(), mode, content))
    }

    fn with(mut self, path: &str, mode: Mode, content: Vec<u8>) -> Self {
        let path = path.trim_start_matches('/').to_owned();
        self.files.insert(path, File { mode, content });
        self
    }

    /// One digest of all names, modes and contents.
    pub fn digest(&self) -> String {
        let modes = self
            .files
            .values()
            .map(|file| file.mode.bits().to_be_bytes());
        let modes: Vec<_> = modes.collect();
        let parts = self
            .files
            .iter()
            .zip(&modes)
            .flat_map(|((path, file), mode)| {
                [path.as_bytes(), mode.as_slice(), file.content.as_slice()]
            });
        sha256_of_parts(parts)
    }

    pub fn layer(&self, packing: Packing) -> Layer {
        self.files
            .iter()
            .fold(Layer::new(packing), |layer, (path, file)| {
                layer.file(path, file.mode.bits(), file.content.clone())
            })
    }

    /// Writes the files into a folder, over what is there.
    pub fn write(&self, folder: &Path) -> Result<(), FileError> {
        for (path, file) in &self.files {
            let path = folder.join(path);
            if let Some(above) = path.parent() {
                create_open_dir(folder, above)?;
            }
            files::write(&path, &file.content, file.mode.access())?;
        }
        Ok(())
    }
}

/// Creates a folder that everybody may enter, whatever the umask says: the
/// image's user isn't the one that builds it.
fn create_open_dir(root: &Path, folder: &Path) -> Result<(), FileError> {
    files::create_dir(folder)?;
    for folder in folder
        .ancestors()
        .take_while(|above| above.starts_with(root))
    {
        std::fs::set_permissions(folder, Permissions::from_mode(0o755))
            .map_err(failed("set the access of", folder))?;
    }
    Ok(())
}

/// The libraries and the loader of a program, as the loader names them. None
/// for a static program.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, RootfsError> {
    let listed = run::output(Command::new("ldd").arg(program));
    match listed {
        Ok(text) => read_libraries(program, &text),
        Err(RunError::Failed { last_words, .. }) if last_words.contains("not a dynamic") => {
            Ok(Vec::new())
        }
        Err(source) => Err(RootfsError::Ldd {
            program: program.to_owned(),
            source,
        }),
    }
}

/// Reads lines such as `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f…)`
/// and `/lib64/ld-linux-x86-64.so.2 (0x7f…)`.
fn read_libraries(program: &Path, text: &str) -> Result<Vec<PathBuf>, RootfsError> {
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        let (name, place) = line.split_once(" => ").unwrap_or((line, line));
        if place == "not found" {
            let library = name.to_owned();
            return Err(RootfsError::Missing {
                program: program.to_owned(),
                library,
            });
        }
        let path = place.split(" (").next().unwrap_or(place);
        // linux-vdso.so.1 is the kernel's and has no file.
        if path.starts_with('/') {
            found.push(PathBuf::from(path));
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// What the C library loads by itself, beside the C library.
fn loaded_by_name(libraries: &[PathBuf]) -> Vec<PathBuf> {
    let c_library = libraries.iter().find(|path| path.ends_with("libc.so.6"));
    let Some(folder) = c_library.and_then(|path| path.parent()) else {
        return Vec::new();
    };
    LOADED_BY_NAME
        .map(|name| folder.join(name))
        .into_iter()
        .filter(|path| path.is_file())
        .collect()
}

/// One line a library: its path, and the distribution's package with its
/// version where dpkg knows it.
fn versions(libraries: &[PathBuf]) -> String {
    libraries.iter().fold(String::new(), |text, library| {
        let package = package_of(library).unwrap_or_else(|| "of this distribution".to_owned());
        text + &format!("{} {package}\n", library.display())
    })
}

fn package_of(library: &Path) -> Option<String> {
    let owner = run::output(Command::new("dpkg-query").arg("--search").arg(library)).ok()?;
    let package = owner.split(": ").next()?;
    let format = "--showformat=${source:Package} ${source:Version}";
    let shown = run::output(Command::new("dpkg-query").args(["--show", format, package])).ok()?;
    Some(shown.trim().to_owned())
}

#[cfg(test)]
#[path = "rootfs_tests.rs"]
mod tests;
