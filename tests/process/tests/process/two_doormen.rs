//! Two doormen beside each other: one key, one wake a minute, one count.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use napwake_api::{ManagedWorkload, names::signal, turned_away::TurnedAway};
use napwake_tests_process::{
    Context, Result, SOON,
    caller::GET,
    callers,
    doorman::Doorman,
    ensure,
    hosts::{Family, Host},
    managed,
    route::Route,
    wait,
    world::{self, World},
};

use crate::browsers::{
    Answer, FIREFOX, NAVIGATES, answer, asking, clicking, opening, posting, until_asleep,
    until_waking,
};

/// Over how many workloads side by side people click at both doormen.
const SIDE_BY_SIDE: usize = 4;

/// From how many addresses of each family.
const CALLERS: usize = 6;

/// How often they do so in all.
const ROUNDS: usize = 200;

/// TOKEN-16, TOKEN-26, T-10: a page of one doorman may be pressed at the other,
/// and clicks at both at the same instant are one wake at the API server, two hundred
/// times.
#[tokio::test]
async fn one_click_wakes_over_both_pods() {
    world::with("both", async |world| {
        world.put_wake_key().await?;
        let drafts = (0..SIDE_BY_SIDE).map(|number| {
            let draft = world.route(&format!("web-{number}"));
            draft.asking().make()
        });
        let routes = try_join_all(drafts).await?;
        // They find the key's Secret empty at the same time.
        let (one, two) = tokio::try_join!(world.doorman(), world.second_doorman())?;
        let rounds = routes.into_iter().enumerate();
        let rounds =
            rounds.map(|(number, route)| rounds_at_both(world, number, route, [&one, &two]));
        try_join_all(rounds).await?;
        let told = world.told("WokenByRequest", ROUNDS).await?;
        ensure!(told.len() == ROUNDS, "{} wakes", told.len());
        Ok(())
    })
    .await;
}

/// Round after round over one workload after the other, at the same port.
async fn rounds_at_both<'w>(
    world: &'w World,
    number: usize,
    mut route: Route<'w>,
    doormen: [&Doorman; 2],
) -> Result<()> {
    for round in 0..ROUNDS / SIDE_BY_SIDE {
        let what = || format!("round {round} over {}", route.name);
        let asleep = route.version().await?;
        let people = People::of_round(world, number + round);
        let at = doormen.map(|doorman| doorman.at(people.family, route.port));
        let clicks = clicks_at_both(&people, &route, at);
        clicks.await.with_context(what)?;
        for to in at {
            until_waking(people.addresses[0], to).await?;
        }
        route.drop_workload().await?;
        let wakes = route.wakes_until_it_went(&asleep).await?;
        ensure!(wakes.len() == 1, "{}: {wakes:?}", what());
        let draft = world.route(&route.name).asking().at_port_of(&route);
        route = draft.make().await?;
    }
    Ok(())
}

/// Those who click in a round.
struct People {
    /// Which doorman the first of them clicks at.
    first: usize,
    family: Family,
    addresses: [IpAddr; 4],
}

impl People {
    /// By turns over all addresses that there are: each of them wakes too little to meet
    /// its limit, though one doorman should always be the quicker one (LIMIT-11).
    fn of_round(world: &World, round: usize) -> Self {
        let family = [Family::V4, Family::V6][round / CALLERS % 2];
        let address = |one: usize| {
            let number = u16::try_from((round + one) % CALLERS).unwrap_or(0);
            Host::Caller(number).at(world.block, family)
        };
        Self {
            first: round / 2 % 2,
            family,
            addresses: std::array::from_fn(address),
        }
    }
}

/// Two people at each doorman press the button of one page. Who doesn't wake it was too
/// soon, or sees it waking where that is known by then.
async fn clicks_at_both(people: &People, route: &Route<'_>, at: [SocketAddr; 2]) -> Result<()> {
    let People {
        first, addresses, ..
    } = people;
    // Both have seen that it is asleep then.
    until_asleep(addresses[0], at[(first + 1) % 2]).await?;
    let token = until_asleep(addresses[0], at[*first]).await?;
    let click = clicking(&token);
    let clicks = (0..4).map(|one| answer(addresses[one], at[(first + one) % 2], &click));
    let answers = try_join_all(clicks).await?;
    let woke: Vec<_> = (0..4)
        .filter(|one| answers[*one].is_waking_page().is_ok())
        .collect();
    let too_soon = |answer: &&Answer| answer.status == "429 Too Many Requests";
    let refused = answers.iter().filter(too_soon).count();
    let statuses: Vec<_> = answers.iter().map(|answer| &answer.status).collect();
    ensure!(
        !woke.is_empty() && woke.len() + refused == answers.len(),
        "{statuses:?}"
    );
    let from = route.last_request_from().await?;
    ensure!(
        woke.iter()
            .any(|one| from == Some(addresses[*one].to_string())),
        "{from:?} of {woke:?}"
    );
    Ok(())
}

