mod asking;
mod pages;
mod world;

use napwake_api::workload::Phase;
use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::serving::{Drain, Serving};
use world::{Place, agents, judge_at, sleeper};

const POSTGRES: &[u8] = b"\0\0\0\x08\x04\xd2\x16\x2f";
const TLS: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const HOLD_AND_WAKE: Verdict<'_> = Verdict::Hold(Wake::Yes(RequestKind::Request));
const CLOSE_COUNTED: Verdict<'_> = Verdict::Close(Counted::TurnedAway);
const CLOSE_UNCOUNTED: Verdict<'_> = Verdict::Close(Counted::Not);

fn judge_bytes(bytes: &[u8], standing: Standing) -> Verdict<'_> {
    let head = HeadScan::new().look(bytes);
    judge_at(&Place::default(), standing, &Heard::Head(head))
}

fn judge_heard<'a>(heard: &Heard<'a>, standing: Standing) -> Verdict<'a> {
    judge_at(&Place::default(), standing, heard)
}

fn request(line: &str, headers: &str) -> Vec<u8> {
    format!("{line} HTTP/1.1\r\nHost: a.test\r\n{headers}\r\n").into_bytes()
}

fn by(agent: &str) -> String {
    format!("User-Agent: {agent}\r\n")
}

/// What the doorman itself answers, not counted.
fn own<'a>(kind: AnswerKind) -> Verdict<'a> {
    let body = Body::Sent;
    Verdict::Answer(Answer { kind, body }, Counted::Not)
}

/// The 503 of a workload that asks, counted.
fn asleep<'a>(form: BodyForm) -> Verdict<'a> {
    turned_away(Body::Sent, form)
}

/// CLASS-01, CLASS-02, CLASS-03, HOLD-39: whatever isn't told to be a check is held, and wakes.
#[rstest]
#[case::api_client(request("GET /", &by("curl/8")))]
#[case::no_agent(request("GET /", ""))]
#[case::asks_for_json(request("GET /", "Accept: application/json\r\n"))]
#[case::script(request("GET /x", "Sec-Fetch-Mode: cors\r\nUser-Agent: Mozilla/5.0\r\n"))]
#[case::form(request("POST /login", "Sec-Fetch-Mode: navigate\r\nContent-Length: 3\r\n"))]
#[case::websocket(request("GET /ws", "Upgrade: websocket\r\nConnection: Upgrade\r\n"))]
#[case::checkers_data(request("POST /api/v1/write", &by("Prometheus/2.53")))]
#[case::alertmanager(request("POST /hook", &by("Alertmanager/0.27")))]
#[case::unknown_check(request("GET /metrics", &by("AcmeScrape/1")))]
#[case::well_known(request("GET /.well-known/acme-challenge/x", ""))]
#[case::options_without_an_agent(request("OPTIONS /", ""))]
#[case::postgres(POSTGRES.to_vec())]
#[case::redis(b"PING\r\n".to_vec())]
#[case::tls(TLS.to_vec())]
#[case::http2(PREFACE.to_vec())]
#[case::proxy_protocol(b"PROXY TCP4 10.0.0.1 10.0.0.2 5 6\r\nGET / HTTP/1.1\r\n\r\n".to_vec())]
fn is_held_and_wakes(#[case] bytes: Vec<u8>) {
    assert_eq!(judge_bytes(&bytes, Standing::Wakes), HOLD_AND_WAKE);
    assert_eq!(
        judge_bytes(&bytes, Standing::Waits),
        Verdict::Hold(Wake::No)
    );
    assert_eq!(judge_bytes(&bytes, Standing::Served), Verdict::Pass);
}

/// HOLD-39: robots wake too, and the stamp says that one did.
#[test]
fn a_robot_is_held_and_wakes_as_a_robot() {
    let agent = by("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)");
    assert_eq!(
        judge_bytes(&request("GET /", &agent), Standing::Wakes),
        Verdict::Hold(Wake::Yes(RequestKind::Robot))
    );
}

