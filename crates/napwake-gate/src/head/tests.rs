use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::caller::BodyForm;

const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn look(bytes: &[u8]) -> Head<'_> {
    HeadScan::new().look(bytes)
}

fn settle(bytes: &[u8]) -> Head<'_> {
    HeadScan::new().settle(bytes)
}

/// The head as an HTTP/1 request; fails if it is none.
fn request<'a>(head: &Head<'a>) -> Http1<'a> {
    match head {
        Head::Http1(request) => *request,
        other => panic!("not a request: {other:?}"),
    }
}

/// The length of the shortest beginning that decides, fed one byte at a time.
fn decided_after(bytes: &[u8]) -> Option<usize> {
    let mut scan = HeadScan::new();
    (1..=bytes.len()).find(|end| !scan.look(&bytes[..*end]).is_open())
}

#[test]
fn reads_what_matters_of_a_request() {
    let bytes = b"GET /a?b=c HTTP/1.1\r\nHost: x\r\nuser-AGENT:  curl/8 \r\n\
        User-Agent: second\r\nAccept: application/json\r\n\r\nbody";
    assert_eq!(
        request(&look(bytes)),
        Http1 {
            method: "GET",
            target: "/a?b=c",
            user_agent: Some(b"curl/8"),
            wants: BodyForm::Json,
            asks_for_html: false,
            asks_for_websocket: false,
            host: Host::One(b"x"),
            origin: None,
            fetch: Fetch::default(),
            form: Form::None,
            extent: Extent::Whole(bytes.len() - 4),
        }
    );
}

#[test]
fn reads_what_a_browser_says() {
    let bytes = b"POST / HTTP/1.1\r\nhost: x:80\r\nORIGIN: http://x\r\nAccept: text/html\r\n\
        Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-User: ?1\r\n\
        Sec-Fetch-Dest: document\r\nContent-Length: 0\r\n\r\n";
    let found = request(&look(bytes));
    assert_eq!(found.host, Host::One(b"x:80"));
    assert_eq!(found.origin, Some(&b"http://x"[..]));
    assert!(found.asks_for_html);
    assert_eq!(
        found.fetch,
        Fetch {
            is_sent: true,
            site: Site::SameOrigin,
            mode: Mode::Navigate,
            is_by_a_person: true,
        }
    );
    assert_eq!(found.form, Form::Foreign);
}

/// T-41: two `Host` headers are nothing to rely on if they differ.
#[rstest]
#[case("", Host::None)]
#[case("Host: a.test\r\n", Host::One(b"a.test"))]
#[case("Host: a.test\r\nHost: A.test\r\n", Host::One(b"a.test"))]
#[case("Host: a.test\r\nHost: b.test\r\n", Host::Several(b"a.test"))]
#[case("Host: a.test\r\nHost: a.test\r\nHost: \r\n", Host::Several(b"a.test"))]
fn reads_the_host(#[case] headers: &str, #[case] expected: Host<'_>) {
    let text = format!("GET / HTTP/1.1\r\n{headers}\r\n");
    assert_eq!(request(&look(text.as_bytes())).host, expected);
}

#[rstest]
#[case("Sec-Fetch-Mode: navigate\r\n", true, Mode::Navigate)]
#[case("sec-fetch-mode: cors\r\n", true, Mode::Other)]
#[case("Sec-Fetch-Mode: \r\n", true, Mode::Other)]
#[case(
    "Sec-Fetch-Mode: navigate\r\nSec-Fetch-Mode: cors\r\n",
    true,
    Mode::Navigate
)]
#[case("Sec-Fetch-Dest: document\r\n", true, Mode::Unsaid)]
#[case("Sec-Fetch-Storage-Access: none\r\n", false, Mode::Unsaid)]
#[case("", false, Mode::Unsaid)]
fn reads_fetch_metadata(#[case] headers: &str, #[case] is_sent: bool, #[case] mode: Mode) {
    let text = format!("GET / HTTP/1.1\r\n{headers}\r\n");
    let fetch = request(&look(text.as_bytes())).fetch;
    assert_eq!((fetch.is_sent, fetch.mode), (is_sent, mode));
}

