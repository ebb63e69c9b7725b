//! What a workload that asks makes of its callers.

use napwake_api::{
    stamp::RequestKind,
    workload::{Phase, WakeMode},
};
use proptest::prelude::*;
use rstest::rstest;

use super::world::{CAME, Place, sleeper, time};
use crate::{
    answer::{AnswerKind, Body},
    caller::BodyForm,
    head::HeadScan,
    pages::{AsleepPage, FIELD, Said},
    places::WorkloadKey,
    token::{Found, KEY_BYTES, Keys, ReadAt, Subject, Token},
    verdict::{Counted, Sleeper, Verdict, Wake},
};

const CHROME: &str = "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36\r\n";
const SAFARI: &str = "User-Agent: Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Safari/605.1.15\r\n";
const GOOGLEBOT: &str =
    "User-Agent: Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)\r\n";
const CURL: &str = "User-Agent: curl/8.5.0\r\n";

/// What Chrome sends with a click over HTTPS.
const CLICKS: &str =
    "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-User: ?1\r\n";
const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

fn asks() -> Sleeper<'static> {
    sleeper(WakeMode::Ask, Phase::Paused)
}

fn asking() -> Place {
    Place::with(&[asks()])
}

fn request(line: &str, headers: &str) -> Vec<u8> {
    format!("{line} HTTP/1.1\r\nHost: a.test\r\n{headers}\r\n").into_bytes()
}

fn post(headers: &str, body: &str) -> Vec<u8> {
    let headers = format!("{headers}{FORM}Content-Length: {}\r\n", body.len());
    [request("POST /x?y=1", &headers), body.into()].concat()
}

fn button(headers: &str, token: &str) -> Vec<u8> {
    post(headers, &format!("{FIELD}={token}"))
}

/// What the page says to these bytes; fails if it isn't the asleep page.
fn said(place: &Place, bytes: &[u8]) -> Said {
    page(place, bytes).said
}

fn page<'b>(place: &Place, bytes: &'b [u8]) -> AsleepPage<'b> {
    match place.judge(bytes) {
        Verdict::Asleep(page) => page,
        other => panic!("not the asleep page: {other:?}"),
    }
}

/// The token in the page that a browser opens.
fn token(place: &Place) -> String {
    let opened = request(
        "GET /x?y=1",
        &format!("{CHROME}Sec-Fetch-Mode: navigate\r\n"),
    );
    let token = page(place, &opened).token.expect("there is a key");
    token.as_str().to_owned()
}

/// How many of a token's characters name its key and say when it was signed. The next
/// ones are its signature's alone.
const NAMED: usize = 22;

/// What becomes of a click with this token.
fn press(place: &Place, headers: &str, token: &str) -> Result<(), Said> {
    let bytes = button(headers, token);
    match place.judge(&bytes) {
        Verdict::Click(click) => {
            assert_eq!(click.waking.address.target, "/x?y=1");
            assert_eq!(click.too_soon.said, Said::TooSoon);
            Ok(())
        }
        Verdict::Asleep(page) => Err(page.said),
        other => panic!("not judged as a click: {other:?}"),
    }
}

/// The Secret was read since the caller came, and held this key.
fn read_since(place: &mut Place, key: &[u8]) {
    let read = ReadAt {
        began: CAME,
        done: CAME,
    };
    let _seen = place.keys.found(Found::Key(key), read);
}

fn is_turned_away(verdict: &Verdict<'_>) -> bool {
    matches!(verdict, Verdict::Answer(answer, Counted::TurnedAway)
        if answer.kind == AnswerKind::TurnedAway(BodyForm::Plain))
}

