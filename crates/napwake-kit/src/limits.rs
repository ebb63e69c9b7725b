//! Limits that the system sets a process.
//!
//! Raises what may be raised, and reports what there is. Decides nothing: what
//! is too low for its work, a caller knows.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many file descriptors this process may have open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFiles {
    /// The limit before it was raised; `None` is no limit.
    pub before: Option<u64>,
    /// The limit in force; `None` is no limit.
    pub now: Option<u64>,
}

impl OpenFiles {
    /// Whether `wanted` descriptors fit.
    pub fn fits(self, wanted: u64) -> bool {
        self.now.is_none_or(|now| wanted <= now)
    }
}

/// The system refused to raise the limit.
#[derive(Debug, thiserror::Error)]
#[error("can't raise the limit of open files from {soft:?} to {hard:?}")]
pub struct RaiseError {
    pub soft: Option<u64>,
    pub hard: Option<u64>,
    pub source: io::Error,
}

/// Raises the soft limit of open files to the hard one. A doorman needs one
/// descriptor for each routed port and two for each connection, and containers
/// often start with 1024 (F-150).
pub fn raise_open_files() -> Result<OpenFiles, RaiseError> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return Ok(OpenFiles {
            before: current,
            now: current,
        });
    }
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: maximum,
            maximum,
        },
    )
    .map_err(|errno| RaiseError {
        soft: current,
        hard: maximum,
        source: errno.into(),
    })?;
    Ok(OpenFiles {
        before: current,
        now: getrlimit(Resource::Nofile).current,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_ends_at_the_hard_one() {
        let hard = getrlimit(Resource::Nofile).maximum;
        let lowered = Rlimit {
            current: Some(512),
            maximum: hard,
        };
        setrlimit(Resource::Nofile, lowered).unwrap();

        let files = raise_open_files().unwrap();
        assert_eq!(
            files,
            OpenFiles {
                before: Some(512),
                now: hard
            }
        );
        assert_eq!(getrlimit(Resource::Nofile).current, hard);
    }

    #[test]
    fn fits_compares_with_the_limit_in_force() {
        let files = OpenFiles {
            before: Some(10),
            now: Some(100),
        };
        assert!(files.fits(100));
        assert!(!files.fits(101));
        assert!(
            OpenFiles {
                before: None,
                now: None
            }
            .fits(u64::MAX)
        );
    }
}