#[rstest]
#[case("Upgrade: websocket", true)]
#[case("Upgrade: h2c, WebSocket", true)]
#[case("Upgrade: h2c", false)]
#[case("X-Upgrade: websocket", false)]
fn reads_whether_a_websocket_is_asked_for(#[case] header: &str, #[case] expected: bool) {
    let text = format!("GET / HTTP/1.1\r\n{header}\r\n\r\n");
    let found = request(&look(text.as_bytes()));
    assert_eq!(found.asks_for_websocket, expected);
}

#[rstest]
#[case::http_1_0("GET / HTTP/1.0\r\n\r\n")]
#[case::bare_line_feeds("GET / HTTP/1.1\nHost: x\n\n")]
#[case::empty_lines_first("\r\n\r\n\nGET / HTTP/1.1\r\n\r\n")]
#[case::unknown_method("BREW-IT /pot HTTP/1.1\r\n\r\n")]
#[case::absolute_form("GET http://a.test/x HTTP/1.1\r\n\r\n")]
#[case::asterisk_form("OPTIONS * HTTP/1.1\r\n\r\n")]
#[case::authority_form("CONNECT a.test:443 HTTP/1.1\r\n\r\n")]
#[case::folded_header("GET / HTTP/1.1\r\nX: a\r\n b\r\nUser-Agent: u\r\n\r\n")]
#[case::no_colon("GET / HTTP/1.1\r\nnonsense\r\nUser-Agent: u\r\n\r\n")]
#[case::expects_continue("POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n")]
/// T-56: `Upgrade: h2c` is HTTP/1.1.
#[case::upgrade_h2c("GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")]
fn is_http(#[case] text: &str) {
    let found = request(&look(text.as_bytes()));
    assert_eq!(found.extent, Extent::Whole(text.len()));
    if text.contains("User-Agent") {
        assert_eq!(found.user_agent, Some(&b"u"[..]));
    }
}

/// T-43: bytes that can't begin an HTTP request are judged at once, at the very
/// byte. T-117: so are text protocols, once their first line doesn't end in
/// `HTTP/1.0` or `HTTP/1.1`. T-57: the PROXY protocol isn't understood.
#[rstest]
#[case::tls(b"\x16\x03\x01\x02\x00\x01", 1, Head::Tls)]
#[case::postgres_ssl_request(b"\0\0\0\x08\x04\xd2\x16\x2f", 1, Head::Other)]
#[case::postgres_startup(b"\0\0\0\x54\0\x03\0\0user", 1, Head::Other)]
#[case::redis_array(b"*1\r\n$4\r\nPING\r\n", 3, Head::Other)]
#[case::redis_inline(b"PING\r\n", 5, Head::Other)]
#[case::redis_inline_get(b"GET key\r\n", 8, Head::Other)]
#[case::memcached(b"set k 0 0 5\r\nhello\r\n", 7, Head::Other)]
#[case::http_0_9(b"GET /index.html\r\n", 16, Head::Other)]
#[case::http_1_2(b"GET / HTTP/1.2\r\n", 14, Head::Other)]
#[case::http_2_by_line(b"GET / HTTP/2.0\r\n", 12, Head::Other)]
#[case::version_and_more(b"GET / HTTP/1.1 \r\n", 15, Head::Other)]
#[case::two_spaces(b"GET  / HTTP/1.1\r\n", 5, Head::Other)]
#[case::no_method(b" / HTTP/1.1\r\n", 1, Head::Other)]
#[case::ssh(b"SSH-2.0-OpenSSH_9.6\r\n", 20, Head::Other)]
#[case::amqp(b"AMQP\0\0\x09\x01", 5, Head::Other)]
#[case::kafka(b"\0\0\0\x1e\0\x12", 1, Head::Other)]
#[case::mongodb(b"A\x01\0\0", 2, Head::Other)]
#[case::proxy_v1(b"PROXY TCP4 10.0.0.1 10.0.0.2 5 6\r\n", 12, Head::Other)]
#[case::proxy_v2(b"\r\n\r\n\0\r\nQUIT\n", 5, Head::Other)]
#[case::tls_after_an_empty_line(b"\r\n\x16\x03\x01", 3, Head::Other)]
#[case::preface(PREFACE.as_bytes(), 24, Head::Http2Preface)]
#[case::nearly_a_preface(b"PRI * HTTP/2.0\r\n\r\nSM\r\nX", 23, Head::Other)]
#[case::not_utf8(b"GET /\xff HTTP/1.1\r\n", 17, Head::Other)]
#[case::nul_in_the_headers(b"GET / HTTP/1.1\r\nA: \0\r\n", 20, Head::Other)]
#[case::lone_cr_in_the_headers(b"GET / HTTP/1.1\r\nA: b\rc\r\n", 22, Head::Other)]
fn is_judged_at_once(#[case] bytes: &[u8], #[case] after: usize, #[case] expected: Head<'_>) {
    assert_eq!(look(bytes), expected);
    assert_eq!(decided_after(bytes), Some(after));
}