/// ASK-03, ASK-48, ASK-49, ASK-62, T-106, T-107: a person's browser opening a
/// page gets the asleep page, which wakes nothing (ASK-04).
#[rstest]
#[case::navigates(&format!("{CHROME}Sec-Fetch-Mode: navigate\r\n"))]
#[case::asks_for_html(&format!("{SAFARI}Accept: text/html,*/*;q=0.8\r\n"))]
#[case::both(&format!("{CHROME}Sec-Fetch-Mode: navigate\r\nAccept: text/html\r\n"))]
#[case::prefetch(&format!("{CHROME}Sec-Purpose: prefetch\r\nSec-Fetch-Mode: navigate\r\n"))]
#[case::in_a_frame(&format!("{CHROME}Sec-Fetch-Dest: iframe\r\nSec-Fetch-Mode: navigate\r\n"))]
#[case::from_elsewhere(&format!("{CHROME}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"))]
fn a_person_gets_the_asleep_page(#[case] headers: &str) {
    let bytes = request("GET /x?y=1", headers);
    let place = asking();
    let page = page(&place, &bytes);
    assert_eq!(page.said, Said::Nothing);
    assert_eq!(
        (page.address.host, page.address.target),
        ("a.test", "/x?y=1")
    );
    assert!(page.token.is_some());
    // T-05: pausing without a Ready pod is as good as paused.
    let pausing = Place::with(&[sleeper(WakeMode::Ask, Phase::Pausing)]);
    assert_eq!(said(&pausing, &bytes), Said::Nothing);
}

/// ASK-33, ASK-34, ASK-35, ASK-36, ASK-37, ASK-38, ASK-39, ASK-40, ASK-41,
/// ASK-48, ASK-50, AWAY-02, T-30, T-41: everybody else is turned away, and counted.
#[rstest]
#[case::curl("GET /", &format!("{CURL}Accept: text/html\r\n"))]
#[case::opera(
    "GET /",
    "User-Agent: Opera/9.80 (X11) Presto/2.12\r\nSec-Fetch-Mode: navigate\r\n"
)]
#[case::no_agent("GET /", "Sec-Fetch-Mode: navigate\r\n")]
#[case::googlebot("GET /", &format!("{GOOGLEBOT}Accept: text/html\r\n"))]
#[case::previewer(
    "GET /",
    "User-Agent: facebookexternalhit/1.1\r\nAccept: text/html\r\n"
)]
#[case::bingbot(
    "GET /",
    "User-Agent: Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)\r\nAccept: text/html\r\n"
)]
#[case::headless(
    "GET /",
    "User-Agent: Mozilla/5.0 (X11) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/142.0.0.0 Safari/537.36\r\nSec-Fetch-Mode: navigate\r\n"
)]
#[case::scanner("GET /", "User-Agent: Mozilla/5.0 zgrab/0.x\r\nAccept: text/html\r\n")]
#[case::head("HEAD /", &format!("{CHROME}Sec-Fetch-Mode: navigate\r\nAccept: text/html\r\n"))]
#[case::websocket("GET /", &format!("{CHROME}Upgrade: websocket\r\nAccept: text/html\r\n"))]
#[case::fetch("GET /", &format!("{CHROME}Sec-Fetch-Mode: cors\r\nAccept: text/html\r\n"))]
#[case::image("GET /x.png", &format!("{CHROME}Sec-Fetch-Mode: no-cors\r\n"))]
#[case::neither("GET /", CHROME)]
#[case::anything("GET /", &format!("{CHROME}Accept: */*\r\n"))]
#[case::other_method("OPTIONS /", &format!("{CHROME}Sec-Fetch-Mode: navigate\r\n"))]
#[case::put("PUT /", &format!("{CHROME}Content-Length: 0\r\n"))]
#[case::two_hosts("GET /", &format!("Host: b.test\r\n{CHROME}Sec-Fetch-Mode: navigate\r\n"))]
#[case::larger_form("POST /", &format!("{CHROME}{FORM}Content-Length: 2048\r\n"))]
#[case::upload("POST /", &format!("{CHROME}Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 3\r\n"))]
#[case::unclear_length("POST /", &format!("{CHROME}{FORM}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"))]
#[case::expects("POST /", &format!("{CHROME}{FORM}Content-Length: 3\r\nExpect: 100-continue\r\n"))]
fn everybody_else_is_turned_away(#[case] line: &str, #[case] headers: &str) {
    let bytes = request(line, headers);
    let place = asking();
    let verdict = place.judge(&bytes);
    let Verdict::Answer(answer, Counted::TurnedAway) = verdict else {
        panic!("{verdict:?}");
    };
    let body = Body::to(line.split(' ').next().unwrap_or_default());
    assert_eq!(answer.kind, AnswerKind::TurnedAway(BodyForm::Plain));
    assert_eq!(answer.body, body);
}

