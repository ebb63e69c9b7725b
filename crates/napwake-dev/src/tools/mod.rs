//! Programs and data that the development tools use but that are not ours: found on
//! the machine, installed from its distribution, or built or fetched once and kept.

pub mod cache;
pub mod cargo;
pub mod go;
pub mod npm;
pub mod packages;
pub mod pip;

use crate::files::FileError;
use crate::run::RunError;

pub use cargo::cargo_install;
pub use go::{GoTool, go_install, go_module};
pub use pip::python_package;

#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    #[error("there is no folder to keep built programs in: neither XDG_CACHE_HOME nor HOME is set")]
    NoCacheFolder,
    #[error(
        "Go is not installed (looked for `go` in PATH and for /usr/local/go/bin/go); \
         install Go 1.26 or later from https://go.dev/dl"
    )]
    NoGo,
    #[error("missing: {}. {hint}", missing.join(", "))]
    Missing { missing: Vec<String>, hint: String },
    #[error("{built} was built, but there is no {} in it", program.display())]
    NotBuilt {
        built: String,
        program: std::path::PathBuf,
    },
    #[error(transparent)]
    File(#[from] FileError),
    #[error("can't build {what}")]
    Build { what: String, source: RunError },
    #[error("can't fetch {what}")]
    Fetch { what: String, source: RunError },
    #[error("can't install packages")]
    Install { source: RunError },
}
