use std::io::Read as _;

use rstest::rstest;

use super::*;

fn archive(layer: Layer) -> Archive {
    Archive {
        name: "napwake.test/sample:1".to_owned(),
        entrypoint: vec!["/sample".to_owned()],
        user: "65532:65532".to_owned(),
        env: vec![("PATH".to_owned(), "/usr/bin".to_owned())],
        layers: vec![layer],
    }
}

fn bytes(archive: &Archive) -> Vec<u8> {
    let mut bytes = Vec::new();
    archive.write_to(&mut bytes).unwrap();
    bytes
}

/// Names and contents of a tar file.
fn entries(tar: &[u8]) -> BTreeMap<String, Vec<u8>> {
    let mut archive = tar::Archive::new(tar);
    let mut all = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        assert_eq!(entry.header().mtime().unwrap(), 0);
        assert_eq!(entry.header().uid().unwrap(), 0);
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        all.insert(
            entry.path().unwrap().to_string_lossy().into_owned(),
            content,
        );
    }
    all
}

fn json(bytes: &[u8]) -> serde_json::Value {
    serde_json::from_slice(bytes).unwrap()
}

fn blob<'a>(all: &'a BTreeMap<String, Vec<u8>>, descriptor: &serde_json::Value) -> &'a [u8] {
    let digest = descriptor["digest"]
        .as_str()
        .unwrap()
        .strip_prefix("sha256:")
        .unwrap();
    let bytes = &all[&format!("blobs/sha256/{digest}")];
    assert_eq!(sha256_hex(bytes), digest);
    assert_eq!(descriptor["size"].as_u64().unwrap(), bytes.len() as u64);
    bytes
}

#[rstest]
#[case::plain(Packing::Plain)]
#[case::gzip(Packing::Gzip)]
fn the_same_content_gives_the_same_bytes(#[case] packing: Packing) {
    let one = Layer::new(packing)
        .file("/a", 0o644, "1")
        .file("/b/c", 0o755, "2");
    let other = Layer::new(packing)
        .file("b/c", 0o755, "2")
        .file("a", 0o644, "1");
    assert_eq!(bytes(&archive(one)), bytes(&archive(other)));
}

#[rstest]
#[case::content(Layer::new(Packing::Plain).file("a", 0o644, "2"))]
#[case::mode(Layer::new(Packing::Plain).file("a", 0o600, "1"))]
#[case::name(Layer::new(Packing::Plain).file("b", 0o644, "1"))]
fn other_content_gives_another_digest(#[case] other: Layer) {
    let one = archive(Layer::new(Packing::Plain).file("a", 0o644, "1"));
    let digest = |archive: &Archive| archive.write_to(io::sink()).unwrap();
    assert_ne!(digest(&one), digest(&archive(other)));
}

#[test]
fn index_manifest_config_and_layers_hang_together() {
    let layer = Layer::new(Packing::Gzip)
        .file("bin/sample", 0o755, "program")
        .link("sh", "bin/sh");
    let all = entries(&bytes(&archive(layer)));
    let index = json(&all["index.json"]);
    let named = &index["manifests"][0];
    assert_eq!(
        named["annotations"]["io.containerd.image.name"],
        "napwake.test/sample:1"
    );
    let manifest = json(blob(&all, named));
    let config = json(blob(&all, &manifest["config"]));
    assert_eq!(config["config"]["Entrypoint"][0], "/sample");
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["config"]["Env"][0], "PATH=/usr/bin");
    let packed = blob(&all, &manifest["layers"][0]);
    let mut layer = Vec::new();
    flate2::read::GzDecoder::new(packed)
        .read_to_end(&mut layer)
        .unwrap();
    assert_eq!(
        config["rootfs"]["diff_ids"][0],
        format!("sha256:{}", sha256_hex(&layer))
    );
    let files = entries(&layer);
    assert_eq!(
        files.keys().map(String::as_str).collect::<Vec<_>>(),
        ["bin/", "bin/sample", "sh"]
    );
    assert_eq!(files["bin/sample"], b"program");
}

#[test]
fn an_own_folder_keeps_its_mode() {
    let layer = Layer::new(Packing::Plain)
        .folder("tmp", 0o1777)
        .file("tmp/x", 0o644, "");
    let tar = layer.tar().unwrap();
    let mut archive = tar::Archive::new(tar.as_slice());
    let first = archive.entries().unwrap().next().unwrap().unwrap();
    assert_eq!(first.header().mode().unwrap(), 0o1777);
}
