use rstest::rstest;

use super::*;
use crate::head::{Head, HeadScan};

const CHROME: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36";
const EDGE: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0";
const OPERA: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36 OPR/115.0.0.0";
const SAMSUNG: &str = "Mozilla/5.0 (Linux; Android 14; SM-S928B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/27.0 Chrome/125.0.0.0 Mobile Safari/537.36";
const CHROME_ANDROID: &str = "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36";
const CHROMIUM: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Ubuntu Chromium/80.0.3987.163 Safari/537.36";
const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0";
const FIREFOX_ANDROID: &str =
    "Mozilla/5.0 (Android 14; Mobile; rv:145.0) Gecko/145.0 Firefox/145.0";
const SAFARI: &str = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Safari/605.1.15";
const WEBKIT_GTK: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 Safari/605.1.15";
const IPHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.1 Mobile/15E148 Safari/604.1";
const IPAD: &str = "Mozilla/5.0 (iPad; CPU OS 16_3 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/16.3 Mobile/15E148 Safari/604.1";
const CHROME_IOS: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/131.0.6778.73 Mobile/15E148 Safari/604.1";
const CHROME_IPAD_AS_DESKTOP: &str = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/131 Version/11.1.1 Safari/605.1.15";
const FIREFOX_IOS: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 14_7_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) FxiOS/133.0 Mobile/15E148 Safari/605.1.15";
const EDGE_IOS: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 EdgiOS/130.0.2849.80 Mobile/15E148 Safari/605.1.15";
const APP_IOS: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/22A3354 [FBAN/FBIOS;FBAV/480.0.0.37.109]";

fn origin_of(agent: &str, headers: &str) -> Origin {
    origin_at("/", agent, headers)
}

fn origin_at(target: &str, agent: &str, headers: &str) -> Origin {
    let text = format!("POST {target} HTTP/1.1\r\nUser-Agent: {agent}\r\n{headers}\r\n");
    match HeadScan::new().look(text.as_bytes()) {
        Head::Http1(request) => origin(&request),
        other => panic!("not a request: {other:?}"),
    }
}

/// ASK-67, T-15: with fetch metadata, only `same-origin` says that it came from
/// the page. ASK-14, ASK-15: another site, another subdomain.
#[rstest]
#[case::same_origin("same-origin", Origin::Page)]
#[case::another_subdomain("same-site", Origin::Elsewhere)]
#[case::another_site("cross-site", Origin::Elsewhere)]
#[case::typed("none", Origin::Elsewhere)]
#[case::another_case("Same-Origin", Origin::Elsewhere)]
#[case::nothing("", Origin::Elsewhere)]
fn by_where_it_comes_from(#[case] site: &str, #[case] expected: Origin) {
    for agent in [CHROME, FIREFOX, SAFARI, CHROME_IOS] {
        let headers = format!(
            "Host: a.test\r\nSec-Fetch-Site: {site}\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-User: ?1\r\n"
        );
        assert_eq!(origin_of(agent, &headers), expected, "{agent}");
    }
}

/// ASK-68, T-14: Chromium's kin and Firefox mark what a person started, so
/// without the mark it was a script. ASK-69, ASK-70: Safari and every browser on
/// iOS never do.
#[rstest]
#[case::chrome(CHROME, Origin::Script)]
#[case::chrome_android(CHROME_ANDROID, Origin::Script)]
#[case::chromium(CHROMIUM, Origin::Script)]
#[case::edge(EDGE, Origin::Script)]
#[case::opera(OPERA, Origin::Script)]
#[case::samsung(SAMSUNG, Origin::Script)]
#[case::firefox(FIREFOX, Origin::Script)]
#[case::firefox_android(FIREFOX_ANDROID, Origin::Script)]
#[case::safari(SAFARI, Origin::Page)]
#[case::webkit_gtk(WEBKIT_GTK, Origin::Page)]
#[case::iphone(IPHONE, Origin::Page)]
#[case::ipad(IPAD, Origin::Page)]
#[case::chrome_ios(CHROME_IOS, Origin::Page)]
#[case::chrome_ipad(CHROME_IPAD_AS_DESKTOP, Origin::Page)]
#[case::firefox_ios(FIREFOX_IOS, Origin::Page)]
#[case::edge_ios(EDGE_IOS, Origin::Page)]
#[case::an_app_on_ios(APP_IOS, Origin::Page)]
fn by_who_pressed(#[case] agent: &str, #[case] without_the_mark: Origin) {
    let headers = "Host: a.test\r\nSec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: navigate\r\n";
    assert_eq!(origin_of(agent, headers), without_the_mark);
    for (mark, expected) in [("?1", Origin::Page), ("?0", without_the_mark)] {
        let headers = format!("{headers}Sec-Fetch-User: {mark}\r\n");
        assert_eq!(origin_of(agent, &headers), expected, "{mark}");
    }
}

