//! The wake key over a Secret in memory, and a clock that only the test moves.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use napwake_gate::places::WorkloadKey;
use napwake_gate::token::{Refused, Subject, Token};
use napwake_kit::ready::Readiness;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::tests::{Cluster, Lines};

const SECRET: &str = "/api/v1/namespaces/napwake-system/secrets/napwake-doorman-wake-key";

/// A pod that follows the Secret for as long as this lives.
struct Pod {
    key: WakeKey,
    _following: JoinSet<Result<Infallible, Infallible>>,
}

fn pod(cluster: &Cluster) -> Pod {
    let (namespace, name) = ("napwake-system", "napwake-doorman-wake-key");
    let key = WakeKey::new(cluster.client(), namespace, name, Steady::start());
    let readiness = Readiness::new(&CancellationToken::new());
    let mut following = JoinSet::new();
    following.spawn(key.clone().follow(readiness.handle("wake key")));
    Pod {
        key,
        _following: following,
    }
}

/// Without a field of its own, not even an empty `data`.
fn empty() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": { "namespace": "napwake-system", "name": "napwake-doorman-wake-key" },
    })
}

fn holding(field: &str, bytes: &[u8]) -> Value {
    let mut secret = empty();
    secret["data"] = json!({ field: ByteString(bytes.to_vec()) });
    secret
}

fn cluster(secret: Value) -> Cluster {
    let cluster = Cluster::default();
    cluster.store(SECRET, secret);
    cluster
}

/// The key that the Secret holds, as it is written there.
fn held(cluster: &Cluster) -> Option<String> {
    let secret = cluster.stored(SECRET)?;
    Some(secret["data"]["key"].as_str()?.to_owned())
}

fn count(cluster: &Cluster, method: &str) -> usize {
    let calls = cluster.calls();
    calls.iter().filter(|call| call.method == method).count()
}

async fn quiet() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

async fn pass(span: Duration) {
    quiet().await;
    tokio::time::advance(span).await;
    quiet().await;
}

/// When every page here is shown: what changes is the steady clock alone.
fn now() -> Timestamp {
    "2026-11-30T10:05:00Z".parse().unwrap()
}

impl Pod {
    fn now(&self) -> Moment {
        self.key.0.steady.now()
    }

    fn sign(&self) -> Option<Token> {
        self.ask(|signer, subject| signer.sign(&[subject], now()))
    }

    fn check(&self, token: &Token) -> Result<(), Refused> {
        self.ask(|signer, subject| signer.check(token, &[subject], now()))
    }

    fn ask<T>(&self, ask: impl FnOnce(Signer<'_>, Subject<'_>) -> T) -> T {
        let workload = WorkloadKey::new("shop", "api");
        let subject = Subject {
            workload: &workload,
            pause: "2026-11-30T10:00:00Z".parse().unwrap(),
        };
        self.key.with(|signer| ask(signer, subject))
    }
}

/// TOKEN-19: the first pod fills it with a random key, at the version it read;
/// another install gets another key. All else in it stays.
#[tokio::test(start_paused = true)]
async fn an_empty_one_is_filled() {
    let mut secret = empty();
    secret["metadata"]["labels"] = json!({ "team": "shop" });
    let (one, other) = (cluster(secret), cluster(empty()));
    let (pod, _pod) = (pod(&one), pod(&other));
    quiet().await;
    let filled = one.stored(SECRET).unwrap();
    let key: ByteString = serde_json::from_value(filled["data"]["key"].clone()).unwrap();
    assert_eq!(key.0.len(), KEY_BYTES);
    assert_eq!(filled["metadata"]["labels"]["team"], "shop");
    assert_ne!(held(&one), held(&other));
    assert!(pod.sign().is_some());
    let calls = one.calls();
    let [read, written] = calls.as_slice() else {
        panic!("{calls:?}");
    };
    assert_eq!(
        (read.method.as_str(), written.method.as_str()),
        ("GET", "PUT")
    );
    assert_eq!(written.body["metadata"]["resourceVersion"], "1");
}

