//! The Content-Security-Policies: what a page may load, and where it may post.
//!
//! Owns both. Whatever isn't named is forbidden. A page's own style and script are
//! named by their hash, so nothing else that finds its way in runs.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};

/// The waking-up page's: its style, and images within it (PAGE-29, PAGE-30, PAGE-31).
///
/// It may be shown in a frame: there's nothing to press, and an app that belongs
/// in somebody's frame has to come up there.
pub(super) fn waking(style: &str) -> String {
    let style = hash(style);
    format!(
        "default-src 'none'; style-src {style}; img-src data:; base-uri 'none'; form-action 'none'"
    )
}

/// The asleep page's: its style and script, images within it, a form that posts
/// back to its address, and nobody's frame (ASK-56, ASK-57, ASK-58, ASK-59).
pub(super) fn asleep(style: &str, script: &str) -> String {
    let (style, script) = (hash(style), hash(script));
    format!(
        "default-src 'none'; style-src {style}; script-src {script}; img-src data:; \
         base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )
}

fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}