/// T-16: with fetch metadata `Origin` isn't looked at, in either direction.
#[test]
fn fetch_metadata_rules() {
    let rewritten = "Host: api.svc\r\nOrigin: https://a.test\r\nSec-Fetch-Site: same-origin\r\n\
        Sec-Fetch-User: ?1\r\n";
    assert_eq!(origin_of(CHROME, rewritten), Origin::Page);
    let elsewhere = "Host: a.test\r\nOrigin: https://a.test\r\nSec-Fetch-Site: same-site\r\n";
    assert_eq!(origin_of(CHROME, elsewhere), Origin::Elsewhere);
    let half = "Host: a.test\r\nOrigin: https://a.test\r\nSec-Fetch-Mode: navigate\r\n";
    assert_eq!(origin_of(CHROME, half), Origin::Unsaid);
}

/// ASK-71, ASK-16, T-18: without fetch metadata, the `Origin` must be the host
/// that the request named, and its port.
#[rstest]
#[case::with_a_port("http://a.test:8080", "a.test:8080", Origin::Page)]
#[case::without("http://a.test", "a.test", Origin::Page)]
#[case::default_port_in_host("http://a.test", "a.test:80", Origin::Page)]
#[case::default_port_in_origin("http://a.test:80", "a.test", Origin::Page)]
#[case::default_port_of_https("https://a.test", "a.test:443", Origin::Page)]
#[case::tls_ended_before("https://a.test", "a.test", Origin::Page)]
#[case::scheme_is_not_compared("https://a.test:8080", "a.test:8080", Origin::Page)]
#[case::any_case("http://a.test", "A.Test", Origin::Page)]
#[case::any_case_in_origin("http://A.TEST:8080", "a.test:8080", Origin::Page)]
#[case::trailing_dot("http://a.test.", "a.test.", Origin::Page)]
#[case::an_empty_port("http://a.test", "a.test:", Origin::Page)]
#[case::localhost("http://localhost:8080", "localhost:8080", Origin::Page)]
#[case::an_address("http://10.0.0.5:30080", "10.0.0.5:30080", Origin::Page)]
#[case::ipv6("http://[::1]:8080", "[::1]:8080", Origin::Page)]
#[case::ipv6_without_a_port("http://[::1]", "[::1]", Origin::Page)]
#[case::ipv6_default_port("http://[2001:DB8::1]", "[2001:db8::1]:80", Origin::Page)]
#[case::another_host("http://b.test", "a.test", Origin::Elsewhere)]
#[case::a_subdomain("http://x.a.test", "a.test", Origin::Elsewhere)]
#[case::another_port("http://a.test:8081", "a.test:8080", Origin::Elsewhere)]
#[case::a_port_on_one_side("http://a.test:8080", "a.test", Origin::Elsewhere)]
#[case::default_port_of_the_other_scheme("http://a.test", "a.test:443", Origin::Elsewhere)]
#[case::another_ipv6("http://[::1]", "[::2]", Origin::Elsewhere)]
#[case::brackets_count("http://::1", "[::1]", Origin::Elsewhere)]
#[case::null("null", "a.test", Origin::Elsewhere)]
#[case::nothing("", "a.test", Origin::Elsewhere)]
#[case::no_scheme("a.test", "a.test", Origin::Elsewhere)]
#[case::another_scheme("chrome-extension://a.test", "a.test", Origin::Elsewhere)]
#[case::two_origins("http://a.test http://b.test", "a.test", Origin::Elsewhere)]
#[case::a_path("http://a.test/", "a.test", Origin::Elsewhere)]
#[case::a_user("http://x@a.test", "a.test", Origin::Elsewhere)]
#[case::two_hosts_in_one("http://a.test", "a.test, a.test", Origin::Elsewhere)]
#[case::no_number("http://a.test:http", "a.test:http", Origin::Elsewhere)]
#[case::beyond_all_ports("http://a.test:65616", "a.test", Origin::Elsewhere)]
#[case::nobody("http://", "", Origin::Elsewhere)]
fn by_its_origin(#[case] origin: &str, #[case] host: &str, #[case] expected: Origin) {
    let headers = format!("Host: {host}\r\nOrigin: {origin}\r\n");
    for agent in [CHROME, FIREFOX, SAFARI] {
        assert_eq!(origin_of(agent, &headers), expected);
    }
}

/// T-18: `X-Forwarded-Host` isn't trusted.
#[test]
fn a_forwarded_host_says_nothing() {
    let headers = "Host: api.svc\r\nX-Forwarded-Host: a.test\r\nOrigin: http://a.test\r\n";
    assert_eq!(origin_of(CHROME, headers), Origin::Elsewhere);
}