/// TOKEN-16, TOKEN-20: pods that start together agree on one key, each time.
#[tokio::test(start_paused = true)]
async fn pods_that_start_together_agree() {
    for _ in 0..50 {
        let cluster = cluster(empty());
        let pods: Vec<Pod> = (0..10).map(|_| pod(&cluster)).collect();
        quiet().await;
        assert_eq!(count(&cluster, "PUT"), 10, "all of them found it empty");
        let token = pods[0].sign().unwrap();
        for pod in &pods {
            assert_eq!(pod.check(&token), Ok(()));
        }
        let written = held(&cluster);
        pass(EVERY).await;
        assert_eq!(held(&cluster), written);
    }
}

/// T-26: what is there is used as it is and never overwritten; too little is no
/// key; a field of another name is no key field, and stays.
#[rstest]
#[case::good("key", &[7; 32], true, 0)]
#[case::longer("key", b"0123456789abcdef0123456789abcdef0123456789", true, 0)]
#[case::short("key", &[7; 31], false, 0)]
#[case::without_content("key", &[], true, 1)]
#[case::other_field("token", &[7; 32], true, 1)]
#[tokio::test(start_paused = true)]
async fn what_is_there_stays(
    #[case] field: &str,
    #[case] bytes: &[u8],
    #[case] signs: bool,
    #[case] writes: usize,
) {
    let cluster = cluster(holding(field, bytes));
    let pod = pod(&cluster);
    pass(3 * EVERY).await;
    assert_eq!(pod.sign().is_some(), signs);
    assert_eq!(count(&cluster, "PUT"), writes);
    if !bytes.is_empty() {
        let kept = cluster.stored(SECRET).unwrap()["data"][field].clone();
        assert_eq!(kept, json!(ByteString(bytes.to_vec())));
    }
}

/// TOKEN-22, TOKEN-23: emptied, it is filled again, and each pod signs with the new
/// key within a minute; it accepts the old one for eleven minutes after its own
/// switch.
#[tokio::test(start_paused = true)]
async fn emptying_it_changes_the_key() {
    let cluster = cluster(empty());
    let pods = [pod(&cluster), pod(&cluster)];
    pass(EVERY + EVERY / 2).await;
    let (before, old) = (held(&cluster), pods[0].sign().unwrap());
    cluster.store(SECRET, empty());
    pass(EVERY).await;
    assert_ne!(held(&cluster), before);
    let new = pods[0].sign().unwrap();
    assert_ne!(new, old);
    for pod in &pods {
        assert_eq!(pod.check(&new), Ok(()));
    }
    pass(Duration::from_secs(10 * 60 + 39)).await;
    assert!(pods.iter().all(|pod| pod.check(&old).is_ok()));
    pass(EVERY + Duration::from_secs(2)).await;
    for pod in &pods {
        assert_eq!(pod.check(&old), Err(Refused::UnknownKey));
    }
}

/// T-25: deleted, it can't be made, and a key in memory goes on; a pod without
/// one has none. Made again, it is filled.
#[tokio::test(start_paused = true)]
async fn a_deleted_one_is_done_without() {
    let cluster = cluster(empty());
    let before = pod(&cluster);
    quiet().await;
    let token = before.sign().unwrap();
    cluster.unstore(SECRET);
    let after = pod(&cluster);
    pass(Duration::from_mins(15)).await;
    assert_eq!(before.check(&token), Ok(()));
    assert!(before.sign().is_some() && after.sign().is_none());
    assert_eq!(count(&cluster, "POST"), 0);
    cluster.store(SECRET, empty());
    pass(EVERY).await;
    assert_eq!(before.check(&after.sign().unwrap()), Ok(()));
}