#[test]
fn a_method_that_begins_like_the_preface_is_a_method() {
    let text = b"PRINT / HTTP/1.1\r\n\r\n";
    assert_eq!(request(&look(text)).method, "PRINT");
    assert_eq!(decided_after(text), Some(text.len()));
}

/// T-43: a head that stops short is judged by what there is of it.
#[rstest]
#[case::within_the_method("GE", false)]
#[case::within_the_preface("PRI * HTTP/2.0\r\n\r\nS", false)]
#[case::a_command_of_another_protocol("GET ke", false)]
#[case::and_an_argument("set key ", false)]
#[case::only_empty_lines("\r\n\r\n", false)]
#[case::within_the_path("GET /inde", true)]
#[case::within_the_version("GET /index HTTP/1", true)]
#[case::before_the_line_ends("GET /index HTTP/1.1", true)]
fn an_unfinished_request_line_says_little(#[case] text: &str, #[case] is_http: bool) {
    assert_eq!(look(text.as_bytes()), Head::MoreNeeded);
    let expected = if is_http {
        Head::HttpBegun
    } else {
        Head::Other
    };
    assert_eq!(settle(text.as_bytes()), expected);
}

/// T-43, T-44: the header lines that are complete count, the last one doesn't.
#[rstest]
#[case("GET / HTTP/1.1\r\n", None)]
#[case("GET / HTTP/1.1\r\nUser-Agent: kube-probe/1", None)]
#[case("GET / HTTP/1.1\r\nUser-Agent: kube-probe/1\r", None)]
#[case("GET / HTTP/1.1\r\nUser-Agent: kube-probe/1\r\n", Some("kube-probe/1"))]
#[case(
    "GET / HTTP/1.1\r\nUser-Agent: kube-probe/1\r\nX",
    Some("kube-probe/1")
)]
fn an_unfinished_head_says_what_is_whole(#[case] text: &str, #[case] agent: Option<&str>) {
    assert_eq!(look(text.as_bytes()), Head::MoreNeeded);
    let found = request(&settle(text.as_bytes()));
    assert_eq!(found.extent, Extent::Beginning);
    assert_eq!(found.user_agent, agent.map(str::as_bytes));
}

/// A head of exactly `len` bytes so far, unfinished, with the agent's line
/// ending `before_end` bytes before.
fn long_head(len: usize, before_end: usize) -> Vec<u8> {
    let mut bytes = b"GET / HTTP/1.1\r\nCookie: ".to_vec();
    let agent = b"\r\nUser-Agent: kube-probe/1\r\n";
    bytes.resize(len - before_end - agent.len(), b'c');
    bytes.extend(agent);
    bytes.extend(b"X: ");
    bytes.resize(len.max(bytes.len()), b'x');
    bytes.truncate(len);
    bytes
}

/// The first 16 KiB decide, as soon as they are there; a header that ends after
/// them isn't seen.
#[rstest]
#[case::one_byte_short(HEAD_LIMIT - 1, 100, None)]
#[case::just_enough(HEAD_LIMIT, 100, Some(true))]
#[case::more(HEAD_LIMIT + 1, 101, Some(true))]
#[case::much_more(3 * HEAD_LIMIT, 2 * HEAD_LIMIT + 100, Some(true))]
#[case::the_last_byte_within(HEAD_LIMIT, 0, Some(true))]
#[case::the_last_byte_without(HEAD_LIMIT + 1, 0, Some(false))]
fn the_first_16_kib_decide(
    #[case] len: usize,
    #[case] before_end: usize,
    #[case] agent_seen: Option<bool>,
) {
    let bytes = long_head(len, before_end);
    let found = look(&bytes);
    match agent_seen {
        None => assert_eq!(found, Head::MoreNeeded),
        Some(seen) => {
            assert_eq!(request(&found).user_agent.is_some(), seen);
            assert_eq!(request(&found).extent, Extent::Beginning);
            assert_eq!(decided_after(&bytes), Some(HEAD_LIMIT));
        }
    }
}

