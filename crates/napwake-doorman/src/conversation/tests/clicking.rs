//! People's browsers, where a workload asks before it wakes.

use k8s_openapi::ByteString;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::{answer_to, asks, browser, millis, secs, text, wakes};
use crate::tests::{World, claimant, managed, merge};

const SECRET: &str = "/api/v1/namespaces/napwake-system/secrets/napwake-doorman-wake-key";
const MANAGED: &str = "/apis/napwake.dev/v1alpha1/namespaces/shop/managedworkloads/api";
const NAVIGATES: &str = "Sec-Fetch-Mode: navigate\r\n";
const CLICKS: &str = "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: navigate\r\n\
                      Sec-Fetch-User: ?1\r\n";

/// `api` asks, here and at the API server, and the key is read.
async fn asking(more: &Value) -> World {
    let world = World::new([]);
    is_so(&world, more);
    stores(&world, more);
    put_key(&world, 1);
    read_key(&world).await;
    world
}

/// The doorman sees it so.
fn is_so(world: &World, more: &Value) {
    let mut asking = asks();
    merge(&mut asking, more);
    world.put(claimant("Paused", "Routed", &asking));
}

/// It is so at the API server.
fn stores(world: &World, more: &Value) {
    let mut asking = asks();
    merge(&mut asking, more);
    let object = managed("Paused", "Routed", &asking);
    world
        .cluster
        .store(MANAGED, serde_json::to_value(object).unwrap());
}

fn put_key(world: &World, byte: u8) {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": { "namespace": "napwake-system", "name": "napwake-doorman-wake-key" },
        "data": { "key": ByteString(vec![byte; 32]) },
    });
    world.cluster.store(SECRET, secret);
}

async fn read_key(world: &World) {
    let doorman = &world.doorman;
    doorman.key.read_since(doorman.steady.now()).await;
}

/// A pause that began later.
fn another_pause() -> Value {
    json!({ "status": { "pause": { "startedAt": "2026-11-30T10:04:59.000000Z" } } })
}

/// The newest stamp, of that time of the morning.
fn last_request(clock: &str) -> Value {
    let stamp = format!("2026-11-30T{clock}.000000Z request api");
    json!({ "metadata": { "annotations": { "napwake.dev/last-request": stamp } } })
}

/// Opens a page, and gives what came.
async fn opens(world: &World) -> String {
    answer_to(world, &browser("GET /a?b=c", NAVIGATES, "")).await
}

/// `api` asks, and somebody has opened its page, whose button has this token.
async fn with_button() -> (World, String) {
    let world = asking(&json!({})).await;
    let good = token(&opens(&world).await).unwrap();
    (world, good)
}

/// The token of another pod's page, which has read a key that `world` hasn't.
async fn button_of_another_key(world: &World) -> String {
    world.pass(secs(1)).await;
    let other = world.beside();
    is_so(&other, &json!({}));
    put_key(world, 2);
    read_key(&other).await;
    token(&opens(&other).await).unwrap()
}

/// The token in a page, if it has a button.
fn token(page: &str) -> Option<String> {
    let (_, rest) = page.split_once("name=\"napwake-wake\" value=\"")?;
    Some(rest.split_once('"')?.0.to_owned())
}

/// A form that a browser posts, with these headers behind its own.
fn posts(line: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let form = format!(
        "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n{headers}"
    );
    browser(line, &form, body)
}

fn press(token: &str) -> Vec<u8> {
    posts("POST /a?b=c", CLICKS, &format!("napwake-wake={token}"))
}

/// Presses the button with this token, and gives what came.
async fn presses(world: &World, token: &str) -> String {
    answer_to(world, &press(token)).await
}

fn stamped(world: &World) -> String {
    let object = world.cluster.stored(MANAGED).unwrap();
    let stamp = object["metadata"]["annotations"]["napwake.dev/last-request"].as_str();
    stamp.unwrap_or_default().to_owned()
}

fn status(answer: &str) -> &str {
    answer.lines().next().unwrap_or_default()
}

const ASLEEP: &str = "HTTP/1.1 200 OK";
const WAKING: &str = "HTTP/1.1 503 Service Unavailable";
const FORBIDDEN: &str = "HTTP/1.1 403 Forbidden";
const TOO_MANY: &str = "HTTP/1.1 429 Too Many Requests";

