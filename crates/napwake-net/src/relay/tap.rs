//! A look at the caller's first bytes.
//!
//! Owns how many bytes are shown and for how long. It shows a copy: it can't
//! delay, change or stop what passes.

use std::fmt;

/// How many of the caller's first bytes are shown at most (T-02).
pub const TAP_LIMIT: usize = 16 * 1024;

/// Whether a tap wants to see more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TapVerdict {
    /// Show me the next bytes, too.
    More,
    /// I have seen enough.
    Enough,
}

type Look = Box<dyn FnMut(&[u8]) -> TapVerdict + Send>;

/// Looks at the caller's first bytes as they pass to the target.
///
/// It is dropped as soon as it has seen enough, or [`TAP_LIMIT`] bytes, or the
/// caller shut its sending side, or the relay ended: a channel's sending half
/// inside tells the other half so.
pub struct Tap {
    look: Look,
    left: usize,
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl Tap {
    /// `look` gets the bytes in order, in pieces as they pass. It must not block.
    pub fn new(look: impl FnMut(&[u8]) -> TapVerdict + Send + 'static) -> Self {
        Self {
            look: Box::new(look),
            left: TAP_LIMIT,
        }
    }

    /// Shows `bytes`; `Enough` means that the tap is for dropping.
    pub(super) fn show(&mut self, bytes: &[u8]) -> TapVerdict {
        let shown = &bytes[..bytes.len().min(self.left)];
        if shown.is_empty() {
            return TapVerdict::More;
        }
        self.left -= shown.len();
        match (self.look)(shown) {
            TapVerdict::More if self.left > 0 => TapVerdict::More,
            TapVerdict::More | TapVerdict::Enough => TapVerdict::Enough,
        }
    }
}
