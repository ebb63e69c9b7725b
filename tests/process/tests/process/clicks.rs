//! The `Wake it` button: who may press it, for how long, and how often.

use jiff::SignedDuration;
use napwake_api::{names::signal, stamp, stamp::RequestKind, workload::Phase};
use napwake_tests_process::{
    Result, SOON, caller::GET, callers, ensure, managed, route::Route, wait, world,
};
use rstest::rstest;

use crate::browsers::{
    Answer, CHROME, CLICKS, FIREFOX, HOST, IPHONE, SAFARI, answer, asking, clicking, form, opening,
    posting, with_key,
};

/// That nothing was stamped.
async fn sleeps(route: &Route<'_>) -> Result<()> {
    let stamp = route.last_request().await?;
    ensure!(stamp.is_none(), "{stamp:?}");
    Ok(())
}

/// ASK-06, ASK-07, ASK-08, ASK-09, ASK-19, ASK-20, ASK-21, ASK-71, ASK-78, AWAY-04,
/// TOKEN-26, T-06, T-07: a person opens the page over plain HTTP and presses the
/// button, with curl for a browser. That wakes, as an event says; reloads show the
/// waking-up page, and a second click comes too soon: its page names nothing of the
/// cluster either, and nobody was turned away.
#[tokio::test]
async fn a_click_wakes() {
    world::with("click", async |world| {
        let draft = world.route("quiet-otter").of("brisk-heron").asking();
        let (route, doorman, to) = with_key(world, draft).await?;
        let url = format!("http://{to}/x?y=1");
        let browser = ["-i", "-A", FIREFOX, "-H", "Accept: text/html"];
        let curl = async |more: &[&str]| {
            let ended = callers::curl(&url, &[&browser, more].concat())
                .await?
                .ok()?;
            Answer::read(&ended)
        };
        let page = curl(&[]).await?;
        page.is_asleep_page("200 OK")?;
        sleeps(&route).await?;
        let origin = format!("Origin: http://{to}");
        let data = form(&page.token()?);
        let click = ["-H", origin.as_str(), "-d", data.as_str()];
        curl(&click).await?.is_waking_page()?;
        let stamp = route.stamped().await?;
        ensure!(stamp.kind == RequestKind::Click, "{stamp:?}");
        let told = world.told("WokenByRequest", 1).await?;
        ensure!(
            told == ["A person asked at Service brisk-heron to wake it"],
            "{told:?}"
        );
        curl(&[]).await?.is_waking_page()?;
        let again = curl(&click).await?;
        again.is_asleep_page("429 Too Many Requests")?;
        ensure!(again.header("Retry-After") == "60", "{again:?}");
        ensure!(again.body.contains("try again in a minute"), "{again:?}");
        let namespace = world.place.namespace.as_str();
        again.names_none_of(&[namespace, "quiet-otter", "brisk-heron"])?;
        route.enters(&doorman, Phase::Resuming).await?;
        curl(&click).await?.is_waking_page()?;
        let stamps = world.api.stamps(&world.place.namespace);
        ensure!(stamps.len() == 1, "{stamps:?}");
        let away = doorman
            .metric("napwake_doorman_wakes_total", &[("result", "turned_away")])
            .await?;
        ensure!(away < 0.5, "a person was turned away");
        Ok(())
    })
    .await;
}

const ELSEWHERE: &[&str] = &["from another address", "kubectl napwake wake"];
const OLD: &[&str] = &["Use a current browser", "kubectl napwake wake"];
const SCRIPT: &[&str] = &["Press the button itself", "kubectl napwake wake"];
const NO_USER: &[&str] = &["Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate"];