/// ASK-03, ASK-04, ASK-51, AWAY-04, AWAY-15: whoever opens a page gets the asleep
/// page with its button, wakes nothing, and isn't turned away.
#[tokio::test(start_paused = true)]
async fn a_page_load_wakes_nothing() {
    let world = asking(&json!({})).await;
    for _ in 0..50 {
        let page = opens(&world).await;
        assert_eq!(status(&page), ASLEEP);
        assert!(page.contains("Wake it") && token(&page).is_some(), "{page}");
    }
    world.pass(secs(60)).await;
    assert_eq!(stamped(&world), "");
    assert_eq!(wakes(&world, "turned_away"), "");
    let count = world.metric("napwake_doorman_answers_total{answer=\"asleep_page\"}");
    assert_eq!(count, "50");
    world.ends().await;
}

/// ASK-06, ASK-07, ASK-08, ASK-09, T-06, T-07: a click wakes, and the waking-up
/// page follows it and each reload; a second click comes too soon.
#[tokio::test(start_paused = true)]
async fn a_click_wakes() {
    let (world, good) = with_button().await;
    let page = presses(&world, &good).await;
    assert_eq!(status(&page), WAKING);
    assert!(
        page.contains("is waking up") && page.contains("/a?b=c"),
        "{page}"
    );
    assert_eq!(stamped(&world), "2026-11-30T10:05:00.000000Z click api");
    world.quiet().await;
    let told = "A person asked at Service api to wake it".to_owned();
    let events = world.cluster.events();
    assert_eq!(events, [("WokenByRequest".to_owned(), told)]);

    assert_eq!(status(&opens(&world).await), WAKING);
    let again = presses(&world, &good).await;
    assert_eq!(status(&again), TOO_MANY);
    assert!(again.contains("\r\nRetry-After: 60\r\n"), "{again}");
    assert_eq!(wakes(&world, "turned_away"), "");
    // Whoever is no browser is turned away all the same.
    let turned_away = answer_to(&world, super::GET).await;
    assert!(
        turned_away.contains("\r\nRetry-After: 300\r\n"),
        "{turned_away}"
    );
    world.ends().await;
}

/// ASK-19, LIMIT-10, TOKEN-27, TOKEN-28: the minute counts from the last wake request,
/// whether this pod has seen it or the API server alone knows, and though it was
/// before the pause began.
#[rstest]
#[case::seen("10:04:01", true, TOO_MANY)]
#[case::not_seen_yet("10:04:01", false, TOO_MANY)]
#[case::before_the_pause("10:04:40", false, TOO_MANY)]
#[case::over("10:04:00", true, WAKING)]
#[tokio::test(start_paused = true)]
async fn once_a_minute(#[case] clock: &str, #[case] is_seen: bool, #[case] expected: &str) {
    let pause = another_pause();
    let world = asking(&pause).await;
    let good = token(&opens(&world).await).unwrap();
    let mut later = pause;
    merge(&mut later, &last_request(clock));
    stores(&world, &later);
    if is_seen {
        is_so(&world, &later);
    }
    assert_eq!(status(&presses(&world, &good).await), expected);
    world.ends().await;
}

/// ASK-11, ASK-13, ASK-64, TOKEN-07, TOKEN-12: after ten minutes a button has run
/// out; the page has a fresh one, which wakes.
#[tokio::test(start_paused = true)]
async fn a_button_runs_out() {
    let (world, old) = with_button().await;
    world.pass(secs(601)).await;
    let page = presses(&world, &old).await;
    assert_eq!(status(&page), FORBIDDEN);
    assert_eq!(stamped(&world), "");
    let fresh = token(&page).unwrap();
    assert_eq!(status(&presses(&world, &fresh).await), WAKING);
    assert_ne!(stamped(&world), "");
    world.ends().await;
}

/// TOKEN-04, TOKEN-05: a button is for its pause. Where the API server knows of
/// another one before the watch does, the watch is waited for, and the button is
/// for that one.
#[tokio::test(start_paused = true)]
async fn a_pause_that_the_watch_shows_later() {
    let (world, old) = with_button().await;
    stores(&world, &another_pause());
    let mut caller = world.say(&press(&old)).await;
    is_so(&world, &another_pause());
    let page = text(&mut caller).await;
    assert_eq!(status(&page), FORBIDDEN);
    assert_eq!(stamped(&world), "");
    let fresh = token(&page).unwrap();
    assert_eq!(status(&presses(&world, &fresh).await), WAKING);
    drop(caller);
    world.ends().await;
}

/// The same, and the watch hangs: nothing wakes, and the person isn't kept.
#[tokio::test(start_paused = true)]
async fn a_pause_that_the_watch_does_not_show() {
    let (world, old) = with_button().await;
    stores(&world, &another_pause());
    let mut caller = world.say(&press(&old)).await;
    world.pass(secs(2)).await;
    assert_eq!(status(&text(&mut caller).await), FORBIDDEN);
    assert_eq!(stamped(&world), "");
    drop(caller);
    world.ends().await;
}

