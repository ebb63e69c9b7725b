//! Programs that come with the distribution: looked for, and on Debian
//! installed. Elsewhere the error says exactly what to install.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::ToolError;
use crate::progress::Progress;
use crate::run::{self, RunError};

/// Where programs for the administrator lie, which a user's PATH may lack.
const ADMIN_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Something a command needs, and the Debian package that holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    what: What,
    package: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// In PATH or in a folder of the administrator's programs.
    Program(&'static str),
    /// Any one of these.
    File(&'static [&'static str]),
}

impl Need {
    pub const fn program(program: &'static str, package: &'static str) -> Self {
        Self {
            what: What::Program(program),
            package,
        }
    }

    pub const fn file(any_of: &'static [&'static str], package: &'static str) -> Self {
        Self {
            what: What::File(any_of),
            package,
        }
    }

    fn is_met(self) -> bool {
        match self.what {
            What::Program(name) => find_program(name).is_some(),
            What::File(any_of) => any_of.iter().any(|path| Path::new(path).exists()),
        }
    }

    fn describe(self) -> String {
        match self.what {
            What::Program(name) => format!("{name} (Debian package {})", self.package),
            What::File(any_of) => format!("{} (Debian package {})", any_of[0], self.package),
        }
    }
}

/// Whether packages may be installed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Host {
    /// Debian or one of its kin, and we are root.
    MayInstall,
    /// Debian, but not root.
    NotRoot,
    NotDebian,
}

/// Makes sure that all of it is there. Returns without asking anything of the
/// network when nothing is missing.
pub fn ensure(needs: &[Need], progress: &Progress) -> Result<(), ToolError> {
    let missing = unmet(needs);
    if missing.is_empty() {
        return Ok(());
    }
    let packages = packages(&missing);
    match host() {
        Host::MayInstall => install(&packages, progress)?,
        other => return Err(refusal(other, &missing, &packages)),
    }
    let still = unmet(needs);
    if still.is_empty() {
        return Ok(());
    }
    Err(refusal(Host::NotDebian, &still, &packages))
}

/// A program by its name, in PATH or in a folder of the administrator's programs.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(ADMIN_FOLDERS.iter().map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
}

fn unmet(needs: &[Need]) -> Vec<Need> {
    needs
        .iter()
        .copied()
        .filter(|need| !need.is_met())
        .collect()
}

fn packages(missing: &[Need]) -> Vec<&'static str> {
    let mut packages: Vec<_> = missing.iter().map(|need| need.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn host() -> Host {
    let debian = Path::new("/etc/debian_version").exists() && find_program("apt-get").is_some();
    match (debian, rustix::process::geteuid().is_root()) {
        (true, true) => Host::MayInstall,
        (true, false) => Host::NotRoot,
        (false, _) => Host::NotDebian,
    }
}

fn refusal(host: Host, missing: &[Need], packages: &[&str]) -> ToolError {
    let hint = match host {
        Host::NotRoot => format!(
            "Run this as root, or `sudo apt-get install --no-install-recommends {}`.",
            packages.join(" ")
        ),
        Host::MayInstall | Host::NotDebian => {
            "Install these with your system's package manager, and try again.".to_owned()
        }
    };
    let missing = missing.iter().map(|need| need.describe()).collect();
    ToolError::Missing { missing, hint }
}

fn install(packages: &[&str], progress: &Progress) -> Result<(), ToolError> {
    progress.line(format_args!(
        "installing Debian packages: {}",
        packages.join(" ")
    ));
    let apt = |args: &[&str]| -> Result<(), RunError> {
        let mut command = Command::new("apt-get");
        command
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["-q", "-y"])
            .args(args);
        run::check(&mut command)
    };
    let failed = |source| ToolError::Install { source };
    apt(&["update"]).map_err(failed)?;
    let mut args = vec!["install", "--no-install-recommends"];
    args.extend(packages);
    apt(&args).map_err(failed)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const MISSING: Need = Need::program("napwake-no-such-program", "no-such-package");

    #[test]
    fn what_is_there_is_not_missing() {
        let needs = [
            Need::program("sh", "dash"),
            Need::file(&["/no-such", "/"], "base-files"),
        ];
        assert!(unmet(&needs).is_empty());
    }

    #[rstest]
    #[case(
        Host::NotRoot,
        "sudo apt-get install --no-install-recommends no-such-package"
    )]
    #[case(Host::NotDebian, "package manager")]
    fn a_refusal_says_what_to_install(#[case] host: Host, #[case] hint: &str) {
        let text = refusal(host, &[MISSING], &packages(&[MISSING, MISSING])).to_string();
        assert!(text.contains("napwake-no-such-program (Debian package no-such-package)"));
        assert!(text.contains(hint), "{text}");
    }
}