/// A pod that knows one key, and a token of a pod that has made another since.
async fn with_an_unknown_key() -> (Cluster, Pod, Token) {
    let cluster = cluster(empty());
    let first = pod(&cluster);
    pass(EVERY / 2).await;
    cluster.store(SECRET, empty());
    let second = pod(&cluster);
    quiet().await;
    let token = second.sign().unwrap();
    (cluster, first, token)
}

/// T-23: a token whose key isn't known here is a reason to read, now and then; all
/// who ask together share one reading.
#[tokio::test(start_paused = true)]
async fn an_unknown_key_is_a_reason_to_read() {
    let (cluster, first, token) = with_an_unknown_key().await;
    assert_eq!(first.check(&token), Err(Refused::UnknownKey));
    let before = count(&cluster, "GET");
    let came = first.now();
    let mut asking = JoinSet::new();
    for _ in 0..20 {
        let key = first.key.clone();
        asking.spawn(async move { key.read_since(came).await });
    }
    asking.join_all().await;
    assert_eq!(count(&cluster, "GET"), before + 1);
    assert_eq!(first.check(&token), Ok(()));
    first.key.read_since(came).await;
    assert_eq!(count(&cluster, "GET"), before + 1, "it was read since");
    pass(Duration::from_millis(1)).await;
    let key = first.key.clone();
    let came = first.now();
    let mut asking = JoinSet::new();
    asking.spawn(async move { key.read_since(came).await });
    pass(Duration::from_millis(4_998)).await;
    assert_eq!(count(&cluster, "GET"), before + 1, "only just");
    pass(Duration::from_millis(1)).await;
    asking.join_all().await;
    assert_eq!(count(&cluster, "GET"), before + 2);
}

/// T-23: a read that was abandoned, as its caller left, is none. Whoever waited for
/// it reads, a few seconds after it began.
#[tokio::test(start_paused = true)]
async fn an_abandoned_read_counts_for_nobody() {
    let (cluster, first, token) = with_an_unknown_key().await;
    let before = count(&cluster, "GET");
    let asking = || {
        let (key, came) = (first.key.clone(), first.now());
        let mut asking = JoinSet::new();
        asking.spawn(async move { key.read_since(came).await });
        asking
    };
    cluster.fall_silent();
    let leaves = asking();
    quiet().await;
    assert_eq!(count(&cluster, "GET"), before + 1);
    let mut stays = asking();
    quiet().await;
    drop(leaves);
    cluster.speak_again();
    pass(READ_AGAIN.saturating_sub(Duration::from_millis(1))).await;
    assert_eq!(count(&cluster, "GET"), before + 1, "only just");
    pass(Duration::from_millis(1)).await;
    assert_eq!(count(&cluster, "GET"), before + 2);
    assert!(stays.try_join_next().is_some());
    assert_eq!(first.check(&token), Ok(()));
}

/// While the API server can't be asked, the key in memory goes on.
#[tokio::test(start_paused = true)]
async fn the_key_outlives_the_api_server() {
    let cluster = cluster(empty());
    let pod = pod(&cluster);
    quiet().await;
    let token = pod.sign().unwrap();
    cluster.break_down();
    pass(Duration::from_mins(15)).await;
    assert_eq!(pod.check(&token), Ok(()));
}

/// T-25, T-26: whoever reads the log learns what to do about it, once.
#[rstest]
#[case::gone(None, "apply the chart or the manifests again")]
#[case::short(Some(holding("key", &[7; 31])), "take its data away")]
#[tokio::test(start_paused = true)]
async fn what_to_do_about_it_is_said(#[case] secret: Option<Value>, #[case] expected: &str) {
    let (lines, _guard) = Lines::gather();
    let cluster = secret.map_or_else(Cluster::default, cluster);
    let _pod = pod(&cluster);
    pass(EVERY).await;
    pass(EVERY).await;
    let said = lines.with("without one, pages have no button");
    assert!(said.len() == 1 && said[0].contains(expected), "{said:?}");
}
