use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::head::{Head, HeadScan};

const TOKEN: &str = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-_AbCdEfGhIjKlMnOpQrStUvWxYz";
const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

/// What a POST with these headers and this body is found to be.
fn posted(headers: &str, body: &[u8]) -> Form {
    let bytes = [head("POST /login HTTP/1.1", headers), body.to_vec()].concat();
    form_of(&bytes)
}

fn head(line: &str, headers: &str) -> Vec<u8> {
    format!("{line}\r\nHost: a.test\r\n{headers}\r\n").into_bytes()
}

fn form_of(bytes: &[u8]) -> Form {
    match HeadScan::new().look(bytes) {
        Head::Http1(request) => request.form,
        other => panic!("not a request: {other:?}"),
    }
}

fn with_length(body: &str) -> Form {
    let headers = format!("{FORM}Content-Length: {}\r\n", body.len());
    posted(&headers, body.as_bytes())
}

fn chunked(body: &[u8]) -> Form {
    posted(&format!("{FORM}Transfer-Encoding: chunked\r\n"), body)
}

/// `body` in chunks of this size, and the last one.
fn in_chunks(body: &[u8], size: usize) -> Vec<u8> {
    let mut raw = Vec::new();
    for chunk in body.chunks(size) {
        raw.extend(format!("{:x}\r\n", chunk.len()).bytes());
        raw.extend(chunk);
        raw.extend(b"\r\n");
    }
    raw.extend(b"0\r\n\r\n");
    raw
}

fn button() -> Form {
    Form::Button(Token::read(TOKEN.as_bytes()))
}

fn post_of(token: &str) -> String {
    format!("{FIELD}={token}")
}

/// T-20: the field marks a post as the button's, whatever it holds and wherever
/// in the form it is.
#[rstest]
#[case::alone(&post_of(TOKEN), button())]
#[case::last(&format!("a=b&{}", post_of(TOKEN)), button())]
#[case::first_of_two(&format!("{}&{}", post_of(TOKEN), post_of("x")), button())]
#[case::written_in_codes(&format!("napwake%2Dwake={TOKEN}"), button())]
#[case::forged(&post_of("x"), Form::Button(None))]
#[case::nothing_in_it(&post_of(""), Form::Button(None))]
#[case::no_equals_sign(FIELD, Form::Button(None))]
#[case::a_login("user=a&pass=b", Form::Foreign)]
#[case::another_case(&format!("Napwake-Wake={TOKEN}"), Form::Foreign)]
#[case::in_a_value(&format!("a={FIELD}"), Form::Foreign)]
#[case::no_form_at_all("{\"a\":1}", Form::Foreign)]
fn finds_the_buttons_field(#[case] body: &str, #[case] expected: Form) {
    assert_eq!(with_length(body), expected);
    assert_eq!(chunked(&in_chunks(body.as_bytes(), 7)), expected);
}

/// ASK-26, T-48: up to 1 KiB is read, and of a chunked form the decoded bytes
/// count.
#[rstest]
#[case(1_023, Form::Foreign)]
#[case(1_024, Form::Foreign)]
#[case(1_025, Form::None)]
#[case(2_048, Form::None)]
fn up_to_1_kib_is_read(#[case] length: usize, #[case] expected: Form) {
    let body = "a".repeat(length);
    assert_eq!(with_length(&body), expected);
    for size in [1, 16, 1_000, 4_096] {
        let found = chunked(&in_chunks(body.as_bytes(), size));
        assert_eq!(found, expected, "in chunks of {size}");
    }
}

/// ASK-27, ASK-81: chunks of one byte, extensions, trailers, and what some
/// proxies write.
#[rstest]
#[case::one_byte_each(in_chunks(post_of(TOKEN).as_bytes(), 1))]
#[case::an_extension(format!("4D;name=value\r\n{}\r\n0\r\n\r\n", post_of(TOKEN)).into_bytes())]
#[case::leading_zeros(format!("000004d\r\n{}\r\n000\r\n\r\n", post_of(TOKEN)).into_bytes())]
#[case::trailers(format!("4d\r\n{}\r\n0\r\nA: b\r\n\r\n", post_of(TOKEN)).into_bytes())]
#[case::the_end_is_enough(format!("4d\r\n{}\r\n0\r\n", post_of(TOKEN)).into_bytes())]
fn reads_chunks(#[case] raw: Vec<u8>) {
    assert_eq!(post_of(TOKEN).len(), 0x4d);
    assert_eq!(chunked(&raw), button());
}

/// T-48, T-49: what isn't chunks, and what would never end.
#[rstest]
#[case::no_size(b"\r\nab\r\n0\r\n\r\n", Form::None)]
#[case::no_number(b"x\r\nab\r\n", Form::None)]
#[case::negative(b"-1\r\nab\r\n", Form::None)]
#[case::longer_than_said(b"1\r\nab\r\n", Form::None)]
#[case::no_line_end(b"2\r\nabcd", Form::None)]
#[case::a_bare_line_feed(b"2\nab\r\n", Form::None)]
#[case::a_huge_chunk(b"ffffffffffffffff\r\n", Form::None)]
#[case::too_many_digits(b"fffffffffffffffff\r\n", Form::None)]
#[case::too_large_a_chunk(b"401\r\n", Form::None)]
#[case::nothing_yet(b"", Form::Unfinished)]
#[case::within_a_size(b"4", Form::Unfinished)]
#[case::within_a_chunk(b"4\r\nab", Form::Unfinished)]
#[case::before_the_line_end(b"2\r\nab", Form::Unfinished)]
#[case::within_the_line_end(b"2\r\nab\r", Form::Unfinished)]
#[case::before_the_last(b"2\r\nab\r\n", Form::Unfinished)]
fn what_is_no_chunk(#[case] raw: &[u8], #[case] expected: Form) {
    assert_eq!(chunked(raw), expected);
}

