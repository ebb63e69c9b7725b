//! The button's token: proof that a post of it comes from a page of this pause.
//!
//! Owns what is signed, how it is written, and how long it is good for; the keys
//! are in [`Keys`]. A token says nothing to whoever reads it: it holds the time it
//! was signed and no name. It isn't used up by a click, for ten minutes and one
//! wake a minute bound it (T-21).

mod keys;
#[cfg(test)]
mod tests;

use std::{fmt, time::Duration};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;

use crate::{Moment, age::is_within, places::WorkloadKey};
pub use keys::{Found, KEY_BYTES, Keys, OLD_KEY, READ_AGAIN, ReadAt, Seen, Signer, Trouble};
use keys::{Key, KeyId, MAC};

/// How long a token is good for (TOKEN-07).
pub const LIFE: Duration = Duration::from_mins(10);

/// Tells these signatures from any other that the key may ever make.
const PURPOSE: &[u8] = b"napwake wake token, first form\0";

const ID: usize = size_of::<KeyId>();
const TIME: usize = size_of::<i64>();
const BYTES: usize = ID + TIME + MAC;

/// Base64 writes three bytes as four characters, and nothing is left over: every
/// character is all of a token's, so that no other text reads as the same one.
const CHARS: usize = BYTES / 3 * 4;
const _: () = assert!(BYTES.is_multiple_of(3));

/// A workload that a token wakes, and the pause it wakes it from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject<'a> {
    /// The workload (TOKEN-03).
    pub workload: &'a WorkloadKey,
    /// When the pause began, `status.pause.startedAt`, which names it (TOKEN-04).
    pub pause: Timestamp,
}

/// A token as it stands in the page's form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Token([u8; CHARS]);

/// Why a token is refused. Whatever the reason, the person is told that the
/// button has run out, and gets a fresh one (T-20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It was signed longer ago than it is good for, or further ahead than clocks
    /// may differ.
    #[error("the token has run out")]
    RanOut,
    /// Nobody with the key signed it for these workloads and pauses.
    #[error("the token isn't for this pause")]
    NotForThis,
    /// It names a key that isn't known here: perhaps one that another pod has
    /// already and this one has yet to read (T-23).
    #[error("the token names a key that isn't known")]
    UnknownKey,
}

impl Token {
    /// The text that a form posted, if a token can be it.
    pub fn read(text: &[u8]) -> Option<Self> {
        text.try_into().ok().map(Self)
    }

    /// The text for the form.
    pub fn as_str(&self) -> &str {
        // One made here is ASCII. One that was posted isn't shown.
        str::from_utf8(&self.0).unwrap_or_default()
    }

    fn sign(key: &Key, subjects: &[Subject<'_>], now: Timestamp) -> Self {
        let signed_at = now.as_millisecond().to_be_bytes();
        let mac = key.sign(|part| feed(signed_at, subjects, part));
        Self::written(&Opened {
            key: *key.id(),
            signed_at,
            mac,
        })
    }

    fn written(opened: &Opened) -> Self {
        let Opened {
            key,
            signed_at,
            mac,
        } = opened;
        let parts = key.iter().chain(signed_at).chain(mac);
        let mut bytes = [0; BYTES];
        for (byte, part) in bytes.iter_mut().zip(parts) {
            *byte = *part;
        }
        let mut chars = [0; CHARS];
        // It fits: both lengths are worked out from the same number.
        let _written = URL_SAFE_NO_PAD.encode_slice(bytes, &mut chars);
        Self(chars)
    }

    fn opened(&self) -> Option<Opened> {
        let mut bytes = [0; BYTES];
        let length = URL_SAFE_NO_PAD.decode_slice(self.0, &mut bytes).ok()?;
        if length != BYTES {
            return None;
        }
        let (key, rest) = bytes.split_first_chunk::<ID>()?;
        let (signed_at, mac) = rest.split_first_chunk::<TIME>()?;
        Some(Opened {
            key: *key,
            signed_at: *signed_at,
            mac: mac.try_into().ok()?,
        })
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").finish_non_exhaustive()
    }
}

/// What a token holds.
struct Opened {
    key: KeyId,
    signed_at: [u8; TIME],
    mac: [u8; MAC],
}

impl Opened {
    fn check(&self, key: &Key, subjects: &[Subject<'_>], now: Timestamp) -> Result<(), Refused> {
        if !key.verify(&self.mac, |part| feed(self.signed_at, subjects, part)) {
            return Err(Refused::NotForThis);
        }
        let signed_at = Timestamp::from_millisecond(i64::from_be_bytes(self.signed_at));
        match signed_at {
            Ok(signed_at) if is_within(LIFE, signed_at, now) => Ok(()),
            Ok(_) | Err(_) => Err(Refused::RanOut),
        }
    }
}

/// Everything that is signed, in an order that doesn't depend on the pod, each
/// text behind its length so that no two lists read alike.
fn feed(signed_at: [u8; TIME], subjects: &[Subject<'_>], mut part: impl FnMut(&[u8])) {
    let mut subjects: Vec<_> = subjects.iter().collect();
    subjects.sort_unstable();
    subjects.dedup();
    part(PURPOSE);
    part(&signed_at);
    for subject in subjects {
        for text in [subject.workload.namespace(), subject.workload.name()] {
            part(&text.len().to_be_bytes());
            part(text.as_bytes());
        }
        part(&subject.pause.as_nanosecond().to_be_bytes());
    }
}

/// For fuzzing: no text is a token for a pause that nothing was signed for, and no
/// signature is good in a token of the right key and time.
#[doc(hidden)]
pub fn fuzz_token(text: &[u8]) {
    let mut keys = Keys::default();
    let read = ReadAt {
        began: Moment::ORIGIN,
        done: Moment::ORIGIN,
    };
    let _seen = keys.found(Found::Key(&[7; KEY_BYTES]), read);
    let workload = WorkloadKey::new("namespace", "name");
    let subject = Subject {
        workload: &workload,
        pause: Timestamp::UNIX_EPOCH,
    };
    let signer = keys.at(Moment::ORIGIN);
    let check = |token: &Token| signer.check(token, &[subject], Timestamp::UNIX_EPOCH);
    if let Some(token) = Token::read(text) {
        assert!(check(&token).is_err(), "nothing was signed");
    }
    let other = signer.sign(&[], Timestamp::UNIX_EPOCH);
    let other = other.as_ref().and_then(Token::opened);
    if let (Some(mac), Some(other)) = (text.first_chunk::<MAC>(), other) {
        let forged = Token::written(&Opened { mac: *mac, ..other });
        assert_eq!(
            check(&forged),
            Err(Refused::NotForThis),
            "nothing was signed"
        );
    }
}
