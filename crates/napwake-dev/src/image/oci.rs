//! Writes an image as an OCI archive: one tar file that containerd, Podman and
//! Docker load.
//!
//! The same content gives the same bytes, whoever writes it and whenever:
//! entries are sorted, and belong to root and to the first second of 1970.
//! Never reads an image, and never talks to a registry.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use flate2::{Compression, GzBuilder};
use serde::Serialize;

use crate::digest::sha256_hex;
use crate::files::{FileError, failed};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const LAYER_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

#[derive(Debug, thiserror::Error)]
pub enum OciError {
    #[error("can't put {path} into a layer")]
    Entry { path: String, source: io::Error },
    #[error("can't write the image {image}")]
    Archive { image: String, source: io::Error },
    #[error("can't write the description of the image {image}")]
    Describe {
        image: String,
        source: serde_json::Error,
    },
    #[error(transparent)]
    File(#[from] FileError),
}

/// An image, as it is written.
#[derive(Debug, Clone)]
pub struct Archive {
    /// Full name with its tag, such as `napwake.test/host:1`.
    pub name: String,
    pub entrypoint: Vec<String>,
    /// `uid` or `uid:gid`; empty is root.
    pub user: String,
    /// Names and values, in the order a container sees them.
    pub env: Vec<(String, String)>,
    /// From the lowest up.
    pub layers: Vec<Layer>,
}

/// Files of an image. Folders above an entry are added by themselves, with
/// mode 0755.
#[derive(Debug, Clone)]
pub struct Layer {
    packing: Packing,
    entries: BTreeMap<String, Entry>,
}

/// Whether a layer is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// For layers of a few kilobytes.
    Plain,
    Gzip,
}

#[derive(Debug, Clone)]
enum Entry {
    Folder { mode: u32 },
    File { mode: u32, content: Vec<u8> },
    Link { to: String },
}

/// The digest an image is known by: `sha256:…` of its manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageDigest(String);

impl std::fmt::Display for ImageDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Layer {
    pub fn new(packing: Packing) -> Self {
        Self {
            packing,
            entries: BTreeMap::new(),
        }
    }

    /// Paths are those in the image, with or without the leading slash.
    #[must_use]
    pub fn folder(self, path: &str, mode: u32) -> Self {
        self.with(path, Entry::Folder { mode })
    }

    #[must_use]
    pub fn file(self, path: &str, mode: u32, content: impl Into<Vec<u8>>) -> Self {
        self.with(
            path,
            Entry::File {
                mode,
                content: content.into(),
            },
        )
    }

    #[must_use]
    pub fn link(self, path: &str, to: &str) -> Self {
        self.with(path, Entry::Link { to: to.to_owned() })
    }

    /// A file of this machine, under its path in the image.
    pub fn copy(self, from: &Path, path: &str, mode: u32) -> Result<Self, OciError> {
        let content = fs::read(from).map_err(failed("read", from))?;
        Ok(self.file(path, mode, content))
    }

    fn with(mut self, path: &str, entry: Entry) -> Self {
        let path = path.trim_matches('/');
        for (at, _) in path.match_indices('/') {
            let above = path[..at].to_owned();
            self.entries
                .entry(above)
                .or_insert(Entry::Folder { mode: 0o755 });
        }
        self.entries.insert(path.to_owned(), entry);
        self
    }

    fn tar(&self) -> Result<Vec<u8>, OciError> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, entry) in &self.entries {
            append(&mut tar, path, entry).map_err(|source| OciError::Entry {
                path: path.clone(),
                source,
            })?;
        }
        tar.into_inner().map_err(|source| OciError::Entry {
            path: "the end".to_owned(),
            source,
        })
    }
}

impl Archive {
    /// Writes the archive to a file, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<ImageDigest, OciError> {
        let mut bytes = Vec::new();
        let digest = self.write_to(&mut bytes)?;
        crate::files::write(path, bytes, crate::files::Access::Public)?;
        Ok(digest)
    }

    pub fn write_to(&self, out: impl Write) -> Result<ImageDigest, OciError> {
        let mut blobs = Blobs::default();
        let mut layers = Vec::new();
        let mut contents = Vec::new();
        for layer in &self.layers {
            let tar = layer.tar()?;
            contents.push(format!("sha256:{}", sha256_hex(&tar)));
            layers.push(match layer.packing {
                Packing::Plain => blobs.add(LAYER, tar),
                Packing::Gzip => blobs.add(LAYER_GZIP, self.io(gzip(&tar))?),
            });
        }
        let config = blobs.add(CONFIG, self.json(&self.config(contents))?);
        let manifest = Manifest {
            schema_version: 2,
            media_type: MANIFEST,
            config,
            layers,
        };
        let mut manifest = blobs.add(MANIFEST, self.json(&manifest)?);
        let digest = ImageDigest(manifest.digest.clone());
        manifest.annotations = Some(self.annotations());
        let index = Index {
            schema_version: 2,
            media_type: INDEX,
            manifests: vec![manifest],
        };
        let index = self.json(&index)?;
        self.io(blobs.write(out, &index))?;
        Ok(digest)
    }

    fn config(&self, contents: Vec<String>) -> Config<'_> {
        Config {
            architecture: architecture(),
            os: "linux",
            runtime: Runtime {
                entrypoint: &self.entrypoint,
                user: &self.user,
                env: self
                    .env
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect(),
            },
            rootfs: RootFs {
                kind: "layers",
                diff_ids: contents,
            },
        }
    }

    /// The first name is the one containerd goes by, the second everybody else.
    fn annotations(&self) -> BTreeMap<&'static str, String> {
        BTreeMap::from([
            ("io.containerd.image.name", self.name.clone()),
            ("org.opencontainers.image.ref.name", self.name.clone()),
        ])
    }

    fn json(&self, value: &impl Serialize) -> Result<Vec<u8>, OciError> {
        serde_json::to_vec(value).map_err(|source| OciError::Describe {
            image: self.name.clone(),
            source,
        })
    }

    fn io<T>(&self, done: io::Result<T>) -> Result<T, OciError> {
        done.map_err(|source| OciError::Archive {
            image: self.name.clone(),
            source,
        })
    }
}

