use base64::{Engine as _, engine::general_purpose::STANDARD};
use rstest::rstest;
use sha2::{Digest, Sha256};

use super::*;

fn headers(answer: &Answer) -> Vec<(String, String)> {
    let text = text(answer);
    let (head, _) = text.split_once("\r\n\r\n").expect("a head");
    let lines = head.lines().skip(1);
    lines
        .map(|line| line.split_once(": ").expect("a header"))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn header(answer: &Answer, name: &str) -> Option<String> {
    let named: Vec<_> = headers(answer)
        .into_iter()
        .filter(|(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
        .collect();
    assert!(named.len() < 2, "{name} is there twice");
    named.into_iter().next()
}

/// The directives of a page's policy.
fn policy(answer: &Answer) -> Vec<(String, String)> {
    let policy = header(answer, "Content-Security-Policy").expect("a policy");
    policy
        .split("; ")
        .map(|directive| directive.split_once(' ').expect("a directive"))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

fn check_headers(answer: &Answer, expected: &[(&str, &str)]) {
    for (name, value) in expected {
        assert_eq!(header(answer, name).as_deref(), Some(*value), "{name}");
    }
}

fn status(answer: &Answer) -> String {
    text(answer).lines().next().expect("a line").to_owned()
}

/// PAGE-22, PAGE-23, PAGE-24, PAGE-25.
#[test]
fn the_waking_up_page_is_not_taken_for_the_app() {
    let page = waking(USUAL, Some(3));
    assert_eq!(status(&page), "HTTP/1.1 503 Service Unavailable");
    check_headers(
        &page,
        &[
            ("Cache-Control", "no-store"),
            ("Retry-After", "3"),
            ("X-Robots-Tag", "noindex"),
            ("Content-Type", "text/html; charset=utf-8"),
            ("Connection", "close"),
        ],
    );
}

/// PAGE-12: the same head, and no body.
#[test]
fn a_head_gets_the_head_alone() {
    let page = WakingPage {
        address: USUAL,
        starting_for: None,
    };
    let [sent, left_out] = [Body::Sent, Body::LeftOut].map(|body| text(&page.answer(body)));
    let (head, _) = sent.split_once("\r\n\r\n").expect("a head");
    assert_eq!(left_out, format!("{head}\r\n\r\n"));
}

/// ASK-51 to ASK-54, ASK-60, T-104: whatever a click came to, the headers are
/// those of the page.
#[rstest]
#[case::a_page_load(Said::Nothing, "200 OK", None)]
#[case::run_out(Said::RanOut, "403 Forbidden", None)] // ASK-11
#[case::another_address(Said::OtherAddress, "403 Forbidden", None)] // ASK-14
#[case::too_soon(Said::TooSoon, "429 Too Many Requests", Some("60"))] // ASK-19, ASK-20
#[case::an_old_browser(Said::OldBrowser, "403 Forbidden", None)] // T-13
#[case::not_pressed(Said::NotPressed, "403 Forbidden", None)] // T-14
fn the_asleep_page(#[case] said: Said, #[case] expected: &str, #[case] retry: Option<&str>) {
    let page = asleep(USUAL, said);
    assert_eq!(status(&page), format!("HTTP/1.1 {expected}"));
    assert_eq!(header(&page, "Retry-After").as_deref(), retry);
    check_headers(
        &page,
        &[
            ("Cache-Control", "no-store"),
            ("X-Robots-Tag", "noindex"),
            ("Referrer-Policy", "same-origin"),
            ("X-Frame-Options", "DENY"),
            ("Content-Type", "text/html; charset=utf-8"),
            ("Connection", "close"),
        ],
    );
}

/// PAGE-29, PAGE-30, PAGE-31.
#[test]
fn the_waking_up_page_may_load_its_style_alone() {
    let page = waking(USUAL, None);
    let html = html(&page);
    let style = hash(between(&html, "<style>", "</style>"));
    let expected = [
        ("default-src", "'none'"),
        ("style-src", style.as_str()),
        ("img-src", "data:"),
        ("base-uri", "'none'"),
        ("form-action", "'none'"),
    ];
    assert_eq!(policy(&page), expected.map(|(a, b)| (a.into(), b.into())));
    assert!(!html.contains("<script"));
}

/// ASK-56, ASK-57, ASK-58, ASK-59.
#[test]
fn the_asleep_page_may_load_its_style_and_script_alone() {
    for said in SAID {
        let page = asleep(USUAL, said);
        let html = html(&page);
        let style = hash(between(&html, "<style>", "</style>"));
        let script = hash(between(&html, "<script>", "</script>"));
        let expected = [
            ("default-src", "'none'"),
            ("style-src", style.as_str()),
            ("script-src", script.as_str()),
            ("img-src", "data:"),
            ("base-uri", "'none'"),
            ("form-action", "'self'"),
            ("frame-ancestors", "'none'"),
        ];
        assert_eq!(policy(&page), expected.map(|(a, b)| (a.into(), b.into())));
        assert_eq!(html.matches("<script").count(), 1);
    }
}

/// The policy would stop it, so it would do nothing.
#[test]
fn no_markup_needs_what_the_policy_forbids() {
    for page in all(USUAL) {
        let html = html(&page);
        let body = between(&html, "<body>", "</svg>");
        for forbidden in [
            "style=",
            "onclick=",
            "onload=",
            "javascript:",
            "src=",
            "://",
        ] {
            assert!(!body.contains(forbidden), "{forbidden}");
        }
    }
}

/// So that one arrives within the first packets of a connection, however slow.
#[test]
fn each_fits_into_14_kib_whatever_is_asked_for() {
    let host = "\"".repeat(20_000);
    let target = format!("/{}", "'".repeat(20_000));
    for address in [
        USUAL,
        Address {
            host: &host,
            target: &target,
        },
    ] {
        for page in all(address) {
            let len = page.to_bytes().len();
            assert!(len <= 14 * 1024, "{} is {len} bytes", page.kind.label());
        }
    }
}

#[test]
fn labels_tell_the_pages_apart() {
    assert_eq!(waking(USUAL, None).kind.label(), "waking_page");
    assert_eq!(asleep(USUAL, Said::RanOut).kind.label(), "asleep_page");
}
