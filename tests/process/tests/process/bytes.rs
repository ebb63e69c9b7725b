//! Bytes that tests send, and how they are compared.

use sha2::{Digest, Sha256};

/// Bytes that don't repeat, the same for the same seed.
pub(crate) fn filled(count: usize, seed: u64) -> Vec<u8> {
    // xorshift64*
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(count + 8);
    while bytes.len() < count {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        bytes.extend(state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_le_bytes());
    }
    bytes.truncate(count);
    bytes
}

/// Their hash.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// A TLS 1.3 ClientHello as OpenSSL begins it; the record's length is right.
pub(crate) fn client_hello() -> Vec<u8> {
    let mut hello = vec![0x03, 0x03];
    hello.extend([7; 32]);
    // No session, one cipher suite, no compression, no extensions.
    hello.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
    let length = u8::try_from(hello.len()).unwrap_or(u8::MAX);
    let mut record = vec![0x16, 0x03, 0x01, 0, length + 4, 0x01, 0, 0, length];
    record.extend(hello);
    record
}

/// PostgreSQL's StartupMessage of protocol 3.0.
pub(crate) fn postgres_startup() -> Vec<u8> {
    let parameters = b"user\0app\0database\0app\0\0";
    let length = u32::try_from(8 + parameters.len()).unwrap_or_default();
    [&length.to_be_bytes(), [0, 3, 0, 0].as_slice(), parameters].concat()
}

/// PostgreSQL's SSLRequest.
pub(crate) const SSL_REQUEST: &[u8] = &[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// The beginning of an HTTP/2 connection.
pub(crate) const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
