//! Who gets the waking-up page.

use std::time::Duration;

use napwake_api::{
    stamp::RequestKind,
    workload::{Phase, WakeMode, WakePage},
};
use rstest::rstest;

use super::world::{Place, sleeper, time};
use crate::{
    answer::{AnswerKind, Body},
    head::{HEAD_LIMIT, HeadScan},
    pages::{Address, FIELD, WakingPage},
    verdict::{Heard, Sleeper, Standing, Verdict, Wake, judge, tests::judge_at},
};

const NAVIGATES: &str = "Sec-Fetch-Mode: navigate\r\nUser-Agent: Mozilla/5.0 (X11)\r\n";

fn request(line: &str, headers: &str) -> Vec<u8> {
    format!("{line} HTTP/1.1\r\nHost: staging.example.com\r\n{headers}\r\n").into_bytes()
}

fn paused() -> Sleeper<'static> {
    sleeper(WakeMode::Request, Phase::Paused)
}

fn resuming(since: &str) -> Sleeper<'static> {
    Sleeper {
        resuming_since: Some(time(since)),
        ..sleeper(WakeMode::Request, Phase::Resuming)
    }
}

/// The page for this address.
fn page(target: &str, starting_for: Option<Duration>) -> WakingPage<'_> {
    WakingPage {
        address: Address {
            host: "staging.example.com",
            target,
        },
        starting_for,
    }
}

/// CLASS-41, PAGE-03, PAGE-11, PAGE-12, PAGE-13, T-31, T-106: a page load gets
/// the page, and wakes, whatever the `User-Agent` is.
#[rstest]
#[case::browser("GET /a?b=c", NAVIGATES, Body::Sent, RequestKind::Page)]
#[case::head("HEAD /a?b=c", NAVIGATES, Body::LeftOut, RequestKind::Page)]
#[case::older(
    "GET /a?b=c",
    "Accept: text/html, */*\r\n",
    Body::Sent,
    RequestKind::Page
)]
#[case::no_agent(
    "GET /a?b=c",
    "Sec-Fetch-Mode: navigate\r\n",
    Body::Sent,
    RequestKind::Page
)]
#[case::curl(
    "GET /a?b=c",
    "User-Agent: curl/8\r\nAccept: text/html\r\n",
    Body::Sent,
    RequestKind::Page
)]
#[case::crawler(
    "GET /a?b=c",
    "User-Agent: Googlebot/2.1\r\nAccept: text/html\r\n",
    Body::Sent,
    RequestKind::Robot
)]
#[case::prefetch(
    "GET /a?b=c",
    "Sec-Purpose: prefetch\r\nSec-Fetch-Mode: navigate\r\n",
    Body::Sent,
    RequestKind::Page
)]
#[case::in_a_frame(
    "GET /a?b=c",
    "Sec-Fetch-Dest: iframe\r\nSec-Fetch-Mode: navigate\r\n",
    Body::Sent,
    RequestKind::Page
)]
fn a_page_load_gets_the_page(
    #[case] line: &str,
    #[case] headers: &str,
    #[case] body: Body,
    #[case] kind: RequestKind,
) {
    let bytes = request(line, headers);
    assert_eq!(
        Place::with(&[paused()]).judge(&bytes),
        Verdict::Waking(page("/a?b=c", None), body, Wake::Yes(kind))
    );
    // T-79: strays of a route that drains, or whose workload is gone, get it too.
    let nobody = Place::default();
    assert_eq!(
        nobody.judge(&bytes),
        Verdict::Waking(page("/a?b=c", None), body, Wake::No)
    );
}

/// PAGE-14, PAGE-15, PAGE-16, PAGE-17, PAGE-18: everybody else is held.
#[rstest]
#[case::script(request("GET /x", "Sec-Fetch-Mode: cors\r\nAccept: text/html\r\n"))]
#[case::same_origin(request("GET /x", "Sec-Fetch-Mode: same-origin\r\n"))]
#[case::image(request("GET /x", "Sec-Fetch-Mode: no-cors\r\n"))]
#[case::json(request("GET /x", "Accept: application/json\r\n"))]
#[case::anything(request("GET /x", "Accept: */*\r\n"))]
#[case::form(request("POST /x", &format!("{NAVIGATES}Content-Length: 2000\r\n")))]
#[case::websocket(request("GET /x", "Accept: text/html\r\nUpgrade: websocket\r\n"))]
#[case::tls(b"\x16\x03\x01\x02\x00\x01".to_vec())]
#[case::redis(b"PING\r\n".to_vec())]
#[case::http2(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec())]
fn everybody_else_is_held(#[case] bytes: Vec<u8>) {
    assert_eq!(
        Place::with(&[paused()]).judge(&bytes),
        Verdict::Hold(Wake::Yes(RequestKind::Request))
    );
}