/// ASK-14, ASK-15, ASK-16, ASK-17, ASK-18, ASK-22, ASK-23, ASK-66, ASK-67, ASK-68,
/// ASK-71, ASK-75, TOKEN-13, TOKEN-14, T-13, T-14, T-15, T-16, T-17: a click that
/// doesn't come from the page, or from nobody knows where, wakes nothing, and the
/// page says why and what else helps.
#[tokio::test]
async fn a_click_from_elsewhere_wakes_nothing() {
    let edge = format!("{CHROME} Edg/130.0.0.0");
    let opera = format!("{CHROME} OPR/115.0.0.0");
    let origin = format!("Origin: http://{HOST}");
    let another_port = format!("Origin: http://{HOST}:8080");
    let rewritten = [origin.as_str(), "Sec-Fetch-Site: cross-site"];
    let bad: [(&str, &[&str], &[&str]); 14] = [
        (
            FIREFOX,
            &["Sec-Fetch-Site: cross-site", "Sec-Fetch-User: ?1"],
            ELSEWHERE,
        ),
        (
            FIREFOX,
            &["Sec-Fetch-Site: same-site", "Sec-Fetch-User: ?1"],
            ELSEWHERE,
        ),
        (
            FIREFOX,
            &["Sec-Fetch-Site: none", "Sec-Fetch-User: ?1"],
            ELSEWHERE,
        ),
        (FIREFOX, &["Origin: http://other.example.com"], ELSEWHERE),
        (FIREFOX, &[&another_port], ELSEWHERE),
        (FIREFOX, &["Origin: null"], ELSEWHERE),
        (FIREFOX, &rewritten, ELSEWHERE),
        (FIREFOX, &[], OLD),
        (SAFARI, &[], OLD),
        (FIREFOX, &["Sec-Fetch-Mode: navigate"], OLD),
        (FIREFOX, NO_USER, SCRIPT),
        (CHROME, NO_USER, SCRIPT),
        (&edge, NO_USER, SCRIPT),
        (&opera, NO_USER, SCRIPT),
    ];
    world::with("elsewhere", async |world| {
        let draft = world.route("quiet-otter").of("brisk-heron").asking();
        let (route, doorman, to) = with_key(world, draft).await?;
        let page = answer(world.caller(0), to, &opening("/")).await?;
        let form = form(&page.token()?);
        for (agent, headers, texts) in bad {
            let click = posting("/", agent, headers, &form);
            let page = answer(world.caller(0), to, &click).await?;
            page.is_asleep_page("403 Forbidden")?;
            for text in texts {
                ensure!(page.body.contains(text), "{text}: {page:?}");
            }
            let namespace = world.place.namespace.as_str();
            page.names_none_of(&[namespace, "quiet-otter", "brisk-heron"])?;
        }
        sleeps(&route).await?;
        let away = doorman
            .metric("napwake_doorman_wakes_total", &[("result", "turned_away")])
            .await?;
        ensure!(away < 0.5, "a person was turned away");
        let click = posting("/", FIREFOX, &[origin.as_str()], &form);
        answer(world.caller(0), to, &click).await?.is_waking_page()
    })
    .await;
}

/// ASK-67, ASK-68, ASK-69, ASK-70, ASK-81: a click of each browser wakes, in one
/// piece or in chunks of a byte; Safari, and every browser on iOS, needn't say
/// that a person pressed the button.
#[rstest]
#[case::firefox(FIREFOX, CLICKS)]
#[case::chrome(CHROME, CLICKS)]
#[case::safari(SAFARI, NO_USER)]
#[case::iphone(IPHONE, NO_USER)]
#[tokio::test]
async fn a_click_of_each_browser_wakes(#[case] agent: &str, #[case] headers: &[&str]) {
    world::with("browsers", async |world| {
        let other = world.route("other").asking().make().await?;
        let draft = world.route("one").asking();
        let (one, doorman, _) = with_key(world, draft).await?;
        for (route, in_chunks) in [(&one, false), (&other, true)] {
            let to = route.at(&doorman);
            let form = form(&answer(world.caller(0), to, &opening("/")).await?.token()?);
            let click = if in_chunks {
                let own = [
                    "Content-Type: application/x-www-form-urlencoded",
                    "Transfer-Encoding: chunked",
                ];
                let chunks: Vec<_> = form.chars().map(|one| format!("1\r\n{one}\r\n")).collect();
                let chunks = chunks.concat();
                let headers = [headers, own.as_slice()].concat();
                asking("POST /", agent, &headers, &format!("{chunks}0\r\n\r\n"))
            } else {
                posting("/", agent, headers, &form)
            };
            answer(world.caller(0), to, &click)
                .await?
                .is_waking_page()?;
            ensure!(
                route.stamped().await?.kind == RequestKind::Click,
                "no click"
            );
        }
        Ok(())
    })
    .await;
}

/// ASK-11, ASK-12, ASK-13, ASK-63, ASK-64, TOKEN-03, TOKEN-04, TOKEN-05, TOKEN-12,
/// T-20: a token that is made up, of another workload, of another pause or of no
/// button at all wakes nothing; the page says so, and its fresh button works.
#[tokio::test]
async fn a_token_is_for_its_workload_and_its_pause() {
    world::with("tokens", async |world| {
        let other = world.route("other").asking().make().await?;
        let (draft, from) = (world.route("one").asking(), world.caller(0));
        let (one, doorman, to) = with_key(world, draft).await?;
        let earlier = answer(from, to, &opening("/")).await?.token()?;
        one.enters(&doorman, Phase::Paused).await?;
        let anothers = answer(from, other.at(&doorman), &opening("/"))
            .await?
            .token()?;
        let last = earlier.chars().rev().collect::<String>();
        for token in [earlier, anothers, last, "x".repeat(64), String::new()] {
            let page = answer(from, to, &clicking(&token)).await?;
            page.is_asleep_page("403 Forbidden")?;
            ensure!(
                page.body.contains("may have been open too long"),
                "{page:?}"
            );
        }
        let fresh = answer(from, to, &opening("/")).await?.token()?;
        let query = format!("/?napwake-wake={fresh}");
        answer(from, to, &posting(&query, FIREFOX, CLICKS, ""))
            .await?
            .is_asleep_page("200 OK")?;
        sleeps(&one).await?;
        sleeps(&other).await?;
        let page = answer(from, to, &clicking("")).await?;
        answer(from, to, &clicking(&page.token()?))
            .await?
            .is_waking_page()?;
        sleeps(&other).await
    })
    .await;
}

