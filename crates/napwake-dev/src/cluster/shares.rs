//! The part of the processors that pods get.

use std::fs;
use std::path::Path;
use std::thread::available_parallelism;

use super::leftovers::{NAMESPACE, hierarchies};
use crate::files::{self, FileError, failed};

/// What a kubelet gives all pods together for each core, beside 1,024 for all
/// programs of the machine together.
const PER_CORE: usize = 1024;

/// How many threads of the machine's programs want a core at once. Here each of
/// them counts as much as all of them do where they have a group of their own.
const THREADS: usize = 8;

/// The most that the kernel takes.
const MOST: usize = 262_144;

/// Gives all pods together about what they get on a machine whose kubelet makes
/// their groups, which these don't.
///
/// Otherwise all pods of the machine get as much as one thread of the API server,
/// and what Napwake does seems slower than it is. Only version 1 of control groups
/// is like that: with version 2 all threads outside count as one group.
pub(super) fn give_pods_theirs() -> Result<(), FileError> {
    for hierarchy in hierarchies() {
        if hierarchy.join("cpu.shares").is_file() {
            give(&hierarchy.join(NAMESPACE))?;
        }
    }
    Ok(())
}

fn give(group: &Path) -> Result<(), FileError> {
    files::create_dir(group)?;
    let file = group.join("cpu.shares");
    // Not through another file that takes its name: this one is the kernel's.
    fs::write(&file, shares(cores()).to_string()).map_err(failed("write", &file))
}

fn cores() -> usize {
    available_parallelism().map_or(1, usize::from)
}

fn shares(cores: usize) -> usize {
    (cores * PER_CORE * THREADS).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_get_the_more_the_more_cores_there_are_up_to_the_kernels_most() {
        assert_eq!(shares(2), 16_384);
        assert_eq!(shares(1000), MOST);
    }
}
