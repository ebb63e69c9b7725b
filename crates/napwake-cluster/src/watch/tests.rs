//! Tests of watches against a scripted API server, under a paused clock.

use std::sync::Arc;

use futures::FutureExt;
use napwake_kit::ready::{Readiness, Status};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{advance, sleep, timeout},
};

use super::*;
use crate::{
    fake_api::{Answer, FakeApi, Feed, list},
    thin::Pod,
};

fn pod(name: &str, version: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "resourceVersion": version}})
}

fn broken(name: &str, version: &str) -> Value {
    let mut object = pod(name, version);
    object["status"] = json!({"conditions": "broken"});
    object
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("shop", name)
}

/// A running watch over Pods, and what it told.
struct Running<V> {
    store: Store<V>,
    told: Arc<Mutex<Vec<String>>>,
    tasks: JoinSet<Result<Infallible, Infallible>>,
}

impl<V: Send + Sync + 'static> Running<V> {
    fn start(watch: Watch<Pod, V>) -> Self {
        let told = Arc::<Mutex<Vec<_>>>::default();
        let telling = Arc::clone(&told);
        let (store, running) = watch
            .on_change(move |change| telling.lock().push(say(&change)))
            .start();
        let mut tasks = JoinSet::new();
        tasks.spawn(running);
        Self { store, told, tasks }
    }

    /// What was told once there are so many changes.
    async fn told(&self, changes: u64) -> Vec<String> {
        let enough = self.store.wait_for(|store| {
            let progress = *store.subscribe().borrow();
            (progress.synced && progress.changes >= changes).then_some(())
        });
        assert!(!self.tasks.is_empty(), "the watch runs");
        let in_time = timeout(Duration::from_mins(5), enough).await;
        assert!(
            in_time.is_ok(),
            "{:?} told {:?}",
            self.store,
            self.told.lock()
        );
        // The observer is told right after the store knows, without an await between.
        self.told.lock().clone()
    }

    fn names(&self) -> usize {
        self.store.len()
    }
}

fn say<V>(change: &Change<V>) -> String {
    match change {
        Change::Applied { key, old: None, .. } => format!("+{}", key.name),
        Change::Applied {
            key, old: Some(_), ..
        } => format!("~{}", key.name),
        Change::Removed { key, .. } => format!("-{}", key.name),
        Change::Unreadable { object, .. } => format!("!{}", object.key.name),
    }
}

fn pods(api: &FakeApi) -> Watch<Pod> {
    Watch::within(&api.client(), "shop")
}

