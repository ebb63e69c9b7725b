//! The wake key: what every doorman pod signs and checks the button's tokens with.
//!
//! Owns reading the Secret and filling it while it is empty, so that pods which
//! start together agree on one key (TOKEN-20). What follows from what was found, and
//! which keys are accepted, is decided in `napwake_gate::token`. Never overwrites what
//! isn't empty (T-26), and never logs a key.

mod secret;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use napwake_cluster::plain;
use napwake_gate::Moment;
use napwake_gate::token::{Found, KEY_BYTES, Keys, READ_AGAIN, ReadAt, Seen, Signer, Trouble};
use napwake_kit::ready::ReadyHandle;
use parking_lot::RwLock;
use tokio::sync::Mutex;
use tokio::time::{sleep, sleep_until};

use self::secret::{Filled, KeySecret, SecretError};
use crate::steady::Steady;

/// How often the Secret is read. A pod that empties it is followed by all others
/// well within the minute they have (TOKEN-22).
const EVERY: Duration = Duration::from_secs(20);

/// How often in a row the Secret is read because somebody else was quicker to
/// write it. Once is enough, unless it is emptied over and over.
const TRIES: usize = 3;

/// The wake key of this pod. Clones share everything.
#[derive(Debug, Clone)]
pub struct WakeKey(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    secret: KeySecret,
    steady: Steady,
    keys: RwLock<Keys>,
    /// One reads at a time.
    reading: Mutex<Reading>,
}

#[derive(Debug, Default)]
struct Reading {
    /// When the last read began that came to an end, whichever.
    began: Option<Moment>,
    /// When the last one began, though it may have been abandoned: whoever it was for
    /// has left.
    tried: Option<Moment>,
    /// What was wrong, which is told once.
    wrong: Option<Wrong>,
}

/// Why the Secret is of no use now, as far as it matters whether that is news.
#[derive(Debug, PartialEq, Eq)]
enum Wrong {
    Trouble(Trouble),
    Error(String),
}

impl WakeKey {
    /// The key in the Secret `name` of `namespace`, not read yet.
    pub fn new(client: Client, namespace: &str, name: &str, steady: Steady) -> Self {
        Self(Arc::new(Shared {
            secret: KeySecret::new(client, namespace, name),
            steady,
            keys: RwLock::default(),
            reading: Mutex::default(),
        }))
    }

    /// Reads the Secret now and then, for ever. The handle is given back after
    /// the first time, whatever came of it: callers are held without a key, too.
    pub async fn follow(self, read_once: ReadyHandle) -> Result<Infallible, Infallible> {
        let mut read_once = Some(read_once);
        loop {
            self.read().await;
            drop(read_once.take());
            sleep(EVERY).await;
        }
    }

    /// What signs and checks tokens now.
    pub fn with<T>(&self, sign: impl FnOnce(Signer<'_>) -> T) -> T {
        sign(self.0.keys.read().at(self.0.steady.now()))
    }

    /// Sees to it that the Secret was read since `came`, for the sake of a token
    /// that came then and whose key isn't known here (T-23). That waits for a few
    /// seconds where it was read only just before; those who ask together share
    /// one reading.
    pub async fn read_since(&self, came: Moment) {
        loop {
            let mut reading = self.0.reading.lock().await;
            // One that failed since isn't tried again for the same token.
            if reading.began >= Some(came) {
                return;
            }
            let Some(at) = self.with(|signer| signer.read_again_at(came)) else {
                return;
            };
            let earliest = reading.tried.map(|tried| tried.plus(READ_AGAIN));
            let at = earliest.map_or(at, |earliest| at.max(earliest));
            if at <= self.0.steady.now() {
                return self.0.read(&mut reading).await;
            }
            drop(reading);
            sleep_until(self.0.steady.instant(at)).await;
        }
    }

    async fn read(&self) {
        let mut reading = self.0.reading.lock().await;
        self.0.read(&mut reading).await;
    }
}

impl Shared {
    async fn read(&self, reading: &mut Reading) {
        let began = Some(self.steady.now());
        reading.tried = began;
        let wrong = match self.take_in().await {
            Ok(trouble) => trouble.map(Wrong::Trouble),
            Err(error) => Some(Wrong::Error(plain(&error))),
        };
        reading.began = began;
        if wrong != reading.wrong {
            self.tell(wrong.as_ref());
            reading.wrong = wrong;
        }
    }

    /// Takes in what the Secret holds, and fills it where it is empty.
    async fn take_in(&self) -> Result<Option<Trouble>, SecretError> {
        for _ in 0..TRIES {
            let began = self.steady.now();
            let read = self.secret.read().await?;
            let found = match &read {
                None => Found::Gone,
                Some(secret) => secret.key().map_or(Found::Empty, Found::Key),
            };
            match self.found(found, began) {
                Seen::Same | Seen::Switched => return Ok(None),
                Seen::Complain(trouble) => return Ok(Some(trouble)),
                Seen::Fill => {
                    let Some(secret) = read else { continue };
                    let key = random()?;
                    match self.secret.fill(secret, &key).await? {
                        Filled::ByUs => {
                            tracing::info!(secret = self.secret.name(), "filled with a new key");
                            return Ok(match self.found(Found::Key(&key), began) {
                                Seen::Complain(trouble) => Some(trouble),
                                Seen::Same | Seen::Switched | Seen::Fill => None,
                            });
                        }
                        Filled::BySomebodyElse => {}
                    }
                }
            }
        }
        Err(SecretError::Contended)
    }

    fn found(&self, found: Found<'_>, began: Moment) -> Seen {
        let done = self.steady.now();
        let seen = self.keys.write().found(found, ReadAt { began, done });
        if seen == Seen::Switched {
            tracing::info!(
                secret = self.secret.name(),
                "signing with this key from now on"
            );
        }
        seen
    }

    fn tell(&self, wrong: Option<&Wrong>) {
        let secret = self.secret.name();
        match wrong {
            None => tracing::info!(secret, "the wake key is all right again"),
            Some(Wrong::Trouble(trouble)) => tracing::warn!(
                secret,
                %trouble,
                "a key in memory goes on; without one, pages have no button"
            ),
            Some(Wrong::Error(error)) => tracing::warn!(
                secret,
                error,
                "can't read the wake key; one in memory goes on"
            ),
        }
    }
}

fn random() -> Result<[u8; KEY_BYTES], SecretError> {
    let mut key = [0; KEY_BYTES];
    getrandom::fill(&mut key)?;
    Ok(key)
}