/// Everything an image consists of, under its digest.
#[derive(Debug, Default)]
struct Blobs(BTreeMap<String, Vec<u8>>);

impl Blobs {
    fn add(&mut self, media_type: &'static str, bytes: Vec<u8>) -> Descriptor {
        let digest = sha256_hex(&bytes);
        let size = bytes.len();
        self.0.insert(digest.clone(), bytes);
        Descriptor {
            media_type,
            digest: format!("sha256:{digest}"),
            size,
            annotations: None,
        }
    }

    fn write(&self, out: impl Write, index: &[u8]) -> io::Result<()> {
        let mut tar = tar::Builder::new(out);
        append_file(
            &mut tar,
            "oci-layout",
            0o644,
            br#"{"imageLayoutVersion":"1.0.0"}"#,
        )?;
        append_file(&mut tar, "index.json", 0o644, index)?;
        for (digest, bytes) in &self.0 {
            append_file(&mut tar, &format!("blobs/sha256/{digest}"), 0o644, bytes)?;
        }
        tar.into_inner()?.flush()
    }
}

fn append(tar: &mut tar::Builder<impl Write>, path: &str, entry: &Entry) -> io::Result<()> {
    match entry {
        Entry::File { mode, content } => append_file(tar, path, *mode, content),
        Entry::Folder { mode } => {
            let mut header = header(tar::EntryType::Directory, *mode);
            tar.append_data(&mut header, format!("{path}/"), io::empty())
        }
        Entry::Link { to } => {
            let mut header = header(tar::EntryType::Symlink, 0o777);
            tar.append_link(&mut header, path, to)
        }
    }
}

fn append_file(
    tar: &mut tar::Builder<impl Write>,
    path: &str,
    mode: u32,
    content: &[u8],
) -> io::Result<()> {
    let mut header = header(tar::EntryType::Regular, mode);
    header.set_size(u64::try_from(content.len()).map_err(io::Error::other)?);
    tar.append_data(&mut header, path, content)
}

fn header(kind: tar::EntryType, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(0);
    header
}

fn gzip(bytes: &[u8]) -> io::Result<Vec<u8>> {
    // No time and no system in the header: they would differ between writers.
    let mut packed = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::default());
    packed.write_all(bytes)?;
    packed.finish()
}

/// This machine's architecture, as images call it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[derive(Serialize)]
struct Index {
    #[serde(rename = "schemaVersion")]
    schema_version: u8,
    #[serde(rename = "mediaType")]
    media_type: &'static str,
    manifests: Vec<Descriptor>,
}

#[derive(Serialize)]
struct Manifest {
    #[serde(rename = "schemaVersion")]
    schema_version: u8,
    #[serde(rename = "mediaType")]
    media_type: &'static str,
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Debug, Serialize)]
struct Descriptor {
    #[serde(rename = "mediaType")]
    media_type: &'static str,
    digest: String,
    size: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<BTreeMap<&'static str, String>>,
}

#[derive(Serialize)]
struct Config<'a> {
    architecture: &'static str,
    os: &'static str,
    #[serde(rename = "config")]
    runtime: Runtime<'a>,
    rootfs: RootFs,
}

#[derive(Serialize)]
struct Runtime<'a> {
    #[serde(rename = "Entrypoint", skip_serializing_if = "<[String]>::is_empty")]
    entrypoint: &'a [String],
    #[serde(rename = "User", skip_serializing_if = "str::is_empty")]
    user: &'a str,
    #[serde(rename = "Env", skip_serializing_if = "Vec::is_empty")]
    env: Vec<String>,
}

#[derive(Serialize)]
struct RootFs {
    #[serde(rename = "type")]
    kind: &'static str,
    diff_ids: Vec<String>,
}

#[cfg(test)]
#[path = "oci_tests.rs"]
mod tests;
