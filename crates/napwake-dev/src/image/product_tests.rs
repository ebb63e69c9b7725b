use std::collections::BTreeSet;
use std::process::Command;

use super::*;
use crate::run;

fn packed(folder: &Path) -> Product {
    pack(&small_program(), folder).unwrap()
}

/// A dynamically linked program that every machine with a C library has, and
/// that resolves names as the C library does.
fn small_program() -> PathBuf {
    crate::tools::packages::find_program("getent").expect("getent comes with the C library")
}

#[test]
fn the_same_program_gives_the_same_image() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (first, second) = (packed(one.path()), packed(other.path()));
    assert_eq!(first.tag, second.tag);
    assert_eq!(
        std::fs::read(&first.archive).unwrap(),
        std::fs::read(&second.archive).unwrap()
    );
    assert_eq!(first.tag.len(), TAG_DIGITS);
}

#[test]
fn another_program_gives_another_tag() {
    let folder = tempfile::tempdir().unwrap();
    let first = packed(&folder.path().join("image"));
    let other = folder.path().join("other");
    let mut program = std::fs::read(small_program()).unwrap();
    program.push(0);
    files::write(&other, program, files::Access::Program).unwrap();
    let second = pack(&other, &folder.path().join("image")).unwrap();
    assert_ne!(first.tag, second.tag);
}

#[test]
fn there_is_no_program_but_ours() {
    let folder = tempfile::tempdir().unwrap();
    let product = packed(folder.path());
    let top: BTreeSet<_> = files::list(&product.rootfs)
        .unwrap()
        .iter()
        .map(|path| {
            path.strip_prefix(&product.rootfs)
                .unwrap()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert!(top.contains("napwake"), "{top:?}");
    for absent in ["bin", "sbin", "usr/bin", "usr/sbin"] {
        assert!(!product.rootfs.join(absent).exists(), "{absent}");
    }
}

/// Names resolve with nothing but the image's own files: by its hosts file,
/// and by the machinery that would ask a name server.
#[test]
fn names_resolve_in_the_image() {
    if !rustix::process::geteuid().is_root() {
        return; // Only root may change its root folder.
    }
    let folder = tempfile::tempdir().unwrap();
    let product = packed(folder.path());
    let hosts = product.rootfs.join("etc/hosts");
    files::write(&hosts, "203.0.113.7 napwake.test\n", files::Access::Public).unwrap();
    let mut resolve = Command::new("chroot");
    resolve
        .arg(&product.rootfs)
        .args([PROGRAM, "ahostsv4", "napwake.test"]);
    let found = run::output(&mut resolve).unwrap();
    assert!(found.starts_with("203.0.113.7 "), "{found}");
}