/// ASK-24, ASK-25, ASK-27, T-50: a form that isn't the button's gets the page, as
/// for a page load.
#[rstest]
#[case::login(post(CHROME, "user=a&pass=b"))]
#[case::with_metadata(post(&format!("{CHROME}{CLICKS}"), "user=a"))]
#[case::from_elsewhere(post(&format!("{CHROME}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"), "user=a"))]
#[case::empty(request("POST /", &format!("{CHROME}Content-Length: 0\r\n")))]
#[case::chunked([request("POST /", &format!("{CHROME}{FORM}Transfer-Encoding: chunked\r\n")), b"6\r\nuser=a\r\n0\r\n\r\n".to_vec()].concat())]
fn a_form_that_isnt_the_buttons(#[case] bytes: Vec<u8>) {
    assert_eq!(said(&asking(), &bytes), Said::Nothing);
}

/// ASK-26, ASK-65, T-48, T-50, T-51: which posts aren't a person's.
#[rstest]
#[case::client(post(CURL, "user=a"))]
#[case::robot(post(GOOGLEBOT, "user=a"))]
#[case::fetch(post(&format!("{CHROME}Sec-Fetch-Mode: cors\r\n"), "user=a"))]
#[case::too_large(post(CHROME, &"a".repeat(1025)))]
#[case::no_chunks([request("POST /", &format!("{CHROME}{FORM}Transfer-Encoding: chunked\r\n")), b"user=a".to_vec()].concat())]
fn posts_that_are_turned_away(#[case] bytes: Vec<u8>) {
    assert!(is_turned_away(&asking().judge(&bytes)));
}

/// AWAY-15, T-48: a form that stops short is judged as it is. A browser's isn't
/// counted.
#[test]
fn a_form_that_stops_short() {
    let bytes = post(CHROME, "user=a");
    let stops_short = &bytes[..bytes.len() - 1];
    let place = asking();
    assert_eq!(place.judge(stops_short), Verdict::MoreNeeded);
    let settled = place.judge_head(HeadScan::new().settle(stops_short));
    assert!(
        matches!(&settled, Verdict::Answer(answer, Counted::Not)
            if answer.kind == AnswerKind::TurnedAway(BodyForm::Plain)),
        "{settled:?}"
    );
    // A client's isn't waited for.
    let clients = post(CURL, "user=a");
    assert!(is_turned_away(&place.judge(&clients[..clients.len() - 1])));
}

/// ASK-01, ASK-06, ASK-67, ASK-68, ASK-69, ASK-71: a click that says where it
/// came from, with a token of the page.
#[rstest]
#[case::chrome(&format!("{CHROME}{CLICKS}"), Ok(()))]
#[case::chrome_by_a_script(&format!("{CHROME}Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: navigate\r\n"), Err(Said::NotPressed))]
#[case::safari(&format!("{SAFARI}Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: navigate\r\n"), Ok(()))]
#[case::plain_http(&format!("{CHROME}Origin: http://a.test\r\n"), Ok(()))]
#[case::behind_tls(&format!("{SAFARI}Origin: https://a.test\r\n"), Ok(()))]
#[case::another_site(&format!("{CHROME}Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"), Err(Said::OtherAddress))]
#[case::another_subdomain(&format!("{CHROME}Sec-Fetch-Site: same-site\r\n"), Err(Said::OtherAddress))]
#[case::nowhere(&format!("{CHROME}Sec-Fetch-Site: none\r\nSec-Fetch-User: ?1\r\n"), Err(Said::OtherAddress))]
#[case::another_origin(&format!("{CHROME}Origin: http://b.test\r\n"), Err(Said::OtherAddress))]
#[case::another_port(&format!("{CHROME}Origin: http://a.test:8080\r\n"), Err(Said::OtherAddress))]
#[case::null(&format!("{CHROME}Origin: null\r\n"), Err(Said::OtherAddress))]
#[case::old_browser(CHROME, Err(Said::OldBrowser))]
fn a_click(#[case] headers: &str, #[case] expected: Result<(), Said>) {
    let place = asking();
    assert_eq!(press(&place, headers, &token(&place)), expected);
}

