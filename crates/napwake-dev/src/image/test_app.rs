//! The app that tests pause and wake, as a program and as an image.

use std::path::PathBuf;

use super::oci::{Archive, Layer, Packing};
use crate::cluster::ClusterError;
use crate::progress::Progress;
use crate::tools::ToolError;
use crate::tools::cache::Cache;
use crate::tools::go::{GoSource, Linking, go_build};
use crate::workspace;

/// The image's name, as `napwake-testkit` uses it.
const NAME: &str = "napwake.test/app:1";

/// The static program.
pub fn program(progress: &Progress) -> Result<PathBuf, ToolError> {
    let files = [
        ("go.mod", include_str!("../../../../tests/apps/go.mod")),
        ("go.sum", include_str!("../../../../tests/apps/go.sum")),
        ("main.go", include_str!("../../../../tests/apps/main.go")),
        (
            "client.go",
            include_str!("../../../../tests/apps/client.go"),
        ),
        ("ready.go", include_str!("../../../../tests/apps/ready.go")),
        ("http.go", include_str!("../../../../tests/apps/http.go")),
        ("tls.go", include_str!("../../../../tests/apps/tls.go")),
        ("grpc.go", include_str!("../../../../tests/apps/grpc.go")),
        (
            "websocket.go",
            include_str!("../../../../tests/apps/websocket.go"),
        ),
        ("tcp.go", include_str!("../../../../tests/apps/tcp.go")),
    ];
    let source = GoSource {
        name: "app",
        title: "the tests' app",
        first_build: "a minute",
        files: &files,
        tags: "",
        ldflags: "-s -w",
        linking: Linking::Static,
    };
    go_build(&Cache::open()?, &source, progress)
}

/// The archive of its image.
pub fn image(progress: &Progress) -> Result<PathBuf, ClusterError> {
    let program = program(progress)?;
    let archive = workspace::target().join("image/app.tar");
    if let Some(folder) = archive.parent() {
        crate::files::create_dir(folder)?;
    }
    let layer = Layer::new(Packing::Plain).copy(&program, "/app", 0o755)?;
    let image = Archive {
        name: NAME.to_owned(),
        entrypoint: vec!["/app".to_owned()],
        user: "65532:65532".to_owned(),
        env: Vec::new(),
        layers: vec![layer],
    };
    image.write(&archive)?;
    Ok(archive)
}