/// A post whose head is this long, with a cookie of all that's missing to it.
fn long_post(len: usize, first: &str, last: &str, body: &str) -> Vec<u8> {
    let mut bytes = format!("POST / HTTP/1.1\r\n{first}Cookie: ").into_bytes();
    let end = format!("\r\n{last}\r\n");
    bytes.resize(len - end.len(), b'c');
    bytes.extend(end.bytes());
    assert_eq!(bytes.len(), len);
    bytes.extend(body.bytes());
    bytes
}

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

/// T-42: the first 16 KiB say who it is, and the form behind a longer head is
/// read all the same.
#[rstest]
#[case::just_over(HEAD_LIMIT + 1)]
#[case::far_over(60_000)]
#[case::as_far_as_is_looked(FORM_HEAD_LIMIT - 1)]
fn a_form_behind_a_long_head(#[case] len: usize) {
    let first = format!("{FORM}Origin: http://x\r\nContent-Length: 3\r\n");
    let bytes = long_post(len, &first, "Sec-Fetch-Site: same-origin\r\n", "a=b");
    let found = request(&look(&bytes));
    assert_eq!(
        (found.form, found.extent),
        (Form::Foreign, Extent::Beginning)
    );
    // A line of its last few bytes is beyond the first 16 KiB, or not.
    assert_eq!(found.fetch.is_sent, len == HEAD_LIMIT + 1);
    assert!(look(&bytes[..HEAD_LIMIT]).is_open());
    assert!(look(&bytes[..bytes.len() - 1]).is_open());
    let stalled = request(&settle(&bytes[..=HEAD_LIMIT])).form;
    assert_eq!(stalled, Form::Stalled);
}

/// How long a form is may be said behind the cookies.
#[rstest]
#[case("Content-Length: 3\r\n", "a=b", Form::Foreign)]
#[case("Transfer-Encoding: chunked\r\n", "3\r\na=b\r\n0\r\n", Form::Foreign)]
#[case("Content-Length: 1025\r\n", "a=b", Form::None)]
#[case("Content-Length: 3\r\n", "a=", Form::Unfinished)]
fn a_length_behind_the_first_16_kib(#[case] last: &str, #[case] body: &str, #[case] form: Form) {
    let bytes = long_post(20_000, FORM, last, body);
    assert_eq!(request(&look(&bytes)).form, form);
}

#[rstest]
#[case::too_large("Content-Length: 1025\r\nContent-Type: application/x-www-form-urlencoded\r\n")]
#[case::an_upload("Content-Length: 3\r\nContent-Type: multipart/form-data\r\n")]
fn a_long_head_before_no_form_is_judged_at_its_limit(#[case] first: &str) {
    let bytes = long_post(20_000, first, "", "a=b");
    assert_eq!(decided_after(&bytes), Some(HEAD_LIMIT));
}

#[test]
fn a_head_without_end_is_given_up() {
    let first = format!("{FORM}Content-Length: 3\r\n");
    let bytes = long_post(FORM_HEAD_LIMIT + 10, &first, "", "a=b");
    assert!(look(&bytes[..FORM_HEAD_LIMIT - 1]).is_open());
    assert_eq!(request(&look(&bytes)).form, Form::None);
    let nul = [&bytes[..HEAD_LIMIT], b"\0"].concat();
    assert_eq!(request(&look(&nul)).form, Form::None);
}

#[test]
fn a_request_line_over_16_kib_reads_as_http() {
    let mut bytes = b"GET /".to_vec();
    bytes.resize(HEAD_LIMIT, b'a');
    assert_eq!(look(&bytes), Head::HttpBegun);
}

#[test]
fn empty_lines_without_end_are_not_http() {
    assert_eq!(look(&b"\r\n".repeat(HEAD_LIMIT)), Head::Other);
}

