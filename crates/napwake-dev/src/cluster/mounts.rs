//! Mounts below a cluster's folder.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::mount::UnmountFlags;

use super::ClusterError;
use crate::files;

/// Takes all of them away, whoever still uses them. An error if one stays: then
/// removing files would reach into what is mounted there.
pub(super) fn remove_below(folder: &Path) -> Result<(), ClusterError> {
    // Several rounds, as one mount can hide another at the same place.
    for _ in 0..8 {
        let mounts = below(folder)?;
        if mounts.is_empty() {
            return Ok(());
        }
        for mount in mounts.iter().rev() {
            // What fails is still there in the next round, and told at the end.
            let _done = rustix::mount::unmount(mount, UnmountFlags::DETACH);
        }
    }
    let left = below(folder)?;
    if left.is_empty() {
        return Ok(());
    }
    let left: Vec<_> = left
        .iter()
        .map(|mount| mount.display().to_string())
        .collect();
    Err(ClusterError::StillMounted(left.join(", ")))
}

/// In the order they were mounted.
fn below(folder: &Path) -> Result<Vec<PathBuf>, ClusterError> {
    Ok(parse(
        &files::read(Path::new("/proc/self/mountinfo"))?,
        folder,
    ))
}

fn parse(mountinfo: &str, folder: &Path) -> Vec<PathBuf> {
    let points = mountinfo.lines().filter_map(|line| line.split(' ').nth(4));
    points
        .map(unescape)
        .filter(|point| point.starts_with(folder))
        .collect()
}

/// The kernel writes blanks and backslashes as three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..3).filter(|_| *first == b'\\');
        let value = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(value.unwrap_or(*first));
        rest = if value.is_some() { &tail[3..] } else { tail };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTINFO: &str = "\
25 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
90 25 0:40 / /var/lib/napwake-dev/a/nodes/n1/kubelet/x rw - tmpfs tmpfs rw
91 25 0:41 / /var/lib/napwake-dev/a/nodes/n1/with\\040blank rw - tmpfs tmpfs rw
92 25 0:42 / /var/lib/napwake-dev/ab/other rw - tmpfs tmpfs rw
";

    #[test]
    fn only_what_lies_below_the_folder_is_found() {
        let found = parse(MOUNTINFO, Path::new("/var/lib/napwake-dev/a"));
        let names: Vec<_> = found.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(
            names,
            [
                "/var/lib/napwake-dev/a/nodes/n1/kubelet/x",
                "/var/lib/napwake-dev/a/nodes/n1/with blank",
            ]
        );
    }

    #[test]
    fn a_folder_without_mounts_is_left_alone() {
        remove_below(Path::new("/napwake-no-such-folder")).unwrap();
    }
}