/// TOKEN-16, T-23: a token whose key isn't known here yet has the key read, and is
/// good then.
#[tokio::test(start_paused = true)]
async fn a_key_that_another_pod_has_already() {
    let world = asking(&json!({})).await;
    let theirs = button_of_another_key(&world).await;
    let mut caller = world.say(&press(&theirs)).await;
    // It isn't read more often than every five seconds.
    world.pass(secs(5)).await;
    assert_eq!(status(&text(&mut caller).await), WAKING);
    assert_ne!(stamped(&world), "");
    drop(caller);
    world.ends().await;
}

/// T-20, T-23: one whose key nobody knows has run out, and so has one whose key
/// can't be read; nobody waits for that for long.
#[rstest]
#[case::unknown(|_: &World| {})]
#[case::gone(|world: &World| world.cluster.unstore(SECRET))]
#[case::unreadable(|world: &World| world.cluster.break_down())]
#[tokio::test(start_paused = true)]
async fn a_key_that_nobody_knows(#[case] then: fn(&World)) {
    let world = asking(&json!({})).await;
    let theirs = button_of_another_key(&world).await;
    put_key(&world, 1);
    then(&world);
    let mut caller = world.say(&press(&theirs)).await;
    world.pass(secs(10)).await;
    let page = text(&mut caller).await;
    assert_eq!(status(&page), FORBIDDEN);
    assert!(token(&page).is_some(), "the key in memory goes on");
    drop(caller);
    world.ends().await;
}

/// T-25: without a key the page has no button, and says how else to wake it.
#[tokio::test(start_paused = true)]
async fn without_a_key_there_is_no_button() {
    let world = World::new([]);
    is_so(&world, &json!({}));
    let page = opens(&world).await;
    assert_eq!(status(&page), ASLEEP);
    assert_eq!(token(&page), None);
    assert!(page.contains("kubectl napwake wake"), "{page}");
    world.ends().await;
}

/// ASK-81: the form may come in however many pieces, and in chunks.
#[rstest]
#[case::by_length(false)]
#[case::in_chunks(true)]
#[tokio::test(start_paused = true)]
async fn a_form_in_pieces(#[case] in_chunks: bool) {
    let (world, good) = with_button().await;
    let mut bytes = press(&good);
    if in_chunks {
        let body = format!("napwake-wake={good}");
        let chunks: Vec<_> = body.chars().map(|one| format!("1\r\n{one}\r\n")).collect();
        let chunks = chunks.concat();
        let form = format!(
            "{CLICKS}Content-Type: application/x-www-form-urlencoded\r\n\
             Transfer-Encoding: chunked\r\n"
        );
        bytes = browser("POST /", &form, &format!("{chunks}0\r\n\r\n"));
    }
    let mut caller = world.call().await;
    for piece in bytes.chunks(50) {
        caller.write_all(piece).await.unwrap();
        world.pass(millis(200)).await;
    }
    assert_eq!(status(&text(&mut caller).await), WAKING);
    assert_ne!(stamped(&world), "");
    drop(caller);
    world.ends().await;
}

/// ASK-24, ASK-25, AWAY-15, T-48: a form that isn't the button's gets the asleep page;
/// one that stalls the 503 after three silent seconds. Neither is counted.
#[tokio::test(start_paused = true)]
async fn another_form() {
    let world = asking(&json!({})).await;
    let sent = posts("POST /login", CLICKS, "user=a&pass=b");
    let page = answer_to(&world, &sent).await;
    assert_eq!(status(&page), ASLEEP);
    assert!(token(&page).is_some(), "{page}");
    assert_eq!(wakes(&world, "turned_away"), "");

    let mut caller = world.say(&sent[..sent.len() - 1]).await;
    world.pass(secs(3)).await;
    let answer = text(&mut caller).await;
    assert!(answer.contains("\r\nRetry-After: 300\r\n"), "{answer}");
    assert_eq!(wakes(&world, "turned_away"), "");
    drop(caller);
    world.ends().await;
}