#[test]
fn of_too_many_headers_the_first_decide() {
    let mut bytes = b"GET / HTTP/1.1\r\nUser-Agent: u\r\n".to_vec();
    bytes.extend(b"a:\r\n".repeat(MAX_HEADERS));
    bytes.extend(b"Accept: application/json\r\n\r\n");
    let found = request(&look(&bytes));
    assert_eq!(found.user_agent, Some(&b"u"[..]));
    assert_eq!(found.wants, BodyForm::Plain);
}

#[test]
fn a_decision_stands() {
    let mut scan = HeadScan::new();
    let bytes = b"GET / HTTP/1.1\r\n\r\nGET /two HTTP/1.1\r\n\r\n";
    let first = scan.look(&bytes[..18]);
    assert_eq!(request(&first).target, "/");
    assert_eq!(scan.look(bytes), first);
    assert_eq!(scan.settle(bytes), first);
}

/// A form that comes byte by byte doesn't have its head parsed for each of them,
/// be that whole within the limit or not: who posts is told once, then when the
/// form is there, or stalls.
#[rstest]
#[case::short(0)]
#[case::long(HEAD_LIMIT)]
fn a_form_on_its_way_is_told_once(#[case] cookie: usize) {
    let head = b"POST /x HTTP/1.1\r\nContent-Length: 3\r\nContent-Type: application/x-www-form-urlencoded\r\nCookie: ";
    let cookie = vec![b'x'; cookie];
    let bytes = [&head[..], &cookie, b"\r\n\r\na=b"].concat();
    let mut scan = HeadScan::new();
    let mut told = Vec::new();
    for end in 1..bytes.len() {
        let head = scan.look(&bytes[..end]);
        if head != Head::MoreNeeded {
            told.push(request(&head));
        }
    }
    let [first] = &*told else {
        panic!("told {} times", told.len());
    };
    assert_eq!((first.target, first.form), ("/x", Form::Unfinished));
    let stalled = scan.settle(&bytes[..bytes.len() - 1]);
    assert_eq!(
        request(&stalled),
        Http1 {
            form: Form::Stalled,
            ..*first
        }
    );
    let whole = scan.look(&bytes);
    assert_eq!(
        request(&whole),
        Http1 {
            form: Form::Foreign,
            ..*first
        }
    );
}

prop_compose! {
    /// Bytes that get far: lines of requests and of other protocols, in any order.
    fn plausible()(parts in prop::collection::vec(prop::sample::select(vec![
        "GET ", "/", "/.env", "key", " HTTP/1.1", " HTTP/1.0", " HTTP/1", "\r\n", "\n", "\r", "\0",
        "Host: a", "User-Agent: curl/8", "Accept: application/json", " ", ":", "PRI * HTTP/2.0",
        "SM", "\u{16}\u{3}\u{1}", "é", PREFACE, "GET / HTTP/1.1\r\n", "POST /x HTTP/1.0\r\nA: b\r\n",
        FORM, "Content-Length: 3\r\n", "Transfer-Encoding: chunked\r\n", "a=b", "3\r\na=b\r\n0\r\n",
    ]), 0..12)) -> Vec<u8> {
        parts.concat().into_bytes()
    }
}

proptest! {
    /// The same head is found however the bytes are split, and never later than
    /// when all of them are there.
    #[test]
    fn splitting_changes_nothing(
        bytes in prop_oneof![plausible(), prop::collection::vec(any::<u8>(), 0..64)],
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let whole = settle(&bytes);
        let mut ends: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        ends.sort_unstable();
        let mut scan = HeadScan::new();
        for end in ends {
            let found = scan.look(&bytes[..end]);
            if !found.is_open() {
                prop_assert_eq!(found, whole);
            }
        }
        prop_assert_eq!(scan.settle(&bytes), whole);
        fuzz_head(&bytes);
    }

    /// What decided once isn't changed by what comes after it.
    #[test]
    fn more_bytes_change_nothing(head in plausible(), more in plausible()) {
        let decided = look(&head);
        let both = [head.clone(), more].concat();
        if !decided.is_open() {
            prop_assert_eq!(look(&both), decided);
        }
    }
}
