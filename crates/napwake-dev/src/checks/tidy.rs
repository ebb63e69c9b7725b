//! `tidy`: the tree-wide rules of ARCHITECTURE.md and CONTRIBUTING.md.
//!
//! The layers are read from the dependency graph as Cargo resolves it for
//! each crate alone; the rest is read from the sources.

use std::{collections::BTreeSet, path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use super::{
    checked,
    layers::{CLIENT, HTTP, IMPURE, IMPURE_STD, Kind, LAYERS, Layer},
    sources,
};

/// The longest a source file may be; files of tests alone are left out.
const MAX_LINES: usize = 500;

/// Where writes to the cluster may happen.
const WRITERS: &[&str] = &[
    "crates/napwake-operator/src/apply",
    "crates/napwake-operator/src/optin",
    "crates/napwake-operator/src/leader",
    "crates/napwake-doorman/src/wake",
    "crates/napwake-doorman/src/key",
    "crates/napwake-doorman/src/tally",
    "crates/napwake-doorman/src/calls",
    "crates/napwake-cluster/src/events",
    "crates/napwake-cluster/src/authorize",
];

/// The crates whose writes [`WRITERS`] is about.
const WRITING_CRATES: &[&str] = &[
    "crates/napwake-operator/",
    "crates/napwake-doorman/",
    "crates/napwake-cluster/",
];

/// What a write to the cluster looks like: kube's parameters for one, our own
/// ready-made ones, or a request built by hand.
const WRITES: &[&str] = &[
    "PatchParams",
    "PostParams",
    "DeleteParams",
    "patch_params",
    "post_params",
    ".create(&",
    ".patch(&",
];

/// Where outgoing connections are made, and what one looks like.
const DIALER: &str = "crates/napwake-net/src/dial";
const DIALS: &[&str] = &["TcpStream::connect", "TcpSocket::", "UdpSocket::"];

/// Everything that breaks a rule, one sentence each.
pub fn run() -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for layer in LAYERS {
        broken.extend(judge(layer, &dependencies(layer.name)?));
    }
    for path in sources::files("rs")? {
        let text = sources::read(&path)?;
        broken.extend(judge_source(&path, &text));
    }
    for path in sources::files("toml")?
        .iter()
        .filter(|path| path.ends_with("Cargo.toml"))
    {
        broken.extend(judge_manifest(path, &sources::read(path)?));
    }
    broken.extend(checked::run()?);
    Ok(broken)
}

/// What `name` links, itself left out, as Cargo resolves it for that crate alone.
fn dependencies(name: &str) -> Result<BTreeSet<String>> {
    let listed = Command::new(env!("CARGO"))
        .current_dir(crate::workspace::root())
        .args([
            "tree",
            "--locked",
            "--package",
            name,
            "--edges",
            "normal,no-proc-macro",
        ])
        .args(["--prefix", "none", "--format", "{p}"])
        .output()
        .context("run cargo tree")?;
    let errors = String::from_utf8_lossy(&listed.stderr);
    ensure!(
        listed.status.success(),
        "cargo tree --package {name}: {errors}"
    );
    let text = String::from_utf8(listed.stdout).context("read cargo tree's output")?;
    let names = text
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    Ok(names
        .filter(|found| *found != name)
        .map(str::to_owned)
        .collect())
}

fn judge(layer: &Layer, used: &BTreeSet<String>) -> Vec<String> {
    let mut broken = Vec::new();
    let name = layer.name;
    let ours = used.iter().filter(|used| used.starts_with("napwake"));
    for other in ours.filter(|other| !layer.ours.contains(&other.as_str())) {
        broken.push(format!(
            "{name} uses {other}, which its layer may not (checks/layers.rs)"
        ));
    }
    if layer.kind == Kind::Pure {
        for (impure, why) in IMPURE.iter().filter(|(impure, _)| used.contains(*impure)) {
            broken.push(format!("{name} is pure and may not use {impure}: {why}"));
        }
    }
    if layer.kind == Kind::Sockets {
        for http in HTTP.iter().filter(|http| used.contains(**http)) {
            broken.push(format!(
                "{name} may not use {http}: it moves bytes and knows no HTTP"
            ));
        }
    }
    if layer.kind != Kind::Client {
        for client in CLIENT.iter().filter(|client| used.contains(**client)) {
            broken.push(format!(
                "{name} may not use {client}: it must not reach the API server"
            ));
        }
    }
    broken
}

