//! The two images every development cluster holds: the sandbox of all pods, and
//! the image whose programs are those of the machine itself.

use std::path::Path;

use super::oci::{Archive, Layer, OciError, Packing};
use crate::progress::Progress;
use crate::tools::ToolError;
use crate::tools::cache::Cache;
use crate::tools::go::{GoSource, Linking, go_build};

/// The sandbox image, as containerd's configuration names it.
pub const PAUSE: &str = "napwake.test/pause:1";

/// Holds links and a few files of /etc only. A pod that runs a program of
/// Debian mounts the machine's /usr, read only, at /usr.
pub const HOST: &str = "napwake.test/host:1";

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\n\
    nobody:x:65534:65534:nobody:/tmp:/usr/sbin/nologin\n\
    app:x:1000:1000:app:/tmp:/bin/sh\n";
const GROUP: &str = "root:x:0:\nnogroup:x:65534:\napp:x:1000:\n";
const NSSWITCH: &str = "passwd: files\ngroup: files\nhosts: files dns\n";

/// The static program that a sandbox runs, built without a C compiler.
pub fn pause_program(progress: &Progress) -> Result<std::path::PathBuf, ToolError> {
    let files = [
        ("go.mod", include_str!("../../pause/go.mod")),
        ("main.go", include_str!("../../pause/main.go")),
    ];
    let source = GoSource {
        name: "pause",
        title: "the pods' sandbox program",
        first_build: "a few seconds",
        files: &files,
        tags: "",
        ldflags: "-s -w",
        linking: Linking::Static,
    };
    go_build(&Cache::open()?, &source, progress)
}

/// An image that holds nothing yet, not even a name.
pub fn empty() -> Archive {
    Archive {
        name: String::new(),
        entrypoint: Vec::new(),
        user: String::new(),
        env: Vec::new(),
        layers: Vec::new(),
    }
}

pub fn pause(program: &Path) -> Result<Archive, OciError> {
    Ok(Archive {
        name: PAUSE.to_owned(),
        entrypoint: vec!["/pause".to_owned()],
        user: "65535:65535".to_owned(),
        layers: vec![Layer::new(Packing::Plain).copy(program, "/pause", 0o755)?],
        ..empty()
    })
}

pub fn host() -> Archive {
    let mut layer = Layer::new(Packing::Plain)
        .folder("tmp", 0o1777)
        .folder("usr", 0o755)
        .folder("run", 0o755)
        .folder("var", 0o755)
        .folder("var/tmp", 0o1777)
        .link("var/run", "/run")
        .file("etc/passwd", 0o644, PASSWD)
        .file("etc/group", 0o644, GROUP)
        .file("etc/nsswitch.conf", 0o644, NSSWITCH);
    for name in ["bin", "lib", "lib64", "sbin"] {
        layer = layer.link(name, &format!("usr/{name}"));
    }
    Archive {
        name: HOST.to_owned(),
        env: vec![(
            "PATH".to_owned(),
            "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".to_owned(),
        )],
        layers: vec![layer],
        ..empty()
    }
}
