//! SHA-256, as the lower-case hexadecimal text that images and caches name
//! things by.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// One digest over several parts. Each is preceded by its length, so that
/// moving a byte from one part to the next gives another digest.
pub fn sha256_of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hasher.update(part);
    }
    hex(&hasher.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            // Writing to a String can't fail.
            write!(text, "{byte:02x}").unwrap_or_default();
            text
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_nothing_is_the_published_one() {
        assert_eq!(
            sha256_hex(b""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn parts_keep_their_borders() {
        assert_ne!(
            sha256_of_parts([b"ab".as_slice(), b"c"]),
            sha256_of_parts([b"a".as_slice(), b"bc"])
        );
    }
}