/// ASK-22, ASK-75: a spider that posts the page's token says nothing of where it
/// came from; ASK-65: a client says it in vain.
#[test]
fn a_robot_with_the_pages_token() {
    let place = asking();
    let token = token(&place);
    assert_eq!(press(&place, SAFARI, &token), Err(Said::OldBrowser));
    for agent in [CURL, GOOGLEBOT] {
        let bytes = button(&format!("{agent}{CLICKS}"), &token);
        assert!(is_turned_away(&place.judge(&bytes)));
    }
    let script = format!("{CHROME}Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: cors\r\n");
    assert!(is_turned_away(&place.judge(&button(&script, &token))));
}

/// ASK-63, T-20: a token that was made up, or stands in the address, wakes
/// nothing. In the form it's the button's, which has run out; never a 200.
#[test]
fn no_token_of_the_pages() {
    let mut place = asking();
    read_since(&mut place, &[1; KEY_BYTES]);
    let clicks = format!("{CHROME}{CLICKS}");
    for made_up in ["", "x", &"A".repeat(64), &"A".repeat(900)] {
        assert_eq!(press(&place, &clicks, made_up), Err(Said::RanOut));
    }
    let line = format!("POST /?{FIELD}={}", token(&place));
    let bytes = request(&line, &format!("{clicks}{FORM}Content-Length: 0\r\n"));
    assert_eq!(said(&place, &bytes), Said::Nothing);
    let bytes = request(&line.replace("POST", "GET"), &clicks);
    assert_eq!(said(&place, &bytes), Said::Nothing);
}

/// ASK-11, ASK-13, ASK-64, TOKEN-12: a button that has run out is offered afresh.
#[test]
fn a_button_that_has_run_out() {
    let clicks = format!("{CHROME}{CLICKS}");
    let mut place = asking();
    let old = token(&place);
    place.now = time("2026-11-30T10:09:59Z");
    assert_eq!(press(&place, &clicks, &old), Ok(()));
    place.now = time("2026-11-30T10:10:01Z");
    let bytes = button(&clicks, &old);
    let page = page(&place, &bytes);
    assert_eq!(page.said, Said::RanOut);
    let fresh = page.token.expect("there is a key");
    assert_eq!(press(&place, &clicks, fresh.as_str()), Ok(()));
}

/// TOKEN-05, TOKEN-08, TOKEN-10: a page shown as it pauses is for that pause; its
/// button works then and once it is paused, and in no later one.
#[test]
fn a_button_is_for_its_pause() {
    let clicks = format!("{CHROME}{CLICKS}");
    let pausing = Place::with(&[sleeper(WakeMode::Ask, Phase::Pausing)]);
    let token = token(&pausing);
    assert_eq!(press(&pausing, &clicks, &token), Ok(()));
    assert_eq!(press(&asking(), &clicks, &token), Ok(()));
    let later = Sleeper {
        pause_started: time("2026-11-30T09:00:01Z"),
        ..asks()
    };
    assert_eq!(
        press(&Place::with(&[later]), &clicks, &token),
        Err(Said::RanOut)
    );
}

/// TOKEN-03, T-75: a button wakes every workload behind the Service, and isn't
/// for another one.
#[test]
fn a_button_is_for_its_workloads() {
    static OTHER: std::sync::LazyLock<WorkloadKey> =
        std::sync::LazyLock::new(|| WorkloadKey::new("preview-42", "web"));
    let other = Sleeper {
        workload: &OTHER,
        ..asks()
    };
    let clicks = format!("{CHROME}{CLICKS}");
    let both = Place::with(&[asks(), other]);
    let token = token(&both);
    assert_eq!(press(&both, &clicks, &token), Ok(()));
    for place in [Place::with(&[other]), Place::with(&[asks()])] {
        assert_eq!(press(&place, &clicks, &token), Err(Said::RanOut));
    }
}