/// A form that isn't the button's is held with its body, however it comes (PAGE-16).
#[rstest]
#[case("user=a&pass=b")]
#[case("")]
fn a_form_is_held(#[case] body: &str) {
    let headers = format!(
        "{NAVIGATES}Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n",
        body.len()
    );
    let bytes = [request("POST /login", &headers), body.into()].concat();
    let place = Place::with(&[paused()]);
    assert_eq!(
        place.judge(&bytes),
        Verdict::Hold(Wake::Yes(RequestKind::Request))
    );
    if !body.is_empty() {
        let stops_short = &bytes[..bytes.len() - 1];
        assert_eq!(place.judge(stops_short), Verdict::MoreNeeded);
        assert_eq!(
            place.judge_head(HeadScan::new().settle(stops_short)),
            Verdict::Hold(Wake::Yes(RequestKind::Request))
        );
    }
}

/// PAGE-08, PAGE-09, T-121: from the change to Resuming, and not before.
#[rstest]
#[case::paused(&[paused()], None, Wake::Yes(RequestKind::Page))]
#[case::resuming(&[resuming("2026-11-30T09:59:40Z")], Some(20), Wake::No)]
#[case::just_now(&[resuming("2026-11-30T10:00:00Z")], Some(0), Wake::No)]
#[case::by_a_clock_ahead(&[resuming("2026-11-30T10:00:05Z")], Some(0), Wake::No)]
#[case::the_first_of_two(
    &[resuming("2026-11-30T09:59:40Z"), resuming("2026-11-30T09:59:30Z")],
    Some(30),
    Wake::No
)]
fn how_long_it_has_been_starting(
    #[case] sleepers: &[Sleeper<'static>],
    #[case] seconds: Option<u64>,
    #[case] wake: Wake,
) {
    let bytes = request("GET /", NAVIGATES);
    let page = page("/", seconds.map(Duration::from_secs));
    assert_eq!(
        Place::with(sleepers).judge(&bytes),
        Verdict::Waking(page, Body::Sent, wake)
    );
}

const fn without_page(sleeper: Sleeper<'_>) -> Sleeper<'_> {
    Sleeper {
        page: WakePage(false),
        ..sleeper
    }
}

/// PAGE-34: browsers are held like any other caller. PAGE-36: not by one that
/// asks, once it is waking.
#[rstest]
#[case::off(&[without_page(paused())], Some(Wake::Yes(RequestKind::Request)))]
#[case::off_and_waking(&[without_page(resuming("2026-11-30T09:59:40Z"))], Some(Wake::No))]
#[case::off_for_one_of_two(
    &[paused(), without_page(paused())],
    Some(Wake::Yes(RequestKind::Request))
)]
#[case::one_that_asks(&[without_page(sleeper(WakeMode::Ask, Phase::Resuming))], None)]
#[case::beside_one_that_asks(&[paused(), without_page(sleeper(WakeMode::Ask, Phase::Paused))], None)]
fn a_workload_without_the_page(#[case] sleepers: &[Sleeper<'static>], #[case] held: Option<Wake>) {
    let bytes = request("GET /", NAVIGATES);
    let verdict = Place::with(sleepers).judge(&bytes);
    match held {
        Some(wake) => assert_eq!(verdict, Verdict::Hold(wake)),
        None => assert!(matches!(verdict, Verdict::Waking(..)), "{verdict:?}"),
    }
}

/// T-61: where a pod is Ready and no place to pass is free, a browser gets the
/// page, everything else waits, and nothing wakes.
#[rstest]
#[case::browser("GET /", NAVIGATES, true)]
#[case::checker("GET /", "User-Agent: kube-probe/1.30\r\n", false)]
#[case::google("GET /", "User-Agent: GoogleHC/1.0\r\n", false)]
#[case::hidden("GET /.env", "", false)]
#[case::client("GET /", "User-Agent: curl/8\r\n", false)]
fn in_a_crowd(#[case] line: &str, #[case] headers: &str, #[case] gets_the_page: bool) {
    for mode in [WakeMode::Request, WakeMode::Ask] {
        let place = Place::with(&[sleeper(mode, Phase::Running)]);
        let bytes = request(line, headers);
        let heard = Heard::Head(HeadScan::new().look(&bytes));
        let verdict = judge_at(&place, Standing::Crowded, &heard);
        if gets_the_page {
            assert_eq!(
                verdict,
                Verdict::Waking(page("/", None), Body::Sent, Wake::No)
            );
        } else {
            assert_eq!(verdict, Verdict::Hold(Wake::No));
        }
    }
}

/// PAGE-20, PAGE-21: up to 16 KiB of headers decide, wherever in them it stands.
#[rstest]
#[case::at_byte_15_000(15_000, 0, true)]
#[case::before_long_cookies(100, 30 * 1024, true)]
#[case::the_last_that_counts(HEAD_LIMIT - NAVIGATES.len(), 1_000, true)]
#[case::too_late(HEAD_LIMIT, 1_000, false)]
fn the_first_16_kib_decide(
    #[case] deciding_at: usize,
    #[case] behind: usize,
    #[case] gets_the_page: bool,
) {
    let mut bytes = b"GET / HTTP/1.1\r\nHost: a.test\r\nCookie: ".to_vec();
    bytes.resize(deciding_at - 2, b'c');
    bytes.extend(b"\r\n");
    bytes.extend(NAVIGATES.bytes());
    bytes.extend(b"X: ");
    bytes.resize(bytes.len() + behind, b'x');
    bytes.extend(b"\r\n\r\n");
    let place = Place::with(&[paused()]);
    let verdict = place.judge(&bytes);
    if gets_the_page {
        assert!(matches!(verdict, Verdict::Waking(..)), "{verdict:?}");
    } else {
        assert_eq!(verdict, Verdict::Hold(Wake::Yes(RequestKind::Request)));
    }
    // At once, without waiting for the rest.
    let first = &bytes[..bytes.len().min(HEAD_LIMIT)];
    assert_eq!(place.judge(first), verdict);
}

