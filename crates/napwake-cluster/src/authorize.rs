//! Who may read the metrics: whoever Kubernetes lets `get` the path `/metrics`.
//!
//! A TokenReview says who a bearer token belongs to, a SubjectAccessReview
//! whether that one may. Verdicts are remembered for a short while, so that
//! scrapes cost the API server little. Tokens are kept as hashes alone.

use std::{collections::HashMap, time::Duration};

use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use napwake_kit::admin::{Authorizer, BoxFuture, Verdict};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout},
};

use crate::plain;

/// What is asked for.
const PATH: &str = "/metrics";
const VERB: &str = "get";

/// How long a verdict holds: a right that is taken away works on for so long.
const REMEMBER: Duration = Duration::from_secs(30);

/// How many verdicts are remembered. Few scrape; more tokens than this are a
/// stranger's guesses.
const REMEMBERED: usize = 64;

/// How many tokens are reviewed at once, so that guesses cost little.
const AT_ONCE: usize = 2;

/// How long both reviews may take together, waiting for a turn included.
const PATIENCE: Duration = Duration::from_secs(10);

/// Longer tokens aren't sent on. Service account tokens have about 1 KiB.
const LONGEST: usize = 8 * 1024;

/// Asks Kubernetes. Needs the rights to create `tokenreviews` and
/// `subjectaccessreviews`.
#[derive(Debug)]
pub struct KubernetesAuthorizer {
    reviews: Reviews,
    turns: Semaphore,
    remembered: Mutex<HashMap<TokenHash, Remembered>>,
}

type TokenHash = [u8; 32];

#[derive(Debug)]
struct Remembered {
    verdict: Verdict,
    until: Instant,
}

impl KubernetesAuthorizer {
    pub fn new(client: &Client) -> Self {
        Self {
            reviews: Reviews {
                tokens: Api::all(client.clone()),
                access: Api::all(client.clone()),
            },
            turns: Semaphore::new(AT_ONCE),
            remembered: Mutex::default(),
        }
    }

    async fn judge(&self, token: &str) -> Verdict {
        let hash = Sha256::digest(token).into();
        if let Some(verdict) = self.recall(&hash) {
            return verdict;
        }
        let reviewed = timeout(PATIENCE, async {
            // It can't fail: nobody closes the semaphore.
            let _turn = self.turns.acquire().await.ok();
            // Somebody may have asked about the same token meanwhile.
            match self.recall(&hash) {
                Some(verdict) => Ok(verdict),
                None => self.reviews.of(token).await,
            }
        });
        let verdict = match reviewed.await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(error)) => {
                tracing::warn!(error = plain(&error), "can't ask who may read the metrics");
                return Verdict::Unavailable;
            }
            Err(_) => {
                tracing::warn!("asking who may read the metrics took too long");
                return Verdict::Unavailable;
            }
        };
        self.remember(hash, verdict);
        verdict
    }

    fn recall(&self, hash: &TokenHash) -> Option<Verdict> {
        let remembered = self.remembered.lock();
        let known = remembered
            .get(hash)
            .filter(|known| Instant::now() < known.until)?;
        Some(known.verdict)
    }

    fn remember(&self, hash: TokenHash, verdict: Verdict) {
        let now = Instant::now();
        let mut remembered = self.remembered.lock();
        if remembered.len() >= REMEMBERED {
            remembered.retain(|_, known| now < known.until);
        }
        // Guesses must not push out those who may.
        if remembered.len() < REMEMBERED || verdict == Verdict::Allowed {
            if remembered.len() >= REMEMBERED {
                remembered.retain(|_, known| known.verdict == Verdict::Allowed);
            }
            remembered.insert(
                hash,
                Remembered {
                    verdict,
                    until: now + REMEMBER,
                },
            );
        }
    }
}

impl Authorizer for KubernetesAuthorizer {
    fn may_read_metrics<'a>(&'a self, bearer: Option<&'a str>) -> BoxFuture<'a, Verdict> {
        Box::pin(async move {
            match bearer {
                Some(token) if token.len() <= LONGEST => self.judge(token).await,
                Some(_) | None => Verdict::Unauthenticated,
            }
        })
    }
}

#[derive(Debug)]
struct Reviews {
    tokens: Api<TokenReview>,
    access: Api<SubjectAccessReview>,
}

impl Reviews {
    async fn of(&self, token: &str) -> kube::Result<Verdict> {
        let Some(user) = self.user(token).await? else {
            return Ok(Verdict::Unauthenticated);
        };
        Ok(if self.may(user).await? {
            Verdict::Allowed
        } else {
            Verdict::Denied
        })
    }

    async fn user(&self, token: &str) -> kube::Result<Option<UserInfo>> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                audiences: None,
            },
            ..TokenReview::default()
        };
        let review = self.tokens.create(&PostParams::default(), &review).await?;
        let status = review
            .status
            .filter(|status| status.authenticated == Some(true));
        Ok(status.and_then(|status| status.user))
    }

    async fn may(&self, user: UserInfo) -> kube::Result<bool> {
        let attributes = NonResourceAttributes {
            path: Some(PATH.to_owned()),
            verb: Some(VERB.to_owned()),
        };
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                non_resource_attributes: Some(attributes),
                user: user.username,
                groups: user.groups,
                uid: user.uid,
                extra: user.extra,
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let review = self.access.create(&PostParams::default(), &review).await?;
        Ok(review
            .status
            .is_some_and(|status| status.allowed && status.denied != Some(true)))
    }
}

#[cfg(test)]
#[path = "authorize_tests.rs"]
mod tests;
