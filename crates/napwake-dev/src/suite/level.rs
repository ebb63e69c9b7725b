//! The levels of tests, from the cheapest to the dearest.

use std::fmt;
use std::str::FromStr;

/// A level, as `docs/requirements.md` marks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// The tree itself: formatting, lints, layers, generated files.
    Checks,
    /// One function or module.
    U,
    /// Every parser, fuzzed.
    Fuzz,
    /// The chart, rendered.
    H,
    /// A real API server without nodes.
    A,
    /// The doorman's process with stock clients.
    D,
    /// A real cluster.
    C,
    /// Real browsers.
    B,
}

/// A word that names no level.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is none of checks, U, fuzz, H, A, D, C, B")]
pub struct UnknownLevel(String);

impl Level {
    /// All of them, in the order in which they run.
    pub const ALL: [Self; 8] = [
        Self::Checks,
        Self::U,
        Self::Fuzz,
        Self::H,
        Self::A,
        Self::D,
        Self::C,
        Self::B,
    ];

    /// What a person reads when it starts.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Checks => "formatting, lints, layers, generated files",
            Self::U => "functions and modules",
            Self::Fuzz => "every parser, fuzzed",
            Self::H => "the chart",
            Self::A => "a real API server",
            Self::D => "the doorman's process with stock clients",
            Self::C => "a real cluster",
            Self::B => "real browsers",
        }
    }

    /// The tests of this level, as a filter of nextest's.
    pub const fn filter(self) -> &'static str {
        match self {
            Self::Checks | Self::Fuzz => "none()",
            Self::U => {
                "not (package(napwake-tests-cluster) | package(napwake-tests-process) | \
                 (package(napwake-tests-browser) & kind(test)))"
            }
            Self::H => "package(napwake-tests-cluster) & binary(manifests)",
            Self::A => "package(napwake-tests-cluster) & binary(api)",
            Self::D => "package(napwake-tests-process)",
            Self::C => "package(napwake-tests-cluster) & binary(cluster)",
            Self::B => "package(napwake-tests-browser) & kind(test)",
        }
    }

    /// How many tests run at once, where that isn't nextest's own choice of one
    /// for each core.
    pub const fn threads(self) -> Option<&'static str> {
        match self {
            // Ports that drain and rest, backoffs: they wait for most of their time.
            Self::A => Some("8"),
            _ => None,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checks => f.write_str("checks"),
            Self::Fuzz => f.write_str("fuzz"),
            other => fmt::Debug::fmt(other, f),
        }
    }
}

impl FromStr for Level {
    type Err = UnknownLevel;

    fn from_str(word: &str) -> Result<Self, UnknownLevel> {
        let known = Self::ALL
            .into_iter()
            .find(|level| level.to_string().eq_ignore_ascii_case(word));
        known.ok_or_else(|| UnknownLevel(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_as_they_are_written_in_any_case() {
        for level in Level::ALL {
            assert_eq!(level.to_string().to_lowercase().parse(), Ok(level));
        }
        assert!("B2".parse::<Level>().is_err());
    }
}