/// T-53: without a host, no `Origin` can match.
#[test]
fn without_a_host_no_origin_matches() {
    assert_eq!(
        origin_of(CHROME, "Origin: http://a.test\r\n"),
        Origin::Elsewhere
    );
}

/// The host of a target that is a whole address counts, not the header's.
#[rstest]
#[case("http://a.test/x", "b.test", Origin::Page)]
#[case("http://a.test", "b.test", Origin::Page)]
#[case("http://b.test/x", "a.test", Origin::Elsewhere)]
#[case("/x?to=http://b.test/", "a.test", Origin::Page)]
#[case("x?to=http://b.test/", "a.test", Origin::Page)]
#[case("x?to=http://a.test/", "b.test", Origin::Elsewhere)]
fn the_host_of_a_whole_address(#[case] target: &str, #[case] host: &str, #[case] expected: Origin) {
    let headers = format!("Host: {host}\r\nOrigin: http://a.test\r\n");
    assert_eq!(origin_at(target, CHROME, &headers), expected);
}

/// ASK-75, T-17: neither fetch metadata nor an `Origin`, as of a spider or of a
/// browser from before 2020.
#[test]
fn says_nothing_of_where_it_comes_from() {
    assert_eq!(origin_of(CHROME, "Host: a.test\r\n"), Origin::Unsaid);
    let referer = "Host: a.test\r\nReferer: http://a.test/\r\n";
    assert_eq!(origin_of(CHROME, referer), Origin::Unsaid);
}

const STARTED: &str = "2026-11-30T10:00:00.000001Z";

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn asked(phase: Phase, last_wake: Option<&str>) -> Asked {
    Asked {
        phase,
        pause_started: time(STARTED),
        last_wake: last_wake.map(|text| text.parse().expect("a stamp")),
    }
}

/// TOKEN-27: the minute counts from the last wake request. TOKEN-28: which may
/// lie before the pause. T-12: one too far ahead is ignored.
#[rstest]
#[case::never(None, Press::Stamp)]
#[case::fifty_nine_seconds_ago(Some("2026-11-30T10:00:01.000000Z"), Press::TooSoon)]
#[case::sixty_seconds_ago(Some("2026-11-30T10:00:00.000000Z"), Press::Stamp)]
#[case::sixty_one_seconds_ago(Some("2026-11-30T09:59:59.000000Z"), Press::Stamp)]
#[case::a_minute_ahead(Some("2026-11-30T10:02:00.000000Z"), Press::TooSoon)]
#[case::further_ahead(Some("2026-11-30T10:02:01.000000Z"), Press::Stamp)]
fn once_a_minute(#[case] last_wake: Option<&str>, #[case] expected: Press) {
    let now = time("2026-11-30T10:01:00Z");
    for phase in [Phase::Paused, Phase::Pausing] {
        assert_eq!(press(asked(phase, last_wake), time(STARTED), now), expected);
    }
    let before_the_pause = Some("2026-11-30T09:59:50.000000Z");
    assert_eq!(
        press(
            asked(Phase::Paused, before_the_pause),
            time(STARTED),
            time("2026-11-30T10:00:10Z")
        ),
        Press::TooSoon
    );
}

/// T-07, T-10: whoever finds it waking by then, whoever woke it, stamps no more;
/// TOKEN-05: nor whoever finds another pause.
#[rstest]
#[case(Phase::Resuming, STARTED, Press::IsWaking)]
#[case(Phase::Running, STARTED, Press::IsWaking)]
#[case(Phase::Paused, STARTED, Press::Stamp)]
#[case(Phase::Pausing, STARTED, Press::Stamp)]
#[case(Phase::Paused, "2026-11-30T10:00:00Z", Press::OtherPause)]
#[case(Phase::Pausing, "2026-11-30T09:00:00Z", Press::OtherPause)]
fn what_a_click_does(#[case] phase: Phase, #[case] pause: &str, #[case] expected: Press) {
    let now = time("2026-11-30T10:05:00Z");
    assert_eq!(press(asked(phase, None), time(pause), now), expected);
}

/// T-75: one button wakes several; the person sees it wake as soon as one does.
#[rstest]
#[case(&[Press::Stamp], Pressed::Waking)]
#[case(&[Press::IsWaking], Pressed::Waking)]
#[case(&[Press::TooSoon], Pressed::TooSoon)]
#[case(&[Press::OtherPause], Pressed::OtherPause)]
#[case(&[Press::TooSoon, Press::Stamp], Pressed::Waking)]
#[case(&[Press::OtherPause, Press::IsWaking], Pressed::Waking)]
#[case(&[Press::TooSoon, Press::TooSoon], Pressed::TooSoon)]
#[case(&[Press::OtherPause, Press::TooSoon], Pressed::OtherPause)]
fn what_one_button_comes_to(#[case] presses: &[Press], #[case] expected: Pressed) {
    assert_eq!(pressed(presses.iter().copied()), expected);
}
