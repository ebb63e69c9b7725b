//! The wake key's Secret is emptied or damaged while people press buttons.

use std::{cell::Cell, convert::Infallible, net::IpAddr, time::Duration};

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Secret;
use napwake_api::names;
use napwake_tests_process::{
    Context, Result, SOON, bail, callers,
    doorman::Doorman,
    ensure,
    route::Route,
    wait,
    world::{self, World},
};
use tokio::time::{MissedTickBehavior, interval};

use crate::browsers::{answer, clicking, until_asleep, until_waking};

/// The wake key's Secret.
const SECRET: &str = "napwake-doorman-wake-key";

/// How long a doorman may take to use a new key (TOKEN-22).
const SWITCHES: Duration = Duration::from_mins(1);

/// How many press at once, each the button of a workload of its own.
const PEOPLE: u16 = 4;

/// How often each does: each doorman allows a source one wake every two seconds.
const EVERY: Duration = Duration::from_secs(2);

/// Two doormen, and clicks at them all the while.
struct Load<'w> {
    world: &'w World,
    doormen: [&'w Doorman; 2],
    /// Each click that woke, and none did otherwise.
    woke: Cell<usize>,
}

impl<'w> Load<'w> {
    /// Everybody clicks while `work` goes on. The first click that doesn't wake is
    /// an error at once.
    async fn during<T>(
        &self,
        routes: Vec<Route<'w>>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let people = routes.into_iter().enumerate();
        let people = people.map(|(number, route)| self.presses(number, route));
        tokio::select! {
            done = work => done,
            ended = try_join_all(people) => match ended {
                Err(error) => Err(error),
                Ok(_) => bail!("nobody is there"),
            },
        }
    }

    /// Opens the page at one doorman and presses its button at the other, again
    /// and again, each time of another workload.
    async fn presses(&self, number: usize, mut route: Route<'w>) -> Result<Infallible> {
        let from = self.world.caller(u16::try_from(number)?);
        let mut tick = interval(EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut round = 0;
        loop {
            tick.tick().await;
            let pressed = self.press(from, &route, round).await;
            pressed.with_context(|| format!("click {round} on {}", route.name))?;
            self.woke.set(self.woke.get() + 1);
            route = self.anew(from, &route).await?;
            round += 1;
        }
    }

    async fn press(&self, from: IpAddr, route: &Route<'_>, round: u32) -> Result<()> {
        let [one, two] = self.doormen;
        let (shows, takes) = if round.is_multiple_of(2) {
            (one, two)
        } else {
            (two, one)
        };
        // Both have seen it then.
        until_asleep(from, route.at(takes)).await?;
        let token = until_asleep(from, route.at(shows)).await?;
        answer(from, route.at(takes), &clicking(&token))
            .await?
            .is_waking_page()
    }

    /// Another one in its place, whose button nobody has pressed yet. Both doormen
    /// have seen the click before it goes, so neither can show the page of old.
    async fn anew(&self, from: IpAddr, route: &Route<'w>) -> Result<Route<'w>> {
        for doorman in self.doormen {
            until_waking(from, route.at(doorman)).await?;
        }
        route.drop_workload().await?;
        let draft = self.world.route(&route.name).asking().at_port_of(route);
        draft.make().await
    }

    /// Waits until everybody's button was pressed twice more, at each doorman.
    async fn goes_on(&self) -> Result<()> {
        let wanted = self.woke.get() + usize::from(2 * PEOPLE);
        let probe = || async { Ok(self.woke.get()) };
        let what = format!("{wanted} clicks that wake");
        wait::until(&what, 6 * SOON, probe, |woke| *woke >= wanted).await?;
        Ok(())
    }

    /// Waits until both doormen sign with one key that isn't `old`.
    async fn signs_anew(&self, shown: &Route<'_>, old: &str) -> Result<()> {
        let from = self.world.caller(5);
        let [one, two] = self.doormen.map(|doorman| shown.at(doorman));
        let probe = || async {
            let tokens = (
                until_asleep(from, one).await?,
                until_asleep(from, two).await?,
            );
            Ok((key_of(&tokens.0).to_owned(), key_of(&tokens.1).to_owned()))
        };
        let both = |(one, two): &(String, String)| one == two && one != old;
        wait::until("another key at both", SWITCHES, probe, both).await?;
        Ok(())
    }
}

/// A token begins with the name of its key.
fn key_of(token: &str) -> &str {
    &token[..8]
}

/// Changes the Secret, as a person does.
async fn patch(world: &World, kind: &str, patch: &str) -> Result<()> {
    let namespace = world.place.namespace.as_str();
    let args = [
        "patch", "secret", SECRET, "-n", namespace, kind, "-p", patch,
    ];
    callers::run("kubectl", &args).await?.ok()?;
    Ok(())
}

/// As the documentation says.
async fn empty(world: &World) -> Result<()> {
    patch(world, "--type=json", r#"[{"op":"remove","path":"/data"}]"#).await
}

/// What the Secret's key field holds.
async fn held(world: &World) -> Result<Option<Vec<u8>>> {
    let secret = world.place.api::<Secret>().get(SECRET).await?;
    let mut data = secret.data.unwrap_or_default();
    Ok(data.remove(names::WAKE_KEY_FIELD).map(|bytes| bytes.0))
}

/// Workloads that sleep.
async fn sleepers<'w>(world: &'w World, names: &[String]) -> Result<Vec<Route<'w>>> {
    let drafts = names.iter().map(|name| world.route(name).asking().make());
    try_join_all(drafts).await
}

async fn people(world: &World) -> Result<Vec<Route<'_>>> {
    let names: Vec<_> = (0..PEOPLE).map(|one| format!("web-{one}")).collect();
    sleepers(world, &names).await
}