/// ASK-19, TOKEN-27, TOKEN-28, T-07, T-11, T-12: within a minute of the last wake
/// request of any kind, which may lie before the pause.
#[rstest]
#[case::fifty_nine_seconds("2026-11-30T09:59:01.000000Z", Err(Said::TooSoon))]
#[case::sixty_one_seconds("2026-11-30T09:58:59.000000Z", Ok(()))]
#[case::in_whole_seconds("2026-11-30T09:59:30Z", Err(Said::TooSoon))]
#[case::ahead("2026-11-30T10:00:30.000000Z", Err(Said::TooSoon))]
#[case::far_ahead("2026-11-30T10:02:00.000000Z", Ok(()))]
fn once_a_minute(#[case] last_wake: &str, #[case] expected: Result<(), Said>) {
    let woken = Sleeper {
        last_wake: Some(last_wake.parse().expect("a stamp")),
        ..asks()
    };
    let clicks = format!("{CHROME}{CLICKS}");
    let good = token(&asking());
    assert_eq!(press(&Place::with(&[woken]), &clicks, &good), expected);
    let just_paused = Sleeper {
        pause_started: time("2026-11-30T09:59:59Z"),
        ..woken
    };
    let place = Place::with(&[just_paused]);
    let good = signed_for(&place);
    assert_eq!(press(&place, &clicks, &good), expected);
}

/// A token for the place's workloads, whatever its page would be.
fn signed_for(place: &Place) -> String {
    let subjects: Vec<_> = place.sleepers.iter().map(subject).collect();
    let token = place.keys.at(CAME).sign(&subjects, place.now);
    token.expect("there is a key").as_str().to_owned()
}

fn subject<'a>(sleeper: &Sleeper<'a>) -> Subject<'a> {
    Subject {
        workload: sleeper.workload,
        pause: sleeper.pause_started,
    }
}

/// T-19: where it came from speaks before its token, and that before the minute.
#[rstest]
#[case(CURL, "x", None)]
#[case(SAFARI, "x", Some(Said::OldBrowser))]
#[case(&format!("{SAFARI}Origin: null\r\n"), "x", Some(Said::OtherAddress))]
#[case(&format!("{SAFARI}Origin: http://a.test\r\n"), "x", Some(Said::RanOut))]
#[case(&format!("{SAFARI}Origin: http://a.test\r\n"), "good", Some(Said::TooSoon))]
fn which_reason_speaks_first(
    #[case] headers: &str,
    #[case] token: &str,
    #[case] expected: Option<Said>,
) {
    let place = Place::with(&[Sleeper {
        last_wake: Some("2026-11-30T09:59:30.000000Z".parse().expect("a stamp")),
        ..asks()
    }]);
    let good = signed_for(&place);
    let bytes = button(headers, if token == "good" { &good } else { token });
    match expected {
        Some(expected) => assert_eq!(said(&place, &bytes), expected),
        None => assert!(is_turned_away(&place.judge(&bytes))),
    }
}

/// T-06, T-07, ASK-45, ASK-46: between the stamp and Resuming a page load sees it
/// waking, for as long as a caller would be held; a client is turned away still.
#[rstest]
#[case::before_the_pause("2026-11-30T08:59:59.000000Z", "2026-11-30T09:00:01Z", false)]
#[case::just_stamped("2026-11-30T09:00:01.000000Z", "2026-11-30T09:00:01Z", true)]
#[case::nearly_max_wait("2026-11-30T09:00:01.000000Z", "2026-11-30T09:02:00Z", true)]
#[case::after_max_wait("2026-11-30T09:00:01.000000Z", "2026-11-30T09:02:01Z", false)]
#[case::by_a_clock_ahead("2026-11-30T09:01:00.000000Z", "2026-11-30T09:00:01Z", true)]
#[case::by_a_clock_far_ahead("2026-11-30T10:00:00.000000Z", "2026-11-30T09:00:01Z", false)]
fn between_the_stamp_and_resuming(#[case] stamp: &str, #[case] now: &str, #[case] waking: bool) {
    let mut place = Place::with(&[Sleeper {
        last_wake: Some(stamp.parse().expect("a stamp")),
        ..asks()
    }]);
    place.now = time(now);
    let load = request("GET /", &format!("{CHROME}Sec-Fetch-Mode: navigate\r\n"));
    for bytes in [load, post(CHROME, "user=a")] {
        match place.judge(&bytes) {
            Verdict::Waking(page, Body::Sent, Wake::No) if waking => {
                assert_eq!(page.starting_for, None);
            }
            Verdict::Asleep(page) if !waking => assert_eq!(page.said, Said::Nothing),
            other => panic!("{other:?}"),
        }
    }
    let head = request("HEAD /", &format!("{CHROME}Sec-Fetch-Mode: navigate\r\n"));
    for bytes in [request("GET /", CURL), head] {
        assert!(is_turned_away(&place.judge(&bytes)));
    }
}