/// T-63, T-112: a click that can't be written yet gets the waking-up page, as each
/// reload does, and is tried on though the person left with it.
#[tokio::test(start_paused = true)]
async fn a_click_that_cant_be_written_yet() {
    let (world, good) = with_button().await;
    world.cluster.refuse_stamps([500, 500]);
    assert_eq!(status(&presses(&world, &good).await), WAKING);
    assert_eq!(status(&opens(&world).await), WAKING);
    assert_eq!(stamped(&world), "");
    world.pass(secs(2)).await;
    assert_eq!(status(&opens(&world).await), WAKING);
    world.pass(secs(2)).await;
    assert_ne!(stamped(&world), "");
    assert_eq!(status(&opens(&world).await), WAKING);
    world.ends().await;
}

/// T-59: a person who leaves right after the click has clicked.
#[tokio::test(start_paused = true)]
async fn whoever_leaves_has_clicked() {
    let (world, good) = with_button().await;
    let mut caller = world.call().await;
    caller.write_all(&press(&good)).await.unwrap();
    world.cluster.until(|_| !stamped(&world).is_empty()).await;
    drop(caller);
    world.quiet().await;
    assert_eq!(wakes(&world, "left"), "");
    world.ends().await;
}

/// ASK-14, ASK-15, ASK-22, ASK-65, ASK-68, T-19: where a click comes from is
/// judged before anything else, and nothing is asked of the API server for it.
#[rstest]
#[case::another_site("Sec-Fetch-Site: cross-site\r\n", FORBIDDEN)]
#[case::a_subdomain("Sec-Fetch-Site: same-site\r\n", FORBIDDEN)]
#[case::a_script(
    "Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: navigate\r\n",
    FORBIDDEN
)]
#[case::unsaid("", FORBIDDEN)]
#[case::another_origin("Origin: http://b.test\r\n", FORBIDDEN)]
#[case::the_origin("Origin: http://a.test\r\n", WAKING)]
#[tokio::test(start_paused = true)]
async fn where_a_click_comes_from(#[case] headers: &str, #[case] expected: &str) {
    let (world, good) = with_button().await;
    let before = world.cluster.calls().len();
    let click = posts("POST /", headers, &format!("napwake-wake={good}"));
    let page = answer_to(&world, &click).await;
    assert_eq!(status(&page), expected);
    let is_asked = world.cluster.calls().len() > before;
    assert_eq!(is_asked, expected == WAKING);
    world.ends().await;
}

/// PAGE-36: the page is given whatever `wake.page` says.
#[tokio::test(start_paused = true)]
async fn the_setting_of_the_page_does_not_matter() {
    let world = asking(&json!({ "spec": { "wake": { "page": false } } })).await;
    let page = opens(&world).await;
    assert_eq!(status(&page), ASLEEP);
    let answer = presses(&world, &token(&page).unwrap()).await;
    assert!(answer.contains("is waking up"), "{answer}");
    world.ends().await;
}

/// The beginning of a click behind large cookies, and its end.
fn large(token: &str) -> (Vec<u8>, Vec<u8>) {
    let cookies = "x".repeat(400_000);
    let headers = format!("{CLICKS}Cookie: {cookies}\r\nCookie: a=b\r\n");
    let mut start = posts("POST /", &headers, &format!("napwake-wake={token}"));
    let end = start.split_off(start.len() - 90);
    (start, end)
}

/// Sends it while the doorman reads on.
async fn sends(world: &World, caller: &mut tokio::net::TcpStream, bytes: &[u8]) {
    for piece in bytes.chunks(16 * 1024) {
        caller.write_all(piece).await.unwrap();
        world.quiet().await;
    }
}

/// T-42: a person with large cookies can click, and next to nothing of them is kept.
#[tokio::test(start_paused = true)]
async fn a_click_behind_large_cookies() {
    let (world, good) = with_button().await;
    let (start, end) = large(&good);
    let mut caller = world.call().await;
    sends(&world, &mut caller, &start).await;
    let held = world.doorman.budget.held();
    assert!(held < 48 * 1024, "{held} bytes held");
    sends(&world, &mut caller, &end).await;
    assert_eq!(status(&text(&mut caller).await), WAKING);
    assert_ne!(stamped(&world), "");
    drop(caller);
    world.ends().await;
}

/// T-42: one of whom something was forgotten is never passed on: it gets the
/// waking-up page, whose reload is.
#[tokio::test(start_paused = true)]
async fn who_was_cut_is_not_passed_on() {
    let world = asking(&json!({})).await;
    let (start, end) = large("x");
    let mut caller = world.call().await;
    sends(&world, &mut caller, &start).await;
    super::ready_pod(&world);
    world.quiet().await;
    sends(&world, &mut caller, &end).await;
    let page = text(&mut caller).await;
    assert!(page.contains("is waking up"), "{page}");
    assert_eq!(world.dialed(), []);
    drop(caller);
    world.ends().await;
}
