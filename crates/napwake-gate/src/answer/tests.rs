#![expect(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]

use expect_test::{Expect, expect};
use rstest::rstest;

use super::*;

const ALL: [AnswerKind; 5] = [
    AnswerKind::Probe,
    AnswerKind::GoogleHealthCheck,
    AnswerKind::HiddenFile,
    AnswerKind::TurnedAway(BodyForm::Plain),
    AnswerKind::TurnedAway(BodyForm::Json),
];

fn text(kind: AnswerKind, body: Body) -> String {
    String::from_utf8(Answer { kind, body }.to_bytes()).expect("text")
}

fn check(kind: AnswerKind, expected: &Expect) {
    expected.assert_eq(&text(kind, Body::Sent).replace("\r\n", "\n"));
}

/// CLASS-08, CLASS-09, ASK-44: a probe's 503 closes, and says nothing of when
/// to come back.
#[test]
fn to_a_probe() {
    check(
        AnswerKind::Probe,
        &expect![[r#"
            HTTP/1.1 503 Service Unavailable
            Content-Type: text/plain; charset=utf-8
            Content-Length: 43
            Cache-Control: no-store
            Connection: close

            Asleep. Checks like this one wake nothing.
        "#]],
    );
}

/// CLASS-12.
#[test]
fn to_googles_health_check() {
    check(
        AnswerKind::GoogleHealthCheck,
        &expect![[r#"
            HTTP/1.1 200 OK
            Content-Type: text/plain; charset=utf-8
            Content-Length: 3
            Cache-Control: no-store
            Connection: close

            OK
        "#]],
    );
}

/// CLASS-18.
#[test]
fn to_a_request_for_a_hidden_file() {
    check(
        AnswerKind::HiddenFile,
        &expect![[r#"
            HTTP/1.1 404 Not Found
            Content-Type: text/plain; charset=utf-8
            Content-Length: 11
            Cache-Control: no-store
            Connection: close

            Not found.
        "#]],
    );
}

/// ASK-28, ASK-29, ASK-30, ASK-32.
#[test]
fn to_whom_it_turns_away() {
    check(
        AnswerKind::TurnedAway(BodyForm::Plain),
        &expect![[r#"
            HTTP/1.1 503 Service Unavailable
            Content-Type: text/plain; charset=utf-8
            Content-Length: 205
            Cache-Control: no-store
            Connection: close
            Retry-After: 300

            This environment is asleep, and a request like this one doesn't wake it.
            To wake it, open its address in a browser and press "Wake it", or have
            someone with access to the cluster run: kubectl napwake wake
        "#]],
    );
}

/// ASK-31.
#[test]
fn to_whom_it_turns_away_in_json() {
    check(
        AnswerKind::TurnedAway(BodyForm::Json),
        &expect![[r#"
            HTTP/1.1 503 Service Unavailable
            Content-Type: application/json
            Content-Length: 235
            Cache-Control: no-store
            Connection: close
            Retry-After: 300

            {"error":"asleep","message":"This environment is asleep, and a request like this one doesn't wake it.","wake":"Open its address in a browser and press \"Wake it\", or have someone with access to the cluster run: kubectl napwake wake"}
        "#]],
    );
}

#[test]
fn the_json_is_json() {
    let answer = text(AnswerKind::TurnedAway(BodyForm::Json), Body::Sent);
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    let parsed: std::collections::BTreeMap<String, String> =
        serde_json::from_str(body).expect("JSON");
    assert!(parsed["wake"].contains("kubectl napwake wake"));
}

/// T-52: every answer has its length and closes; none may be stored.
#[rstest]
fn every_answer_is_whole(
    #[values(0, 1, 2, 3, 4)] kind: usize,
    #[values(Body::Sent, Body::LeftOut)] body: Body,
) {
    let answer = Answer {
        kind: ALL[kind].clone(),
        body,
    }
    .to_bytes();
    let mut headers = [httparse::EMPTY_HEADER; 16];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(&answer).expect("an HTTP response");
    let httparse::Status::Complete(head) = parsed else {
        panic!("the head isn't whole");
    };
    let header = |name: &str| {
        let found = response.headers.iter().find(|header| header.name == name);
        found.map(|header| String::from_utf8_lossy(header.value).into_owned())
    };
    assert_eq!(header("Connection").as_deref(), Some("close"));
    assert_eq!(header("Cache-Control").as_deref(), Some("no-store"));
    assert!(header("Content-Type").is_some());
    let full = Answer {
        kind: ALL[kind].clone(),
        body: Body::Sent,
    }
    .to_bytes();
    assert_eq!(
        header("Content-Length"),
        Some((full.len() - head).to_string())
    );
    assert_eq!(&full[..head], &answer[..head], "the headers are the same");
    assert_eq!(answer.len() == head, body == Body::LeftOut);
}

#[test]
fn labels_are_distinct() {
    let mut labels = ALL.each_ref().map(AnswerKind::label).to_vec();
    labels.dedup();
    assert_eq!(
        labels,
        ["probe", "google_health_check", "hidden_file", "turned_away"]
    );
}
