//! The name of a cluster, which also names its network and its folder.

use std::fmt;
use std::str::FromStr;

/// Lower-case letters, digits and dashes, at most 31 of them: fit for a folder,
/// a network namespace and a DNS label, with room for a node's name behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterName(String);

/// The cluster that commands mean when nobody names one.
pub const DEFAULT_NAME: &str = "napwake-dev";

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no name for a cluster: it takes 1 to 31 lower-case letters, digits and dashes, \
     a letter first and no dash last"
)]
pub struct NameError(String);

impl ClusterName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What a command needs behind it to mean this cluster: ` --name …`, or
    /// nothing for the one that is meant without.
    pub fn flag(&self) -> String {
        if self.0 == DEFAULT_NAME {
            String::new()
        } else {
            format!(" --name {}", self.0)
        }
    }
}

impl Default for ClusterName {
    fn default() -> Self {
        Self(DEFAULT_NAME.to_owned())
    }
}

impl FromStr for ClusterName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let fits = (1..=31).contains(&text.len())
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            && text.as_bytes()[0].is_ascii_lowercase()
            && !text.ends_with('-');
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError(text.to_owned()))
        }
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("napwake-dev", true)]
    #[case("a", true)]
    #[case("a123456789012345678901234567890", true)]
    #[case("a1234567890123456789012345678901", false)]
    #[case("", false)]
    #[case("../etc", false)]
    #[case("a.n1", false)]
    #[case("1a", false)]
    #[case("a-", false)]
    #[case("A", false)]
    fn names_fit_where_they_are_used(#[case] text: &str, #[case] fits: bool) {
        assert_eq!(text.parse::<ClusterName>().is_ok(), fits);
    }

    #[test]
    fn a_command_names_any_cluster_but_the_default_one() {
        assert_eq!(ClusterName::default().flag(), "");
        assert_eq!(ClusterName("mine".to_owned()).flag(), " --name mine");
    }
}