#[tokio::test(start_paused = true)]
async fn a_store_is_filled_and_kept_true() {
    let (feed, watching) = Feed::new();
    let api = FakeApi::new([list("5", &[pod("a", "1"), pod("b", "2")]), watching]);
    let readiness = Readiness::new(&tokio_util::sync::CancellationToken::new());
    let watch = pods(&api).labels("app=x").ready(readiness.handle("pods"));
    assert_eq!(readiness.status(), Status::Waiting(vec!["pods".to_owned()]));

    let running = Running::start(watch);
    assert!(matches!(running.store.look(&key("a")), Lookup::NotSynced));
    running.store.synced().await;
    assert_eq!(readiness.status(), Status::Ready);
    assert_eq!(running.store.all().len(), 2);

    feed.send("MODIFIED", pod("a", "6")).await;
    feed.send("DELETED", pod("b", "7")).await;
    feed.send("ADDED", pod("c", "8")).await;
    assert_eq!(running.told(5).await, ["+a", "+b", "~a", "-b", "+c"]);
    let read = running.store.get(&key("a")).unwrap();
    assert_eq!(read.metadata.resource_version.as_deref(), Some("6"));
    assert!(matches!(running.store.look(&key("b")), Lookup::Absent));

    let calls = api.calls();
    assert!(
        calls[0].starts_with("GET /api/v1/namespaces/shop/pods?"),
        "{calls:?}"
    );
    assert!(
        calls
            .iter()
            .all(|call| call.contains("labelSelector=app%3Dx")),
        "{calls:?}"
    );
    for part in [
        "watch=true",
        "timeoutSeconds=30",
        "allowWatchBookmarks=true",
        "resourceVersion=5",
    ] {
        assert!(calls[1].contains(part), "{part} is missing in {calls:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn starting_over_tells_only_differences() {
    let (feed, watching) = Feed::new();
    let (_quiet, quietly) = Feed::new();
    let api = FakeApi::new([
        list("5", &[pod("a", "1"), pod("b", "2"), pod("c", "3")]),
        watching,
        list("9", &[pod("a", "1"), pod("c", "8"), pod("d", "9")]),
        quietly,
    ]);
    let running = Running::start(pods(&api));
    running.store.synced().await;
    feed.expire().await;
    let told = running.told(6).await;
    assert_eq!(told, ["+a", "+b", "+c", "~c", "+d", "-b"]);
    assert_eq!(running.names(), 3);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_never_stops_a_watch() {
    let (feed, watching) = Feed::new();
    let api = FakeApi::new([
        list(
            "5",
            &[broken("a", "1"), pod("b", "2"), json!("no object at all")],
        ),
        watching,
    ]);
    let running = Running::start(pods(&api));
    running.store.synced().await;

    let Lookup::Unreadable(unreadable) = running.store.look(&key("a")) else {
        panic!("{:?}", running.store)
    };
    assert!(unreadable.error.contains("broken"), "{unreadable}");
    assert_eq!(running.store.unreadable().len(), 2);
    assert_eq!(running.store.all().len(), 1);

    feed.send("MODIFIED", broken("a", "6")).await;
    feed.send("MODIFIED", broken("b", "7")).await;
    feed.send("ADDED", pod("c", "8")).await;
    feed.send("MODIFIED", pod("a", "9")).await;
    feed.send("DELETED", broken("b", "10")).await;
    feed.send("ADDED", pod("d", "11")).await;
    assert_eq!(
        told_until(&running, "+d").await,
        ["!a", "+b", "!", "!b", "+c", "+a", "-b", "+d"],
        "what is wrong with a is told once",
    );
}

/// One that couldn't be read is gone like any other: whoever follows the store
/// learns of it, however it goes.
#[tokio::test(start_paused = true)]
async fn an_unreadable_one_that_goes_is_told() {
    let (feed, watching) = Feed::new();
    let (_quiet, quietly) = Feed::new();
    let api = FakeApi::new([
        list(
            "5",
            &[broken("a", "1"), broken("b", "2"), broken("other", "3")],
        ),
        watching,
        list("9", &[broken("other", "3")]),
        quietly,
    ]);
    let watch = pods(&api).keep(|pod: Pod| (pod.metadata.name? != "other").then_some(()));
    let running = Running::start(watch);
    running.store.synced().await;
    feed.send("DELETED", broken("a", "6")).await;
    assert_eq!(
        told_until(&running, "-a").await,
        ["!a", "!b", "!other", "-a"],
        "it's deleted"
    );
    feed.send("MODIFIED", pod("other", "7")).await;
    feed.expire().await;
    let told = told_until(&running, "-b").await;
    assert!(
        told.contains(&"-other".to_owned()),
        "it isn't kept: {told:?}"
    );
    assert_eq!(
        told.last().unwrap(),
        "-b",
        "it's no longer listed: {told:?}"
    );
}

/// What was told once `last` was among it.
async fn told_until<V: Send + Sync + 'static>(running: &Running<V>, last: &str) -> Vec<String> {
    until(|| running.told.lock().iter().any(|line| line == last)).await;
    running.told.lock().clone()
}

#[tokio::test(start_paused = true)]
async fn only_what_is_wanted_is_kept() {
    let (feed, watching) = Feed::new();
    let api = FakeApi::new([list("5", &[pod("a", "1"), pod("other", "2")]), watching]);
    let watch = pods(&api).keep(|pod: Pod| {
        let version = pod.metadata.resource_version?;
        (pod.metadata.name? != "other" && version != "9").then_some(version)
    });
    let running = Running::start(watch);
    running.store.synced().await;
    assert_eq!(running.names(), 1);
    assert!(matches!(running.store.look(&key("other")), Lookup::Absent));
    assert_eq!(*running.store.get(&key("a")).unwrap(), "1");

    feed.send("MODIFIED", pod("a", "9")).await;
    assert_eq!(
        running.told(2).await,
        ["+a", "-a"],
        "it is no longer one that is kept"
    );
}

#[tokio::test(start_paused = true)]
async fn the_lag_is_since_anything_was_heard() {
    let (feed, watching) = Feed::new();
    let (_second, again) = Feed::new();
    let api = FakeApi::new([list("5", &[]), watching, again]);
    let running = Running::start(pods(&api));
    running.store.synced().await;
    until(|| api.calls().len() == 2).await;

    advance(Duration::from_secs(20)).await;
    assert_eq!(running.store.lag().as_secs(), 20);
    feed.bookmark("7").await;
    until(|| running.store.lag() < Duration::from_secs(1)).await;

    // From here on the connection is silent: given up after 35 s, and resumed.
    let start = Instant::now();
    until(|| api.calls().len() == 3).await;
    let given_up = start.elapsed();
    assert!((34..=36).contains(&given_up.as_secs()), "{given_up:?}");
    assert!(
        api.calls()[2].contains("resourceVersion=7"),
        "{:?}",
        api.calls()
    );
    assert!(running.store.lag() < Duration::from_secs(1));
}

/// Waits for a state, by looking every 10 ms of the paused clock.
async fn until(state: impl Fn() -> bool) {
    let waiting = async {
        while !state() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_mins(10), waiting)
        .await
        .expect("the state never came");
}

#[tokio::test(start_paused = true)]
async fn failing_lists_are_tried_ever_more_rarely() {
    let errors = (0..8).map(|_| Answer::Error(500));
    let api = FakeApi::new(errors.chain([list("5", &[])]));
    let start = Instant::now();
    let running = Running::start(pods(&api));
    running.store.synced().await;
    // 0.2 + 0.4 + 0.8 + 1.6 + 3.2 + 5 + 5 + 5 s, each up to doubled at random.
    let took = start.elapsed();
    assert!((21..=43).contains(&took.as_secs()), "{took:?}");
    assert_eq!(
        api.calls().len(),
        10,
        "nine lists and a watch: {:?}",
        api.calls()
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_each_watch_at_once_is_not_asked_in_a_spin() {
    let ended = (0..10).map(|_| Feed::new().1);
    let api = FakeApi::new([list("5", &[])].into_iter().chain(ended));
    let running = Running::start(pods(&api));
    running.store.synced().await;
    let start = Instant::now();
    until(|| api.calls().len() == 12).await;
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(2), "{took:?} for ten watches");
}

fn sight(sight: Option<Sight<Pod>>) -> String {
    match sight {
        Some(Sight::Is(pod)) => format!("is {}", pod.metadata.resource_version.unwrap()),
        Some(Sight::Gone) => "gone".to_owned(),
        Some(Sight::Unreadable(_)) => "unreadable".to_owned(),
        Some(Sight::Lost(_)) => "lost".to_owned(),
        None => "ended".to_owned(),
    }
}

/// T-135: a Pod is followed by name, with nothing but the right to watch.
#[tokio::test(start_paused = true)]
async fn one_object_is_followed_without_listing() {
    let (feed, watching) = Feed::new();
    let (more, resumed) = Feed::new();
    let (again, anew) = Feed::new();
    let api = FakeApi::new([watching, resumed, Answer::Error(403), anew]);
    let mut sights = pin!(follow::<Pod>(&api.client(), "shop", "a"));
    assert!(
        sights.next().now_or_never().is_none(),
        "nothing is seen of what isn't there"
    );

    feed.send("ADDED", pod("a", "1")).await;
    assert_eq!(sight(sights.next().await), "is 1");
    feed.send("MODIFIED", broken("a", "2")).await;
    assert_eq!(sight(sights.next().await), "unreadable");
    feed.bookmark("3").await;
    drop(feed);
    more.send("MODIFIED", pod("a", "4")).await;
    assert_eq!(sight(sights.next().await), "is 4");
    more.send("DELETED", pod("a", "5")).await;
    assert_eq!(sight(sights.next().await), "gone");
    drop(more);
    assert_eq!(sight(sights.next().await), "lost");
    again.send("ADDED", pod("a", "6")).await;
    assert_eq!(sight(sights.next().await), "is 6");

    let calls = api.calls();
    assert!(
        calls.iter().all(|call| call.contains("watch=true")),
        "{calls:?}"
    );
    assert!(
        calls.iter().all(|call| call.contains("metadata.name%3Da")),
        "{calls:?}"
    );
    let versions: Vec<_> = calls
        .iter()
        .map(|call| call.rsplit_once('=').unwrap().1)
        .collect();
    assert_eq!(versions, ["0", "3", "5", "0"], "{calls:?}");
}