/// TOKEN-22, TOKEN-24, TOKEN-25, T-23, T-25, T-26: while clicks come all the time,
/// each at another doorman than its page is from, the Secret is damaged, and
/// emptied. No click is refused for it. What it was damaged with stays, and the
/// key before it goes on; emptied, it is filled, and within a minute both doormen
/// sign with the new key.
#[tokio::test]
async fn no_click_fails_for_a_change_of_the_key() {
    world::with("underload", async |world| {
        world.put_wake_key().await?;
        let shown = world.route("shown").asking().make().await?;
        let routes = people(world).await?;
        let (one, two) = (world.doorman().await?, world.second_doorman().await?);
        let load = Load {
            world,
            doormen: [&one, &two],
            woke: Cell::default(),
        };
        let changes = async {
            load.goes_on().await?;
            let token = until_asleep(world.caller(5), shown.at(&one)).await?;
            let before = key_of(&token);

            patch(world, "--type=merge", r#"{"data":{"key":"c2hvcnQ="}}"#).await?;
            let told = || async { Ok([&one, &two].map(complains)) };
            let what = "both doormen to complain of it";
            wait::until(what, SWITCHES, told, |told| *told == [true, true]).await?;
            load.goes_on().await?;
            let token = until_asleep(world.caller(5), shown.at(&two)).await?;
            ensure!(key_of(&token) == before, "another key signs");
            let found = held(world).await?;
            ensure!(found.as_deref() == Some(b"short"), "it was overwritten");

            empty(world).await?;
            load.signs_anew(&shown, before).await?;
            let found = held(world).await?.context("a key")?;
            ensure!(found.len() == 32, "{} bytes", found.len());
            load.goes_on().await
        };
        load.during(routes, changes).await
    })
    .await;
}

/// Whether it said that what the Secret holds is no key.
fn complains(doorman: &Doorman) -> bool {
    doorman.log().contains("holds less than 32 bytes")
}

mod long {
    use napwake_gate::{
        Moment,
        places::WorkloadKey,
        token::{Found, Keys, ReadAt, Subject},
    };
    use napwake_tests_process::managed;
    use tokio::time::{Instant, sleep_until};

    use super::*;

    /// A token of now for this workload's pause, signed with this key.
    async fn signed(world: &World, route: &Route<'_>, key: &[u8]) -> Result<String> {
        let status = managed::status(&world.place, &route.name).await?;
        let pause = status.pause.context("a pause")?.started_at.0;
        let workload = WorkloadKey::new(&world.place.namespace, &route.name);
        let subject = Subject {
            workload: &workload,
            pause,
        };
        let (began, mut keys) = (Moment::ORIGIN, Keys::default());
        let _seen = keys.found(Found::Key(key), ReadAt { began, done: began });
        let token = keys.at(began).sign(&[subject], managed::now());
        Ok(token.context("a token")?.as_str().to_owned())
    }

    /// TOKEN-22, TOKEN-23, TOKEN-24, T-22: while clicks come all the time the Secret
    /// is emptied. After nine minutes both doormen still accept the tokens of pages
    /// from before, and after ten what somebody signs with the old key then; after
    /// eleven neither.
    #[tokio::test]
    async fn an_old_key_goes_after_eleven_minutes_under_load() {
        world::with("elevenmin", async |world| {
            world.put_wake_key().await?;
            let shown = world.route("shown").asking().make().await?;
            let names = ["page-1", "page-2", "dated-1", "dated-2", "late-1", "late-2"];
            let olds = sleepers(world, &names.map(str::to_owned)).await?;
            let routes = people(world).await?;
            let (one, two) = (world.doorman().await?, world.second_doorman().await?);
            let load = Load {
                world,
                doormen: [&one, &two],
                woke: Cell::default(),
            };
            let at = [0, 1, 0, 1, 0, 1].map(|number| load.doormen[number]);
            let from = world.caller(5);
            let press = async |number: usize, token: &str| {
                let to = olds[number].at(at[number]);
                answer(from, to, &clicking(token)).await
            };
            let changes = async {
                load.goes_on().await?;
                let mut tokens = Vec::new();
                for (route, doorman) in olds.iter().zip(at) {
                    tokens.push(until_asleep(from, route.at(doorman)).await?);
                }
                let old = held(world).await?.context("a key")?;
                let emptied = Instant::now();
                empty(world).await?;
                load.signs_anew(&shown, key_of(&tokens[0])).await?;
                let switched = Instant::now();

                sleep_until(emptied + Duration::from_mins(9)).await;
                for number in [0, 1] {
                    press(number, &tokens[number]).await?.is_waking_page()?;
                }
                sleep_until(emptied + Duration::from_mins(10)).await;
                for number in [2, 3] {
                    let token = signed(world, &olds[number], &old).await?;
                    press(number, &token).await?.is_waking_page()?;
                }
                sleep_until(switched + Duration::from_mins(11)).await;
                for number in [4, 5] {
                    let token = signed(world, &olds[number], &old).await?;
                    for token in [&token, &tokens[number]] {
                        let page = press(number, token).await?;
                        page.is_asleep_page("403 Forbidden")?;
                    }
                    let stamp = olds[number].last_request().await?;
                    ensure!(stamp.is_none(), "{stamp:?}");
                }
                load.goes_on().await
            };
            load.during(routes, changes).await
        })
        .await;
    }
}
