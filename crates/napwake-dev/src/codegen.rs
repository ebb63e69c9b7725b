//! Files that are written from the code: committed, so that they can be read
//! and reviewed, and compared, so that they can't differ from it.
//!
//! Owns which files there are and what is in them. What the chart makes of the
//! CustomResourceDefinition is the chart's matter.

use std::path::{Path, PathBuf};

use kube::CustomResourceExt as _;
use napwake_api::ManagedWorkload;

use crate::files::{self, Access, FileError};

/// What a person who opens a generated file reads first.
const NOTE: &str =
    "# Written by `cargo xtask codegen` from crates/napwake-api. Don't edit it here.\n";

#[derive(Debug, thiserror::Error)]
pub enum CodegenError {
    #[error("can't write {what} as YAML")]
    Yaml {
        what: &'static str,
        source: serde_saphyr::ser::Error,
    },
    #[error("can't write the ManagedWorkload API as JSON")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(
        "not as the code would write it: {}; run `cargo xtask codegen` and commit the result",
        list(.0)
    )]
    Stale(Vec<PathBuf>),
}

/// What to do about a file that differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codegen {
    /// Write it anew.
    Write,
    /// Name it, and fail.
    Check,
}

/// A generated file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Generated {
    /// From the clone's first folder.
    path: &'static str,
    content: String,
}

/// Compares every generated file below `root`, and writes or names those that
/// differ. Returns those that it wrote.
pub fn run(root: &Path, codegen: Codegen) -> Result<Vec<PathBuf>, CodegenError> {
    let mut differ = Vec::new();
    for file in generated()? {
        let path = root.join(file.path);
        if files::read_if_there(&path)?.as_deref() == Some(&*file.content) {
            continue;
        }
        if codegen == Codegen::Write {
            if let Some(folder) = path.parent() {
                files::create_dir(folder)?;
            }
            files::write(&path, &file.content, Access::Public)?;
        }
        differ.push(file.path.into());
    }
    match codegen {
        Codegen::Check if !differ.is_empty() => Err(CodegenError::Stale(differ)),
        _ => Ok(differ),
    }
}

fn generated() -> Result<Vec<Generated>, CodegenError> {
    Ok(vec![Generated {
        path: "charts/napwake/files/crds/managedworkloads.napwake.dev.yaml",
        content: custom_resource_definition()?,
    }])
}

fn custom_resource_definition() -> Result<String, CodegenError> {
    let mut definition = serde_json::to_value(ManagedWorkload::crd())?;
    // Some crate of the workspace may have maps keep their order, others not.
    definition.sort_all_objects();
    let yaml = serde_saphyr::to_string(&definition).map_err(|source| CodegenError::Yaml {
        what: "the ManagedWorkload API",
        source,
    })?;
    Ok(format!("{NOTE}{}\n", yaml.trim_end()))
}

fn list(paths: &[PathBuf]) -> String {
    paths
        .iter()
        .map(|path| path.display().to_string())
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_files_are_what_the_code_writes() {
        run(&crate::workspace::root(), Codegen::Check).unwrap();
    }

    #[test]
    fn a_file_that_differs_is_named_and_then_written() {
        let folder = tempfile::tempdir().unwrap();
        let stale = run(folder.path(), Codegen::Check).unwrap_err().to_string();
        assert!(
            stale.contains("managedworkloads.napwake.dev.yaml"),
            "{stale}"
        );
        assert_eq!(run(folder.path(), Codegen::Write).unwrap().len(), 1);
        assert!(run(folder.path(), Codegen::Check).unwrap().is_empty());
    }

    #[test]
    fn the_definition_reads_back_as_it_was() {
        let text = custom_resource_definition().unwrap();
        let read: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, serde_json::to_value(ManagedWorkload::crd()).unwrap());
    }
}