/// TOKEN-22, TOKEN-24, TOKEN-25, T-22, T-23: once the Secret is emptied, both doormen sign
/// with the new key that one of them puts in, and go on to accept the old one, and
/// each accepts what the other signed, whichever switched first.
#[tokio::test]
async fn a_new_key_takes_over() {
    world::with("newkey", async |world| {
        world.put_wake_key().await?;
        let mut routes = Vec::new();
        for name in ["one", "two", "three"] {
            routes.push(world.route(name).asking().make().await?);
        }
        let (one, two) = (world.doorman().await?, world.second_doorman().await?);
        let from = world.caller(0);
        let mut old = Vec::new();
        for route in &routes {
            let page = answer(from, route.at(&one), &opening("/")).await?;
            old.push(page.token()?);
        }
        let emptied = r#"[{"op":"remove","path":"/data"}]"#;
        let namespace = world.place.namespace.as_str();
        let secret = [
            "patch",
            "secret",
            "napwake-doorman-wake-key",
            "-n",
            namespace,
        ];
        let patch = [secret.as_slice(), &["--type=json", "-p", emptied]].concat();
        callers::run("kubectl", &patch).await?.ok()?;
        // A token begins with the name of its key.
        let shown = routes[0].at(&one);
        let probe = || async { answer(from, shown, &opening("/")).await?.token() };
        let is_anothers = |token: &String| token[..8] != old[0][..8];
        let fresh = wait::until("another key", SOON * 6, probe, is_anothers).await?;
        for (route, doorman, token) in [
            (&routes[0], &two, &fresh),
            (&routes[1], &two, &old[1]),
            (&routes[2], &one, &old[2]),
        ] {
            let click = clicking(token);
            answer(from, route.at(doorman), &click)
                .await?
                .is_waking_page()?;
        }
        Ok(())
    })
    .await;
}

/// A doorman writes what it counts after five seconds, and a minute after that.
const A_MINUTE: Duration = Duration::from_secs(75);

/// What the annotation counts.
async fn counted(world: &World, name: &str) -> Result<Option<TurnedAway>> {
    let text = managed::annotation(&world.place, name, signal::TURNED_AWAY).await?;
    text.map(|text| text.parse().with_context(|| text.clone()))
        .transpose()
}

/// AWAY-01, AWAY-04, AWAY-05, AWAY-06, AWAY-08, AWAY-15, T-96: what both doormen
/// turned away is counted together, each once, though writes are lost on their
/// way; a person's visits, probes and hidden files aren't, and nothing is kept of
/// any request.
#[tokio::test]
async fn what_both_turned_away_is_counted_once() {
    world::with("counts", async |world| {
        world.put_wake_key().await?;
        let route = world.route("web").asking().make().await?;
        let (one, two) = (world.doorman().await?, world.second_doorman().await?);
        let (first, second) = (route.at(&one), route.at(&two));
        for number in 0..5_u16 {
            let secret = ["X-Trace: lapis-lazuli", "Authorization: Basic lapis-lazuli"];
            let stranger = asking("GET /lapis-lazuli?lapis-lazuli", "curl/8", &secret, "");
            for to in [first, second] {
                answer(world.caller(number), to, &stranger).await?;
            }
            answer(world.caller(0), first, &opening("/")).await?;
            answer(
                world.caller(0),
                first,
                &posting("/", FIREFOX, NAVIGATES, "a=b"),
            )
            .await?;
            answer(world.caller(0), second, &clicking("x"))
                .await?
                .is("403 Forbidden")?;
            let probe = asking("GET /", "kube-probe/1.34", &[], "");
            answer(world.caller(0), second, &probe).await?;
            answer(
                world.caller(0),
                second,
                &asking("GET /.env", "curl/8", &[], ""),
            )
            .await?;
            // Somebody else changes the ManagedWorkload in between.
            managed::annotate(
                &world.place,
                "web",
                "example.com/round",
                &number.to_string(),
            )
            .await?;
        }
        let probe = || counted(world, "web");
        let all = |found: &Option<TurnedAway>| found.as_ref().is_some_and(|it| it.requests >= 10);
        let found = wait::until("ten", A_MINUTE, probe, all).await?;
        let found = found.context("a count")?;
        ensure!(found.requests == 10, "{found:?}");
        let object = world.place.api::<ManagedWorkload>().get("web").await?;
        let pause = object
            .status
            .as_ref()
            .and_then(|status| status.pause.as_ref());
        let started = pause.context("a pause")?.started_at.0;
        ensure!(found.pause == started, "{found:?}, not {started}");
        let kept = [serde_json::to_string(&object)?, one.log(), two.log()].concat();
        ensure!(!kept.contains("lapis-lazuli"), "{kept}");
        let events = world.place.api::<Event>();
        let events = serde_json::to_string(&events.list(&ListParams::default()).await?.items)?;
        ensure!(!events.contains("lapis-lazuli"), "{events}");
        Ok(())
    })
    .await;
}

/// T-96: writes that are lost on their way are made again and counted once, and
/// what is left is written when the doorman stops.
#[tokio::test]
async fn lost_counts_are_made_up_for() {
    world::with("lost", async |world| {
        let route = world.route("web").asking().make().await?;
        let mut doorman = world.doorman().await?;
        let to = route.at(&doorman);
        world.api.lose_patches();
        for _ in 0..3 {
            answer(world.caller(0), to, GET).await?;
        }
        let tried = || async { Ok(world.api.stamps(&world.place.namespace).len()) };
        wait::until("a write", SOON * 2, tried, |tries| *tries > 0).await?;
        answer(world.caller(0), to, GET).await?;
        world.api.mend();
        doorman.stop()?;
        ensure!(
            doorman.ended(SOON * 6).await?.success(),
            "{}",
            doorman.log()
        );
        let found = counted(world, "web").await?.context("a count")?;
        ensure!(found.requests == 4, "{found:?}");
        Ok(())
    })
    .await;
}
