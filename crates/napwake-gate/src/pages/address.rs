//! The address a person opened, as it's shown.
//!
//! Owns what of it is left out and where it's cut (T-103). Never escapes it: the
//! templates do.

use super::Address;
use crate::target::Target;

/// A DNS name has at most 253 characters, a port six with its colon.
const HOST_CHARS: usize = 260;

/// About three lines on a phone.
const TARGET_CHARS: usize = 120;

/// What a tab has room for.
const TITLE_CHARS: usize = 60;

/// The parts of an address, safe to put into text.
pub(super) struct Shown {
    /// The host and its port.
    pub(super) host: String,
    /// The path and query; empty for the root of a host.
    pub(super) target: String,
    /// The host, as short as a title needs it.
    pub(super) title: String,
}

impl Shown {
    pub(super) fn new(address: Address<'_>) -> Self {
        let target = Target::read(address.target).below_host();
        // `/` after a host says nothing; alone it's all there is.
        let target = if target == "/" && !address.host.is_empty() {
            ""
        } else {
            target
        };
        Self {
            host: visible(address.host, HOST_CHARS),
            target: visible(target, TARGET_CHARS),
            title: visible(address.host, TITLE_CHARS),
        }
    }
}

/// `text` without what can't be seen or changes how the rest is seen, such as
/// control and direction marks, cut after `limit` characters.
///
/// Letters, digits and visible ASCII are kept: all that a browser sends.
fn visible(text: &str, limit: usize) -> String {
    let mut kept = text
        .chars()
        .filter(|c| c.is_ascii_graphic() || (!c.is_ascii() && c.is_alphanumeric()));
    let mut shown: String = kept.by_ref().take(limit).collect();
    if kept.next().is_some() {
        shown.push('…');
    }
    shown
}