fn judge_source(path: &Path, text: &str) -> Vec<String> {
    if is_test_file(path) {
        return Vec::new();
    }
    let code = code(text);
    let long = (code.len() > MAX_LINES).then(|| {
        let lines = code.len();
        format!("has {lines} lines of code; split it at {MAX_LINES}")
    });
    let silent = (path.starts_with("crates") && !text.starts_with("//!"))
        .then(|| "must begin with //! saying what it owns and never does".to_owned());
    let broken = long.into_iter().chain(silent);
    let broken = broken
        .chain(judge_writes(path, &code))
        .chain(judge_purity(path, &code))
        .chain(judge_dials(path, &code));
    broken
        .map(|broken| format!("{} {broken}", path.display()))
        .collect()
}

/// The code of a file, without its tests.
fn code(text: &str) -> Vec<&str> {
    let mut lines = text.lines();
    let mut code = Vec::new();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            skip_item(&mut lines, &line[..line.len() - line.trim_start().len()]);
        } else {
            code.push(line);
        }
    }
    code
}

/// Skips an item with its other attributes, as rustfmt sets it: it ends with
/// its first line, or with a brace as far in as it began.
fn skip_item<'a>(lines: &mut impl Iterator<Item = &'a str>, indent: &str) {
    let first = lines.find(|line| !line.trim_start().starts_with("#["));
    if first.is_some_and(|line| !line.ends_with([';', ',', '}'])) {
        let end = format!("{indent}}}");
        lines.find(|line| line.starts_with(&end));
    }
}

fn judge_writes(path: &Path, code: &[&str]) -> Vec<String> {
    let counts = WRITING_CRATES.iter().any(|dir| path.starts_with(dir));
    if !counts || is_in(path, WRITERS) {
        return Vec::new();
    }
    let writes = |line: &&&str| WRITES.iter().any(|word| line.contains(word));
    code.iter()
        .filter(writes)
        .map(|line| {
            format!(
                "writes to the cluster ({}); only {WRITERS:?} may",
                line.trim()
            )
        })
        .collect()
}

fn judge_dials(path: &Path, code: &[&str]) -> Option<String> {
    let ships = LAYERS
        .iter()
        .any(|layer| path.starts_with(format!("crates/{}", layer.name)));
    let dials = |line: &&str| DIALS.iter().any(|word| line.contains(word));
    let broken = ships && code.iter().any(dials) && !is_in(path, &[DIALER]);
    broken.then(|| "connects; only napwake_net::dial may".to_owned())
}

/// Whether a file is one of the modules, or in their folders.
fn is_in(path: &Path, modules: &[&str]) -> bool {
    let module = path.with_extension("");
    modules.iter().any(|allowed| module.starts_with(allowed))
}

/// What of the standard library a pure crate's source uses and may not.
fn judge_purity(path: &Path, code: &[&str]) -> Vec<String> {
    let pure = LAYERS
        .iter()
        .filter(|layer| layer.kind == Kind::Pure)
        .any(|layer| path.starts_with(format!("crates/{}", layer.name)));
    let used = |word: &str| code.iter().any(|line| names(line, word));
    IMPURE_STD
        .iter()
        .filter(|(word, _)| pure && used(word))
        .map(|(word, what)| format!("uses {word}; its crate is pure and knows nothing of {what}"))
        .collect()
}

/// Whether the line has `word` in it, and not as the end of a longer one.
fn names(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|before| !before.is_alphanumeric() && before != '_')
    })
}

fn is_test_file(path: &Path) -> bool {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let in_tests = path.components().any(|part| part.as_os_str() == "tests");
    name == "tests" || name.ends_with("_tests") || in_tests
}