/// CLASS-08, CLASS-12, CLASS-13, CLASS-15, CLASS-18, CLASS-21,
/// CLASS-22, CLASS-37, ASK-44, T-28, T-34: what is answered without a
/// wake, in every standing but with a Ready pod; none of it counts.
#[rstest]
fn is_answered_and_wakes_nothing(
    #[values(
        ("GET /healthz", "kube-probe/1.30", AnswerKind::Probe),
        ("GET /healthz", "MyCorpMonitor/3", AnswerKind::Probe),
        ("GET /", "ELB-HealthChecker/2.0", AnswerKind::Probe),
        ("GET /.health", "Prometheus/2.53", AnswerKind::Probe),
        ("GET /", "GoogleHC/1.0", AnswerKind::GoogleHealthCheck),
        ("GET /.health", "GoogleHC/1.0", AnswerKind::GoogleHealthCheck),
        ("GET /.env", "curl/8", AnswerKind::HiddenFile),
        ("GET /.env", "Mozilla/5.0 (X11)\r\nSec-Fetch-Mode: navigate", AnswerKind::HiddenFile),
        ("POST /.env", "Prometheus/2.53", AnswerKind::HiddenFile),
        ("DELETE /a/.git/x", "curl/8", AnswerKind::HiddenFile),
    )]
    case: (&str, &str, AnswerKind),
    #[values(Standing::Wakes, Standing::Waits, Standing::Asks)] standing: Standing,
) {
    let (line, agent, kind) = case;
    assert_eq!(judge_bytes(&request(line, &by(agent)), standing), own(kind));
}

/// CLASS-10: a HEAD gets the same, without the body. ASK-37, T-30: also where
/// it is turned away, which counts.
#[rstest]
#[case("kube-probe/1.30", AnswerKind::Probe, Counted::Not)]
#[case("GoogleHC/1.0", AnswerKind::GoogleHealthCheck, Counted::Not)]
#[case(
    "Mozilla/5.0 (X11)",
    AnswerKind::TurnedAway(BodyForm::Plain),
    Counted::TurnedAway
)]
fn a_head_gets_no_body(#[case] agent: &str, #[case] kind: AnswerKind, #[case] counted: Counted) {
    let body = Body::LeftOut;
    assert_eq!(
        judge_bytes(&request("HEAD /", &by(agent)), Standing::Asks),
        Verdict::Answer(Answer { kind, body }, counted)
    );
}

/// CLASS-23, T-35: with a Ready pod everything passes, unread.
#[rstest]
#[case(request("GET /", &by("kube-probe/1.30")))]
#[case(request("GET /", &by("GoogleHC/1.0")))]
#[case(request("GET /.env", ""))]
#[case(TLS.to_vec())]
#[case::nothing_yet(vec![])]
fn passes_while_a_pod_is_ready(#[case] bytes: Vec<u8>) {
    assert_eq!(judge_bytes(&bytes, Standing::Served), Verdict::Pass);
}

