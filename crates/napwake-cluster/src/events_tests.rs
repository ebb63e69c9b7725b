//! Tests of events against a scripted API server.

use rstest::rstest;
use serde_json::json;
use tokio::time::advance;

use super::*;
use crate::fake_api::{Answer, FakeApi};

fn workload(name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("napwake.dev/v1alpha1".to_owned()),
        kind: Some("ManagedWorkload".to_owned()),
        name: Some(name.to_owned()),
        namespace: Some("shop".to_owned()),
        uid: Some("u1".to_owned()),
        ..ObjectReference::default()
    }
}

fn notice(name: &str, limit: Limit) -> Notice {
    Notice {
        kind: Kind::Warning,
        reason: "RequestNotServed",
        action: "Holding",
        note: "Service api: no pod was Ready after 2m".to_owned(),
        regarding: workload(name),
        related: None,
        limit,
    }
}

fn written() -> Answer {
    Answer::Json(json!({"metadata": {"name": "x"}, "eventTime": null}))
}

fn events(api: &FakeApi) -> Events {
    let (clock, _hand) = Clock::manual("2026-11-30T10:00:00.123456Z".parse().unwrap());
    Events::new(&api.client(), clock, "napwake.dev/doorman", "doorman-1")
}

fn names(api: &FakeApi) -> Vec<String> {
    let name = |body: serde_json::Value| body["metadata"]["name"].as_str().unwrap().to_owned();
    api.bodies().into_iter().map(name).collect()
}

/// F-115: everything that events.k8s.io/v1 requires is there.
#[tokio::test]
async fn an_event_is_complete() {
    let api = FakeApi::new([written()]);
    let outcome = events(&api)
        .publish(notice("api", Limit::None))
        .await
        .unwrap();
    assert_eq!(outcome, Outcome::Written);
    assert_eq!(
        api.calls(),
        ["POST /apis/events.k8s.io/v1/namespaces/shop/events?"]
    );
    let body = &api.bodies()[0];
    for (field, expected) in [
        ("type", "Warning"),
        ("reason", "RequestNotServed"),
        ("action", "Holding"),
        ("note", "Service api: no pod was Ready after 2m"),
        ("reportingController", "napwake.dev/doorman"),
        ("reportingInstance", "doorman-1"),
        ("eventTime", "2026-11-30T10:00:00.123456Z"),
    ] {
        assert_eq!(body[field], expected, "{field} of {body}");
    }
    assert_eq!(body["regarding"]["name"], "api");
    assert_eq!(body["metadata"]["namespace"], "shop");
}

#[tokio::test]
async fn an_event_about_a_namespace_goes_to_default() {
    let api = FakeApi::new([written()]);
    let mut notice = notice("shop", Limit::None);
    notice.regarding.namespace = None;
    events(&api).publish(notice).await.unwrap();
    assert_eq!(api.bodies()[0]["metadata"]["namespace"], "default");
}

/// OBS-10: once a minute per workload, whatever the note says; T-115: whichever
/// Service it names.
#[tokio::test(start_paused = true)]
async fn once_a_minute_per_object_and_reason() {
    let api = FakeApi::new((0..5).map(|_| written()));
    let events = events(&api);
    let say = async |name: &str, note: &str| {
        let mut notice = notice(name, Limit::once_a_minute());
        note.clone_into(&mut notice.note);
        events.publish(notice).await.unwrap()
    };
    assert_eq!(say("api", "Service api").await, Outcome::Written);
    for _ in 0..99 {
        assert_eq!(say("api", "Service web").await, Outcome::Withheld);
    }
    assert_eq!(say("db", "Service db").await, Outcome::Written);
    advance(Duration::from_secs(59)).await;
    assert_eq!(say("api", "Service api").await, Outcome::Withheld);
    advance(Duration::from_secs(1)).await;
    assert_eq!(say("api", "Service web").await, Outcome::Written);
    assert_eq!(api.calls().len(), 3);
}

#[tokio::test]
async fn topics_are_limited_apart() {
    let api = FakeApi::new((0..5).map(|_| written()));
    let events = events(&api);
    for (topic, expected) in [
        ("a", Outcome::Written),
        ("b", Outcome::Written),
        ("a", Outcome::Withheld),
    ] {
        let limit = Limit::once_a_minute().about(topic);
        assert_eq!(
            events.publish(notice("api", limit)).await.unwrap(),
            expected
        );
    }
}