fn judge_manifest(path: &Path, text: &str) -> Option<String> {
    let is_crate = text.contains("[package]") && !path.starts_with("fuzz");
    let inherits = text.contains("[lints]\nworkspace = true");
    (is_crate && !inherits).then(|| {
        format!(
            "{} must take the workspace's lints: [lints] workspace = true",
            path.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PURE: Layer = Layer {
        name: "napwake-x",
        ours: &["napwake-api"],
        kind: Kind::Pure,
    };

    const SOCKETS: Layer = Layer {
        name: "napwake-y",
        ours: &[],
        kind: Kind::Sockets,
    };

    fn used(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_pure_crate_may_use_its_layer_and_no_runtime() {
        assert_eq!(
            judge(&PURE, &used(&["napwake-api", "jiff"])),
            Vec::<String>::new()
        );
        assert_eq!(judge(&PURE, &used(&["napwake-net"])).len(), 1);
        assert_eq!(judge(&PURE, &used(&["tokio"])).len(), 1);
        assert_eq!(judge(&PURE, &used(&["kube-client"])).len(), 2);
    }

    #[test]
    fn what_has_sockets_knows_no_workloads_and_no_http() {
        let judged = |names: &[&str]| judge(&SOCKETS, &used(names)).len();
        assert_eq!(judged(&["tokio", "socket2", "rustix"]), 0);
        assert_eq!(judged(&["napwake-api"]), 1);
        assert_eq!(judged(&["httparse"]), 1);
        assert_eq!(judged(&["http", "hyper"]), 2);
        assert_eq!(judged(&["kube-client"]), 1);
    }

    #[test]
    fn net_is_held_to_its_sockets() {
        let net = LAYERS.iter().find(|layer| layer.name == "napwake-net");
        assert_eq!(net.map(|layer| layer.kind), Some(Kind::Sockets));
    }

    #[test]
    fn only_the_named_modules_write() {
        let text = "//! x\nfn a(p: PatchParams) {}\n";
        let judged = |path: &str| judge_source(Path::new(path), text).len();
        assert_eq!(judged("crates/napwake-operator/src/observe/mod.rs"), 1);
        assert_eq!(judged("crates/napwake-operator/src/apply_too.rs"), 1);
        assert_eq!(judged("crates/napwake-operator/src/apply/scale.rs"), 0);
        assert_eq!(judged("crates/napwake-operator/src/optin.rs"), 0);
        assert_eq!(judged("crates/napwake-operator/src/observe/tests.rs"), 0);
    }

    #[test]
    fn pure_sources_use_no_file_and_no_environment() {
        let judged = |path: &str, line: &str| {
            judge_source(Path::new(path), &format!("//! x\n{line}\n")).len()
        };
        let file = "crates/napwake-gate/src/head.rs";
        assert_eq!(judged(file, "use std::fs::read;"), 1);
        assert_eq!(judged(file, "fs::read(path)"), 1);
        assert_eq!(judged(file, "offs::read(path)"), 0);
        assert_eq!(judged(file, "let home = std::env::var(name);"), 1);
        assert_eq!(judged(file, "use std::net::IpAddr;"), 0);
        assert_eq!(
            judged("crates/napwake-gate/src/head/tests.rs", "fs::read(path)"),
            0
        );
        assert_eq!(judged("crates/napwake-kit/src/log.rs", "fs::read(path)"), 0);
    }

    #[test]
    fn only_the_dialer_connects() {
        let text = "//! x\nlet s = TcpStream::connect(a);\n";
        let judged = |path: &str| judge_source(Path::new(path), text).len();
        assert_eq!(judged("crates/napwake-doorman/src/run.rs"), 1);
        assert_eq!(judged("crates/napwake-net/src/dial.rs"), 0);
        assert_eq!(judged("crates/napwake-testkit/src/callers.rs"), 0);
    }

    #[test]
    fn long_files_and_silent_ones_are_named() {
        let judged = |text: &str| judge_source(Path::new("crates/a/src/lib.rs"), text).len();
        let long = "//! x\n".to_owned() + &"\n".repeat(MAX_LINES);
        assert_eq!(judged(&long), 1);
        assert_eq!(judged("fn a() {}"), 1);
    }

    #[test]
    fn code_goes_on_after_what_is_for_tests() {
        let text = "//! x
#[cfg(test)]
mod short;
mod a {
    #[cfg(test)]
    #[rustfmt::skip]
    fn long() {
        if true {
        }
    }
    fn b() {}
}
#[cfg(test)]
mod tests {
    fn c() {}
}
fn d() {}
";
        assert_eq!(
            code(text),
            ["//! x", "mod a {", "    fn b() {}", "}", "fn d() {}"]
        );
    }

    #[test]
    fn every_crate_takes_the_lints() {
        let path = Path::new("crates/a/Cargo.toml");
        assert!(judge_manifest(path, "[package]\n").is_some());
        assert!(judge_manifest(path, "[package]\n[lints]\nworkspace = true\n").is_none());
    }
}