/// T-43, T-44: of a head that stops short, what it said counts.
#[test]
fn a_browsers_head_that_stops_short() {
    let text = format!("GET / HTTP/1.1\r\n{NAVIGATES}Cookie: a");
    let place = Place::with(&[paused()]);
    assert_eq!(place.judge(text.as_bytes()), Verdict::MoreNeeded);
    let head = HeadScan::new().settle(text.as_bytes());
    let verdict = place.judge_head(head);
    assert!(matches!(verdict, Verdict::Waking(..)), "{verdict:?}");
}

/// T-08: a post of the button's is never handed to the app while the doorman
/// holds, whoever posts it and whatever it holds; where there's nothing to wake
/// it stamps nothing.
#[rstest]
#[case::waking(&[sleeper(WakeMode::Ask, Phase::Resuming)], Wake::No)]
#[case::without_the_page(&[without_page(resuming("2026-11-30T09:59:40Z"))], Wake::No)]
#[case::no_longer_asking(&[paused()], Wake::Yes(RequestKind::Page))]
#[case::draining(&[], Wake::No)]
fn a_button_pressed_while_it_wakes(#[case] sleepers: &[Sleeper<'static>], #[case] wake: Wake) {
    for agent in ["Mozilla/5.0 (X11)", "curl/8"] {
        let body = format!("{FIELD}=anything");
        let headers = format!(
            "User-Agent: {agent}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n",
            body.len()
        );
        let bytes = [request("POST /x", &headers), body.into_bytes()].concat();
        let place = Place::with(sleepers);
        let Verdict::Waking(page, Body::Sent, found) = place.judge(&bytes) else {
            panic!("not the page");
        };
        assert_eq!((page.address.target, found), ("/x", wake));
        // T-08, L60: with a pod Ready it passes like anything.
        let heard = Heard::Head(HeadScan::new().look(&bytes));
        assert_eq!(judge_at(&place, Standing::Served, &heard), Verdict::Pass);
    }
}

/// A checker that was added as `Mozilla/` takes every browser, as asked (T-38).
#[test]
fn a_browser_that_was_added_as_a_checker() {
    let agents = crate::caller::Agents::with_added(["Mozilla/"]).expect("no empty prefix");
    let place = Place::with(&[paused()]);
    let bytes = request("GET /", NAVIGATES);
    let heard = Heard::Head(HeadScan::new().look(&bytes));
    let verdict = judge(&heard, &place.door(Standing::Wakes, &agents));
    let Verdict::Answer(answer, _) = verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!(answer.kind, AnswerKind::Probe);
}

/// T-42: one of whom not all is held any more is answered, though a pod be Ready,
/// and only once its form is there or stalls.
#[rstest]
fn who_was_cut_is_answered(
    #[values(Standing::Served, Standing::Crowded, Standing::Wakes, Standing::Waits)]
    standing: Standing,
) {
    let place = Place::with(&[paused()]);
    let form = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n";
    let bytes = [&request("POST /a", form)[..], b"a=b"].concat();
    let mut scan = HeadScan::new();
    let unfinished = bytes.len() - 1;
    let _told = scan.look(&bytes[..unfinished]);
    let more = Heard::Cut(scan.look(&bytes[..unfinished]));
    assert_eq!(judge_at(&place, standing, &more), Verdict::MoreNeeded);
    let whole = Heard::Cut(scan.look(&bytes));
    let Verdict::Waking(page, Body::Sent, wake) = judge_at(&place, standing, &whole) else {
        panic!("not the page");
    };
    assert_eq!(page.address.target, "/a");
    assert_eq!(wake != Wake::No, standing == Standing::Wakes);
}

/// PAGE-07: the address the person opened, from whichever form of the request.
#[rstest]
#[case("GET /a?b=c", "Host: a.test:8080\r\n", "a.test:8080", "/a?b=c")]
#[case("GET /a", "", "", "/a")]
#[case("GET /a", "Host: caf\u{e9}.test\r\n", "caf\u{e9}.test", "/a")]
#[case("GET http://b.test/a", "Host: a.test\r\n", "b.test", "http://b.test/a")]
fn the_address_a_person_opened(
    #[case] line: &str,
    #[case] headers: &str,
    #[case] host: &str,
    #[case] target: &str,
) {
    let text = format!("{line} HTTP/1.1\r\n{headers}{NAVIGATES}\r\n");
    let Verdict::Waking(page, ..) = Place::with(&[paused()]).judge(text.as_bytes()) else {
        panic!("not the page");
    };
    assert_eq!(page.address, Address { host, target });
}