/// ROUTE-20: once each pause, and once more for the next.
#[tokio::test]
async fn once_per_occasion_even_after_a_restart() {
    let api = FakeApi::new([written(), Answer::Error(409), written()]);
    let pause = |id: &str| notice("api", Limit::once_per(id));
    let first = events(&api);
    assert_eq!(first.publish(pause("1")).await.unwrap(), Outcome::Written);
    assert_eq!(first.publish(pause("1")).await.unwrap(), Outcome::Withheld);
    assert_eq!(api.calls().len(), 1, "the second wasn't even sent");

    let restarted = events(&api);
    assert_eq!(
        restarted.publish(pause("1")).await.unwrap(),
        Outcome::Withheld
    );
    assert_eq!(
        restarted.publish(pause("2")).await.unwrap(),
        Outcome::Written
    );
    let names = names(&api);
    assert_eq!(names[0], names[1], "the API server tells");
    assert_ne!(names[1], names[2]);
}

/// Soon, but not whenever it comes about: where a namespace takes no more events, each of
/// a flood of callers would else cost a call and a line.
#[tokio::test(start_paused = true)]
async fn what_could_not_be_written_may_be_said_again() {
    let api = FakeApi::new([Answer::Error(500), written()]);
    let events = events(&api);
    let error = events
        .publish(notice("api", Limit::once_a_minute()))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "can't write event RequestNotServed about api: scripted"
    );
    for (after, expected) in [
        (Duration::ZERO, Outcome::Withheld),
        (RETRY, Outcome::Written),
        (RETRY, Outcome::Withheld),
    ] {
        advance(after).await;
        let limit = Limit::once_a_minute();
        let again = events.publish(notice("api", limit)).await.unwrap();
        assert_eq!(again, expected, "after {after:?}");
    }
}

/// What is said once for an occasion may not come about again.
#[tokio::test]
async fn what_is_said_once_is_tried_again_at_once() {
    let api = FakeApi::new([Answer::Error(500), written()]);
    let events = events(&api);
    let pause = || notice("api", Limit::once_per("1"));
    events.publish(pause()).await.unwrap_err();
    assert_eq!(events.publish(pause()).await.unwrap(), Outcome::Written);
}

/// F-156: names are unique and fit.
#[tokio::test]
async fn names_are_unique_and_fit() {
    let api = FakeApi::new((0..4).map(|_| written()));
    let events = events(&api);
    let long = format!("{}-.{}", "a".repeat(235), "b".repeat(16));
    for name in ["api", "api", "api", &long] {
        events.publish(notice(name, Limit::None)).await.unwrap();
    }
    let mut names = names(&api);
    assert!(
        names[3].starts_with(&format!("{}.", "a".repeat(235))),
        "{}",
        names[3]
    );
    assert!(names.iter().all(|name| name.len() <= 253), "{names:?}");
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 4);
}

#[rstest]
#[case::short("short".to_owned(), 5)]
#[case::just_fits("x".repeat(1024), 1024)]
#[case::ascii("x".repeat(1025), 1024)]
#[case::two_bytes("é".repeat(600), 1023)]
#[case::four_bytes("🦀".repeat(300), 1023)]
fn notes_are_cut_to_a_kibibyte(#[case] note: String, #[case] length: usize) {
    let short = shorten(note.clone());
    assert_eq!(short.len(), length);
    let begins = note.starts_with(short.trim_end_matches('…'));
    assert!(begins, "{short}");
}

/// Memory is bounded, and full for one namespace it isn't for another.
#[tokio::test(start_paused = true)]
async fn nobody_is_silenced_by_others() {
    let mut said = Said::default();
    let period = Duration::from_mins(1);
    for topic in 0..REMEMBERED as u64 {
        assert!(said.may_say("loud", topic, period));
    }
    assert!(
        !said.may_say("loud", u64::MAX, period),
        "rather silent than over the limit"
    );
    assert!(said.may_say("other", u64::MAX, period));
    advance(period).await;
    assert!(said.may_say("loud", u64::MAX, period));
    assert_eq!(said.0["loud"].len(), 1);
    assert!(said.may_say("third", 1, period));
    assert!(!said.0.contains_key("other"), "it has nothing left to say");
}
