//! Programs in Go: our own sources, and published ones by their version.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::ToolError;
use super::cache::{Cache, Key, Room};
use super::packages::find_program;
use crate::files::{self, Access};
use crate::progress::Progress;
use crate::run;

/// Whether a program may use the C library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linking {
    /// As Go does by itself: with C where there is a C compiler.
    Usual,
    /// Without C: runs in an image that holds nothing else.
    Static,
}

/// A program whose source is part of this project.
#[derive(Debug, Clone)]
pub struct GoSource<'a> {
    pub name: &'a str,
    /// What a person reads while it builds, such as "Kubernetes 1.35.4".
    pub title: &'a str,
    /// How long the first build takes, in words.
    pub first_build: &'a str,
    /// File names and contents, `go.mod` among them.
    pub files: &'a [(&'a str, &'a str)],
    pub tags: &'a str,
    pub ldflags: &'a str,
    pub linking: Linking,
}

/// A published program, as `go install` names it.
#[derive(Debug, Clone)]
pub struct GoTool<'a> {
    /// Package with version: `helm.sh/helm/v3/cmd/helm@v3.22.0`.
    pub package: &'a str,
    pub tags: &'a str,
    pub ldflags: &'a str,
}

impl<'a> GoTool<'a> {
    pub fn new(package: &'a str) -> Self {
        Self {
            package,
            tags: "",
            ldflags: "-s -w",
        }
    }

    /// The program's name: the last part of the path that isn't a major version.
    fn program(&self) -> &'a str {
        self.words().next().unwrap_or(self.package)
    }

    /// What the program is kept under: some packages are all called `cmd`.
    fn title(&self) -> &'a str {
        let named = self.words().find(|word| *word != "cmd");
        named.unwrap_or(self.package)
    }

    /// The path's parts from the last to the first, without major versions.
    fn words(&self) -> impl Iterator<Item = &'a str> {
        let path = self.package.split('@').next().unwrap_or(self.package);
        let is_major = |part: &&str| {
            part.strip_prefix('v')
                .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        };
        path.rsplit('/').filter(move |part| !is_major(part))
    }
}

/// The program, built from our own source if the cache doesn't have it.
pub fn go_build(
    cache: &Cache,
    source: &GoSource<'_>,
    progress: &Progress,
) -> Result<PathBuf, ToolError> {
    let go = go()?;
    let mut parts = vec![source.tags, source.ldflags, linking_words(source.linking)];
    parts.extend(
        source
            .files
            .iter()
            .flat_map(|(name, content)| [*name, *content]),
    );
    let entry = cache.entry(source.name, &Key::of(parts), |room| {
        progress.line(format_args!(
            "building {} ({} the first time)…",
            source.title, source.first_build
        ));
        let folder = room.folder.join("source");
        for (name, content) in source.files {
            write_source(&folder.join(name), content)?;
        }
        let program = room.folder.join(source.name);
        let mut build = Command::new(&go);
        build
            .current_dir(&folder)
            .args(["build", "-trimpath", "-tags", source.tags]);
        build
            .args(["-ldflags", source.ldflags, "-o"])
            .arg(&program)
            .arg(".");
        if source.linking == Linking::Static {
            build.env("CGO_ENABLED", "0");
        }
        build_step(&mut build, source.title, room, progress)
    })?;
    finished(&entry, source.name, source.title)
}

/// The program of a published package, built if the cache doesn't have it.
pub fn go_install(tool: &GoTool<'_>, progress: &Progress) -> Result<PathBuf, ToolError> {
    go_install_linked(tool, Linking::Usual, progress)
}

/// The same, for a program that is to run in an image of its own.
pub fn go_install_linked(
    tool: &GoTool<'_>,
    linking: Linking,
    progress: &Progress,
) -> Result<PathBuf, ToolError> {
    let go = go()?;
    let program = tool.program();
    let mut parts = vec![tool.package, tool.tags, tool.ldflags];
    if linking == Linking::Static {
        parts.push(linking_words(linking));
    }
    let entry = Cache::open()?.entry(tool.title(), &Key::of(parts), |room| {
        progress.line(format_args!(
            "building {} (a few minutes the first time)…",
            tool.package
        ));
        let mut install = Command::new(&go);
        install
            .env("GOBIN", room.folder)
            .args(["install", "-trimpath", "-tags", tool.tags]);
        install.args(["-ldflags", tool.ldflags, tool.package]);
        if linking == Linking::Static {
            install.env("CGO_ENABLED", "0");
        }
        build_step(&mut install, tool.package, room, progress)
    })?;
    finished(&entry, program, tool.package)
}

/// The folder of a module's sources, with its version: what is in it beside the
/// program that was built from it.
pub fn go_module(module: &str) -> Result<PathBuf, ToolError> {
    let mut download = Command::new(go()?);
    download.args(["mod", "download", "-json", module]);
    let failed = |source| ToolError::Fetch {
        what: module.to_owned(),
        source,
    };
    let told = run::output(&mut download).map_err(failed)?;
    let told: serde_json::Value = serde_json::from_str(&told).unwrap_or_default();
    // Empty where Go says nothing of it: what is looked for then isn't there.
    Ok(told["Dir"].as_str().unwrap_or_default().into())
}

fn linking_words(linking: Linking) -> &'static str {
    match linking {
        Linking::Usual => "usual",
        Linking::Static => "static",
    }
}

fn write_source(path: &Path, content: &str) -> Result<(), ToolError> {
    if let Some(folder) = path.parent() {
        files::create_dir(folder)?;
    }
    Ok(files::write(path, content, Access::Public)?)
}

fn build_step(
    command: &mut Command,
    what: &str,
    room: &Room<'_>,
    progress: &Progress,
) -> Result<(), ToolError> {
    run::with_heartbeat(command, &format!("building {what}"), room.log, progress).map_err(
        |source| ToolError::Build {
            what: what.to_owned(),
            source,
        },
    )
}

pub(super) fn finished(entry: &Path, program: &str, built: &str) -> Result<PathBuf, ToolError> {
    let program = entry.join(program);
    if program.is_file() {
        return Ok(program);
    }
    Err(ToolError::NotBuilt {
        built: built.to_owned(),
        program,
    })
}

fn go() -> Result<PathBuf, ToolError> {
    let usual_place = || Some(PathBuf::from("/usr/local/go/bin/go")).filter(|path| path.is_file());
    find_program("go")
        .or_else(usual_place)
        .ok_or(ToolError::NoGo)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("helm.sh/helm/v3/cmd/helm@v3.22.0", "helm")]
    #[case("github.com/coredns/coredns@v1.15.0", "coredns")]
    #[case("example.com/tool/v2@v2.0.1", "tool")]
    #[case("github.com/vendor/vault@v1.0.0", "vault")]
    fn a_tool_is_named_as_go_names_it(#[case] package: &str, #[case] program: &str) {
        assert_eq!(GoTool::new(package).program(), program);
        assert_eq!(GoTool::new(package).title(), program);
    }

    #[test]
    fn a_program_without_a_name_of_its_own_is_kept_under_its_modules() {
        let tool = GoTool::new("sigs.k8s.io/kube-network-policies/cmd@v0.8.0");
        assert_eq!(tool.program(), "cmd");
        assert_eq!(tool.title(), "kube-network-policies");
    }
}
