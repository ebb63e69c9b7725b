//! Programs in Rust, by name and version.

use std::path::PathBuf;
use std::process::Command;

use super::ToolError;
use super::cache::{Cache, Key};
use super::go::finished;
use crate::progress::Progress;
use crate::run;

/// The program that the crate installs under its own name, built with the
/// crate's own lock file if the cache doesn't have it.
pub fn cargo_install(name: &str, version: &str, progress: &Progress) -> Result<PathBuf, ToolError> {
    let title = format!("{name} {version}");
    let entry = Cache::open()?.entry(name, &Key::of([name, version]), |room| {
        progress.line(format_args!(
            "building {title} (a few minutes the first time)…"
        ));
        // Cargo tells the programs it runs about the build they are part of;
        // this one is a build of its own.
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut install = Command::new(cargo);
        install.args([
            "install",
            "--locked",
            "--no-track",
            "--version",
            version,
            name,
        ]);
        // These programs mostly wait for others: a quick build counts for more
        // than quick code.
        install
            .arg("--debug")
            .env("CARGO_PROFILE_DEV_DEBUG", "false");
        install.arg("--root").arg(room.folder);
        install.arg("--target-dir").arg(room.folder.join("target"));
        install
            .current_dir("/")
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("RUSTFLAGS");
        run::with_heartbeat(
            &mut install,
            &format!("building {title}"),
            room.log,
            progress,
        )
        .map_err(|source| ToolError::Build {
            what: title.clone(),
            source,
        })?;
        Ok(crate::files::remove_dir(&room.folder.join("target"))?)
    })?;
    finished(&entry.join("bin"), name, &title)
}
