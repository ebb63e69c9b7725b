//! Hidden files: paths with a part that starts with a dot.

use percent_encoding::percent_decode_str;

use crate::target::Target;

/// The one part that may start with a dot, at the root (CLASS-20, RFC 8615).
const WELL_KNOWN: &[u8] = b".well-known";

/// Whether a request target names a hidden file (CLASS-19, T-36).
///
/// The path of the origin or absolute form counts, without its query, each
/// part percent-decoded once. `/.well-known` at the root is no hidden file, nor
/// anything below it, unless a `..` leads out of it.
pub fn is_hidden(target: &str) -> bool {
    let Some(path) = Target::read(target).path() else {
        return false;
    };
    let mut parts = path.split('/').skip(1).peekable();
    let below_well_known = parts
        .next_if(|part| percent_decode_str(part).eq(WELL_KNOWN.iter().copied()))
        .is_some();
    parts.any(|part| {
        let mut decoded = percent_decode_str(part);
        if below_well_known {
            decoded.eq(*b"..")
        } else {
            decoded.next() == Some(b'.')
        }
    })
}

/// For fuzzing: a target with a query says the same as one without.
#[doc(hidden)]
pub fn fuzz_hidden(target: &str) {
    assert_eq!(is_hidden(target), is_hidden(&format!("{target}?/.env")));
}
