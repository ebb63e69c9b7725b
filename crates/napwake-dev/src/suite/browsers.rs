//! What level B needs beside a cluster and an ingress: browsers with their drivers,
//! and a judge of what people can't see or hear.

use std::path::PathBuf;

use super::SuiteError;
use crate::progress::Progress;
use crate::run;
use crate::target::Target;
use crate::tools::cargo_install;
use crate::tools::npm::{NpmPackages, npm_ci};
use crate::tools::packages::{self, Need};

const NEEDS: [Need; 7] = [
    Need::program("chromium", "chromium"),
    Need::program("chromedriver", "chromium-driver"),
    Need::program("firefox-esr", "firefox-esr"),
    Need::program("WebKitWebDriver", "webkit2gtk-driver"),
    Need::file(
        &[
            "/usr/lib/x86_64-linux-gnu/webkit2gtk-4.1/MiniBrowser",
            "/usr/lib/aarch64-linux-gnu/webkit2gtk-4.1/MiniBrowser",
        ],
        "libwebkit2gtk-4.1-0",
    ),
    Need::program("Xvfb", "xvfb"),
    Need::program("curl", "curl"),
];

/// Firefox's driver, which no package of Debian has.
const GECKODRIVER: (&str, &str) = ("geckodriver", "0.37.1");

/// Judges whether a page can be used without seeing it, or without a pointer.
const AXE: NpmPackages<'_> = NpmPackages {
    name: "axe",
    title: "axe-core",
    manifest: include_str!("../../axe/package.json"),
    lock: include_str!("../../axe/package-lock.json"),
};

/// Gets all of it. Gives the variables by which tests find it.
pub(super) fn prepare(
    target: &Target,
    progress: &Progress,
) -> Result<Vec<(&'static str, PathBuf)>, SuiteError> {
    packages::ensure(&NEEDS, progress)?;
    keep_addresses(target)?;
    let geckodriver = cargo_install(GECKODRIVER.0, GECKODRIVER.1, progress)?;
    let axe = npm_ci(&AXE, progress)?.join("axe-core/axe.min.js");
    Ok(vec![
        ("NAPWAKE_GECKODRIVER", geckodriver),
        ("NAPWAKE_AXE", axe),
    ])
}

/// Keeps the wires of pods to come without an address of their own on the node's side,
/// which is part of a bridge and needs none: whenever one of the machine's addresses
/// comes or goes, Chromium ends its connections.
fn keep_addresses(target: &Target) -> Result<(), SuiteError> {
    let Some(mut shell) = target.inside("sh") else {
        return Ok(());
    };
    // 1 is "none". The bridge has its own already, as Napwake's pods run.
    let none = "echo 1 > /proc/sys/net/ipv6/conf/default/addr_gen_mode";
    Ok(run::check(shell.args(["-c", none]))?)
}
