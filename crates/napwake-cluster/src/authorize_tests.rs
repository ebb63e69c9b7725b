//! Tests of authorization against a scripted API server.

use rstest::rstest;
use serde_json::{Value, json};
use tokio::time::advance;

use super::*;
use crate::fake_api::{Answer, FakeApi};

const SCRAPER: &str = "system:serviceaccount:monitoring:prometheus";

fn token_review(status: &Value) -> Answer {
    let spec = json!({"token": "t"});
    Answer::Json(json!({"metadata": {}, "spec": spec, "status": status}))
}

fn known() -> Answer {
    let user = json!({"username": SCRAPER, "uid": "u", "groups": ["g"], "extra": {"a": ["b"]}});
    token_review(&json!({"authenticated": true, "user": user}))
}

fn access(allowed: bool) -> Answer {
    Answer::Json(json!({"metadata": {}, "spec": {}, "status": {"allowed": allowed}}))
}

async fn check(script: Vec<Answer>, bearer: Option<&str>, expected: Verdict) -> FakeApi {
    let api = FakeApi::new(script);
    let authorizer = KubernetesAuthorizer::new(&api.client());
    assert_eq!(authorizer.may_read_metrics(bearer).await, expected);
    api
}

#[tokio::test]
async fn whoever_may_get_the_path_is_allowed() {
    let api = check(vec![known(), access(true)], Some("t"), Verdict::Allowed).await;
    assert_eq!(
        api.calls(),
        [
            "POST /apis/authentication.k8s.io/v1/tokenreviews?",
            "POST /apis/authorization.k8s.io/v1/subjectaccessreviews?",
        ]
    );
    let bodies = api.bodies();
    assert_eq!(bodies[0]["spec"], json!({"token": "t"}));
    assert_eq!(
        bodies[1]["spec"],
        json!({
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            "user": SCRAPER, "uid": "u", "groups": ["g"], "extra": {"a": ["b"]},
        })
    );
}

#[rstest]
#[case::no_right(vec![known(), access(false)], Verdict::Denied)]
#[case::unknown(
    vec![token_review(&json!({"authenticated": false, "error": "expired"}))],
    Verdict::Unauthenticated
)]
#[case::no_status(vec![token_review(&Value::Null)], Verdict::Unauthenticated)]
#[case::refused(vec![Answer::Error(403)], Verdict::Unavailable)]
#[case::half(vec![known(), Answer::Error(500)], Verdict::Unavailable)]
#[tokio::test]
async fn others_are_not(#[case] script: Vec<Answer>, #[case] expected: Verdict) {
    check(script, Some("t"), expected).await;
}

#[tokio::test]
async fn nobody_is_asked_about_no_token_or_an_absurd_one() {
    let api = check(vec![], None, Verdict::Unauthenticated).await;
    assert!(api.calls().is_empty());
    let absurd = "t".repeat(LONGEST + 1);
    let api = check(vec![], Some(&absurd), Verdict::Unauthenticated).await;
    assert!(api.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_silent_api_server_is_not_waited_for() {
    let start = Instant::now();
    check(vec![known()], Some("t"), Verdict::Unavailable).await;
    assert_eq!(start.elapsed(), PATIENCE);
}

#[tokio::test(start_paused = true)]
async fn a_verdict_is_remembered_for_a_while() {
    let api = FakeApi::new([known(), access(true), known(), access(false)]);
    let authorizer = KubernetesAuthorizer::new(&api.client());
    for _ in 0..3 {
        assert_eq!(
            authorizer.may_read_metrics(Some("t")).await,
            Verdict::Allowed
        );
    }
    assert_eq!(api.calls().len(), 2);
    advance(REMEMBER).await;
    assert_eq!(
        authorizer.may_read_metrics(Some("t")).await,
        Verdict::Denied
    );
    assert_eq!(api.calls().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn guesses_are_bounded_and_push_nobody_out() {
    let guess = || token_review(&json!({"authenticated": false}));
    let guesses = (0..100).map(|_| guess());
    let api = FakeApi::new([known(), access(true)].into_iter().chain(guesses));
    let authorizer = KubernetesAuthorizer::new(&api.client());
    assert_eq!(
        authorizer.may_read_metrics(Some("t")).await,
        Verdict::Allowed
    );
    for number in 0..100 {
        let guess = format!("guess-{number}");
        let verdict = authorizer.may_read_metrics(Some(&guess)).await;
        assert_eq!(verdict, Verdict::Unauthenticated);
    }
    assert!(authorizer.remembered.lock().len() <= REMEMBERED);
    assert_eq!(
        authorizer.may_read_metrics(Some("t")).await,
        Verdict::Allowed
    );
    assert_eq!(api.calls().len(), 102);
}
