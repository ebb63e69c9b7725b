//! The image of Napwake itself, made without a container engine.
//!
//! Owns what is in it: the release build of `napwake`, the parts of the C
//! library that it was linked against with their licenses, and the few files
//! by which names are resolved. No shell, no package manager, no other program.
//!
//! The C library is copied rather than linked in: getaddrinfo then works as it
//! does everywhere, and whoever gets the image may replace the library, as its
//! license asks.

use std::path::{Path, PathBuf};

use super::oci::{Archive, OciError, Packing};
use super::rootfs::{Rootfs, RootfsError};
use crate::cargo::{self, BuildError};
use crate::digest::sha256_hex;
use crate::files::{self, FileError};
use crate::progress::Progress;
use crate::workspace;

/// The image's name without its tag, as the chart has it.
pub const REPOSITORY: &str = "napwake.dev/napwake";

/// Neither root nor anybody else on a usual system.
const USER: &str = "65532:65532";

/// Where the program is in the image.
const PROGRAM: &str = "/napwake";

/// What the image may weigh at most, in bytes: 30 MB.
const MOST: u64 = 30_000_000;

/// How much of the digest goes into the tag: enough to tell builds apart.
const TAG_DIGITS: usize = 20;

#[derive(Debug, thiserror::Error)]
pub enum ProductError {
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error("can't put the image's files together")]
    Rootfs(#[from] RootfsError),
    #[error("can't write the image")]
    Oci(#[from] OciError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the image has {size} bytes, more than the {MOST} it may have")]
    TooLarge { size: u64 },
}

/// A finished image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Product {
    /// The OCI archive.
    pub archive: PathBuf,
    /// The same files as a folder, which the Containerfile copies.
    pub rootfs: PathBuf,
    /// Says what is in the image: another content has another tag.
    pub tag: String,
    /// Of the archive, in bytes.
    pub size: u64,
}

impl Product {
    /// The image's name, as nodes know it once they have loaded the archive.
    pub fn name(&self) -> String {
        format!("{REPOSITORY}:{}", self.tag)
    }
}

/// Builds `napwake` and writes `target/image`.
pub fn image(progress: &Progress) -> Result<Product, ProductError> {
    let release = cargo::release(progress)?;
    let product = pack(&release.napwake, &workspace::target().join("image"))?;
    let Product { archive, size, .. } = &product;
    progress.line(format_args!(
        "image {} in {} ({:.1} MB)",
        product.name(),
        archive.display(),
        megabytes(*size)
    ));
    Ok(product)
}

/// Packs a built program: `folder` then holds the archive and the root folder.
pub fn pack(program: &Path, folder: &Path) -> Result<Product, ProductError> {
    files::create_dir(folder)?;
    let system = Rootfs::of(program)?;
    let binary = std::fs::read(program).map_err(files::failed("read", program))?;
    let own = Rootfs::new().program(PROGRAM, binary);

    let rootfs = folder.join("rootfs");
    files::remove_dir(&rootfs)?;
    system.write(&rootfs)?;
    own.write(&rootfs)?;

    let tag = tag(&system, &own);
    // The system's files change seldom: nodes that have them load one layer.
    let image = Archive {
        name: format!("{REPOSITORY}:{tag}"),
        entrypoint: vec![PROGRAM.to_owned()],
        user: USER.to_owned(),
        env: Vec::new(),
        layers: vec![system.layer(Packing::Gzip), own.layer(Packing::Gzip)],
    };
    let archive = folder.join("napwake.tar");
    image.write(&archive)?;
    let size = std::fs::metadata(&archive)
        .map_err(files::failed("look at", &archive))?
        .len();
    if size > MOST {
        return Err(ProductError::TooLarge { size });
    }
    Ok(Product {
        archive,
        rootfs,
        tag,
        size,
    })
}

/// Names the content, and what is run of it by whom.
fn tag(system: &Rootfs, own: &Rootfs) -> String {
    let words = format!("{}\n{}\n{PROGRAM}\n{USER}", system.digest(), own.digest());
    let mut digest = sha256_hex(words.as_bytes());
    digest.truncate(TAG_DIGITS);
    digest
}

#[expect(
    clippy::cast_precision_loss,
    reason = "for people to read, to one digit"
)]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
#[path = "product_tests.rs"]
mod tests;