/// T-63, T-112: a wake that this pod still tries to write is as good as written.
#[test]
fn a_wake_that_is_still_to_be_written() {
    let place = Place::with(&[Sleeper {
        is_pending: true,
        ..asks()
    }]);
    let load = request("GET /", &format!("{CHROME}Sec-Fetch-Mode: navigate\r\n"));
    let verdict = place.judge(&load);
    assert!(
        matches!(verdict, Verdict::Waking(_, _, Wake::No)),
        "{verdict:?}"
    );
    assert_eq!(
        press(&place, &format!("{CHROME}{CLICKS}"), &token(&asking())),
        Ok(())
    );
}

/// ASK-45, ASK-46, ASK-47, T-30, T-55: once it is waking, everything is as with Request.
#[test]
fn once_it_is_waking() {
    let place = Place::with(&[sleeper(WakeMode::Ask, Phase::Resuming)]);
    for method in ["GET", "HEAD"] {
        let load = request(
            &format!("{method} /"),
            &format!("{CHROME}Sec-Fetch-Mode: navigate\r\n"),
        );
        let verdict = place.judge(&load);
        assert!(
            matches!(verdict, Verdict::Waking(_, body, Wake::No) if body == Body::to(method)),
            "{verdict:?}"
        );
    }
    for bytes in [
        request("GET /", CURL),
        b"\x16\x03\x01".to_vec(),
        post(CHROME, "user=a"),
    ] {
        assert_eq!(place.judge(&bytes), Verdict::Hold(Wake::No));
    }
}

/// T-75: beside one that requests wake, one that asks isn't asked for.
#[test]
fn beside_one_that_requests_wake() {
    let place = Place::with(&[asks(), sleeper(WakeMode::Request, Phase::Paused)]);
    let load = request("GET /", &format!("{CHROME}Sec-Fetch-Mode: navigate\r\n"));
    let verdict = place.judge(&load);
    assert!(
        matches!(verdict, Verdict::Waking(_, _, Wake::Yes(RequestKind::Page))),
        "{verdict:?}"
    );
}

/// T-23: the Secret is read again before a token with an unknown key is refused.
/// T-25: without a key the page has no button.
#[test]
fn a_token_with_an_unknown_key() {
    let clicks = format!("{CHROME}{CLICKS}");
    let good = token(&asking());
    let mut place = asking();
    place.keys = Keys::default();
    let load = request("GET /", &format!("{CHROME}Sec-Fetch-Mode: navigate\r\n"));
    assert_eq!(page(&place, &load).token, None);
    let bytes = button(&clicks, &good);
    assert_eq!(place.judge(&bytes), Verdict::ReadKey);

    read_since(&mut place, &[9; KEY_BYTES]);
    let refused = page(&place, &bytes);
    assert_eq!(refused.said, Said::RanOut);
    assert!(refused.token.is_some());

    read_since(&mut place, &[1; KEY_BYTES]);
    assert_eq!(press(&place, &clicks, &good), Ok(()));
    // Where it came from speaks first.
    assert_eq!(press(&asking(), CHROME, &good), Err(Said::OldBrowser));
}

/// T-23, T-25: a key that couldn't be read isn't asked for again, for the same
/// caller.
#[test]
fn a_key_that_cant_be_read() {
    let bytes = button(&format!("{CHROME}{CLICKS}"), &token(&asking()));
    let mut place = asking();
    place.keys = Keys::default();
    place.came = None;
    let refused = page(&place, &bytes);
    assert_eq!((refused.said, refused.token), (Said::RanOut, None));
}