/// ASK-28, ASK-33, ASK-34, ASK-36, ASK-38, ASK-39, ASK-41, ASK-84,
/// T-29, T-51, T-56, T-108: in Ask a request is answered and counted.
#[rstest]
#[case::curl(request("GET /", &by("curl/8")), BodyForm::Plain)]
#[case::json(request("GET /", "Accept: application/json\r\n"), BodyForm::Json)]
#[case::no_agent(request("GET /", ""), BodyForm::Plain)]
#[case::crawler(
    request("GET /", "User-Agent: Googlebot/2.1\r\nAccept: text/html\r\n"),
    BodyForm::Plain
)]
#[case::scanner(request("GET /wp-login.php", &by("zgrab")), BodyForm::Plain)]
#[case::checkers_data(request("POST /write", &by("Prometheus/2.53")), BodyForm::Plain)]
#[case::googles_data(request("POST /", &by("GoogleHC/1.0")), BodyForm::Plain)]
#[case::websocket(
    request("GET /ws", "Upgrade: websocket\r\nConnection: Upgrade\r\n"),
    BodyForm::Plain
)]
#[case::fetch(
    request("GET /x", "Sec-Fetch-Mode: cors\r\nUser-Agent: Mozilla/5.0\r\n"),
    BodyForm::Plain
)]
#[case::upload(
    request("POST /", "Content-Type: multipart/form-data; boundary=b\r\n"),
    BodyForm::Plain
)]
#[case::form_of_a_client(request("POST /", &by("curl/8")), BodyForm::Plain)]
#[case::webhook(
    request("POST /hook", "Content-Type: application/json\r\n"),
    BodyForm::Plain
)]
#[case::h2c(
    request("GET /", "Connection: Upgrade\r\nUpgrade: h2c\r\n"),
    BodyForm::Plain
)]
#[case::expects_continue(request("POST /", "Expect: 100-continue\r\n"), BodyForm::Plain)]
#[case::two_hosts(request("GET /", "Host: b.test\r\n"), BodyForm::Plain)]
#[case::http_1_0(b"GET / HTTP/1.0\r\n\r\n".to_vec(), BodyForm::Plain)]
fn is_turned_away_by_one_that_asks(#[case] bytes: Vec<u8>, #[case] form: BodyForm) {
    assert_eq!(judge_bytes(&bytes, Standing::Asks), asleep(form));
}

/// ASK-42, ASK-43, ASK-83, T-55, T-56, T-57, T-117: what isn't HTTP/1
/// is closed and counted.
#[rstest]
#[case(POSTGRES)]
#[case(b"PING\r\n")]
#[case(b"GET key\r\n")]
#[case(TLS)]
#[case(PREFACE)]
#[case(b"PROXY TCP4 10.0.0.1 10.0.0.2 5 6\r\n")]
fn is_closed_by_one_that_asks(#[case] bytes: &[u8]) {
    assert_eq!(judge_bytes(bytes, Standing::Asks), CLOSE_COUNTED);
}

/// T-43: a head that stops short wakes in Request; in Ask it gets a 503 if its
/// start reads as HTTP, and is closed if not. What it did say still counts.
#[rstest]
#[case("GET / HTTP/1.1\r\nHost: a", HOLD_AND_WAKE, asleep(BodyForm::Plain))]
#[case("GET /ind", HOLD_AND_WAKE, asleep(BodyForm::Plain))]
#[case("GET", HOLD_AND_WAKE, CLOSE_COUNTED)]
#[case("set key ", HOLD_AND_WAKE, CLOSE_COUNTED)]
#[case(
    "GET /.env HTTP/1.1\r\n",
    own(AnswerKind::HiddenFile),
    own(AnswerKind::HiddenFile)
)]
fn a_head_that_stops_short(
    #[case] text: &str,
    #[case] requests: Verdict<'_>,
    #[case] asks: Verdict<'_>,
) {
    assert_eq!(
        judge_bytes(text.as_bytes(), Standing::Wakes),
        Verdict::MoreNeeded
    );
    let heard = Heard::Head(HeadScan::new().settle(text.as_bytes()));
    assert_eq!(judge_heard(&heard, Standing::Wakes), requests);
    assert_eq!(judge_heard(&heard, Standing::Asks), asks);
}

/// T-46: who says nothing for 3 s wakes in Request; in Ask it is
/// closed, uncounted.
#[rstest]
#[case(Standing::Wakes, HOLD_AND_WAKE)]
#[case(Standing::Waits, Verdict::Hold(Wake::No))]
#[case(Standing::Asks, CLOSE_UNCOUNTED)]
#[case(Standing::Crowded, Verdict::Hold(Wake::No))]
#[case(Standing::Served, Verdict::Pass)]
fn silence(#[case] standing: Standing, #[case] expected: Verdict<'_>) {
    assert_eq!(judge_heard(&Heard::Silence, standing), expected);
}