/// ASK-19, TOKEN-27, TOKEN-28, T-11: the minute counts from the last wake request
/// of any kind, one that tooling made or that came before the pause as well.
#[rstest]
#[case::requested(signal::LAST_REQUEST, 20, "429 Too Many Requests")]
#[case::by_tooling(signal::WAKE_REQUESTED, 20, "429 Too Many Requests")]
#[case::over(signal::LAST_REQUEST, 61, "503 Service Unavailable")]
#[tokio::test]
async fn once_a_minute(#[case] key: &str, #[case] ago: i64, #[case] status: &str) {
    world::with("minute", async |world| {
        world.put_wake_key().await?;
        let route = world.route("web").asking().make().await?;
        let then = stamp::render(managed::now() - SignedDuration::from_secs(ago));
        managed::annotate(&world.place, "web", key, &then).await?;
        let doorman = world.doorman().await?;
        let (from, to) = (world.caller(0), route.at(&doorman));
        let page = answer(from, to, &opening("/")).await?;
        answer(from, to, &clicking(&page.token()?))
            .await?
            .is(status)
    })
    .await;
}

/// TOKEN-08, T-04, T-05: with no pod Ready one that is pausing
/// asks like one that is paused, and the button of its page is for that pause: it
/// is stamped while pausing, or once it is paused.
#[rstest]
#[case(Phase::Pausing)]
#[case(Phase::Paused)]
#[tokio::test]
async fn a_page_shown_while_it_pauses(#[case] then: Phase) {
    world::with("pausing", async |world| {
        let draft = world.route("web").asking().phase(Phase::Pausing);
        let from = world.caller(0);
        let (route, _doorman, to) = with_key(world, draft).await?;
        let page = answer(from, to, &opening("/")).await?;
        page.is_asleep_page("200 OK")?;
        answer(from, to, GET).await?.is("503 Service Unavailable")?;
        sleeps(&route).await?;
        if then == Phase::Paused {
            let paused = serde_json::json!({"status": {"phase": "Paused"}});
            route.write_status(paused).await?;
        }
        let page = answer(from, to, &clicking(&page.token()?)).await?;
        page.is_waking_page()?;
        route.stamped().await?;
        Ok(())
    })
    .await;
}

/// T-25, ASK-78: without a key there is no button, and the page says how else to wake
/// it; an empty Secret that appears is filled, and the button is there.
#[tokio::test]
async fn without_a_key_there_is_no_button() {
    world::with("nokey", async |world| {
        let draft = world.route("quiet-otter").of("brisk-heron").asking();
        let route = draft.make().await?;
        let doorman = world.doorman().await?;
        let (from, to) = (world.caller(0), route.at(&doorman));
        let page = answer(from, to, &opening("/")).await?;
        page.is("200 OK")?;
        ensure!(page.body.contains("kubectl napwake wake"), "{page:?}");
        ensure!(page.token().is_err(), "{page:?}");
        let namespace = world.place.namespace.as_str();
        page.names_none_of(&[namespace, "quiet-otter", "brisk-heron"])?;
        world.put_wake_key().await?;
        let probe = || async { answer(from, to, &opening("/")).await };
        let page = wait::until("a button", SOON * 3, probe, |page| page.token().is_ok()).await?;
        answer(from, to, &clicking(&page.token()?))
            .await?
            .is_waking_page()
    })
    .await;
}

mod long {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    /// ASK-77, TOKEN-26: a robot that forges what a browser says, over and over for
    /// three minutes, wakes at most once in each.
    #[tokio::test]
    async fn a_forger_wakes_once_a_minute() {
        world::with("forger", async |world| {
            let (draft, from) = (world.route("web").asking(), world.caller(0));
            let (route, doorman, to) = with_key(world, draft).await?;
            let began = Instant::now();
            let mut woken = Vec::new();
            while began.elapsed() < Duration::from_mins(3) {
                if forge(from, to).await? {
                    woken.push(began.elapsed());
                    // It falls asleep again at once.
                    route.enters(&doorman, Phase::Paused).await?;
                }
            }
            ensure!(!woken.is_empty() && woken.len() <= 3, "{woken:?}");
            Ok(())
        })
        .await;
    }

    /// Fetches a page and presses its button; whether that woke.
    async fn forge(from: std::net::IpAddr, to: std::net::SocketAddr) -> Result<bool> {
        let page = answer(from, to, &opening("/")).await?;
        let Ok(token) = page.token() else {
            return Ok(false);
        };
        let answer = answer(from, to, &clicking(&token)).await?;
        Ok(answer.status.starts_with("503"))
    }
}