/// T-53: HTTP/1.0 without a host is served, and no `Origin` can match.
#[test]
fn http_1_0_without_a_host() {
    let text = format!("GET /a HTTP/1.0\r\n{CHROME}Accept: text/html\r\n\r\n");
    let place = asking();
    let page = page(&place, text.as_bytes());
    assert_eq!((page.address.host, page.address.target), ("", "/a"));
    let token = token(&place);
    let body = format!("{FIELD}={token}");
    let clicked = |headers: &str| {
        let head = format!(
            "POST / HTTP/1.0\r\n{CHROME}{headers}{FORM}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        match place.judge(head.as_bytes()) {
            Verdict::Click(_) => Ok(()),
            Verdict::Asleep(page) => Err(page.said),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        clicked("Origin: http://a.test\r\n"),
        Err(Said::OtherAddress)
    );
    assert_eq!(clicked(CLICKS), Ok(()));
}

/// T-42: a person with large cookies can still click.
#[test]
fn a_click_behind_large_cookies() {
    let place = asking();
    let body = format!("{FIELD}={}", token(&place));
    let mut bytes = format!(
        "POST / HTTP/1.1\r\nHost: a.test\r\n{CHROME}{CLICKS}{FORM}Content-Length: {}\r\nCookie: ",
        body.len()
    )
    .into_bytes();
    bytes.resize(40_000, b'c');
    bytes.extend(b"\r\n\r\n");
    bytes.extend(body.bytes());
    assert!(matches!(place.judge(&bytes), Verdict::Click(_)));
    for end in [16 * 1024, 20_000, bytes.len() - 1] {
        assert_eq!(place.judge(&bytes[..end]), Verdict::MoreNeeded);
    }
}

/// AWAY-04, AWAY-15: no page load, click or small form of a person's is ever
/// turned away, whatever is wrong with it.
#[rstest]
fn a_person_is_never_turned_away(
    #[values(
        "",
        "Origin: null\r\n",
        "Origin: http://b.test\r\n",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n",
        "Sec-Fetch-Site: none\r\n"
    )]
    headers: &str,
    #[values("user=a", "", "napwake-wake=", "napwake-wake=x", "%zz&&=")] body: &str,
) {
    let bytes = post(&format!("{SAFARI}{headers}"), body);
    let place = asking();
    let verdict = place.judge(&bytes);
    assert!(matches!(verdict, Verdict::Asleep(_)), "{verdict:?}");
}

prop_compose! {
    /// Posts like a click, a login or neither, in any way of sending them.
    pub(super) fn any_post()(
        agent in prop::sample::select(vec![CHROME, SAFARI, CURL, ""]),
        says in prop::sample::select(vec![CLICKS, "Origin: http://a.test\r\n", "Sec-Fetch-Site: none\r\n", ""]),
        body in prop::sample::select(vec!["user=a&pass=b", "napwake-wake=x", "napwake-wake=", ""]),
        chunk in 0..8_usize,
        cookies in prop::sample::select(vec![0, 10, 17_000]),
    ) -> Vec<u8> {
        let cookies = "c".repeat(cookies);
        let head = |length: &str| {
            request("POST /", &format!("{agent}{says}{FORM}{length}Cookie: {cookies}\r\n"))
        };
        if chunk == 0 {
            return [head(&format!("Content-Length: {}\r\n", body.len())), body.into()].concat();
        }
        let mut bytes = head("Transfer-Encoding: chunked\r\n");
        for part in body.as_bytes().chunks(chunk) {
            bytes.extend(format!("{:x}\r\n", part.len()).bytes());
            bytes.extend(part);
            bytes.extend(b"\r\n");
        }
        bytes.extend(b"0\r\n\r\n");
        bytes
    }
}

proptest! {
    /// ASK-01: whatever a post says, it wakes only with a token of this pause.
    #[test]
    fn only_the_pages_token_wakes(bytes in any_post(), text in "[A-Za-z0-9_-]{64}") {
        let place = asking();
        prop_assert!(!matches!(place.judge(&bytes), Verdict::Click(_)));
        let clicks = format!("{CHROME}{CLICKS}");
        prop_assert!(Token::read(text.as_bytes()).is_some());
        let bytes = button(&clicks, &text);
        let verdict = place.judge(&bytes);
        // By chance a key's name, never its signature.
        prop_assert!(!matches!(verdict, Verdict::Click(_)), "{:?}", verdict);
        // The key's name and the time of a good one, and another signature.
        let forged = format!("{}{}", &token(&place)[..NAMED], &text[NAMED..]);
        prop_assert_eq!(press(&place, &clicks, &forged), Err(Said::RanOut));
    }
}