/// CLASS-07, T-47: who leaves before it was judged is closed,
/// uncounted, and wakes nothing.
#[rstest]
fn leaving(
    #[values(
        Standing::Wakes,
        Standing::Waits,
        Standing::Asks,
        Standing::Crowded,
        Standing::Served
    )]
    standing: Standing,
) {
    assert_eq!(judge_heard(&Heard::Left, standing), CLOSE_UNCOUNTED);
}

fn requests() -> Sleeper<'static> {
    sleeper(WakeMode::Request, Phase::Paused)
}

fn asks() -> Sleeper<'static> {
    sleeper(WakeMode::Ask, Phase::Paused)
}

fn pausing() -> Sleeper<'static> {
    sleeper(WakeMode::Request, Phase::Pausing)
}

fn asks_pausing() -> Sleeper<'static> {
    sleeper(WakeMode::Ask, Phase::Pausing)
}

fn waking() -> Sleeper<'static> {
    sleeper(WakeMode::Request, Phase::Resuming)
}

fn asks_waking() -> Sleeper<'static> {
    sleeper(WakeMode::Ask, Phase::Resuming)
}

fn awake() -> Sleeper<'static> {
    sleeper(WakeMode::Request, Phase::Running)
}

/// T-05, T-74, T-75, T-124, ASK-45: where a route with these workloads stands
/// while no pod is Ready.
#[rstest]
#[case::paused(&[requests()], Standing::Wakes)]
#[case::asks(&[asks()], Standing::Asks)]
#[case::pausing_and_its_pods_gone(&[pausing()], Standing::Wakes)]
#[case::asks_and_its_pods_gone(&[asks_pausing()], Standing::Asks)]
#[case::waking(&[waking()], Standing::Waits)]
#[case::asked_and_waking(&[asks_waking()], Standing::Waits)]
#[case::awake_again(&[awake()], Standing::Waits)]
#[case::one_of_two_requests(&[asks(), requests()], Standing::Wakes)]
#[case::both_ask(&[asks(), asks_pausing()], Standing::Asks)]
#[case::one_of_two_is_waking(&[asks(), waking()], Standing::Waits)]
#[case::the_other_is_woken_too(&[requests(), waking()], Standing::Wakes)]
#[case::all_gone(&[], Standing::Waits)]
fn where_a_route_stands(#[case] workloads: &[Sleeper<'_>], #[case] expected: Standing) {
    let of = |serving, pods| Standing::of(&serving, pods, workloads);
    let draining = Serving::Draining(Drain {
        closes: 30,
        cuts: 300,
    });
    assert_eq!(of(Serving::Live, Pods::NoneReady), expected);
    // Whatever the phase, and whosever pod it is.
    assert_eq!(of(Serving::Live, Pods::Ready), Standing::Served);
    assert_eq!(of(draining, Pods::Ready), Standing::Served);
    for serving in [Serving::Live, draining] {
        assert_eq!(of(serving, Pods::Crowded), Standing::Crowded);
    }
    // T-79, T-111
    assert_eq!(of(draining, Pods::NoneReady), Standing::Waits);
}

/// T-75: a request wakes those in Request; those in Ask stay asleep.
#[test]
fn a_request_wakes_those_in_request() {
    let all = [
        requests(),
        pausing(),
        asks(),
        asks_pausing(),
        waking(),
        awake(),
    ];
    let woken: Vec<_> = all
        .into_iter()
        .filter(Sleeper::is_woken_by_requests)
        .collect();
    assert_eq!(woken, [requests(), pausing()]);
}

