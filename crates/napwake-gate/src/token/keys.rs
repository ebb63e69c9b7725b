//! The keys that tokens are signed with, and how one takes over from another.
//!
//! Owns which key signs, which ones are still accepted, and what is to be done
//! about what the Secret holds. Never reads or writes it, and never shows a key.

use std::{fmt, time::Duration};

use hmac::{Hmac, KeyInit, Mac};
use jiff::Timestamp;
use sha2::{Digest, Sha256};

use super::{Refused, Subject, Token};
use crate::Moment;

/// How long an old key is accepted: until the last token that a pod signed with
/// it has run out, and pods switch up to a minute apart (TOKEN-23, T-22).
pub const OLD_KEY: Duration = Duration::from_mins(11);

/// How often the Secret is read again for the sake of an unknown key (T-23).
pub const READ_AGAIN: Duration = Duration::from_secs(5);

/// The least a key has: as much as its signature has (RFC 2104, section 3).
pub const KEY_BYTES: usize = 32;

/// How long a signature is.
pub(super) const MAC: usize = 32;

/// Names a key to those who have it.
pub(super) type KeyId = [u8; 8];

/// What the Secret was found to hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Found<'a> {
    /// This, in its key field.
    Key(&'a [u8]),
    /// No key field, or nothing in it (T-26).
    Empty,
    /// There is no such Secret (T-25).
    Gone,
}

/// What comes of what was found.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The key that signs already.
    Same,
    /// Another key, which signs from now on (TOKEN-22).
    Switched,
    /// The Secret is to be filled with a random key, if it is still empty then
    /// (TOKEN-19, TOKEN-20).
    Fill,
    /// Nothing changes, and somebody should hear of it.
    Complain(Trouble),
}

/// What is wrong with the Secret. A key in memory goes on signing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Trouble {
    /// T-26: what isn't empty is never overwritten.
    #[error(
        "the wake key's Secret holds less than {KEY_BYTES} bytes, which is no key: take its data \
         away, and a doorman fills it anew"
    )]
    TooShort,
    /// T-25: it can't be made by the doorman.
    #[error("the wake key's Secret is gone: apply the chart or the manifests again, which make it")]
    Gone,
}

/// One key.
#[derive(Clone)]
pub(super) struct Key {
    id: KeyId,
    mac: Hmac<Sha256>,
}

impl Key {
    fn new(bytes: &[u8]) -> Result<Self, Trouble> {
        if bytes.len() < KEY_BYTES {
            return Err(Trouble::TooShort);
        }
        // HMAC takes keys of any length.
        let mac = Hmac::new_from_slice(bytes).map_err(|_| Trouble::TooShort)?;
        let digest = Sha256::digest(bytes);
        let id = digest.first_chunk().copied().unwrap_or_default();
        Ok(Self { id, mac })
    }

    pub(super) const fn id(&self) -> &KeyId {
        &self.id
    }

    pub(super) fn sign(&self, feed: impl FnOnce(&mut dyn FnMut(&[u8]))) -> [u8; MAC] {
        self.fed(feed).finalize().into_bytes().into()
    }

    /// In a time that doesn't depend on where the two differ.
    pub(super) fn verify(&self, mac: &[u8; MAC], feed: impl FnOnce(&mut dyn FnMut(&[u8]))) -> bool {
        self.fed(feed).verify_slice(mac).is_ok()
    }

    fn fed(&self, feed: impl FnOnce(&mut dyn FnMut(&[u8]))) -> Hmac<Sha256> {
        let mut mac = self.mac.clone();
        feed(&mut |part| mac.update(part));
        mac
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").finish_non_exhaustive()
    }
}

impl fmt::Debug for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key(_) => "Key(..)",
            Self::Empty => "Empty",
            Self::Gone => "Gone",
        })
    }
}

/// The keys of one doorman pod.
///
/// It goes on with what it has whatever becomes of the Secret, and counts an old
/// key's time from its own switch (T-22, T-25).
#[derive(Clone, Debug, Default)]
pub struct Keys {
    current: Option<Key>,
    /// Those before it, each with when it is forgotten.
    old: Vec<(Key, Moment)>,
    /// When the last read of the Secret began.
    read_at: Option<Moment>,
}

/// A read of the Secret: when it began, and when it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadAt {
    /// What is in the Secret was there at this moment or later.
    pub began: Moment,
    /// The moment at which a key that it holds takes over.
    pub done: Moment,
}

impl Keys {
    /// Takes in what a read of the Secret found.
    pub fn found(&mut self, found: Found<'_>, read: ReadAt) -> Seen {
        let now = read.done;
        self.read_at = self.read_at.max(Some(read.began));
        self.old.retain(|(_, until)| now < *until);
        match found {
            Found::Key([]) | Found::Empty => Seen::Fill,
            Found::Gone => Seen::Complain(Trouble::Gone),
            Found::Key(bytes) => match Key::new(bytes) {
                Ok(key) => self.switch_to(key, now),
                Err(trouble) => Seen::Complain(trouble),
            },
        }
    }

    fn switch_to(&mut self, key: Key, now: Moment) -> Seen {
        if self.current.as_ref().is_some_and(|one| one.id == key.id) {
            return Seen::Same;
        }
        // It may be one that was in use before.
        self.old.retain(|(old, _)| old.id != key.id);
        if let Some(before) = self.current.replace(key) {
            self.old.push((before, now.plus(OLD_KEY)));
        }
        Seen::Switched
    }

    /// The keys as they stand at `now`.
    pub const fn at(&self, now: Moment) -> Signer<'_> {
        Signer { keys: self, now }
    }
}

/// The keys at one moment: what signs and checks tokens.
#[derive(Clone, Copy, Debug)]
pub struct Signer<'a> {
    keys: &'a Keys,
    now: Moment,
}

impl<'a> Signer<'a> {
    /// A token for a page that is shown at `now`. None without a key, and none
    /// for nobody.
    pub fn sign(self, subjects: &[Subject<'_>], now: Timestamp) -> Option<Token> {
        let key = self.keys.current.as_ref()?;
        (!subjects.is_empty()).then(|| Token::sign(key, subjects, now))
    }

    /// Whether a token that was posted at `now` is for these pauses of these
    /// workloads, all of them and no others.
    pub fn check(
        self,
        token: &Token,
        subjects: &[Subject<'_>],
        now: Timestamp,
    ) -> Result<(), Refused> {
        let opened = token.opened().ok_or(Refused::NotForThis)?;
        let mut keys = self.accepted();
        let key = keys
            .find(|key| *key.id() == opened.key)
            .ok_or(Refused::UnknownKey)?;
        opened.check(key, subjects, now)
    }

    /// When the Secret is to be read again, before a token with an unknown key
    /// that came at `came` is refused (T-23). None if it was read since.
    pub fn read_again_at(self, came: Moment) -> Option<Moment> {
        match self.keys.read_at {
            Some(read_at) if read_at >= came => None,
            Some(read_at) => Some(self.now.max(read_at.plus(READ_AGAIN))),
            None => Some(self.now),
        }
    }

    fn accepted(self) -> impl Iterator<Item = &'a Key> {
        let old = self.keys.old.iter();
        let old = old.filter(move |(_, until)| self.now < *until);
        self.keys.current.iter().chain(old.map(|(key, _)| key))
    }
}
