//! Doormen that start together fill the wake key's Secret once.

use std::convert::Infallible;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Client,
    api::{Patch, PatchParams},
};
use napwake_api::names;
use napwake_doorman::{key::WakeKey, steady::Steady};
use napwake_gate::{
    places::WorkloadKey,
    token::{KEY_BYTES, Signer, Subject, Token},
};
use napwake_kit::ready::Readiness;
use napwake_testkit::{
    Context, Result, ensure, managed,
    place::{self, Place},
};
use napwake_tests_process::SOON;
use rstest::rstest;
use serde_json::json;
use tokio::{task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

/// The wake key's Secret.
const SECRET: &str = "napwake-doorman-wake-key";

/// What a doorman does about its key, for as long as this lives.
struct Doorman {
    key: WakeKey,
    has_read: Readiness,
    _following: JoinSet<Result<Infallible, Infallible>>,
}

impl Doorman {
    fn start(client: Client, namespace: &str) -> Self {
        let key = WakeKey::new(client, namespace, SECRET, Steady::start());
        let has_read = Readiness::new(&CancellationToken::new());
        let mut following = JoinSet::new();
        following.spawn(key.clone().follow(has_read.handle("wake key")));
        Self {
            key,
            has_read,
            _following: following,
        }
    }

    fn sign(&self, now: Timestamp) -> Option<Token> {
        self.ask(now, |signer, subject| signer.sign(&[subject], now))
    }

    fn accepts(&self, token: &Token, now: Timestamp) -> bool {
        self.ask(now, |signer, subject| signer.check(token, &[subject], now))
            .is_ok()
    }

    fn ask<T>(&self, pause: Timestamp, ask: impl FnOnce(Signer<'_>, Subject<'_>) -> T) -> T {
        let workload = WorkloadKey::new("shop", "web");
        let subject = Subject {
            workload: &workload,
            pause,
        };
        self.key.with(|signer| ask(signer, subject))
    }
}

/// TOKEN-16, TOKEN-19, TOKEN-20: doormen that start together and find the Secret empty
/// fill it once, and each of them accepts what any other signed; round after round,
/// each time with another key.
#[rstest]
#[case::two(2, 200)]
#[case::ten(10, 50)]
#[tokio::test]
async fn doormen_that_start_together_agree_on_one_key(
    #[case] doormen: usize,
    #[case] rounds: usize,
) {
    place::with("onekey", async |place| {
        let secret = json!({"metadata": {"name": SECRET}, "type": "Opaque"});
        place.create::<Secret>(secret).await?;
        let mut clients = Vec::new();
        for _ in 0..doormen {
            // Each over a connection of its own, so that none waits for another.
            clients.push(Client::try_default().await?);
        }
        let mut before = None;
        for round in 0..rounds {
            let filled = together(&place, &clients).await;
            let filled = filled.with_context(|| format!("round {round}"))?;
            ensure!(before.as_ref() != Some(&filled), "the same key again");
            before = Some(filled);
            empty(&place).await?;
        }
        Ok(())
    })
    .await;
}

/// Starts one doorman for each client, and gives the key that all of them have then.
async fn together(place: &Place, clients: &[Client]) -> Result<ByteString> {
    let start = |client: &Client| Doorman::start(client.clone(), &place.namespace);
    let doormen: Vec<_> = clients.iter().map(start).collect();
    let all_read = join_all(doormen.iter().map(|one| one.has_read.ready()));
    let all_read = timeout(SOON, all_read).await;
    all_read.context("not all have read it")?;
    let secret = place.api::<Secret>().get(SECRET).await?;
    let mut data = secret.data.context("it is filled")?;
    let key = data.remove(names::WAKE_KEY_FIELD).context("with a key")?;
    ensure!(key.0.len() == KEY_BYTES, "{} bytes", key.0.len());
    let now = managed::now();
    for one in &doormen {
        let token = one.sign(now).context("it has a key")?;
        let all_accept = doormen.iter().all(|other| other.accepts(&token, now));
        ensure!(all_accept, "they don't agree");
    }
    Ok(key)
}

async fn empty(place: &Place) -> Result<()> {
    let patch = Patch::Merge(json!({"data": null}));
    let secrets = place.api::<Secret>();
    secrets
        .patch(SECRET, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}