/// HOLD-12, T-02, T-03: whether a request that was passed on calls the
/// pause off. T-04: in Ask it never does.
#[rstest]
#[case::request(&request("GET /", ""), Some(Wake::Yes(RequestKind::Request)))]
#[case::robot(&request("GET /", &by("Twitterbot/1.0")), Some(Wake::Yes(RequestKind::Robot)))]
#[case::database(POSTGRES, Some(Wake::Yes(RequestKind::Request)))]
#[case::tls(TLS, Some(Wake::Yes(RequestKind::Request)))]
#[case::checker(&request("GET /", &by("kube-probe/1.30")), Some(Wake::No))]
#[case::google(&request("GET /", &by("GoogleHC/1.0")), Some(Wake::No))]
#[case::hidden(&request("GET /.env", ""), Some(Wake::No))]
#[case::checkers_data(&request("POST /", &by("kube-probe/1.30")), Some(Wake::Yes(RequestKind::Request)))]
#[case::unfinished(b"GET / HT", None)]
#[case::nothing_yet(b"", None)]
fn calls_a_pause_off(#[case] bytes: &[u8], #[case] expected: Option<Wake>) {
    let heard = Heard::Head(HeadScan::new().look(bytes));
    assert_eq!(would_wake(&heard, WakeMode::Request, &agents()), expected);
    assert_eq!(would_wake(&heard, WakeMode::Ask, &agents()), Some(Wake::No));
}

#[rstest]
#[case::silence(Heard::Silence, Wake::Yes(RequestKind::Request))]
#[case::health_check(Heard::Left, Wake::No)]
fn calls_a_pause_off_without_a_word(#[case] heard: Heard<'_>, #[case] expected: Wake) {
    assert_eq!(
        would_wake(&heard, WakeMode::Request, &agents()),
        Some(expected)
    );
}

prop_compose! {
    fn any_request()(
        method in prop::sample::select(vec!["GET", "HEAD", "POST", "PING", "PRI"]),
        target in prop::sample::select(vec!["/", "/.env", "/.well-known/x", "*", "key"]),
        version in prop::sample::select(vec![" HTTP/1.1", " HTTP/1.0", " HTTP/2.0", ""]),
        headers in prop::collection::vec(prop::sample::select(vec![
            "User-Agent: kube-probe/1\r\n", "User-Agent: GoogleHC/1\r\n", "Host: a\r\n",
            "User-Agent: curl/8\r\n", "Accept: application/json\r\n", "A: \0\r\n", " folded\r\n",
            "User-Agent: Mozilla/5.0\r\n", "Sec-Fetch-Mode: navigate\r\n", "Accept: text/html\r\n",
        ]), 0..4),
        body in prop::collection::vec(any::<u8>(), 0..16),
    ) -> Vec<u8> {
        let mut bytes = format!("{method} {target}{version}\r\n{}\r\n", headers.concat()).into_bytes();
        bytes.extend(body);
        bytes
    }
}

proptest! {
    /// The same verdict however the bytes are split.
    #[test]
    fn splitting_changes_no_verdict(
        bytes in prop_oneof![any_request(), asking::any_post()],
        piece in 1usize..40,
        standing in prop::sample::select(vec![
            Standing::Wakes, Standing::Waits, Standing::Asks, Standing::Crowded,
        ]),
    ) {
        let place = Place::default();
        let whole = judge_at(&place, standing, &Heard::Head(HeadScan::new().settle(&bytes)));
        let mut scan = HeadScan::new();
        let split = (0..=bytes.len())
            .step_by(piece)
            .map(|end| judge_at(&place, standing, &Heard::Head(scan.look(&bytes[..end]))))
            .find(|verdict| *verdict != Verdict::MoreNeeded);
        let verdict = split.unwrap_or_else(|| {
            judge_at(&place, standing, &Heard::Head(scan.settle(&bytes)))
        });
        prop_assert_eq!(verdict, whole);
    }

    /// ASK-02, ASK-05: in Ask nothing that is sent is held or wakes.
    #[test]
    fn one_that_asks_holds_nobody(bytes in prop_oneof![
        any_request(),
        asking::any_post(),
        prop::collection::vec(any::<u8>(), 0..64),
    ]) {
        fuzz_verdict(&bytes);
    }
}
