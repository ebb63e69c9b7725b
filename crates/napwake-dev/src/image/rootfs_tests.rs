use rstest::rstest;

use super::*;

const GLIBC: &str = "\tlinux-vdso.so.1 (0x00007ffd)\n\
    \tlibgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0x00007f01)\n\
    \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f02)\n\
    \t/lib64/ld-linux-x86-64.so.2 (0x00007f03)\n";

#[rstest]
#[case::glibc(GLIBC, &[
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/x86_64-linux-gnu/libgcc_s.so.1",
    "/lib64/ld-linux-x86-64.so.2",
])]
#[case::static_program("\tstatically linked\n", &[])]
fn libraries_are_read(#[case] text: &str, #[case] expected: &[&str]) {
    let found = read_libraries(Path::new("napwake"), text).unwrap();
    assert_eq!(
        found,
        expected.iter().map(PathBuf::from).collect::<Vec<_>>()
    );
}

#[test]
fn a_library_that_is_missing_is_named() {
    let missing = read_libraries(Path::new("napwake"), "\tlibodd.so.1 => not found\n");
    let text = missing.unwrap_err().to_string();
    assert_eq!(
        text,
        "napwake needs libodd.so.1, which this machine doesn't have"
    );
}

#[rstest]
#[case::content(Rootfs::new().data("/a", "2"))]
#[case::mode(Rootfs::new().program("/a", "1"))]
#[case::name(Rootfs::new().data("/b", "1"))]
fn another_content_has_another_digest(#[case] other: Rootfs) {
    assert_ne!(Rootfs::new().data("/a", "1").digest(), other.digest());
}

#[test]
fn a_folder_gets_files_with_their_modes() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let rootfs = Rootfs::new()
        .data("/etc/hosts", "x")
        .program("/run/it", "y");
    rootfs.write(folder.path()).unwrap();
    rootfs.write(folder.path()).unwrap();
    for (path, mode) in [("etc/hosts", 0o644), ("run/it", 0o755)] {
        let there = std::fs::metadata(folder.path().join(path)).unwrap();
        assert_eq!(there.permissions().mode() & 0o777, mode, "{path}");
    }
}