#[test]
fn an_extension_without_end_is_given_up() {
    let mut raw = b"1;".to_vec();
    raw.resize(CHUNKED_LIMIT - 1, b'x');
    assert_eq!(chunked(&raw), Form::Unfinished);
    raw.push(b'x');
    assert_eq!(chunked(&raw), Form::None);
}

/// T-49, T-50, ASK-40, ASK-41, T-108: which posts may be a small form.
#[rstest]
#[case::url_encoded(
    "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n",
    Form::Foreign
)]
#[case::with_a_charset(
    "content-type: Application/X-WWW-Form-Urlencoded; charset=UTF-8\r\nContent-Length: 3\r\n",
    Form::Foreign
)]
#[case::upload(
    "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 3\r\n",
    Form::None
)]
#[case::empty_upload(
    "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 0\r\n",
    Form::None
)]
#[case::json("Content-Type: application/json\r\nContent-Length: 3\r\n", Form::None)]
#[case::text("Content-Type: text/plain\r\nContent-Length: 3\r\n", Form::None)]
#[case::unsaid("Content-Length: 3\r\n", Form::None)]
#[case::empty("Content-Length: 0\r\n", Form::Foreign)]
#[case::empty_form(
    "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 0\r\n",
    Form::Foreign
)]
#[case::no_length("", Form::Foreign)]
#[case::chunked(
    "Content-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: Chunked\r\n",
    Form::None
)]
#[case::both(
    "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n",
    Form::None
)]
#[case::gzipped(
    "Content-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: gzip, chunked\r\n",
    Form::None
)]
#[case::chunked_twice(
    "Content-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
    Form::None
)]
#[case::two_lengths(
    "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\nContent-Length: 4\r\n",
    Form::None
)]
#[case::one_length_twice(
    "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\nContent-Length: 3\r\n",
    Form::Foreign
)]
#[case::signed(
    "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: +3\r\n",
    Form::None
)]
#[case::a_list(
    "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3, 3\r\n",
    Form::None
)]
#[case::no_number(
    "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: three\r\n",
    Form::None
)]
#[case::nothing_said(
    "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: \r\n",
    Form::None
)]
#[case::beyond_all(
    "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 99999999999999999999\r\n",
    Form::None
)]
#[case::expects(
    "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\nExpect: 100-continue\r\n",
    Form::None
)]
fn which_posts_may_be_a_small_form(#[case] headers: &str, #[case] expected: Form) {
    assert_eq!(posted(headers, b"a=b"), expected);
}

/// T-50: a chunked body of no said type is fine if there's nothing in it; else it
/// isn't waited for.
#[rstest]
#[case(b"", Form::Unfinished)]
#[case(b"0\r\n\r\n", Form::Foreign)]
#[case(b"3\r\na=b\r\n0\r\n\r\n", Form::None)]
#[case(b"3\r\n", Form::None)]
fn an_empty_chunked_post(#[case] raw: &[u8], #[case] expected: Form) {
    assert_eq!(posted("Transfer-Encoding: chunked\r\n", raw), expected);
}

#[rstest]
fn other_methods_post_no_form(#[values("GET", "HEAD", "PUT", "PATCH", "post")] method: &str) {
    let headers = format!("{FORM}Content-Length: 3\r\n");
    let bytes = head(&format!("{method} / HTTP/1.1"), &headers);
    assert_eq!(form_of(&[bytes, b"a=b".to_vec()].concat()), Form::None);
}

/// T-48: a form that stops short.
#[rstest]
#[case(&format!("{FORM}Content-Length: 3\r\n"), b"a=")]
#[case(&format!("{FORM}Content-Length: 3\r\n"), b"")]
#[case(&format!("{FORM}Transfer-Encoding: chunked\r\n"), b"3\r\na")]
fn a_form_that_stops_short(#[case] headers: &str, #[case] body: &[u8]) {
    let bytes = [head("POST / HTTP/1.1", headers), body.to_vec()].concat();
    assert_eq!(form_of(&bytes), Form::Unfinished);
    let Head::Http1(request) = HeadScan::new().settle(&bytes) else {
        panic!("not a request");
    };
    assert_eq!(request.form, Form::Stalled);
}

/// Only the first bytes are the form: what comes behind it is another request.
#[test]
fn what_comes_behind_is_not_looked_at() {
    let headers = format!("{FORM}Content-Length: 3\r\n");
    let body = format!("a=b&{}", post_of(TOKEN));
    assert_eq!(posted(&headers, body.as_bytes()), Form::Foreign);
}

prop_compose! {
    fn chunk_like()(parts in prop::collection::vec(prop::sample::select(vec![
        "0\r\n", "1\r\na\r\n", "3\r\na=b\r\n", "2;x\r\n&&\r\n", "e\r\n", "napwake-wake=x", "\r\n",
        "1", ";", "\r", "\n", "40", "0", "f", "\0", "400\r\n",
    ]), 0..24)) -> Vec<u8> {
        parts.concat().into_bytes()
    }
}

proptest! {
    /// A form is the same however its bytes are split, and a decision stands.
    #[test]
    fn splitting_changes_no_form(body in prop_oneof![
        chunk_like(),
        prop::collection::vec(any::<u8>(), 0..128),
    ]) {
        fuzz_form(&body);
        fuzz_chunks(&body);
    }

    /// Whatever is in a form, chunking changes nothing of it.
    #[test]
    fn chunking_changes_no_form(body in "[a-z&=%+]{0,64}", size in 1..80_usize) {
        prop_assume!(!body.is_empty());
        prop_assert_eq!(chunked(&in_chunks(body.as_bytes(), size)), with_length(&body));
    }
}
